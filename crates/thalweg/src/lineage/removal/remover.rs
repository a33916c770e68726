//! Removal: the background coroutine that gives back what replaced tables take: at once the handle, and with it their
//! pages; and once the edit that replaced them is settled, their files, spread over time.
//!
//! **Let go.** An input's handle is dropped as soon as nobody else has one (NOB-A4): handles are only cloned from
//! handles, so no reader can come back. The tables drop the file's pages from the page cache then
//! ([`crate::table::TableStore::let_go`]). The file stays until its edit is settled.
//!
//! **Pace.** What may go now is gone about one settle interval later, evenly by bytes: each step is followed by its
//! share of the time that is left. What comes later puts the end off, and counts: so as many bytes go as come, and what
//! waits is at most what came in an interval. Nothing is paced while space presses, while too many bytes are kept, with
//! an interval of nothing, and once lineage stops.
//!
//! **Pieces.** A file of more than one piece loses its name first, and then its end, piece by piece, so that no step
//! frees much in one transaction of the journal, or has the device discard much at once. Invariant: a file is cut only
//! when the edit that replaced it is settled, nobody has its table, its name is gone, and it has no other (a checkpoint
//! links tables). Then nothing leads to it, and nothing can again: a file without a name gets none. A mapping of it may
//! still be there, on its way to who unmaps it: nobody reads it.
//!
//! A crash in between leaves a name, whole or cut: an orphan, because `settled` is durable. Poisoned, nothing is
//! removed and nothing cut any more; what is without a name goes with its handle.

use crate::lineage::Lineage;
use crate::lineage::removal::retained::Free;
use crate::planted::{Bug, planted};
use crate::runtime::yield_now;
use crate::storage::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// 0.5 ms of a worker where the page cache has all of it (`docs/io.md`).
pub(in crate::lineage) const PIECE_BYTES: u64 = 8 << 20;

/// Tables that somebody keeps are looked at again so much later, and each time twice that, up to the maximum: a
/// compaction lets go of its inputs a moment after its edit, and a point read that kept one does not say when it has
/// ended.
const LOOK_MIN_NS: u64 = 10_000_000;
const LOOK_MAX_NS: u64 = 1_000_000_000;

/// A shorter pause is none: the next step is longer for it.
const PAUSE_MIN_NS: u64 = 200_000;

/// A file without a name that is being cut.
struct Cutting {
    file: Arc<dyn File>,
    bytes: u64,
}

/// When the next step may be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pace {
    /// When all that waits is to be gone.
    end_ns: u64,
    next_ns: u64,
}

impl Pace {
    /// More may go.
    fn came(&mut self, now_ns: u64, interval_ns: u64) {
        self.end_ns = now_ns.saturating_add(interval_ns);
    }

    /// `done` bytes went, and `left` wait.
    fn went(&mut self, now_ns: u64, done: u64, left: u64) {
        self.next_ns = self.next_ns.max(now_ns);
        if left > 0 {
            // A step that came late leaves less time to the others.
            let time_ns = u128::from(self.end_ns.saturating_sub(self.next_ns));
            let share_ns = time_ns * u128::from(done) / (u128::from(done) + u128::from(left));
            self.next_ns = self.next_ns.saturating_add(u64::try_from(share_ns).unwrap_or(u64::MAX));
        }
    }

    fn pause_ns(&self, now_ns: u64) -> u64 {
        let pause_ns = self.next_ns.saturating_sub(now_ns);
        if pause_ns < PAUSE_MIN_NS { 0 } else { pause_ns }
    }
}

/// Runs until [`Lineage::stop`].
pub(in crate::lineage) async fn run(lineage: Arc<Lineage>) {
    let (mut pace, mut cutting, mut look_ns) = (Pace::default(), None::<Cutting>, LOOK_MIN_NS);
    let wake = &lineage.wake;
    loop {
        let ticket = wake.ticket();
        let is_stopping = lineage.stopping.load(Ordering::Acquire);
        if lineage.check().is_err() {
            cutting = None;
            lineage.book().retained.cut(u64::MAX);
            if is_stopping {
                return;
            }
            wake.listen(ticket).await;
            continue;
        }
        let environment = &lineage.environment;
        let now_ns = environment.clock.now_ns();
        if lineage.look_for_free().await {
            pace.came(now_ns, lineage.settling.interval_ns);
        }
        let pause_ns = if is_stopping || lineage.is_pressed() { 0 } else { pace.pause_ns(now_ns) };
        let waits = lineage.book().retained.is_waiting();
        if waits && pause_ns > 0 {
            // Looks again in between: space may be short by then.
            environment.sleep_or(pause_ns.min(LOOK_MAX_NS), wake, ticket).await;
            continue;
        }
        if waits && let Some(done) = lineage.removal_step(&mut cutting, is_stopping) {
            lineage.health.room_came();
            let left = lineage.book().retained.waiting_bytes();
            pace.went(environment.clock.now_ns(), done, left);
            yield_now().await;
            continue;
        }
        if !waits && lineage.rounds_for_space.load(Ordering::Relaxed) == 0 {
            // What came since the look is pressed for as well.
            lineage.presses.store(false, Ordering::Relaxed);
            lineage.presses.store(lineage.book().retained.is_waiting(), Ordering::Relaxed);
        }
        if is_stopping {
            return;
        } else if lineage.awaits_readers() {
            environment.sleep_or(look_ns, wake, ticket).await;
            look_ns = if wake.passed(ticket) { LOOK_MIN_NS } else { (2 * look_ns).min(LOOK_MAX_NS) };
        } else {
            wake.listen(ticket).await;
        }
    }
}

impl Lineage {
    /// Lets go of the handles that nobody shares. Whether anything became free.
    async fn look_for_free(&self) -> bool {
        let (handles, became_free) = {
            let book = &mut *self.book();
            let handles: Vec<_> =
                book.ledger.inputs_mut().chain(book.retained.inputs_mut()).filter_map(|input| input.let_go()).collect();
            let became_free = book.retained.free_unheld();
            self.readers_awaited.store(book.retained.is_held(), Ordering::Relaxed);
            (handles, became_free)
        };
        for table in handles {
            // Closes its file.
            self.neighbours().let_go(table);
            yield_now().await;
        }
        became_free
    }

    /// Whether a replaced table has a reader, or had when it was last looked at.
    fn awaits_readers(&self) -> bool {
        let book = self.book();
        book.retained.is_held() || book.ledger.inputs().any(|input| input.table.is_some())
    }

    /// Whether what may go is to go at once.
    fn is_pressed(&self) -> bool {
        if self.presses.load(Ordering::Relaxed) || self.rounds_for_space.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let retained = self.retained_bytes();
        self.is_too_much(retained) || self.is_low_on_space(retained)
    }

    /// Removes a name, or cuts a piece. Gives the bytes that went; `None`: a checkpoint is in progress.
    fn removal_step(&self, cutting: &mut Option<Cutting>, is_stopping: bool) -> Option<u64> {
        if is_stopping {
            // A close does not wait for pieces: what is left of the file goes with its handle.
            *cutting = None;
            self.book().retained.cut(u64::MAX);
        }
        if let Some(mut file) = cutting.take() {
            let done = self.cut(&mut file);
            *cutting = Some(file).filter(|file| file.bytes > 0);
            return Some(done);
        }
        let first = self.book().retained.first_free();
        // After the look: no state names the inputs of a settled edit, so a checkpoint that begins now cannot either.
        if first.is_none() || self.holds.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let Free { id, bytes } = first?;
        let cut = if is_stopping { None } else { Some(self.piece_bytes()).filter(|piece| bytes > *piece) };
        // Opened before: afterwards nobody can. What cannot be opened goes whole.
        let file = cut.and_then(|_| self.neighbours().open_table(id));
        let removed = self.neighbours().remove_table(id);
        let is_removed = removed.is_ok();
        if let Err(error) = removed {
            let now_ns = self.environment.clock.now_ns();
            self.health.hear(self.health.removals.failed_until_asked(error, now_ns));
        }
        let file = file.filter(|file| is_removed && (is_last_link(&**file) || planted(Bug::LinkedTableCut)));
        // A file that could not be removed stays, an orphan for the next open.
        self.book().retained.removed(file.is_some());
        let Some(file) = file else { return Some(bytes) };
        let mut file = Cutting { file, bytes };
        let done = self.cut(&mut file);
        *cutting = Some(file).filter(|file| file.bytes > 0);
        Some(done)
    }

    /// Cuts the last piece; the last one of all goes with the handle.
    fn cut(&self, file: &mut Cutting) -> u64 {
        let done = self.piece_bytes().min(file.bytes);
        let left = file.bytes - done;
        // What cannot be cut goes whole.
        let is_cut = left > 0 && file.file.set_bytes(left).is_ok();
        let done = if is_cut { done } else { file.bytes };
        file.bytes -= done;
        self.book().retained.cut(done);
        done
    }

    fn piece_bytes(&self) -> u64 {
        self.piece_bytes.load(Ordering::Relaxed)
    }
}

/// Whether nothing but this handle leads to the file, for ever.
fn is_last_link(file: &dyn File) -> bool {
    matches!(file.links(), Ok(Some(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_spread_by_their_bytes_and_a_late_one_leaves_less_time_to_the_others() {
        let mut pace = Pace::default();
        pace.came(1_000_000_000, 1_000_000_000);
        assert_eq!(pace.pause_ns(1_000_000_000), 0, "the first is not put off");
        pace.went(1_000_000_000, 25, 75);
        assert_eq!(pace.pause_ns(1_000_000_000), 250_000_000);
        pace.went(1_600_000_000, 25, 50);
        assert_eq!(pace.pause_ns(1_600_000_000), 133_333_333);
        pace.came(1_700_000_000, 1_000_000_000);
        pace.went(1_800_000_000, 50, 0);
        assert_eq!(pace.pause_ns(1_800_000_000), 0, "nothing to be spread");
    }

    #[test]
    fn tiny_steps_are_taken_several_at_a_time_and_end_in_time_all_the_same() {
        let mut pace = Pace::default();
        pace.came(0, 10_000_000);
        let (mut now_ns, mut pauses) = (0, 0);
        for left in (0..1000).rev() {
            pace.went(now_ns, 1, left);
            let pause_ns = pace.pause_ns(now_ns);
            pauses += u64::from(pause_ns > 0);
            now_ns += pause_ns;
        }
        assert!(pauses <= 10_000_000 / PAUSE_MIN_NS && (9_000_000..=10_000_000).contains(&now_ns), "{pauses} {now_ns}");
    }
}
