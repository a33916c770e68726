//! [`Share`]: what the partitions of a keyspace have together, however often they were split.
//!
//! A keyspace has the memory for memtables, and the bytes in level 1 and in a table, that were meant for the partitions
//! it was created with. Those that splits have made of them share it: memory as they use it, the rest in proportion to
//! what each holds, so that all have levels of the same shape. So a split costs no memory, and makes everything
//! that a memtable waits for smaller ([`super::splits`]).

use crate::compaction::{Fraction, Policy};
use crate::format::PartitionId;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Share {
    /// Partitions that the keyspace was created with.
    created: usize,
    /// Partitions that it has.
    members: AtomicUsize,
    /// Bytes of all active memtables, as far as they were counted.
    active_bytes: AtomicIsize,
    /// Bytes of all tables, of those that partitions share once for each.
    table_bytes: AtomicU64,
    /// The keyspace was dropped: no new jobs, running ones give up. Here, so that whoever has a route to a partition
    /// that has ended since is told.
    dropped: AtomicBool,
    /// It was cleared: another generation of it has taken its place, and this one is read by older snapshots alone.
    cleared: AtomicBool,
    /// Nobody may read it any more.
    emptied: AtomicBool,
}

impl Share {
    pub(crate) fn new(created: usize, members: usize) -> Self {
        Share {
            created: created.max(1),
            members: AtomicUsize::new(members),
            active_bytes: AtomicIsize::new(0),
            table_bytes: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            cleared: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
        }
    }

    fn members(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    pub(super) fn drop_now(&self) {
        self.dropped.store(true, Ordering::SeqCst);
    }

    /// As [`Share::drop_now`], but what is there can be read until [`Share::empty_now`].
    pub(super) fn clear_now(&self) {
        self.cleared.store(true, Ordering::SeqCst);
        self.drop_now();
    }

    pub(super) fn is_cleared(&self) -> bool {
        self.cleared.load(Ordering::SeqCst)
    }

    pub(super) fn empty_now(&self) {
        self.emptied.store(true, Ordering::SeqCst);
    }

    /// Whether it may still be read.
    pub(super) fn is_readable(&self) -> bool {
        !self.is_dropped() || (self.is_cleared() && !self.emptied.load(Ordering::SeqCst))
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Whether splits have made the partition: then it may end again.
    pub(super) fn is_made_by_split(&self, partition: PartitionId) -> bool {
        partition.0 >= self.created as u64
    }

    /// There is one partition more.
    pub(super) fn joined(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one partition less.
    pub(super) fn left(&self) {
        self.members.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are more than the keyspace was created with.
    pub(super) fn has_grown(&self) -> bool {
        self.members() > self.created
    }

    /// Whether there may be one more, when each may become `partitions_max`.
    pub(super) fn may_grow(&self, partitions_max: usize) -> bool {
        self.members() < self.created.saturating_mul(partitions_max)
    }

    /// A partition's tables have `after` bytes instead of `before`.
    pub(super) fn holds(&self, before: u64, after: u64) {
        self.table_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The policy for a partition whose tables have `bytes`, when `policy` is for one that was never split, and splits
    /// make `partitions_max` of one.
    pub(super) fn policy(&self, policy: &Policy, bytes: u64, partitions_max: usize) -> Policy {
        if !self.has_grown() {
            return policy.clone();
        }
        let all = self.table_bytes.load(Ordering::Relaxed).max(1);
        let least = all / partitions_max.max(1) as u64;
        let part = bytes.saturating_mul(self.created as u64).clamp(least, all);
        policy.shared(Fraction { part, all })
    }

    /// Counts what an active memtable has grown by.
    pub(super) fn grew(&self, bytes: usize) {
        self.active_bytes.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Takes a memtable out of the count.
    pub(super) fn sealed(&self, bytes: usize) {
        self.active_bytes.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Whether the active memtables together have what they may, when a partition that was never split may have
    /// `memtable_bytes`.
    pub(super) fn is_full(&self, memtable_bytes: usize) -> bool {
        // Below zero for moments: what a memtable grew by may be taken out before it is counted.
        let bytes = usize::try_from(self.active_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        self.members() > 1 && bytes >= memtable_bytes.saturating_mul(self.created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::LeveledOptions;

    #[test]
    fn splits_add_no_memory() {
        let share = Share::new(2, 2);
        share.grew(150);
        assert!(!share.is_full(100) && share.may_grow(2) && !share.may_grow(1));
        share.joined();
        share.joined();
        share.grew(50);
        assert!(share.is_full(100) && !share.may_grow(2));
        share.sealed(60);
        assert!(!share.is_full(100));
        share.sealed(200);
        assert!(!share.is_full(100), "below zero");
    }

    #[test]
    fn a_keyspace_of_one_partition_leaves_it_to_the_memtable() {
        let share = Share::new(1, 1);
        share.grew(1000);
        assert!(!share.is_full(100));
    }

    #[test]
    fn partitions_have_parts_of_level_1_as_they_have_of_the_bytes() {
        let policy = Policy::Leveled(LeveledOptions {
            level0_trigger: 4,
            level1_bytes: 64 << 20,
            growth_factor: 8,
            table_bytes: 16 << 20,
            table_bytes_max: 16 << 20,
            job_bytes_max: u64::MAX,
            levels_max: 7,
        });
        let share = Share::new(1, 1);
        share.holds(0, 1000);
        assert_eq!(share.policy(&policy, 1000, 16).level1_bytes(), 64 << 20);
        share.joined();
        share.holds(1000, 750);
        share.holds(0, 250);
        let of = |bytes| share.policy(&policy, bytes, 16);
        assert_eq!((of(750).level1_bytes(), of(250).level1_bytes()), (48 << 20, 16 << 20));
        assert_eq!((of(750).table_bytes(), of(250).table_bytes()), (12 << 20, 4 << 20));
        assert_eq!(of(0).level1_bytes() >> 20, 3, "a sixteenth at least");
        assert_eq!(of(0).table_bytes(), 1 << 20, "tables are files");
        let two = Share::new(2, 3);
        two.holds(0, 1000);
        assert_eq!(two.policy(&policy, 250, 16).level1_bytes(), 32 << 20, "there is twice as much to share");
        assert_eq!(two.policy(&policy, 900, 16).level1_bytes(), 64 << 20, "and no more than one had");
    }
}
