//! [`ReadSampler`]: the reads of a partition that reach its fast tables, or its level 0, one in 16 counted.

use crate::metrics::{Counter, READ_STRIPES, read_stripe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One read of this many is counted, as this many.
const SAMPLE: u32 = 16;
/// A stripe passes this many reads on at once to the number that all stripes share.
const STRIPE_READS: u64 = 4 << 10;
/// The models decide again after this many reads, because a phase of reads has no flush (PMB-A11).
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
#[derive(Debug)]
pub(crate) struct ReadSampler {
    stripes: [Stripe; READ_STRIPES],
    /// A seek counts as `seek_weight` point reads towards the next decision.
    seek_weight: u64,
    /// Reads that stripes have passed on, by their weight.
    passed_on: Counter,
    decisions_due: AtomicU64,
}

impl Default for ReadSampler {
    fn default() -> Self {
        ReadSampler::weighing_seeks(1)
    }
}

impl ReadSampler {
    /// A sampler in which a seek counts as `seek_weight` point reads.
    pub(crate) fn weighing_seeks(seek_weight: u64) -> ReadSampler {
        let (stripes, passed_on) = Default::default();
        ReadSampler { stripes, seek_weight, passed_on, decisions_due: AtomicU64::new(0) }
    }

    /// Counts a point read. `true`: it is time to decide again.
    #[inline]
    pub(crate) fn count_get(&self) -> bool {
        let counted = self.stripes[read_stripe()].gets.tick();
        counted.is_some_and(|counted| self.pass_on(counted, 1))
    }

    /// As [`ReadSampler::count_get`], for a seek of a range.
    #[inline]
    pub(crate) fn count_seek(&self) -> bool {
        let counted = self.stripes[read_stripe()].seeks.tick();
        counted.is_some_and(|counted| self.pass_on(counted, self.seek_weight))
    }

    /// Whether the reads of all stripes have crossed a multiple of [`READS_A_DECISION`] with those passed on now.
    #[cold]
    fn pass_on(&self, counted: u64, weight: u64) -> bool {
        if !counted.is_multiple_of(STRIPE_READS) {
            return false;
        }
        self.passed_on.add(STRIPE_READS * weight);
        let due = self.passed_on.get() / READS_A_DECISION;
        self.decisions_due.fetch_max(due, Ordering::Relaxed) < due
    }

    pub(crate) fn gets(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.gets.counted.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn seeks(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.seeks.counted.load(Ordering::Relaxed)).sum()
    }
}
