//! [`CompactionPace`]: how fast compactions may go while nobody waits for them.
//!
//! A merge at full speed takes the device and a processor for seconds; then there is nothing to do for longer. Reads
//! that come during the merge wait behind its reads and writes: a read that takes 50 µs before and afterwards takes 1
//! to 10 ms, and a caller that needs faster reads falls behind. So compactions go at
//!
//! ```text
//! 1.5 × (bytes flushed + bytes merged) a second, of the last seconds, and 64 MB/s at least
//! ```
//!
//! all together. That is more than the average work, so compactions keep up, and their work is spread over most of the
//! time. They go as fast as they can while somebody waits: while a writer is slowed down for level 0, while a caller
//! waits for the background, and in a job that a caller has asked for. Other jobs hardly rest in that time either.
//!
//! Balmau et al., "SILK: Preventing Latency Spikes in Log-Structured Merge Key-Value Stores", USENIX ATC 2019, show
//! that bursts of background work make the tail long, and that they should be spread where there is time. SILK gives
//! the background the part of a known bandwidth that clients leave. Here no bandwidth is known.
//!
//! Locks: `work` is held for arithmetic.

use crate::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Work of this age counts 1/e of the latest work.
const WINDOW_NS: f64 = 10e9;

/// The pace is this many times the work of a second.
const FACTOR: f64 = 1.5;

/// The least pace, in bytes a second: that of a database that has just been opened.
const PACE_MIN: f64 = 64e6;

/// A merge does not rest for a shorter time: a timer would cost more than it spreads.
const REST_MIN_NS: u64 = 1_000_000;

/// A merge does not rest for longer at a time: after that it looks again whether somebody waits.
const REST_MAX_NS: u64 = 10_000_000;

/// The schedule is at most this far ahead.
const AHEAD_MAX_NS: u64 = 1_000_000_000;

/// Merges that were slow for another reason catch up by at most this much.
const BEHIND_MAX_NS: u64 = 2_000_000;

/// Compactions do not rest for this time after a writer was slowed down for level 0.
const HURRY_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct CompactionPace {
    work: Mutex<Work>,
    /// Until when compactions do not rest.
    hurry_until_ns: AtomicU64,
}

#[derive(Default)]
struct Work {
    /// Bytes flushed and merged until `at_ns`, weighted by their age.
    bytes: f64,
    at_ns: u64,
    /// The end of the schedule that all merges share.
    until_ns: u64,
}

impl Work {
    fn add(&mut self, now_ns: u64, bytes: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns) as f64;
        self.bytes = self.bytes * (-passed_ns / WINDOW_NS).exp() + bytes as f64;
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// Nanoseconds a byte.
    fn pace(&self) -> f64 {
        1e9 / (FACTOR * self.bytes / WINDOW_NS * 1e9).max(PACE_MIN)
    }
}

impl CompactionPace {
    /// Notes that memtables of `bytes` were flushed.
    pub(crate) fn flushed(&self, now_ns: u64, bytes: u64) {
        self.work.lock().add(now_ns, bytes);
    }

    /// Notes that a writer is slowed down for level 0.
    pub(crate) fn hurry(&self, now_ns: u64) {
        self.hurry_until_ns.store(now_ns.saturating_add(HURRY_NS), Ordering::Relaxed);
    }

    /// Notes that a merge has read `bytes`. Returns how long the merge should rest if nobody waits for it. After the
    /// rest the merge calls this again, with 0 bytes.
    pub(crate) fn merged(&self, now_ns: u64, bytes: u64, is_awaited: bool) -> Option<u64> {
        let mut work = self.work.lock();
        work.add(now_ns, bytes);
        if is_awaited || now_ns < self.hurry_until_ns.load(Ordering::Relaxed) {
            work.until_ns = now_ns;
            return None;
        }
        let cost_ns = (bytes as f64 * work.pace()) as u64;
        let from_ns = work.until_ns.clamp(now_ns.saturating_sub(BEHIND_MAX_NS), now_ns.saturating_add(AHEAD_MAX_NS));
        work.until_ns = from_ns.saturating_add(cost_ns);
        let rest_ns = work.until_ns.saturating_sub(now_ns);
        (rest_ns >= REST_MIN_NS).then_some(rest_ns.min(REST_MAX_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 64 << 10;
    const SECOND: u64 = 1_000_000_000;

    /// Merges for `seconds`, at 1 GB/s where it does not rest. Returns the bytes a second.
    fn merge(pace: &CompactionPace, from_ns: u64, seconds: u64) -> f64 {
        let (mut now_ns, mut bytes) = (from_ns, 0);
        while now_ns < from_ns + seconds * SECOND {
            now_ns += STEP;
            bytes += STEP;
            now_ns += pace.merged(now_ns, STEP, false).unwrap_or(0);
        }
        bytes as f64 / seconds as f64
    }

    #[test]
    fn after_a_quiet_time_merges_go_at_the_least_pace_and_then_faster_and_faster() {
        let pace = CompactionPace::default();
        let rates: Vec<f64> = (0..8).map(|n| merge(&pace, 100 * SECOND + n * 20 * SECOND, 20)).collect();
        assert!((60e6..80e6).contains(&rates[0]), "{rates:?}");
        assert!(rates.windows(2).all(|pair| pair[0] <= pair[1] * 1.01) && rates[7] > 500e6, "{rates:?}");
    }

    #[test]
    fn work_that_comes_at_a_steady_rate_is_spread_over_time() {
        let pace = CompactionPace::default();
        // Each second 30 MB are flushed, and 60 MB are to be merged.
        let (mut now_ns, mut took_ns) = (100 * SECOND, 0);
        for second in 101..200 {
            pace.flushed(now_ns, 30_000_000);
            let begun_ns = now_ns;
            for _ in 0..60_000_000 / STEP {
                now_ns += STEP;
                now_ns += pace.merged(now_ns, STEP, false).unwrap_or(0);
            }
            took_ns = now_ns - begun_ns;
            assert!(now_ns < (second + 1) * SECOND, "it falls behind in second {second}");
            now_ns = now_ns.max(second * SECOND);
        }
        assert!((300_000_000..450_000_000).contains(&took_ns), "60 MB in {took_ns} ns");
    }

    #[test]
    fn nobody_rests_while_somebody_waits() {
        let pace = CompactionPace::default();
        let at = 100 * SECOND;
        assert!((0..1000).all(|_| pace.merged(at, STEP, true).is_none()));
        pace.hurry(at);
        assert!((0..1000).all(|_| pace.merged(at, STEP, false).is_none()));
        let later = at + HURRY_NS;
        assert!((0..1000).any(|_| pace.merged(later, STEP, false).is_some()));
    }

    #[test]
    fn a_rest_is_neither_short_nor_long() {
        let pace = CompactionPace::default();
        let rests: Vec<u64> = (0..1000).filter_map(|_| pace.merged(100 * SECOND, STEP, false)).collect();
        assert!(rests.len() > 900 && rests.iter().all(|rest| (REST_MIN_NS..=REST_MAX_NS).contains(rest)));
    }
}
