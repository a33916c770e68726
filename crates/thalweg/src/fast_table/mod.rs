//! Fast tables: immutable sorted tables of the fast tier, each in one contiguous region of memory or in a file
//! (`docs/format/fast-table.md`).
//!
//! [`FastTableWriter`] makes the bytes of one. [`FastTable`] reads them where they lie in memory, or copies groups out
//! of a file: nothing is read ahead or cached. A read of damaged bytes returns the right answer or
//! [`crate::Error::Corruption`]; it never panics.
//!
//! A point read of the layout of the paper (PMB-4, PMB-5) touches the filter, then the prefix layer by binary search,
//! then the directory and one group. The other layouts exist for comparison (PMB-6).
//!
//! In reading order; a file imports only from files above it:
//! - `layout`: how entries are arranged, and the options of the writer
//! - `buffer`: the memory that groups are copied to
//! - `extent`: where a table lies: in memory, or in a file
//! - `identity`: the checksum of its parts
//! - `header`: the first 128 bytes, and the places of the parts
//! - `meta`: what is known about a table without opening it
//! - `distinct`: the estimate of its distinct keys
//! - `group`: the entry layer
//! - `packed`: compressed groups
//! - `prefixes`: the prefix layer
//! - `spaces`: the meta layer
//! - `cuts`: where spaces are cut, and how long prefixes are
//! - `output`: the destination of the bytes of a table
//! - `staged`: the groups of a table that is being written
//! - `writer`: writes a table
//! - `table`: an open table
//! - `loaded`: a group in which cursors and scans have their position
//! - `point`: point reads
//! - `cursor`: a position in a table
//! - `scan`: the entries of a range, for merges
//! - `files`: the fast tables of a database that are files
//! - `verify`: verification of such a file, for recovery
//! - `dump`: prints such a file
//! - `fuzz`: reads of any bytes, for fuzzers

mod buffer;
mod cursor;
mod cuts;
mod distinct;
mod dump;
mod extent;
mod files;
#[cfg(any(test, feature = "simulation"))]
mod fuzz;
mod group;
mod header;
mod identity;
mod layout;
mod loaded;
mod meta;
mod output;
mod packed;
mod point;
mod prefixes;
mod scan;
mod spaces;
mod staged;
mod table;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub(crate) use cursor::FastCursor;
pub(crate) use distinct::Distinct;
pub(crate) use dump::dump;
pub(crate) use extent::Extent;
pub(crate) use files::{FastTableFiles, fast_table_id, fast_table_name};
#[cfg(feature = "simulation")]
pub(crate) use fuzz::fast_table_seeds;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use fuzz::fuzz_fast_table;
pub(crate) use layout::{FastLayout, FastTableOptions};
pub(crate) use meta::FastTableMeta;
pub(crate) use output::TableOutput;
pub(crate) use scan::FastScan;
pub(crate) use table::FastTable;
pub(crate) use verify::{check_fast_file, verify_fast_durably, verify_fast_file};
pub(crate) use writer::FastTableWriter;
