//! [`LossBound`]: no published record stays undurable for longer than the log's interval and one sync.
//!
//! It reads the engine's own positions at every step. A crash shows that these are true: what was acknowledged longer
//! ago than the bound must be there (`Session::crash`).

use crate::plan::Plan;
use std::collections::VecDeque;

/// Slack for the steps in which coroutines notify each other.
const SLACK_NS: u64 = 6_000_000;

/// How long a record may wait: the interval and one sync. Where a sync takes longer than the interval, the record may
/// also wait for the sync in flight.
pub(crate) fn bound_ns(plan: &Plan) -> Option<u64> {
    let (interval_ns, sync_ns) = (plan.log_sync_interval_ns()?, plan.sync_ns_max());
    Some(interval_ns.max(sync_ns) + sync_ns + SLACK_NS)
}

/// A check of the bound, at every step.
pub(crate) struct LossBound {
    bound_ns: u64,
    progress: Box<dyn Fn() -> Option<(u64, u64)> + Send>,
    /// Positions up to which the log was published, with the time of each.
    published: VecDeque<(u64, u64)>,
}

impl LossBound {
    pub(crate) fn new(bound_ns: u64, progress: Box<dyn Fn() -> Option<(u64, u64)> + Send>) -> Self {
        LossBound { bound_ns, progress, published: VecDeque::new() }
    }

    /// Panics when a record has waited too long.
    pub(crate) fn look(&mut self, now_ns: u64) {
        let Some((published, durable)) = (self.progress)() else { return self.published.clear() };
        if self.published.back().is_none_or(|(position, _)| *position < published) {
            self.published.push_back((published, now_ns));
        }
        while self.published.front().is_some_and(|(position, _)| *position <= durable) {
            self.published.pop_front();
        }
        if let Some((position, since_ns)) = self.published.front() {
            let waited_ns = now_ns - since_ns;
            assert!(
                waited_ns <= self.bound_ns,
                "a record is not durable {waited_ns} ns after it was published, at most {} are allowed (it ends at \
                 {position:#x}, the frontier is {durable:#x})",
                self.bound_ns
            );
        }
    }
}
