//! Thalweg: an embeddable key-value store for one process on one machine. Keys and values are bytes; a database is a
//! directory with any number of named keyspaces: sorted maps, or entries of directories.
//!
//! ```
//! use thalweg::{Database, Durability};
//!
//! # fn main() -> thalweg::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("thalweg-doc-front-{}", std::process::id()));
//! let db = Database::open(&dir)?; // creates it if it is missing
//! let (rivers, log) = (db.keyspace("rivers")?, db.keyspace("log")?);
//! rivers.insert("Rhine", "1233 km")?;
//!
//! let mut batch = db.batch(); // atomic over keyspaces
//! batch.insert(&rivers, "Danube", "2850 km")?;
//! batch.insert(&log, "0001", "added the Danube")?;
//! batch.commit_with(Durability::Sync)?; // no power cut can lose this, or any write before it
//!
//! for entry in rivers.range("A".."S") {
//!     let (name, length) = entry?;
//!     println!("{}: {}", name.escape_ascii(), length.escape_ascii());
//! }
//! # drop((rivers, log, batch));
//! db.close()?;
//! # let _ = std::fs::remove_dir_all(dir);
//! # Ok(())
//! # }
//! ```
//!
//! # What it needs
//!
//! Linux, on any file system with `fsync` (ext4, XFS and btrfs are tested), and Rust 1.90. From kernel 5.11 on it uses
//! io_uring; without io_uring it also works, but is slower. It is not on crates.io, so a dependency names a path (or,
//! with `git = …`, the repository):
//!
//! ```toml
//! [dependencies]
//! thalweg = { path = "../thalweg/crates/thalweg" }
//! ```
//!
//! # What it promises
//!
//! - **Writes.** A [`Durability::Buffered`] write, the default, survives the death of the process when it returns, and
//!   a power cut soon after ([`Builder::log_sync_interval`], 100 ms). A [`Durability::Sync`] write survives a power cut
//!   when it returns. [`Database::persist`] does the same for all earlier writes. After a crash the database has the
//!   state after some prefix of its writes. A [`WriteBatch`] is there as a whole or not at all.
//! - **Reads.** A read sees everything written before it began. A [`Range`] and a [`Snapshot`] see one moment.
//! - **Damage** is found by checksums and reported as [`Error::Corruption`], with file and offset. A read never returns
//!   damaged data.
//! - **Threads.** Every handle is `Send` and `Sync`, cheap to clone, and keeps the database open.
//!
//! # Where to begin
//!
//! [`Database`] and [`Keyspace`] for reads and writes; [`DirectoryKeyspace`] for the metadata of file systems;
//! [`Builder`] for options; [`Readable`] for code that reads a live keyspace, one in a snapshot or one of a
//! [`ReadOnlyDatabase`]; [`KeyBounds`] for the ways to write a range; [`Error`] for what can go wrong. `examples/` has
//! programs of real use. `ARCHITECTURE.md` describes how it works inside.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `bytes` | [`Slice`] to and from `bytes::Bytes` |
//! | `experiments` | options for research and measurement |
//! | `tracing` | events and spans for subscribers of the `tracing` crate |
//! | `simulation`, `planted-bugs` | the seams and the bugs that tests use |

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr))]

mod cache;
mod clock;
mod compaction;
mod database;
mod directory;
mod error;
mod fast_table;
mod fast_tier;
mod format;
mod keyspaces;
mod lineage;
mod log;
mod memory;
mod memtable;
mod metrics;
mod ordered;
mod planted;
mod runtime;
mod storage;
mod sync;
mod table;
mod trace;

pub use database::{
    BackgroundFailure, BackgroundWork, Builder, ChainStatistics, CheckReport, CommitTicket, CompactionPolicy,
    Compression, DamagePolicy, Database, Directories, DirectoryEntry, DirectoryKeyspace, DirectorySnapshot,
    DirectoryStatistics, Durability, DurationStatistics, Entry, FastTier, FastTierStatistics, GetAsync, Health,
    KeyBounds, Keys, Keyspace, KeyspaceStatistics, LevelStatistics, Listing, PacingStatistics, Range, ReadOnlyDatabase,
    ReadOnlyKeyspace, Readable, Reader, ReaderFull, RunningStatus, Snapshot, SnapshotKeyspace, StallStatistics,
    Statistics, TableReads, TableWrites, UntilDurable, Values, WriteBatch, WriteOptions, dump,
};
#[cfg(feature = "experiments")]
pub use database::{
    CompactionScheduling, DirectoryStructures, DurabilityBackend, FHashStatistics, FastTierForms, FastTierMode,
    LoneCursor, LoneTable, LoneTables, Overlap, TableLayout,
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

    /// A pack: opened, listed, looked up in, scanned and checked.
    pub fn pack(bytes: &[u8]) {
        crate::table::fuzz_pack(bytes);
    }

    /// A block of a pack: its items are decoded.
    pub fn pack_block(bytes: &[u8]) {
        crate::table::fuzz_pack_block(bytes);
    }

    /// A fast table: opened and read in every way.
    pub fn fast_table(bytes: &[u8]) {
        crate::fast_table::fuzz_fast_table(bytes);
    }

    /// Fast tables to begin with, one of each layout.
    pub fn fast_table_seeds() -> Vec<Vec<u8>> {
        crate::fast_table::fast_table_seeds()
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
