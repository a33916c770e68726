//! The settler: the background coroutine that runs settle rounds until every edit is settled, even if no new edits
//! come. It also replaces a manifest that has grown long.
//!
//! On a full disk it tries again later.

use crate::error::Error;
use crate::lineage::open::Lineage;
use crate::lineage::settle::append::is_full;
use crate::lineage::settle::backend::Rule;
use crate::lineage::settle::pressure::Reason;
use crate::runtime::yield_now;
use crate::trace;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After how many intervals the journal is polled (NOB-6): 5 s with the default interval of 1 s.
const POLL_INTERVALS: u64 = 5;

/// Runs until [`Lineage::stop`].
pub(in crate::lineage) async fn run(lineage: Arc<Lineage>) {
    let mut due_ns = None;
    loop {
        let ticket = lineage.wake.ticket();
        let is_sound = lineage.check().is_ok();
        if lineage.stopping.load(Ordering::Acquire) {
            return;
        }
        if is_sound && lineage.wants_rotation() && lineage.rotate().await.is_ok() {
            continue;
        }
        let Some(reason) = lineage.reason_to_settle().filter(|_| is_sound) else {
            due_ns = None;
            lineage.wake.listen(ticket).await;
            continue;
        };
        let now_ns = lineage.environment.clock.now_ns();
        let at_ns = *due_ns.get_or_insert(now_ns.saturating_add(lineage.settle_delay_ns()));
        if reason == Reason::Time && now_ns < at_ns {
            lineage.environment.sleep_or(at_ns - now_ns, &lineage.wake, ticket).await;
            continue;
        }
        due_ns = None;
        let rounds = &lineage.rounds_for_space;
        let is_for_space =
            rounds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rounds| rounds.checked_sub(1)).is_ok();
        let done = trace::spanned!(
            "thalweg::settle",
            "settle_round",
            { reason = reason.name(), edits = lineage.unsettled().0 },
            lineage.settle_round(reason)
        );
        if is_for_space || is_full(&done) {
            lineage.presses.store(true, Ordering::Relaxed);
            lineage.wake.notify_all();
        }
        match done {
            Ok(()) => {
                trace::event!(INFO, "thalweg::settle", "round ended", left = lineage.unsettled().0);
                lineage.health.rounds.clear();
                lineage.replenish_reserve();
            }
            Err(error) => {
                let delay_ns = lineage.settling_failed(error);
                // The settler waits under pressure, too: a disk that was full a moment ago still is.
                let ticket = lineage.wake.ticket();
                lineage.environment.sleep_or(delay_ns, &lineage.wake, ticket).await;
            }
        }
        yield_now().await;
    }
}

impl Lineage {
    /// Returns how long edits wait for others to settle with, unless there is a reason to settle sooner.
    fn settle_delay_ns(&self) -> u64 {
        match self.backend.rule() {
            Rule::Commits => self.settling.interval_ns.saturating_mul(POLL_INTERVALS),
            _ => self.settling.interval_ns,
        }
    }

    /// Passes the failure on to waiting callers. Returns after how many nanoseconds the settler tries again; a new
    /// request makes it try sooner.
    fn settling_failed(&self, error: Error) -> u64 {
        let now_ns = self.environment.clock.now_ns();
        let trouble = self.health.rounds.record(error.clone(), now_ns);
        let delay_ns = trouble.retry_at_ns.unwrap_or(now_ns).saturating_sub(now_ns);
        self.health.report(trouble);
        {
            let book = &mut *self.book();
            book.failures += 1;
            book.failure = Some(error);
            book.wanted = book.ledger.settled();
        }
        self.changed.notify_all();
        delay_ns
    }
}
