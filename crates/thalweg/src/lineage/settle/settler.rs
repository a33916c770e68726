//! The settler: the background coroutine that brings every edit to its last station (`super::settle`), also without new
//! edits, and replaces a manifest that has grown long.
//!
//! It gives up nothing when the disk is full: it tries again a while later.

use crate::error::Error;
use crate::lineage::Lineage;
use crate::lineage::settle::backend::Rule;
use crate::lineage::settle::install::is_full;
use crate::runtime::yield_now;
use crate::trace;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Retained bytes that are allowed in a database of up to ten times as many, if the builder does not say.
pub(crate) const RETAINED_BYTES_MAX: u64 = 1 << 30;

/// Writers are not slowed down for fewer retained bytes.
const RETAINED_BYTES_FEW: u64 = 256 << 20;

/// A disk is low on space when so many times what is retained is more than it has left.
const LOW_SPACE_PART: u64 = 2;

/// The outputs of unsettled edits may keep this part of the files open that the process may have.
pub(in crate::lineage) const UNSYNCED_FILES_PART: u64 = 8;

/// NOB-6: 5 s, with the usual interval of 1 s.
const POLL_INTERVALS: u64 = 5;

/// Why edits are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Reason {
    /// The interval is over.
    Time,
    /// A checkpoint or the close waits.
    Asked,
    /// Their inputs take too much space.
    Space,
    /// They pin too much of the log.
    Log,
    /// Their outputs keep too many files open.
    Files,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Reason::Time => "time",
            Reason::Asked => "asked",
            Reason::Space => "space",
            Reason::Log => "log",
            Reason::Files => "files",
        }
    }
}

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
                lineage.health.rounds.ended();
                lineage.replenish_reserve();
            }
            Err(error) => {
                let delay_ns = lineage.settling_failed(error);
                // Whatever presses, a disk that was full a moment ago still is.
                let ticket = lineage.wake.ticket();
                lineage.environment.sleep_or(delay_ns, &lineage.wake, ticket).await;
            }
        }
        yield_now().await;
    }
}

impl Lineage {
    /// Why the edits that are not settled should be now; `None` when all are.
    fn reason_to_settle(&self) -> Option<Reason> {
        let (retained, log_start) = {
            let book = self.book();
            let ledger = &book.ledger;
            if ledger.settled() >= ledger.appended() {
                return None;
            }
            if ledger.settled() < book.wanted {
                return Some(Reason::Asked);
            }
            let retained: u64 = ledger.inputs().map(|input| input.bytes).sum();
            (retained, ledger.log_start())
        };
        // To look at the journal sooner does not make it commit.
        if self.backend.rule() == Rule::Commits {
            return Some(Reason::Time);
        }
        let is_too_much = self.is_too_much(retained);
        let log_waits = log_start.map_or(0, |mark| self.neighbours().log_bytes_before(mark));
        if is_too_much || self.rounds_for_space.load(Ordering::Relaxed) > 0 || self.is_low_on_space(retained) {
            Some(Reason::Space)
        } else if self.neighbours().unsynced_files() > self.unsynced_files_max {
            Some(Reason::Files)
        } else if log_waits > self.settling.log_bytes_max / 2 {
            Some(Reason::Log)
        } else {
            Some(Reason::Time)
        }
    }

    /// Whether what is kept is much, against what the disk has left: the next compaction may want it.
    pub(in crate::lineage) fn is_low_on_space(&self, retained: u64) -> bool {
        // Most of the time this is asked there is nothing to gain.
        let free = || self.environment.storage.free_bytes(&self.root);
        retained > 0 && free().is_some_and(|free| retained > free / LOW_SPACE_PART)
    }

    /// Whether replaced tables take half of the space that they may: what compactions add until some of it is given
    /// back takes the other.
    pub(in crate::lineage) fn is_too_much(&self, retained: u64) -> bool {
        let live = || self.book().state.distinct_tables().map(|meta| meta.bytes).sum::<u64>();
        match self.settling.retained_bytes_max {
            Some(bytes) => retained > bytes / 2,
            None => retained > RETAINED_BYTES_MAX / 2 && retained > live() / 20,
        }
    }

    /// How much of the space that replaced tables may take is taken by those that rounds and removal will give back: 1
    /// at `retained_bytes_max`. What a reader holds does not count, nor a cap that is smaller than a few tables.
    pub(crate) fn retained_share(&self) -> f64 {
        let retained = {
            let book = self.book();
            book.ledger.inputs().map(|input| input.bytes).sum::<u64>() + book.retained.waiting_bytes()
        };
        let live = || self.book().state.distinct_tables().map(|meta| meta.bytes).sum::<u64>();
        let most = match self.settling.retained_bytes_max {
            Some(bytes) => bytes.max(RETAINED_BYTES_FEW),
            None if retained <= RETAINED_BYTES_MAX => RETAINED_BYTES_MAX,
            None => RETAINED_BYTES_MAX.max(live() / 10),
        };
        retained as f64 / most as f64
    }

    /// How long edits wait for others to settle with, if nothing presses.
    fn settle_delay_ns(&self) -> u64 {
        match self.backend.rule() {
            Rule::Commits => self.settling.interval_ns.saturating_mul(POLL_INTERVALS),
            _ => self.settling.interval_ns,
        }
    }

    /// Tells those who wait; the next try comes when somebody asks again, or after the delay that is given back, in
    /// nanoseconds.
    fn settling_failed(&self, error: Error) -> u64 {
        let now_ns = self.environment.clock.now_ns();
        let trouble = self.health.rounds.failed(error.clone(), now_ns);
        let delay_ns = trouble.retry_ns.unwrap_or(now_ns).saturating_sub(now_ns);
        self.health.hear(trouble);
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
