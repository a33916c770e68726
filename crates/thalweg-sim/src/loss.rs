//! [`LossBound`]: no published record stays undurable for longer than the log's interval and one sync.
//!
//! The check reads the engine's own positions at every step. A crash shows whether they are true: writes acknowledged
//! longer ago than the bound must be there (`Session::crash`).

use crate::plan::Plan;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slack for the steps in which coroutines notify each other.
const SLACK_NS: u64 = 6_000_000;

/// The longest time that a record may wait: the interval and one sync. If a sync takes longer than the interval, the
/// record may also wait for the sync in flight. Without rings a sync syncs its `segments` one after the other.
pub(crate) fn bound_ns(plan: &Plan, segments: u64) -> Option<u64> {
    let in_a_row = if plan.has_rings { 1 } else { segments.max(1) };
    let (interval_ns, sync_ns) = (plan.log_sync_interval_ns()?, plan.sync_ns_max() * in_a_row);
    Some(interval_ns.max(sync_ns) + sync_ns + SLACK_NS)
}

/// A check of the bound, at every step.
pub(crate) struct LossBound {
    plan: Plan,
    progress: Box<dyn Fn() -> Option<(u64, u64)> + Send>,
    /// Published positions of the log, with the time of each.
    published: VecDeque<(u64, u64)>,
    /// The greatest number of undurable segments since the whole log was last durable.
    segments: u64,
    /// The greatest number of undurable segments in this life.
    segments_max: Arc<AtomicU64>,
}

impl LossBound {
    pub(crate) fn new(
        plan: Plan,
        progress: Box<dyn Fn() -> Option<(u64, u64)> + Send>,
        segments_max: Arc<AtomicU64>,
    ) -> Self {
        LossBound { plan, progress, published: VecDeque::new(), segments: 0, segments_max }
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
        let segments = if self.published.is_empty() { 0 } else { (published >> 32) - (durable >> 32) + 1 };
        self.segments = if segments == 0 { 0 } else { self.segments.max(segments) };
        self.segments_max.fetch_max(segments, Ordering::Relaxed);
        let Some(bound_ns) = bound_ns(&self.plan, self.segments) else { return };
        if let Some((position, since_ns)) = self.published.front() {
            let waited_ns = now_ns - since_ns;
            assert!(
                waited_ns <= bound_ns,
                "a record is not durable {waited_ns} ns after it was published, at most {bound_ns} are allowed (it \
                 ends at {position:#x}, the frontier is {durable:#x})"
            );
        }
    }
}
