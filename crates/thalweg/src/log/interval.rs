//! The sync at intervals: the background coroutine that bounds how much a power cut may take from buffered writes.

use super::open::Log;
use std::sync::Arc;

impl Log {
    /// Syncs the log at intervals. From the publication of a record at most one interval passes until a sync that
    /// covers it is issued, unless a sync is in flight that no other may join.
    pub(super) async fn sync_at_intervals(self: Arc<Self>) {
        let Some(interval) = self.options.sync_interval else {
            return;
        };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let is_behind = || self.published().position > self.durable();
        loop {
            let condition = || (self.is_ended() || is_behind()).then_some(());
            self.environment.until(&self.advanced, condition).await;
            let (ticket, now_ns) = (self.ended.ticket(), self.environment.clock.now_ns());
            if self.is_ended() {
                return;
            }
            // This coroutine or one of those that answer callbacks may have kept the worker busy.
            let waited_ns = self.last_in_background().map_or(0, |last| last.waited_ns(now_ns, interval_ns));
            if waited_ns < interval_ns {
                self.environment.sleep_or(interval_ns - waited_ns, &self.ended, ticket).await;
            }
            if self.is_ended() {
                return;
            }
            if self.sync_in_background(self.published().position).await.is_err() {
                return;
            }
        }
    }
}
