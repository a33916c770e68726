//! The structures of the PhatKV paper, to compare with (`docs/directory.md`): an f-hash for each directory, which finds
//! an item by the hash of its name, and the f-cache. They are in memory and in a file without a name; an open makes
//! them from the packs.
//!
//! - `descriptor`: where an item is
//! - `page`: the buckets of an f-hash, up to 4 KiB
//! - `image`: the pages of an f-hash
//! - `recency`: the order of the last use
//! - `scratch`: the file to which f-hashes are evicted
//! - `shard`: the f-hashes of a part of the directories
//! - `f_hashes`: the f-hashes of all directories, the f-cache, and its reads and writes
//! - `statistics`: the counters of the f-hashes, and their size
//! - `updates`: which f-hashes a flush, a merge or an open changes
//! - `lookup`: finds one entry by its f-hash

mod descriptor;
mod f_hashes;
mod image;
mod lookup;
mod page;
mod recency;
mod scratch;
mod shard;
mod statistics;
#[cfg(test)]
mod tests;
mod updates;

pub(crate) use f_hashes::FHashOptions;
pub(super) use f_hashes::FHashes;
pub(crate) use scratch::remove_scratch_files;
pub use statistics::FHashStatistics;
