//! [`Level0Reads`]: the reads that look into level 0 of a partition, and how long they allow it to be.
//!
//! Each table in level 0 costs a point read a look at a filter, and a range one more cursor. A compaction of level 0
//! costs about the same for few tables as for many, because it rewrites what lies below them. So when to compact is the
//! question of when to buy instead of rent. Reads pay for each table that they pass, and level 0 is due once they have
//! paid the price of the compaction. While nobody reads, it is due at `level0_patience` tables. Whatever comes next,
//! such a rule costs about twice the least possible (Karlin, Manasse, Rudolph and Sleator, "Competitive Snoopy
//! Caching", Algorithmica 3, 1988).
//!
//! Under many writes level 0 is compacted before reads have paid for all of it. The *share* that they have paid of the
//! latest compactions then lies between 0 and 1: level 0 is due at a number of tables between `level0_patience` and
//! `level0_trigger`. The length up to which writers are slowed down depends on the share, too
//! ([`Level0Reads::bounds`]).
//!
//! Reads are sampled, and wake the compactors now and then: in a phase of reads no flush wakes them. Locks: none.

use super::options::CompactorsWake;
use crate::compaction::{Levels, Policy};
use crate::fast_tier::ReadSampler;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The price that a point read pays for each table: a look at its filter.
const GET_NS: u64 = 100;

/// The price that a range pays for each table: a search for its first entry, and a part of each step.
const SEEK_NS: u64 = 1000;

/// The price of a compaction for each byte that it reads, merges and writes.
const NS_A_BYTE: u64 = 1;

/// A level 0 that has 1/`LEVEL0_PART` of the partition's bytes is due at `level0_trigger`, read or not: much of it may
/// replace what lies below.
const LEVEL0_PART: u64 = 8;

/// If reads have paid the whole price, pressure on writers is full at `STOP_TRIGGERS` times `level0_trigger` tables.
const STOP_TRIGGERS: usize = 5;

const WHOLE: u64 = 1 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Level0Reads {
    sampler: ReadSampler,
    /// The sum that all reads up to the latest compaction of level 0 have paid for each table.
    paid_before_ns: AtomicU64,
    /// The share that reads have paid of the latest compactions, in parts of [`WHOLE`]: a mean, the last one with half
    /// of the weight.
    share: AtomicU64,
    wake: Arc<CompactorsWake>,
}

impl Level0Reads {
    pub(super) fn new(wake: &Arc<CompactorsWake>) -> Arc<Self> {
        Arc::new(Level0Reads {
            sampler: ReadSampler::weighing_seeks(SEEK_NS / GET_NS),
            paid_before_ns: AtomicU64::new(0),
            share: AtomicU64::new(0),
            wake: Arc::clone(wake),
        })
    }

    /// Counts a point read.
    #[inline]
    pub(super) fn count_get(&self) {
        if self.sampler.count_get() {
            self.wake.wake();
        }
    }

    /// Counts a range that is positioned.
    pub(super) fn count_seek(&self) {
        if self.sampler.count_seek() {
            self.wake.wake();
        }
    }

    fn paid_ns(&self) -> u64 {
        let gets = self.sampler.gets().saturating_mul(GET_NS);
        gets.saturating_add(self.sampler.seeks().saturating_mul(SEEK_NS))
    }

    /// Which part of a compaction of `level0` reads have paid, in parts of [`WHOLE`].
    fn paid_part(&self, level0: Level0) -> u64 {
        let for_each_ns = self.paid_ns().saturating_sub(self.paid_before_ns.load(Ordering::Relaxed));
        let paid_ns = for_each_ns.saturating_mul(level0.tables as u64);
        let price_ns = level0.job_bytes.saturating_mul(NS_A_BYTE).max(1);
        (u128::from(paid_ns) * u128::from(WHOLE) / u128::from(price_ns)).min(u128::from(WHOLE)) as u64
    }

    /// Notes that a compaction has taken tables out of level 0, which was `before`. The payments for it are used up.
    pub(super) fn compacted(&self, before: Level0) {
        let part = self.paid_part(before);
        self.share.store(self.share.load(Ordering::Relaxed).midpoint(part), Ordering::Relaxed);
        self.paid_before_ns.store(self.paid_ns(), Ordering::Relaxed);
    }

    /// How long level 0 may be.
    pub(super) fn bounds(&self, policy: &Policy, stop_at: usize, level0: Level0) -> Level0Bounds {
        let (trigger, patience) = (policy.level0_trigger(), policy.level0_patience());
        let have_paid = self.paid_part(level0) == WHOLE;
        let share = if have_paid { WHOLE } else { self.share.load(Ordering::Relaxed) };
        let between = |read: usize, unread: usize| {
            let less = unread.saturating_sub(read) as u64 * share / WHOLE;
            unread - less as usize
        };
        let is_long = level0.bytes > level0.all_bytes / LEVEL0_PART;
        let due_at = match between(trigger, patience) {
            _ if have_paid => 1,
            _ if is_long => trigger,
            due_at => due_at,
        };
        Level0Bounds { due_at, press_to: between(trigger.saturating_mul(STOP_TRIGGERS), stop_at) }
    }
}

/// A level 0, as far as its bounds depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level0 {
    pub(super) tables: usize,
    pub(super) bytes: u64,
    /// The bytes that a compaction reads: all of level 0 and of level 1.
    pub(super) job_bytes: u64,
    /// All bytes of the partition.
    pub(super) all_bytes: u64,
}

impl Level0 {
    pub(super) fn of(levels: &Levels) -> Self {
        let bytes = |count: usize| levels.iter().take(count).flatten().map(|table| table.meta().bytes).sum();
        Level0 {
            tables: levels.first().map_or(0, Vec::len),
            bytes: bytes(1),
            job_bytes: bytes(2),
            all_bytes: bytes(usize::MAX),
        }
    }
}

/// How long level 0 may be: see [`Level0Reads::bounds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level0Bounds {
    /// Compactions merge level 0 from this many tables on.
    pub(super) due_at: usize,
    /// Writers are slowed down more and more up to this many.
    pub(super) press_to: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::LeveledOptions;
    use crate::runtime::Event;

    const MIB: u64 = 1 << 20;

    fn policy() -> Policy {
        Policy::Leveled(LeveledOptions {
            level0_trigger: 4,
            level0_patience: 16,
            level0_urgent: 24,
            level1_bytes: MIB,
            growth_factor: 8,
            table_bytes: MIB,
            table_bytes_max: MIB,
            job_bytes_max: u64::MAX,
            levels_max: 7,
        })
    }

    fn level0(tables: usize, job_bytes: u64) -> Level0 {
        Level0 { tables, bytes: job_bytes / 2, job_bytes, all_bytes: 1 << 40 }
    }

    fn bounds(reads: &Level0Reads, level0: Level0) -> (usize, usize) {
        let Level0Bounds { due_at, press_to } = reads.bounds(&policy(), 48, level0);
        (due_at, press_to)
    }

    #[test]
    fn reads_that_have_paid_for_a_compaction_make_level_0_short() {
        let reads = Level0Reads::new(&Arc::default());
        assert_eq!(bounds(&reads, level0(4, MIB)), (16, 48));
        // 1 MiB costs 1.05 ms: for four tables 2 622 point reads pay that, or 263 ranges.
        (0..2_608).for_each(|_| reads.count_get());
        assert_eq!(bounds(&reads, level0(4, MIB)), (16, 48));
        (0..16).for_each(|_| reads.count_get());
        assert_eq!(bounds(&reads, level0(4, MIB)), (1, 20));
        assert_eq!(bounds(&reads, level0(3, MIB)), (16, 48));
        assert_eq!(bounds(&reads, level0(4, 2 * MIB)), (16, 48));
        // The compaction uses that up, and the share that is remembered is a half.
        reads.compacted(level0(4, MIB));
        assert_eq!(bounds(&reads, level0(4, MIB)), (10, 34));
        (0..272).for_each(|_| reads.count_seek());
        assert_eq!(bounds(&reads, level0(4, MIB)), (1, 20));
        // Compactions that nobody has paid for make it long again.
        (0..9).for_each(|_| reads.compacted(level0(16, 1 << 40)));
        assert_eq!(bounds(&reads, level0(4, MIB)), (16, 48));
    }

    #[test]
    fn a_level_0_that_is_a_large_part_of_all_is_due_at_once() {
        let reads = Level0Reads::new(&Arc::default());
        let of = |all_bytes| bounds(&reads, Level0 { all_bytes, ..level0(5, 2 * MIB) });
        assert_eq!((of(8 * MIB - 1), of(8 * MIB)), ((4, 48), (16, 48)));
    }

    #[test]
    fn many_reads_wake_the_compactors() {
        let wake = Arc::new(CompactorsWake::default());
        let reads = Level0Reads::new(&wake);
        let event = Arc::<Event>::default();
        wake.set(&event);
        let ticket = event.ticket();
        (0..1000).for_each(|_| reads.count_get());
        assert!(!event.passed(ticket));
        (0..100_000).for_each(|_| reads.count_get());
        assert!(event.passed(ticket));
    }
}
