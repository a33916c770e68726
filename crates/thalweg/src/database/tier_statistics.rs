//! [`FastTierStatistics`]: what the fast tier holds, does and decides.

use super::engine::Writable;
use crate::keyspaces::TierRoom;
use crate::metrics::Metrics;
use crate::ordered::Evictor;
use std::sync::Arc;

/// The fast tier: counters since the open, and gauges as of the call. Bytes written to it are in no
/// [write amplification](super::Statistics::write_amplification). Entries evicted from it are written by a flush, and
/// are in `flush_written_bytes`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FastTierStatistics {
    /// Bytes that the tier may hold.
    pub capacity_bytes: u64,
    /// Bytes of the tables of the tier.
    pub bytes: u64,
    /// The same, and the bytes of replaced tables that readers still hold.
    pub memory_bytes: u64,
    /// Bytes of the log that the tier pins.
    pub log_bytes: u64,
    /// Bytes of the log that the tier may pin. 0: the tier is in a directory, and pins none.
    pub log_bytes_max: u64,
    /// Memtables that became tables of the tier.
    pub minor_compactions: u64,
    /// Bytes of these tables.
    pub minor_written_bytes: u64,
    /// Merges within the tier.
    pub internal_compactions: u64,
    /// Bytes that these merges have written to the tier.
    pub internal_written_bytes: u64,
    /// Evictions of a partition from the tier.
    pub evictions: u64,
    /// Bytes that these partitions had in the tier.
    pub evicted_bytes: u64,
    /// Bytes written to files of the tier, if it is in a directory.
    pub file_written_bytes: u64,
    /// Groups of entries that were read by position, because the file was not mapped or a page of it could not be read.
    pub groups_by_position: u64,
    /// For each partition with tables in the tier, the input and the decision of the cost models, in words. Empty where
    /// the statistics come from another process.
    pub partitions: Vec<String>,
}

/// The sources of the statistics of a database's fast tier, if it has one.
pub(super) struct FastTierSource {
    room: Option<Arc<TierRoom>>,
    evictor: Option<Arc<Evictor>>,
}

impl FastTierSource {
    pub(super) fn of(writable: &Writable) -> Self {
        FastTierSource { room: writable.backpressure.tier.clone(), evictor: writable.ordered.evictor.clone() }
    }

    pub(super) fn statistics(&self, metrics: &Metrics) -> Option<FastTierStatistics> {
        let tier = self.room.as_ref()?;
        Some(FastTierStatistics {
            capacity_bytes: tier.capacity_bytes(),
            bytes: tier.live_bytes(),
            memory_bytes: tier.held_bytes(),
            log_bytes: tier.log_bytes(),
            log_bytes_max: if tier.log_bytes_max() == u64::MAX { 0 } else { tier.log_bytes_max() },
            minor_compactions: metrics.minor_compactions.get(),
            minor_written_bytes: metrics.minor_written_bytes.get(),
            internal_compactions: metrics.internal_compactions.get(),
            internal_written_bytes: metrics.internal_written_bytes.get(),
            evictions: metrics.evictions.get(),
            evicted_bytes: metrics.evicted_bytes.get(),
            file_written_bytes: metrics.fast_file_written_bytes.get(),
            groups_by_position: metrics.fast_groups_by_position.get(),
            partitions: self.evictor.iter().flat_map(|evictor| evictor.reports()).collect(),
        })
    }
}
