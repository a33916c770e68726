//! [`OrderedBackground`]: the background work on ordered keyspaces, put together.

use super::compactor::Compactor;
use super::dependencies::Dependencies;
use super::eviction::FastMerger;
use super::evictor::Evictor;
use super::flush::MemtableFlusher;
use super::flusher::Flusher;
use super::merges::Merger;
use super::partition::Partition;
use super::partitions::Partitions;
use super::replaying::ReplayFlusher;
use super::sealer::Sealer;
use super::splits::Splitter;
use crate::format::LogMark;
use crate::memtable::MemtableHandle;
use std::sync::Arc;

/// See the module.
pub(crate) struct OrderedBackground {
    pub(crate) partitions: Partitions,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) compactor: Arc<Compactor>,
    /// `None` without a fast tier.
    pub(crate) evictor: Option<Arc<Evictor>>,
    /// Flushes while the log is replayed.
    pub(crate) replay: Arc<ReplayFlusher>,
    merger: Arc<Merger>,
}

impl OrderedBackground {
    pub(crate) fn new(with: &Dependencies) -> Self {
        let sealer = Sealer::new(with);
        let flush = MemtableFlusher::new(with);
        let fast_merger = FastMerger::new(with);
        let (splitter, merger) = (Splitter::new(with, &flush), Merger::new(with, &flush, &fast_merger));
        let evictor = |tier| Evictor::new(with, tier, &fast_merger, &splitter);
        OrderedBackground {
            partitions: Partitions::new(&with.registry),
            flusher: Flusher::new(with, &sealer, &flush, &splitter, &merger),
            compactor: Compactor::new(with, &splitter, &merger),
            evictor: with.options.tier.as_ref().map(evictor),
            replay: ReplayFlusher::new(with, &flush, &fast_merger),
            sealer,
            merger,
        }
    }

    /// Seals every memtable that holds something. Returns those that wait for their flush.
    pub(crate) fn seal_all(&self) -> Vec<Arc<MemtableHandle>> {
        self.sealer.seal_all();
        // Returns memtables, not partitions: after a split both sides have to flush the memtables sealed before it.
        self.partitions.iter().flat_map(|partition| partition.super_version().sealed.clone()).collect()
    }

    /// Whether all of these memtables are in tables, or their keyspaces are gone.
    pub(crate) fn are_flushed(&self, waiting: &[Arc<MemtableHandle>]) -> bool {
        let is_waiting = |handle: &Arc<MemtableHandle>| waiting.iter().any(|other| Arc::ptr_eq(handle, other));
        self.partitions
            .unchanged_while(|| !self.partitions.iter().any(|it| it.super_version().sealed.iter().any(is_waiting)))
    }

    /// Whether the fast tier has no record before `mark`, except records of keyspaces that are gone.
    pub(crate) fn are_evicted(&self, mark: LogMark) -> bool {
        let is_before = |partition: Arc<Partition>| {
            let super_version = partition.super_version();
            super_version.fast.as_ref().is_some_and(|fast| fast.has_before(mark))
        };
        self.partitions.unchanged_while(|| !self.partitions.iter().any(is_before))
    }

    /// Whether no unsorted table of the fast tier has a record before `mark`, except records of keyspaces that are
    /// gone.
    pub(crate) fn are_sorted(&self, mark: LogMark) -> bool {
        let is_before = |partition: Arc<Partition>| {
            let super_version = partition.super_version();
            super_version.fast.as_ref().is_some_and(|fast| fast.has_unsorted_before(mark))
        };
        self.partitions.unchanged_while(|| !self.partitions.iter().any(is_before))
    }

    /// Whether the fast tier has anything to compact or to evict.
    pub(crate) fn has_tier_work(&self) -> bool {
        self.evictor.as_ref().is_some_and(|evictor| evictor.has_work())
    }

    /// Whether the flush coroutine has anything to do. Wakes it for a merge that may be tried again: nothing else does.
    pub(crate) fn has_flush_work(&self) -> bool {
        self.merger.is_to_merge();
        self.flusher.has_work()
    }
}
