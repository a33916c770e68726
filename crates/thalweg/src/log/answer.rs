//! The coroutines that make the log durable for waiting callbacks, and call these callbacks.
//!
//! There is one coroutine for each sync that may be in flight. A coroutine leads a sync when the waiting callbacks and
//! the threads that wait with them may have one (`frontier.rs`). Otherwise it waits. The end of each sync wakes it, and
//! so does each callback that no sync covers.

use super::callbacks::Callbacks;
use super::frontier::SyncJob;
use super::open::Log;
use super::syncs::IN_FLIGHT_MAX;
use crate::format::LogPosition;
use crate::planted::{Bug, planted};
use std::sync::Arc;

/// Ends the callbacks when the last coroutine is gone, whether it finished or was dropped.
struct End(Arc<Callbacks>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The next step of a coroutine.
enum Step<'a> {
    End,
    Call,
    Run(SyncJob<'a>),
}

impl Log {
    /// Returns the coroutines. Each callback is called soon after its position is durable.
    pub(super) fn answer_callbacks(self: &Arc<Self>) -> [impl Future<Output = ()> + Send + use<>; IN_FLIGHT_MAX] {
        self.callbacks.begin();
        let end = Arc::new(End(Arc::clone(&self.callbacks)));
        std::array::from_fn(|_| Arc::clone(self).answer(Arc::clone(&end)))
    }

    async fn answer(self: Arc<Self>, end: Arc<End>) {
        let callbacks = &end.0;
        loop {
            match self.environment.until(&callbacks.wanted, || self.next_step(callbacks)).await {
                Step::End => {
                    // A thread that was woken alone to lead a sync may have left the sync to this coroutine.
                    self.wake_all_groups();
                    return;
                }
                Step::Call => callbacks.call_up_to(|| self.answerable()),
                Step::Run(job) => {
                    let result = job.run_in_background().await;
                    if self.finish_sync(job, result).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the next step, if there is one. Due callbacks are called before the coroutine ends.
    fn next_step(&self, callbacks: &Callbacks) -> Option<Step<'_>> {
        if callbacks.is_due(self.answerable()) {
            return Some(Step::Call);
        }
        if self.is_ended() || self.failure().is_some() {
            return Some(Step::End);
        }
        self.lead_for_callbacks().map(Step::Run)
    }

    /// Returns the position up to which callbacks may be called.
    fn answerable(&self) -> LogPosition {
        if planted(Bug::TicketTooEarly) { self.published().position } else { self.durable() }
    }
}
