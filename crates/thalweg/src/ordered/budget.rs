//! [`PartitionBudget`]: the memory and the bytes of level 1 that the partitions of a keyspace share.
//!
//! The options give each partition that a keyspace was created with an amount of memory for memtables, of bytes in
//! level 1, and of bytes in a table. The partitions that splits have made of these share the amounts: memory as they
//! use it, the rest in proportion to the bytes that each holds, so that all have levels of the same shape. So a split
//! costs no memory, and everything that a memtable waits for becomes smaller ([`super::splits`]).

use crate::compaction::{Fraction, Policy};
use crate::format::PartitionId;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct PartitionBudget {
    /// Partitions that the keyspace was created with.
    created: usize,
    /// Partitions that it has.
    members: AtomicUsize,
    /// Bytes of all active memtables, as far as they were counted.
    active_bytes: AtomicIsize,
    /// Bytes of all tables. A table that several partitions have counts once for each.
    table_bytes: AtomicU64,
}

impl PartitionBudget {
    pub(crate) fn new(created: usize, members: usize) -> Self {
        PartitionBudget {
            created: created.max(1),
            members: AtomicUsize::new(members),
            active_bytes: AtomicIsize::new(0),
            table_bytes: AtomicU64::new(0),
        }
    }

    fn members(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    /// Whether a split has made the partition. Only such a partition may end in a merge.
    pub(super) fn is_made_by_split(&self, partition: PartitionId) -> bool {
        partition.0 >= self.created as u64
    }

    /// Adds a partition.
    pub(super) fn add_member(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a partition.
    pub(super) fn remove_member(&self) {
        self.members.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are more partitions than the keyspace was created with.
    pub(super) fn has_grown(&self) -> bool {
        self.members() > self.created
    }

    /// Whether there may be one more partition, when splits may make `partitions_max` of each created one.
    pub(super) fn may_grow(&self, partitions_max: usize) -> bool {
        self.members() < self.created.saturating_mul(partitions_max)
    }

    /// Counts `after` bytes of tables for a partition instead of `before`.
    pub(super) fn replace_table_bytes(&self, before: u64, after: u64) {
        self.table_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns the policy for a partition with `bytes` of tables. `policy` is the one for a partition that was never
    /// split; splits may make `partitions_max` of it.
    pub(super) fn policy(&self, policy: &Policy, bytes: u64, partitions_max: usize) -> Policy {
        if !self.has_grown() {
            return policy.clone();
        }
        let all = self.table_bytes.load(Ordering::Relaxed).max(1);
        let least = all / partitions_max.max(1) as u64;
        let part = bytes.saturating_mul(self.created as u64).clamp(least, all);
        policy.shared(Fraction { part, all })
    }

    /// Counts bytes that an active memtable has grown by.
    pub(super) fn add_active_bytes(&self, bytes: usize) {
        self.active_bytes.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Takes the bytes of a memtable that is no longer active out of the count.
    pub(super) fn remove_active_bytes(&self, bytes: usize) {
        self.active_bytes.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Returns the bytes of an active memtable, if all partitions have equally many.
    pub(super) fn part(&self, memtable_bytes: usize) -> usize {
        memtable_bytes.saturating_mul(self.created) / self.members().max(self.created)
    }

    /// Whether the active memtables together have used their memory up. A partition that was never split may have
    /// `memtable_bytes`.
    pub(super) fn is_full(&self, memtable_bytes: usize) -> bool {
        // The count may briefly be below zero: bytes of a memtable may be taken out before they are counted.
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
        let budget = PartitionBudget::new(2, 2);
        budget.add_active_bytes(150);
        assert!(!budget.is_full(100) && budget.may_grow(2) && !budget.may_grow(1));
        budget.add_member();
        budget.add_member();
        budget.add_active_bytes(50);
        assert!(budget.is_full(100) && !budget.may_grow(2));
        budget.remove_active_bytes(60);
        assert!(!budget.is_full(100));
        budget.remove_active_bytes(200);
        assert!(!budget.is_full(100), "below zero");
    }

    #[test]
    fn a_keyspace_of_one_partition_leaves_it_to_the_memtable() {
        let budget = PartitionBudget::new(1, 1);
        budget.add_active_bytes(1000);
        assert!(!budget.is_full(100));
    }

    #[test]
    fn partitions_have_parts_of_level_1_as_they_have_of_the_bytes() {
        let policy = Policy::Leveled(LeveledOptions {
            level0_trigger: 4,
            level0_patience: 4,
            level0_urgent: 16,
            level1_bytes: 64 << 20,
            growth_factor: 8,
            table_bytes: 16 << 20,
            table_bytes_max: 16 << 20,
            job_bytes_max: u64::MAX,
            levels_max: 7,
        });
        let budget = PartitionBudget::new(1, 1);
        budget.replace_table_bytes(0, 1000);
        assert_eq!(budget.policy(&policy, 1000, 16).level1_bytes(), 64 << 20);
        budget.add_member();
        budget.replace_table_bytes(1000, 750);
        budget.replace_table_bytes(0, 250);
        let of = |bytes| budget.policy(&policy, bytes, 16);
        assert_eq!((of(750).level1_bytes(), of(250).level1_bytes()), (48 << 20, 16 << 20));
        assert_eq!((of(750).table_bytes(), of(250).table_bytes()), (12 << 20, 4 << 20));
        assert_eq!(of(0).level1_bytes() >> 20, 3, "a sixteenth at least");
        assert_eq!(of(0).table_bytes(), 2 << 20, "tables are files");
        let two = PartitionBudget::new(2, 3);
        two.replace_table_bytes(0, 1000);
        assert_eq!(two.policy(&policy, 250, 16).level1_bytes(), 32 << 20, "there is twice as much to share");
        assert_eq!(two.policy(&policy, 900, 16).level1_bytes(), 64 << 20, "and no more than one had");
    }
}
