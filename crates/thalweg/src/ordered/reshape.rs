//! The changes of partitions by splits and merges; and when a failed one is tried again.

use super::fast_level::FastLevel;
use super::level0_reads::Level0Reads;
use super::partition::{Partition, SuperVersion, level_mut};
use super::tier::TierReads;
use crate::compaction::Levels;
use crate::error::Error;
use crate::format::{PartitionId, SeqNo};
use crate::memtable::MemtableHandle;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundWork, Health, LastError};
use crate::table::{KeyRange, Table, TableMeta};
use std::sync::{Arc, Weak};

/// A split or merge that failed is not tried again for this long, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;

/// When a split or merge that failed at `now_ns` may be tried again, if it is still wanted then.
pub(super) fn retry_at_ns(now_ns: u64) -> u64 {
    now_ns.saturating_add(RETRY_NS)
}

/// Reports that a split or a merge failed. Nothing was changed by it, and nothing waits for it.
pub(super) fn report_failure(health: &Health, error: Error, now_ns: u64) {
    let mut trouble = LastError::new(BackgroundWork::Reshape).record(error, now_ns);
    trouble.retry_at_ns = Some(retry_at_ns(now_ns));
    health.report(trouble);
}

impl Partition {
    /// Splits it at `at`: a new partition has the keys from there on, and `publish` makes it known. Both share
    /// everything written so far. Called as [`Partition::seal`] is, while no job and no flush runs.
    ///
    /// The new one is known before this one gives its keys up. In between, both show the same entries.
    pub(crate) fn split(&self, at: &[u8], id: PartitionId, last: SeqNo, publish: impl FnOnce(&Arc<Partition>)) {
        self.change(|super_version| {
            self.seal_handle(&super_version.active, last);
            self.count_coming(&super_version.active);
            self.generation.budget.add_member();
            super_version.sealed.push(Arc::clone(&super_version.active));
            super_version.sealed.iter().for_each(|handle| handle.share());
            let (lower, upper) = (Some(Box::from(at)), super_version.range.to.clone());
            let mut right = SuperVersion::clone(super_version);
            right.range = Arc::new(KeyRange { from: lower.clone(), to: upper });
            right.level0_reads = Level0Reads::new(&self.generation.options.wake);
            if planted(Bug::SplitLosesSealed) {
                right.sealed.clear();
            }
            // The memtables of the new partition will be at most half as large.
            right.active = MemtableHandle::new(last, &self.generation.memory.pool);
            // From here on the new partition counts the reads of its fast tables.
            let reads = self.reads_of_half();
            right.fast = clipped(super_version.fast.as_ref(), &right.range, reads.as_ref());
            right.levels = levels_where(&super_version.levels, |meta| *meta.key_max >= *at);
            let right = Self::with_super_version(&self.generation, id, SeqNo(0), right, reads);
            right.pacer.share_with(&self.pacer);
            publish(&right);
            super_version.range = Arc::new(KeyRange { from: super_version.range.from.clone(), to: lower });
            super_version.right = Some(right);
            super_version.fast = clipped(super_version.fast.as_ref(), &super_version.range, self.tier_reads());
            super_version.active = MemtableHandle::new(last, &self.generation.memory.pool);
            super_version.levels = levels_where(&super_version.levels, |meta| *meta.key_min < *at);
        });
    }

    /// Gives two neighbours one active memtable, for the records of both. Called as [`Partition::seal`] is.
    pub(super) fn join(left: &Arc<Self>, right: &Arc<Self>, last: SeqNo) {
        let common = MemtableHandle::new(last, &left.generation.memory.pool);
        common.share();
        for partition in [left, right] {
            partition.seal_with(&partition.pinned_super_version().active, &common, last);
        }
        left.set_joined(Arc::downgrade(right));
        right.set_joined(Arc::downgrade(left));
    }

    /// Undoes [`Partition::join`]: each gets an active memtable of its own, and flushes its part of the common one.
    /// Called as [`Partition::seal`] is.
    pub(super) fn part(left: &Arc<Self>, right: &Arc<Self>, last: SeqNo) {
        for partition in [left, right] {
            partition.set_joined(Weak::new());
            let next = MemtableHandle::new(last, &partition.generation.memory.pool);
            partition.seal_with(&partition.pinned_super_version().active, &next, last);
        }
    }

    /// Takes over everything from `right`, to which it is joined; `publish` removes `right` from the layout. Called as
    /// [`Partition::seal`] is, while no job and no flush runs.
    ///
    /// `right` gives its keys up last. Before that, both show the same entries.
    pub(super) fn absorb(self: &Arc<Self>, right: &Arc<Self>, publish: impl FnOnce()) {
        let taken = right.pinned_super_version();
        self.change(|super_version| {
            if planted(Bug::MergeBeforeFlush) {
                super_version.sealed.clone_from(&taken.sealed);
            }
            let is_joined = Arc::ptr_eq(&super_version.active, &taken.active)
                && super_version.sealed.len() == taken.sealed.len()
                && super_version.sealed.iter().zip(&taken.sealed).all(|(a, b)| Arc::ptr_eq(a, b));
            assert!(is_joined, "partitions that are merged have the same memtables");
            // The flushed number of one side would hold for both, also for records of the other side in the tier.
            let is_out = super_version.fast.is_none() && taken.fast.is_none();
            assert!(
                is_out || planted(Bug::MergeOverVolatile),
                "partitions are merged when neither is in the fast tier"
            );
            if let Some(right) = &taken.fast {
                let mut both = super_version.fast.as_ref().map_or_else(|| right.changeable(), |left| left.changeable());
                both.unsorted.extend(right.tables().cloned());
                super_version.fast = both.filled();
            }
            super_version.range =
                Arc::new(KeyRange { from: super_version.range.from.clone(), to: taken.range.to.clone() });
            super_version.right.clone_from(&taken.right);
            let mut levels = Levels::clone(&super_version.levels);
            for (number, level) in taken.levels.iter().enumerate() {
                level_mut(&mut levels, number).extend(level.iter().cloned());
            }
            super_version.levels = Arc::new(levels);
        });
        self.chain.take_over(&right.chain);
        publish();
        right.change(|super_version| {
            // A late caller goes on to the partition that has the keys.
            super_version.range =
                Arc::new(KeyRange { from: super_version.range.from.clone(), to: super_version.range.from.clone() });
            super_version.right = Some(Arc::clone(self));
            // The other owner has the active memtable alone from now on.
            super_version.active.leave();
            super_version.active = MemtableHandle::new(SeqNo(0), &right.generation.memory.pool);
            right.seal_handle(&super_version.active, SeqNo(0));
            super_version.sealed.drain(..).for_each(|handle| handle.leave());
            super_version.fast = None;
            super_version.levels = Arc::default();
        });
        self.generation.budget.remove_member();
        for partition in [self, right] {
            partition.set_joined(Weak::new());
        }
    }
}

/// The fast tables with keys in `range`, whose reads `reads` counts.
fn clipped(fast: Option<&Arc<FastLevel>>, range: &KeyRange, reads: Option<&Arc<TierReads>>) -> Option<Arc<FastLevel>> {
    fast.zip(reads).and_then(|(fast, reads)| fast.clipped(range, reads).filled())
}

/// The tables that `keep` takes, in the same levels.
fn levels_where(levels: &Levels, keep: impl Fn(&TableMeta) -> bool) -> Arc<Levels> {
    let kept = |level: &Vec<Arc<Table>>| level.iter().filter(|table| keep(table.meta())).cloned().collect();
    Arc::new(levels.iter().map(kept).collect())
}
