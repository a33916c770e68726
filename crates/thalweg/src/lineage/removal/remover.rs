//! The remover: the background coroutine that drops the handles and removes the files of replaced tables.
//!
//! **Handles.** An input's handle is dropped as soon as no one shares it (NOB-A4). A handle is only cloned from another
//! handle, so no new reader can appear. The table store then drops the file's pages from the page cache
//! ([`crate::table::TableStore::let_go`]). The file stays until the edit that replaced the table is settled.
//!
//! **Pace.** The remover removes free files within about one settle interval, evenly by bytes: after each step it waits
//! for the step's share of the remaining time. Files that become free later move the end of that time. So bytes are
//! removed as fast as they become free, and at most the bytes of one interval wait. There is no pause while space is
//! short, while too many bytes are retained (on the disk or on the device of the fast tier), and once lineage stops.
//!
//! **Pieces.** A file of more than one piece loses its name first. Then it is cut from its end, piece by piece. So no
//! step frees much in one transaction of the journal, or makes the device discard much at once. Invariant: a file is
//! cut only when its edit is settled, no one holds its table, and it has no name left (a checkpoint links tables). A
//! file without a name never gets one again. A mapping of the file may not be unmapped yet; no one reads it.
//!
//! A crash leaves a file with a name, whole or cut. It is an orphan, because `settled` is durable. After poisoning no
//! file is removed or cut; a file without a name goes with its handle.

use crate::lineage::open::Lineage;
use crate::lineage::removal::pace::Pace;
use crate::lineage::removal::retained::Free;
use crate::planted::{Bug, planted};
use crate::runtime::yield_now;
use crate::storage::{File, OpenMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The size of a piece. Cutting off one piece costs a worker 0.5 ms if the page cache holds all of it (`docs/io.md`).
pub(in crate::lineage) const PIECE_BYTES: u64 = 8 << 20;

/// The first pause before the remover looks again at tables that readers hold. Each pause is twice the previous one, up
/// to the maximum. A compaction drops its inputs shortly after its edit; a point read that holds a table does not
/// report its end.
const LOOK_MIN_NS: u64 = 10_000_000;
const LOOK_MAX_NS: u64 = 1_000_000_000;

/// A file without a name that is being cut.
struct Cutting {
    file: Arc<dyn File>,
    bytes: u64,
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
            // Ends the pause now and then to check again: space may have become short.
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
            // Files that became free since the look are removed without pauses, too.
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
    /// Drops the handles that no one shares. Returns whether a file became free.
    async fn look_for_free(&self) -> bool {
        let (handles, became_free) = {
            let book = &mut *self.book();
            let handles: Vec<_> = book
                .ledger
                .inputs_mut()
                .chain(book.retained.inputs_mut())
                .filter_map(|input| input.take_unshared())
                .collect();
            let became_free = book.retained.free_unheld();
            self.readers_awaited.store(book.retained.is_held(), Ordering::Relaxed);
            (handles, became_free)
        };
        for handle in handles {
            // This closes its file.
            self.log_and_tables().let_go(handle);
            yield_now().await;
        }
        became_free
    }

    /// Returns whether a replaced table has a reader, or had one at the last look.
    fn awaits_readers(&self) -> bool {
        let book = self.book();
        book.retained.is_held() || book.ledger.inputs().any(|input| input.handle.is_some())
    }

    /// Returns whether files must be removed without pauses.
    fn is_pressed(&self) -> bool {
        if self.presses.load(Ordering::Relaxed) || self.rounds_for_space.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let (retained, fast_waiting) = (self.retained_bytes(), self.book().retained.fast_waiting_bytes());
        self.is_too_much(retained) || self.is_too_much_fast(fast_waiting) || self.is_low_on_space(retained)
    }

    /// Removes a name or cuts a piece. Returns the bytes that are gone; `None` during a checkpoint.
    fn removal_step(&self, cutting: &mut Option<Cutting>, is_stopping: bool) -> Option<u64> {
        if is_stopping {
            // A close does not wait for pieces: the rest of the file goes with its handle.
            *cutting = None;
            self.book().retained.cut(u64::MAX);
        }
        if let Some(mut file) = cutting.take() {
            let done = self.cut(&mut file);
            *cutting = Some(file).filter(|file| file.bytes > 0);
            return Some(done);
        }
        let first = self.book().retained.first_free();
        // Checked after the look: no state names these tables, so a checkpoint that begins later does not name them.
        if first.is_none() || self.holds.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let Free { file: table, bytes } = first?;
        let cut = if is_stopping { None } else { Some(self.piece_bytes()).filter(|piece| bytes > *piece) };
        // The file is opened while it has a name. A file that cannot be opened goes whole.
        let file = cut.and_then(|_| self.log_and_tables().open_file(table, OpenMode::ReadWrite));
        let removed = self.log_and_tables().remove(table);
        let is_removed = removed.is_ok();
        if let Err(error) = removed {
            let now_ns = self.environment.clock.now_ns();
            self.health.report(self.health.removals.record_until_requested(error, now_ns));
        }
        let file = file.filter(|file| is_removed && (is_last_link(&**file) || planted(Bug::LinkedTableCut)));
        // A file that could not be removed stays as an orphan for the next open.
        self.book().retained.removed(file.is_some());
        let Some(file) = file else { return Some(bytes) };
        let mut file = Cutting { file, bytes };
        let done = self.cut(&mut file);
        *cutting = Some(file).filter(|file| file.bytes > 0);
        Some(done)
    }

    /// Cuts off the last piece. The first piece of the file goes with its handle.
    fn cut(&self, file: &mut Cutting) -> u64 {
        let done = self.piece_bytes().min(file.bytes);
        let left = file.bytes - done;
        // A file that cannot be cut goes whole.
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

/// Returns whether the file has no name left, so that only this handle leads to it.
fn is_last_link(file: &dyn File) -> bool {
    matches!(file.links(), Ok(Some(0)))
}
