//! Writing tables, for flushes and compactions.
//!
//! - `cache_handover`: blocks of new tables, kept for the block cache
//! - `unsynced_files`: the files of finished tables, until they are synced
//! - `output`: the bytes of a table on their way to its file
//! - `writer`: writes one table

pub(super) mod cache_handover;
pub(super) mod output;
pub(super) mod unsynced_files;
pub(super) mod writer;
