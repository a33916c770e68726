//! The sync at intervals: the background coroutine that bounds how much a power cut may take from buffered writes.

use super::open::Log;
use super::syncs::RunSync;
use std::sync::Arc;

impl Log {
    /// Syncs the log at intervals. A sync that covers a record is issued at most one interval after the publication of
    /// the record, unless a sync in flight allows no other beside it.
    pub(super) async fn sync_at_intervals(self: Arc<Self>) {
        let Some(interval) = self.options.sync_interval else {
            return;
        };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let is_behind = || self.published().position > self.durable();
        // The last sync that this coroutine waited for, perhaps one that a caller ran.
        let mut own: Option<RunSync> = None;
        loop {
            let condition = || (self.is_ended() || is_behind()).then_some(());
            self.environment.until(&self.advanced, condition).await;
            let (ticket, now_ns) = (self.ended.ticket(), self.environment.clock.now_ns());
            if self.is_ended() {
                return;
            }
            // A record may have been published while this coroutine did not look, because it waited for a sync itself,
            // or because a coroutine that answers callbacks kept the worker busy.
            let last = [own, self.last_in_background()];
            let waited_ns = last.iter().flatten().map(|last| last.waited_ns(now_ns, interval_ns)).max().unwrap_or(0);
            if waited_ns < interval_ns {
                self.environment.sleep_or(interval_ns - waited_ns, &self.ended, ticket).await;
            }
            if self.is_ended() {
                return;
            }
            let issued_ns = self.environment.clock.now_ns();
            if self.sync_in_background(self.published().position).await.is_err() {
                return;
            }
            own = Some(RunSync { issued_ns, was_outrun: is_behind() });
        }
    }
}
