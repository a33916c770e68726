//! [`FastTier`], and what it is made with.

use crate::compaction::FastTableMaker;
use crate::fast_table::FastTableOptions;
use crate::keyspaces::TierRoom;
use crate::ordered::Tier;
use crate::runtime::Environment;
use std::sync::Arc;

/// The fast tier may pin this many times its capacity of the log,
const LOG_TIMES: u64 = 3;

/// and at least this many segments.
const SEGMENTS_MIN: u64 = 4;

/// Where level 0 of ordered keyspaces is kept before it is written to files; `docs/fast-tier.md` says when that pays.
///
/// ```
/// use thalweg::{Database, FastTier};
/// # let directory = std::env::temp_dir().join(format!("thalweg-tier-{}", std::process::id()));
/// let database = Database::builder(&directory).fast_tier(FastTier::Memory, 256 << 20).open()?;
/// # drop(database);
/// # std::fs::remove_dir_all(&directory).ok();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FastTier {
    /// In plain memory. The log keeps what is there until it is evicted, so nothing depends on it.
    Memory,
}

/// The fast tier that a builder asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastTierOptions {
    pub(super) medium: FastTier,
    pub(super) capacity_bytes: u64,
}

impl FastTierOptions {
    /// Bytes of the log that the tier may pin, if that was not set. Each byte in the tier was a byte of the log; so
    /// were older versions that an internal compaction has dropped, and what lies between and is in tables.
    pub(super) fn log_bytes_max(&self, segment_bytes: u32) -> u64 {
        let least = SEGMENTS_MIN * u64::from(segment_bytes);
        self.capacity_bytes.saturating_mul(LOG_TIMES).max(least)
    }

    /// Makes the tier, empty. An internal compaction closes a table at `table_bytes`.
    pub(super) fn make(
        &self,
        environment: &Environment,
        log_bytes_max: u64,
        table_bytes: u64,
        filter_bits_per_key: u32,
    ) -> Arc<Tier> {
        let FastTier::Memory = self.medium;
        let room = TierRoom::new(self.capacity_bytes, log_bytes_max);
        let tables = FastTableOptions { filter_bits_per_key, ..FastTableOptions::default() };
        let maker = FastTableMaker::new(environment.entropy.next_u64(), tables);
        Tier::new(room, maker, table_bytes, Arc::clone(&environment.clock))
    }
}
