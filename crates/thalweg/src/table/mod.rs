//! Tables: immutable sorted files (`docs/format/table.md`).
//!
//! [`TableStore`] names the files, [`TableWriter`] writes one, [`Table`] reads one: point reads and cursors through the
//! block cache, scans past it. Every block is verified each time it is read from a file; what a damaged file gives is
//! the right answer or [`crate::Error::Corruption`], never a panic.

mod format;
mod inspect;
mod meta;
mod options;
mod page_cache;
mod range;
mod read;
mod scan;
mod store;
#[cfg(test)]
mod tests;
mod write;
mod writers;

pub(crate) use inspect::dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use inspect::fuzz::{fuzz_block, fuzz_table};
pub(crate) use inspect::verify::{check, verify_durably, verify_file};
pub(crate) use meta::TableMeta;
pub(crate) use options::TableOptions;
pub use options::{Compression, TableReads, TableWrites};
pub(crate) use range::KeyRange;
pub(crate) use read::batch::read_together;
pub(crate) use read::cursor::TableCursor;
pub(crate) use read::table::{BlockNumber, PointKey, Table};
pub(crate) use scan::table_scan::TableScan;
pub(crate) use store::{TableStore, path_in};
pub(crate) use write::writer::TableWriter;
pub(crate) use writers::TableWriters;
