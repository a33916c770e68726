//! Tables: immutable sorted files (`docs/format/table.md`).
//!
//! [`TableStore`] names the files, [`TableWriter`] writes one, [`Table`] reads one: point reads and cursors go through
//! the block cache, scans past it. Every block is verified each time it is read from a file. A read of a damaged file
//! returns the right answer or [`crate::Error::Corruption`]; it never panics.
//!
//! In reading order; a file imports only from files above it:
//! - `options`: how tables are written and read
//! - `meta`: what the manifest says about a table
//! - `range`: a range of user keys
//! - `format/`: the bytes of a table file
//! - `io`: the gate, buffers and rings that all tables share
//! - `charged_buffers`: the buffers of background I/O, counted in the memory budget
//! - `page_cache/`: how tables use the kernel's page cache
//! - `read/`: foreground reads
//! - `scan/`: sequential reads, for compactions
//! - `write/`: writing tables, for flushes and compactions
//! - `store`: all table files of a database
//! - `writers`: creates tables for a coroutine
//! - `pack/`: the tables of directory keyspaces
//! - `inspect/`: verification, `thalweg check` and `thalweg dump`

mod charged_buffers;
mod format;
mod inspect;
mod io;
mod meta;
mod options;
mod pack;
mod page_cache;
mod range;
mod read;
mod scan;
mod store;
#[cfg(test)]
mod tests;
mod write;
mod writers;

pub(crate) use charged_buffers::ChargedBuffers;
pub(crate) use format::filter::{Filter, FilterLines, hash as key_hash};
pub(crate) use inspect::check::check;
pub(crate) use inspect::dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use inspect::fuzz::{fuzz_block, fuzz_table};
#[cfg(feature = "simulation")]
pub(crate) use inspect::fuzz_pack::{fuzz_pack, fuzz_pack_block};
pub(crate) use inspect::verify::{FileCheck, verify_bytes, verify_bytes_durably, verify_durably, verify_file};
pub(crate) use meta::TableMeta;
pub use options::{Compression, TableReads, TableWrites};
pub(crate) use options::{PackWrites, TableOptions};
pub(crate) use pack::PACK_BYTES_MAX;
pub(crate) use pack::block::BLOCK_BYTES_MAX as PACK_BLOCK_BYTES;
pub(crate) use pack::contents::PackSpan;
#[cfg(feature = "experiments")]
pub(crate) use pack::items::{PackBlock, PackItems};
pub(crate) use pack::open_pack::{PackValue, PackVersion, entry_hash};
pub(crate) use pack::part_read::{PackRead, Planned, read_together};
pub(crate) use pack::scan::PackScan;
pub(crate) use pack::search::{PackSearch, PackStep};
pub(crate) use pack::writer::PackWriter;
pub(crate) use range::KeyRange;
pub(crate) use read::batch::batch_read;
pub(crate) use read::cursor::TableCursor;
pub(crate) use read::point_key::{BlockNumber, PointKey};
pub(crate) use read::table::Table;
pub(crate) use scan::table_scan::TableScan;
pub(crate) use store::TableStore;
pub(crate) use write::unsynced_files::{UnsyncedFile, UnsyncedFiles};
pub(crate) use write::writer::TableWriter;
pub(crate) use writers::{PackWriters, TableWriters};
