//! [`Courtesy`]: when a worker leaves its processor to threads that wait for it.
//!
//! A caller that wakes up while all processors are busy waits until the kernel takes one away from the thread that runs
//! on it. Linux lets that thread run until its slice ends, about 3 ms: a thousand times as long as the caller needs. So
//! a worker *yields* after each [`TURN_NS`] that it has run. If no thread waits, a yield costs only a system call.
//!
//! Linux 6.18 treats a yield as the end of the slice: a thread that yields every 100 µs gets 7 % of a processor that it
//! shares with a thread that never sleeps. Compactions would then be slow, and in the end writers would wait for them.
//! So a worker yields only while its yields have not taken more time than it has run. It keeps half of a processor.

use crate::clock::Clock;

/// How long a worker runs before it yields.
const TURN_NS: u64 = 100_000;

/// The greatest [`Courtesy::ahead_ns`].
const AHEAD_MAX_NS: i64 = 4_000_000;

/// The balance of one worker, which decides when it yields.
pub(super) struct Courtesy {
    /// Since when the worker has run.
    since_ns: u64,
    /// The time that the worker has run minus the time that its yields took.
    ahead_ns: i64,
}

impl Courtesy {
    /// The balance of a worker that runs since `now_ns`.
    pub(super) fn new(now_ns: u64) -> Self {
        Courtesy { since_ns: now_ns, ahead_ns: AHEAD_MAX_NS }
    }

    /// Yields, if that is due.
    pub(super) fn yield_if_due(&mut self, clock: &dyn Clock) {
        if self.is_due(clock.now_ns()) {
            std::thread::yield_now();
            self.yielded(clock.now_ns());
        }
    }

    /// Runs `wait`, in which the worker waits for work. The wait counts neither as running nor as yielding.
    pub(super) fn rest(&mut self, clock: &dyn Clock, wait: impl FnOnce()) {
        wait();
        self.rested(clock.now_ns());
    }

    fn rested(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Whether the worker should yield at `now_ns`.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let ran_ns = now_ns.saturating_sub(self.since_ns);
        if ran_ns < TURN_NS {
            return false;
        }
        self.since_ns = now_ns;
        self.ahead_ns = self.ahead_ns.saturating_add_unsigned(ran_ns).min(AHEAD_MAX_NS);
        self.ahead_ns >= 0
    }

    /// Notes that the due yield has ended at `now_ns`.
    fn yielded(&mut self, now_ns: u64) {
        self.ahead_ns = self.ahead_ns.saturating_sub_unsigned(now_ns.saturating_sub(self.since_ns));
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for `all_ns` beside others, who keep the processor for `away_ns` whenever they get it. Returns what the
    /// worker has run, and the longest time for which others waited.
    fn share(all_ns: u64, away_ns: u64) -> (u64, u64) {
        let mut courtesy = Courtesy::new(0);
        let (mut now_ns, mut ran_ns, mut turn_ns, mut longest_ns) = (0, 0, 0, 0);
        while now_ns < all_ns {
            now_ns += TURN_NS / 2;
            ran_ns += TURN_NS / 2;
            turn_ns += TURN_NS / 2;
            longest_ns = turn_ns.max(longest_ns);
            if courtesy.is_due(now_ns) {
                now_ns += away_ns;
                courtesy.yielded(now_ns);
                turn_ns = 0;
            }
        }
        (ran_ns, longest_ns)
    }

    #[test]
    fn a_caller_that_needs_little_waits_for_a_turn_at_most() {
        let (ran_ns, longest_ns) = share(1_000_000_000, 20_000);
        assert_eq!(longest_ns, TURN_NS);
        assert!(ran_ns > 800_000_000, "{ran_ns}");
    }

    #[test]
    fn beside_threads_that_never_sleep_a_worker_keeps_half_of_its_processor() {
        for away_ns in [TURN_NS + 1, 3_000_000, 50_000_000] {
            let (ran_ns, _) = share(1_000_000_000, away_ns);
            assert!((450_000_000..550_000_000).contains(&ran_ns), "{ran_ns} beside turns of {away_ns}");
        }
    }

    #[test]
    fn a_worker_that_has_rested_does_not_yield_at_once() {
        let mut courtesy = Courtesy::new(0);
        assert!(courtesy.is_due(TURN_NS) && !courtesy.is_due(TURN_NS + 1));
        courtesy.rested(9 * TURN_NS);
        assert!(!courtesy.is_due(9 * TURN_NS + 1) && courtesy.is_due(10 * TURN_NS));
    }
}
