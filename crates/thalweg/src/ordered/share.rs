//! [`Share`]: what the partitions of a keyspace have together, however often they were split.
//!
//! A keyspace has the memory for memtables, and the bytes in level 1 and in a table, that were meant for the partitions
//! it was created with; those that splits have made of them share it. So a split costs no memory, and makes everything
//! that a memtable waits for smaller by the same factor ([`super::splits`]).

use crate::compaction::Policy;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Share {
    /// Partitions that the keyspace was created with.
    created: usize,
    /// Partitions that it has.
    members: AtomicUsize,
    /// Bytes of all active memtables, as far as they were counted.
    active_bytes: AtomicIsize,
}

impl Share {
    pub(crate) fn new(created: usize, members: usize) -> Self {
        Share { created: created.max(1), members: AtomicUsize::new(members), active_bytes: AtomicIsize::new(0) }
    }

    fn members(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    /// There is one partition more.
    pub(super) fn joined(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there may be one more, when each may become `partitions_max`.
    pub(super) fn may_grow(&self, partitions_max: usize) -> bool {
        self.members() < self.created.saturating_mul(partitions_max)
    }

    /// The policy for one of the partitions, when `policy` is for one that was never split.
    pub(super) fn policy(&self, policy: &Policy) -> Policy {
        policy.shared(self.created as u64, self.members() as u64)
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
}
