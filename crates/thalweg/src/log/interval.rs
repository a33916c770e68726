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
        // When the last sync was issued, and whether there were newer records at its end.
        let mut last: Option<(u64, bool)> = None;
        loop {
            let condition = || (self.is_ended() || is_behind()).then_some(());
            self.environment.until(&self.advanced, condition).await;
            let (ticket, now_ns) = (self.ended.ticket(), self.environment.clock.now_ns());
            if self.is_ended() {
                return;
            }
            // A record that is seen now may have been published right after the last look, while this worker was busy.
            // After a longer rest it was not: the first record wakes this coroutine.
            let passed_ns = match last {
                Some((issued_ns, true)) => now_ns.saturating_sub(issued_ns),
                Some((issued_ns, false)) if now_ns.saturating_sub(issued_ns) < interval_ns => now_ns - issued_ns,
                _ => 0,
            };
            if passed_ns < interval_ns {
                self.environment.sleep_or(interval_ns - passed_ns, &self.ended, ticket).await;
            }
            if self.is_ended() {
                return;
            }
            let issued_ns = self.environment.clock.now_ns();
            if self.sync_in_background(self.published().position).await.is_err() {
                return;
            }
            // Records published while the sync was in flight have waited since its issue.
            last = Some((issued_ns, is_behind()));
        }
    }
}
