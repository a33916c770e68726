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

pub use database::{
    Builder, CheckReport, Compression, DamagePolicy, Database, Durability, DurabilityBackend, Entry, Keyspace,
    KeyspaceStatistics, LevelStatistics, Range, Snapshot, StallStatistics, Statistics, WriteBatch, dump,
};
pub use error::{Corruption, Error, ErrorKind, Result};
pub use format::Slice;

/// The seams, for simulators: the disk, the clock and the scheduler that an engine can be opened with.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::clock::{Clock, Entropy};
    #[cfg(feature = "planted-bugs")]
    pub use crate::planted::{Bug, plant};
    pub use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
    pub use crate::storage::simulated;
    pub use crate::storage::{DirectoryEntry, File, OpenMode, Storage, StorageLock};
}
