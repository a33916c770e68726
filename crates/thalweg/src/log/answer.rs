//! The coroutines that make the log durable for the callbacks that wait, and call them.
//!
//! There is one for each sync that may be in flight. Each leads a sync when the callbacks that wait, and the threads
//! that wait with them, may have one (`frontier.rs`). Otherwise it waits: the end of each sync wakes it, and each
//! callback that no sync covers.

use super::callbacks::Callbacks;
use super::frontier::SyncJob;
use super::open::Log;
use super::syncs::IN_FLIGHT_MAX;
use crate::format::LogPosition;
use crate::planted::{Bug, planted};
use std::sync::Arc;

/// Ends the callbacks with the last of the coroutines, however that ends.
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
                    // A thread that was woken alone to lead may have left that to this coroutine.
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

    /// Returns what there is to do, if anything. Callbacks that are due go before the end.
    fn next_step(&self, callbacks: &Callbacks) -> Option<Step<'_>> {
        if callbacks.is_due(self.answerable()) {
            return Some(Step::Call);
        }
        if self.is_ended() || self.failure().is_some() {
            return Some(Step::End);
        }
        self.lead_for_callbacks().map(Step::Run)
    }

    /// Returns up to where callbacks may be called.
    fn answerable(&self) -> LogPosition {
        if planted(Bug::TicketTooEarly) { self.published().position } else { self.durable() }
    }
}
