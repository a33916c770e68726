//! [`ReadSampler`]: counts one in 16 of the reads of a partition that reach its fast tables, or its level 0.

use crate::metrics::{Counter, READ_STRIPES, read_stripe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One read in this many is counted, as this many reads.
const SAMPLE: u32 = 16;
/// A stripe adds its reads to the counter of all stripes in portions of this many.
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

/// A number of reads. The ticks are not incremented atomically, so a thread that shares the stripe may lose some.
#[derive(Debug, Default)]
struct Sampled {
    ticks: AtomicU32,
    counted: AtomicU64,
}

impl Sampled {
    /// Counts a read. If it is the one in [`SAMPLE`], returns how many reads the stripe has counted with it.
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
    /// The reads that stripes have passed on, by their weight.
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

    /// Counts a point read. Returns `true` if it is time to decide again.
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

    /// Passes the reads on if a portion is full. Returns whether all reads passed on have crossed a multiple of
    /// [`READS_A_DECISION`].
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
