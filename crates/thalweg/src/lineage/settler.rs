//! The settler: the background coroutine that brings every edit to its last station (`super::settle`), also without new
//! edits, unlinks what nobody reads any more, and replaces a manifest that has grown long.
//!
//! It gives up nothing when the disk is full: it tries again a while later. Poisoned, it unlinks nothing.

use super::Lineage;
use crate::error::Result;
use crate::runtime::yield_now;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Edits that nobody waits for are settled this much later, so that one sync serves many.
const SETTLE_DELAY_NS: u64 = 100_000_000;

/// Tables that only a reader keeps are looked at again this much later.
const READERS_DELAY_NS: u64 = 1_000_000_000;

/// Runs until [`Lineage::stop`].
pub(super) async fn run(lineage: Arc<Lineage>) {
    let mut due_ns = None;
    loop {
        let ticket = lineage.wake.ticket();
        let is_sound = lineage.check().is_ok();
        if is_sound {
            lineage.unlink_free().await;
        }
        if lineage.stopping.load(Ordering::Acquire) {
            return;
        }
        if is_sound && lineage.wants_rotation() && lineage.rotate().await.is_ok() {
            continue;
        }
        let Some(is_urgent) = lineage.unsettled().filter(|_| is_sound) else {
            due_ns = None;
            if is_sound && lineage.retains_for_readers() {
                // A point read that kept a table does not say when it is over.
                lineage.environment.sleep_or(READERS_DELAY_NS, &lineage.wake, ticket).await;
            } else {
                lineage.wake.listen(ticket).await;
            }
            continue;
        };
        let now_ns = lineage.environment.clock.now_ns();
        let at_ns = *due_ns.get_or_insert(now_ns.saturating_add(SETTLE_DELAY_NS));
        if !is_urgent && now_ns < at_ns {
            lineage.environment.sleep_or(at_ns - now_ns, &lineage.wake, ticket).await;
            continue;
        }
        due_ns = None;
        match lineage.settle_all().await {
            Ok(()) => lineage.reserve.replenish(&*lineage.environment.storage),
            Err(error) => lineage.settling_failed(error),
        }
        yield_now().await;
    }
}

impl Lineage {
    /// Whether something is unsettled, and whether somebody waits for that.
    fn unsettled(&self) -> Option<bool> {
        let book = self.book();
        let settled = book.ledger.settled();
        (settled < book.ledger.appended()).then_some(settled < book.wanted)
    }

    /// All stations, for the edits appended so far.
    async fn settle_all(&self) -> Result<()> {
        let target = self.book().ledger.appended();
        self.sync_until(|ledger| ledger.durable() >= target).await?;
        self.record_settled().await?;
        let recorded = self.book().ledger.recorded();
        self.sync_until(|ledger| ledger.settled() >= recorded).await
    }

    /// Tells those who wait; the next try comes when somebody asks again, or after the delay.
    fn settling_failed(&self, error: crate::error::Error) {
        {
            let book = &mut *self.book();
            book.failures += 1;
            book.failure = Some(error);
            book.wanted = book.ledger.settled();
        }
        self.changed.notify_all();
    }

    /// Whether settled inputs are on disk only because somebody reads them.
    fn retains_for_readers(&self) -> bool {
        self.book().retained.bytes() > 0
    }

    /// Unlinks the settled inputs that nobody holds. A file that stays is an orphan for the next open.
    async fn unlink_free(&self) {
        // A checkpoint that begins after this look cannot name them: no state names the inputs of a settled edit.
        if self.holds.load(Ordering::SeqCst) > 0 {
            return;
        }
        let free = {
            let mut book = self.book();
            let free = book.retained.take_free();
            self.readers_awaited.store(book.retained.bytes() > 0, Ordering::Relaxed);
            free
        };
        for id in free {
            yield_now().await;
            let _ = self.neighbours().remove_table(id);
        }
    }
}
