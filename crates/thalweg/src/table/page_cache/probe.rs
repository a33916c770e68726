//! [`PageCacheProbe`]: whether the page cache keeps what it was given, as reads of all tables of a database observe.
//!
//! Now and then a read checks whether a piece of a table that the page cache was given is still there. Memory is short
//! while most of the recent checks found the piece gone.
//!
//! Deterministic: counts of reads decide, not time. No locks: relaxed atomics; a lost update is one check less.

use std::sync::atomic::{AtomicU32, Ordering};

/// Memory is short when at least this many of the 32 most recent checks found the piece gone.
const GONE_MIN: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::table) struct PageCacheProbe {
    /// A bit for each of the 32 most recent checks; set where the piece was gone.
    checks: AtomicU32,
    reads: AtomicU32,
}

impl PageCacheProbe {
    /// Whether memory is too short for what the page cache was given.
    pub(in crate::table) fn is_short(&self) -> bool {
        self.checks.load(Ordering::Relaxed).count_ones() >= GONE_MIN
    }

    /// Records the result of a check.
    pub(in crate::table) fn record(&self, is_cached: bool) {
        let checks = self.checks.load(Ordering::Relaxed);
        self.checks.store(checks << 1 | u32::from(!is_cached), Ordering::Relaxed);
    }

    /// Counts a read, and returns `true` for one in `every`.
    pub(in crate::table) fn is_turn(&self, every: u32) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_while_most_checks_find_nothing() {
        let probe = PageCacheProbe::default();
        assert!(!probe.is_short(), "before any check");
        (0..15).for_each(|_| probe.record(false));
        assert!(!probe.is_short());
        probe.record(false);
        assert!(probe.is_short());
        (0..17).for_each(|_| probe.record(true));
        assert!(!probe.is_short(), "there is enough again");
    }

    #[test]
    fn one_read_in_every_n_has_its_turn() {
        let probe = PageCacheProbe::default();
        assert_eq!((0..800).filter(|_| probe.is_turn(8)).count(), 100);
    }
}
