//! The public interface, and the engine behind it.
//!
//! Every handle is a cheap clone and keeps the database open; the last one to be dropped closes it. In reading order:
//!
//! - `options`, `keyspace_options`, `level0`, `fast_tier`, `partitions_default`, `workers`, `limits`: what callers may
//!   set and write; `tasks`: the count of background coroutines;
//! - `engine`: one open database; `directory`, `dropped`, `fast_home`, `opened_tier`, `opening`, `open`: how it is
//!   opened;
//! - `write`, `definitions`, `maintenance`, `checkpoint`: what the engine does for callers;
//! - `health`, `tier_statistics`, `keyspace_statistics`, `statistics`, `status`: what it reports; `check`, `dump`:
//!   files examined without an engine;
//! - `entry_lookup`, `live_lookup`, `many_entries`, `reader`, `get_async`: lookups of entries of directories;
//! - `ticket`: says when a write is durable;
//! - `key_bounds`, `view_refresh`, `range`, `keyspace`, `directory_keyspace`, `compacting`, `batch`, `readable`,
//!   `snapshot`, `handle`, `read_only`, `builder`: the handles;
//! - `lone_table`: tables without an engine, to measure.

mod batch;
mod builder;
mod check;
mod checkpoint;
mod compacting;
mod definitions;
mod directory;
mod directory_keyspace;
mod dropped;
mod dump;
mod engine;
mod entry_lookup;
mod fast_home;
mod fast_tier;
mod get_async;
mod handle;
mod health;
mod key_bounds;
mod keyspace;
mod keyspace_options;
mod keyspace_statistics;
mod level0;
mod limits;
mod live_lookup;
#[cfg(feature = "experiments")]
mod lone_table;
mod maintenance;
mod many_entries;
mod open;
mod opened_tier;
mod opening;
mod options;
mod partitions_default;
mod range;
mod read_only;
mod readable;
mod reader;
mod snapshot;
mod statistics;
mod status;
mod tasks;
#[cfg(test)]
mod tests;
mod ticket;
mod tier_statistics;
mod view_refresh;
mod workers;
mod write;

#[cfg(feature = "experiments")]
pub use self::lone_table::{LoneCursor, LoneTable, LoneTables, TableLayout};
#[cfg(feature = "experiments")]
pub use crate::compaction::Overlap;
#[cfg(feature = "experiments")]
pub use crate::directory::FHashStatistics;
#[cfg(feature = "experiments")]
pub use crate::fast_tier::{FastTierForms, FastTierMode};
#[cfg(feature = "experiments")]
pub use crate::lineage::DurabilityBackend;
pub use crate::log::DamagePolicy;
pub use crate::runtime::BackgroundWork;
#[cfg(feature = "experiments")]
pub use crate::runtime::CompactionScheduling;
pub use crate::table::{Compression, TableReads, TableWrites};
pub use batch::WriteBatch;
pub use builder::Builder;
pub use check::CheckReport;
pub use directory_keyspace::{Directories, DirectoryEntry, DirectoryKeyspace, DirectorySnapshot, Listing};
pub use dump::dump;
pub use fast_tier::FastTier;
pub use get_async::GetAsync;
pub use handle::Database;
pub use health::{BackgroundFailure, Health};
pub use key_bounds::KeyBounds;
pub use keyspace::Keyspace;
pub use keyspace_statistics::{DirectoryStatistics, KeyspaceStatistics, LevelStatistics};
#[cfg(feature = "experiments")]
pub use options::DirectoryStructures;
pub use options::{CompactionPolicy, Durability, WriteOptions};
pub use range::{Entry, Keys, Range, Values};
pub use read_only::{ReadOnlyDatabase, ReadOnlyKeyspace};
pub use readable::Readable;
pub use reader::{Reader, ReaderFull};
pub use snapshot::{Snapshot, SnapshotKeyspace};
pub use statistics::{ChainStatistics, DurationStatistics, PacingStatistics, StallStatistics, Statistics};
pub use status::RunningStatus;
pub use ticket::{CommitTicket, UntilDurable};
pub use tier_statistics::FastTierStatistics;
