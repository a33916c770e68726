//! Thalweg: an embeddable key-value storage engine in which nothing waits.
//!
//! The floors, from the bottom: formats, errors and metrics; the disk and clock seams; the runtime; log, tables and
//! cache; lineage; compaction; ordered keyspaces; the database. A module imports only from floors below its own.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr))]

mod cache;
mod clock;
mod compaction;
mod database;
mod error;
mod format;
mod lineage;
mod log;
mod metrics;
mod ordered;
mod planted;
mod runtime;
mod storage;
mod table;
mod trace;

pub use database::{
    BackgroundFailure, BackgroundWork, Builder, ChainStatistics, CheckReport, CompactionPolicy, Compression,
    DamagePolicy, Database, Durability, DurabilityBackend, Entry, Health, KeyBounds, Keys, Keyspace,
    KeyspaceStatistics, LevelStatistics, Overlap, Range, ReadOnlyDatabase, ReadOnlyKeyspace, Readable, RunningStatus,
    Snapshot, SnapshotKeyspace, StallStatistics, Statistics, TableReads, TableWrites, Values, WriteBatch, WriteOptions,
    dump,
};
pub use error::{Corruption, Error, ErrorKind, LockHolder, Result};
pub use format::Slice;
pub use runtime::Runtime;

/// The seams, for simulators: the disk, the clock and the scheduler that an engine can be opened with.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::clock::{Clock, Entropy};
    #[cfg(feature = "planted-bugs")]
    pub use crate::planted::{Bug, plant};
    pub use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
    pub use crate::storage::simulated;
    pub use crate::storage::{
        DirectoryEntry, File, Mapping, OpenMode, ReadMapping, Storage, StorageLock, SyncInFlight,
    };
}

/// The decoders of every file, for fuzz targets: whatever the bytes are, they must not panic.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod fuzzing {
    /// A log segment: scanned and replayed.
    pub fn log_segment(bytes: &[u8]) {
        crate::log::fuzz_segment(bytes);
    }

    /// A manifest: read and applied.
    pub fn manifest(bytes: &[u8]) {
        crate::lineage::fuzz_manifest(bytes);
    }

    /// A table: opened and walked both ways.
    pub fn table(bytes: &[u8]) {
        crate::table::fuzz_table(bytes);
    }

    /// A data block: walked both ways.
    pub fn block(bytes: &[u8]) {
        crate::table::fuzz_block(bytes);
    }
}

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
