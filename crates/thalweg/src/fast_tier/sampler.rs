//! [`ReadSampler`]: the reads of a partition that reach its fast tables, one in 16 counted.

use crate::metrics::{Counter, READ_STRIPES, read_stripe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One read of this many is counted, as this many.
const SAMPLE: u32 = 16;
/// A stripe passes this many reads on at once to the number that all stripes share.
const STRIPE_READS: u64 = 4 << 10;
/// The models are asked again after this many reads: a phase of reads has no flush to ask at (PMB-A11).
const READS_A_DECISION: u64 = 64 << 10;

/// Each stripe has its own cache lines, so that reading threads do not contend.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    gets: Sampled,
    seeks: Sampled,
}

/// A number of reads. The ticks are no atomic increments, so a thread that shares the stripe may lose some.
#[derive(Debug, Default)]
struct Sampled {
    ticks: AtomicU32,
    counted: AtomicU64,
}

impl Sampled {
    /// How many reads the stripe has counted with this one, if it is one in [`SAMPLE`].
    #[inline]
    fn tick(&self) -> Option<u64> {
        let ticks = self.ticks.load(Ordering::Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Ordering::Relaxed);
        if !ticks.is_multiple_of(SAMPLE) {
            return None;
        }
        Some(self.counted.fetch_add(u64::from(SAMPLE), Ordering::Relaxed) + u64::from(SAMPLE))
    }
}

/// See the module. Never zeroed (PMB-A3).
#[derive(Debug, Default)]
pub(super) struct ReadSampler {
    stripes: [Stripe; READ_STRIPES],
    /// Reads that stripes have passed on.
    passed_on: Counter,
    decisions_due: AtomicU64,
}

impl ReadSampler {
    /// Counts a point read. `true`: the models are due.
    #[inline]
    pub(super) fn count_get(&self) -> bool {
        let counted = self.stripes[read_stripe()].gets.tick();
        counted.is_some_and(|counted| self.pass_on(counted))
    }

    /// As [`ReadSampler::count_get`], for a seek of a range.
    #[inline]
    pub(super) fn count_seek(&self) -> bool {
        let counted = self.stripes[read_stripe()].seeks.tick();
        counted.is_some_and(|counted| self.pass_on(counted))
    }

    /// Whether the reads of all stripes have crossed a multiple of [`READS_A_DECISION`] with those passed on now.
    #[cold]
    fn pass_on(&self, counted: u64) -> bool {
        if !counted.is_multiple_of(STRIPE_READS) {
            return false;
        }
        self.passed_on.add(STRIPE_READS);
        let due = self.passed_on.get() / READS_A_DECISION;
        self.decisions_due.fetch_max(due, Ordering::Relaxed) < due
    }

    pub(super) fn gets(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.gets.counted.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn seeks(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.seeks.counted.load(Ordering::Relaxed)).sum()
    }
}
