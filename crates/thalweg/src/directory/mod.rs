//! The index of a directory keyspace (PhatKV): which packs have entries of a directory, and where.
//!
//! Entries are buffered, logged, flushed and merged as those of ordered keyspaces are ([`crate::ordered`]); tables are
//! packs, and reads go through this index instead of through levels. In reading order:
//!
//! - `p_hash`: the table that has an entry for each directory, by its number
//! - `known`: such an entry; `span_lists`: the spans of directories that have several
//! - `mapped_vec`: the memory of both
//! - `index`: the packs of a keyspace, and which of them have a directory
//! - `lookup`: finds one entry; `search`: the same in steps
//! - `listing`: the entries of a directory, in parts; `numbers`: the numbers of directories, in parts
//! - `paper/`: the structures of the paper, to compare with (feature `experiments`)

mod index;
mod known;
mod listing;
mod lookup;
mod mapped_vec;
mod numbers;
mod p_hash;
#[cfg(feature = "experiments")]
mod paper;
mod search;
mod span_lists;
#[cfg(test)]
mod tests;

pub(crate) use index::DirectoryIndex;
pub(crate) use listing::{ENTRIES_OF_A_PART, ListedEntry, Part};
#[cfg(feature = "experiments")]
pub use paper::FHashStatistics;
#[cfg(feature = "experiments")]
pub(crate) use paper::{FHashOptions, remove_scratch_files};
pub(crate) use search::{EntrySearch, Step};
