//! [`ReplayBounds`] and [`ReplayFlusher`]: a replay takes no more memory than memtables and the fast tier may have.
//!
//! If a record exceeds a bound, sealed memtables are flushed, the oldest records first, and partitions are evicted from
//! a fast tier that is full. No other background work runs. The edits are those of any flush and of any eviction: each
//! says `Flushed` up to the last record of its memtable. Each needs the log from the last replayed record on, or from
//! an earlier one ([`LogPins`]). So a crash between two of these edits leaves the same as a crash after the open.

use super::dependencies::Dependencies;
use super::eviction::FastMerger;
use super::flush::MemtableFlusher;
use super::options::OrderedOptions;
use super::partition::Partition;
use super::partitions::Partitions;
use super::tier::Tier;
use crate::error::Result;
use crate::format::{LogMark, SeqNo};
use crate::keyspaces::{DefinitionInstaller, LogPins, Registry};
use crate::lineage::Lineage;
use crate::memtable::{MemtableHandle, MemtablePool};
use crate::metrics::Metrics;
use crate::table::TableWriters;
use std::sync::Arc;

/// The bounds of the memory of a replay.
#[derive(Clone)]
pub(crate) struct ReplayBounds {
    partitions: Partitions,
    registry: Arc<Registry>,
    /// The memory of memtables.
    pool: MemtablePool,
    /// Sealed memtables that a partition may have.
    sealed_max: usize,
    tier: Option<Arc<Tier>>,
}

/// The work that gives room back.
enum Work {
    Define,
    Flush(Arc<Partition>, Arc<MemtableHandle>),
    Seal(Arc<Partition>, Arc<MemtableHandle>),
    Evict(Arc<Partition>, Arc<Tier>),
}

impl ReplayBounds {
    /// The bounds of a replay that fills `registry`. A partition may have `sealed_max` sealed memtables.
    pub(crate) fn new(
        registry: &Arc<Registry>,
        pool: &MemtablePool,
        sealed_max: usize,
        options: &OrderedOptions,
    ) -> Self {
        let (registry, pool, tier) = (Arc::clone(registry), pool.clone(), options.tier.clone());
        ReplayBounds { partitions: Partitions::new(&registry), registry, pool, sealed_max, tier }
    }

    /// Whether something has to be flushed. `has_filled`: the last record has filled a memtable.
    pub(crate) fn are_exceeded(&self, has_filled: bool) -> bool {
        (has_filled || self.pool.is_past()) && self.next_work().is_some()
    }

    /// The next step. The manifest knows all keyspaces before an edit names a table of one.
    fn next_work(&self) -> Option<Work> {
        let work = self.flush_or_seal().or_else(|| self.evict())?;
        Some(if self.registry.definitions().is_empty() { work } else { Work::Define })
    }

    fn flush_or_seal(&self) -> Option<Work> {
        let is_past = self.pool.is_past();
        let oldest = |partition: &Partition| partition.super_version().sealed.first().cloned();
        let is_due = |partition: &Arc<Partition>| is_past || partition.sealed_memtables() > self.sealed_max;
        let sealed = self.partitions.iter().filter(is_due);
        let sealed = sealed.filter_map(|partition| Some((oldest(&partition)?, partition)));
        let first = sealed.min_by_key(|(handle, _)| handle.first().map(|mark| mark.position));
        if let Some((handle, partition)) = first {
            return Some(Work::Flush(partition, handle));
        }
        if !is_past {
            return None;
        }
        let active = |partition: Arc<Partition>| (Arc::clone(&partition.super_version().active), partition);
        let filled = self.partitions.iter().map(active).filter(|(handle, _)| !handle.memtable.is_empty());
        match filled.max_by_key(|(handle, _)| handle.memtable.bytes()) {
            Some((handle, partition)) => Some(Work::Seal(partition, handle)),
            // Memtables of keyspaces that are dropped or cleared are released when the manifest knows.
            None => (!self.registry.definitions().is_empty()).then_some(Work::Define),
        }
    }

    /// An eviction of the partition that has most in the tier, if the tier has more than it may.
    fn evict(&self) -> Option<Work> {
        let tier = self.tier.as_ref().filter(|tier| tier.room.live_bytes() > tier.room.capacity_bytes())?;
        let held = self.partitions.iter().map(|partition| (partition.super_version().fast_bytes(), partition));
        let (_, partition) = held.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes)?;
        Some(Work::Evict(partition, Arc::clone(tier)))
    }
}

/// See the module.
pub(crate) struct ReplayFlusher {
    metrics: Arc<Metrics>,
    lineage: Arc<Lineage>,
    log_pins: Arc<LogPins>,
    installer: Arc<DefinitionInstaller>,
    flush: Arc<MemtableFlusher>,
    merger: Arc<FastMerger>,
}

impl ReplayFlusher {
    pub(super) fn new(with: &Dependencies, flush: &Arc<MemtableFlusher>, merger: &Arc<FastMerger>) -> Arc<Self> {
        Arc::new(ReplayFlusher {
            metrics: Arc::clone(&with.metrics),
            lineage: Arc::clone(&with.lineage),
            log_pins: Arc::clone(&with.log_pins),
            installer: Arc::clone(&with.installer),
            flush: Arc::clone(flush),
            merger: Arc::clone(merger),
        })
    }

    /// Flushes until the bounds hold. The record replayed last begins at `mark` and ends with the number `last`. The
    /// caller does not go on with the replay meanwhile.
    pub(crate) async fn relieve(
        &self,
        bounds: &ReplayBounds,
        writers: &TableWriters,
        (mark, last): (LogMark, SeqNo),
    ) -> Result<()> {
        self.log_pins.set_replayed_to(Some(mark));
        while let Some(work) = bounds.next_work() {
            match work {
                Work::Define => self.installer.install().await?,
                Work::Flush(partition, handle) => {
                    self.flush.flush(writers, &partition, &handle).await?;
                    self.metrics.replay_flushes.increment();
                }
                Work::Seal(partition, handle) => {
                    partition.seal(&handle, last);
                    partition.generation.options.tier.iter().for_each(|tier| partition.replay_to_tier(tier));
                }
                Work::Evict(partition, tier) => {
                    self.merger.evict(&tier, writers, &partition).await?;
                    self.metrics.replay_flushes.increment();
                }
            }
            self.lineage.settle_if_pressed().await?;
        }
        Ok(())
    }

    /// Notes that the log was replayed to its end.
    pub(crate) fn finish(&self) {
        self.log_pins.set_replayed_to(None);
    }
}
