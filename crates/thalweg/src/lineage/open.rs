//! [`Lineage`]: the lineage of an open database, its locks, and its state.
//!
//! The lineage has two asynchronous mutexes. A caller that needs both takes them in this order:
//! - `syncing`: held by a caller that syncs the manifest. Only its holder records syncs in the ledger.
//! - `turn`: held by a caller that appends to the manifest, so it decides the order of edits. Only its holder changes
//!   `book.open` and appends to `book.ledger`. No caller waits for a sync while it holds `turn`.
//!
//! It has one lock, `book`, which is never held across I/O, an await, or a call to log or tables.

use super::book::Book;
use super::log_and_tables::LogAndTables;
use super::removal::retained::Input;
use super::settle::backend::{Backend, DurabilityBackend};
use super::state::live::State;
use crate::error::{ErrorKind, Result};
use crate::format::EditId;
use crate::metrics::Metrics;
use crate::runtime::{AsyncMutex, BackgroundDirectory, Environment, Event, Health, Space};
use crate::sync::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};

/// How and when edits are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settling {
    pub(crate) backend: DurabilityBackend,
    /// A round begins this long after the first unsettled edit, unless there is a reason to begin it sooner.
    pub(crate) interval_ns: u64,
    /// See [`crate::Builder::retained_bytes_max`].
    pub(crate) retained_bytes_max: Option<u64>,
    /// Bytes of replaced fast tables at which a round begins; `None` if fast tables are not in files.
    pub(crate) fast_retained_bytes_max: Option<u64>,
    /// Unsettled edits may pin half of this many bytes of the log.
    pub(crate) log_bytes_max: u64,
}

/// The lineage of an open database.
pub(crate) struct Lineage {
    pub(super) environment: Environment,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) root: PathBuf,
    /// Kept open, so that a sync of the names in `root` needs no new descriptor.
    pub(super) root_directory: BackgroundDirectory,
    pub(super) backend: Box<dyn Backend>,
    pub(super) settling: Settling,
    pub(super) log_and_tables: OnceLock<LogAndTables>,
    pub(super) space: Arc<Space>,
    pub(super) turn: AsyncMutex,
    pub(super) syncing: AsyncMutex,
    pub(super) book: Mutex<Book>,
    /// Notified when edits are settled, when settling failed, and when the health changes.
    pub(super) changed: Arc<Event>,
    /// Wakes the settler and the remover.
    pub(super) wake: Arc<Event>,
    pub(super) stopping: AtomicBool,
    /// How many rounds must begin at once because a table found no room: the first settles, the second releases inputs.
    pub(super) rounds_for_space: AtomicUsize,
    /// A round begins at once when the outputs of unsettled edits keep more files open than this.
    pub(super) unsynced_files_max: usize,
    /// Whether files are removed without pauses until none is waiting, because a table found no room.
    pub(super) presses: AtomicBool,
    /// Larger files are removed in pieces of this many bytes.
    pub(super) piece_bytes: AtomicU64,
    /// Whether settled inputs may wait for their last reader. It is set before the remover looks at them, so a reader
    /// that leaves after the look finds it set.
    pub(super) readers_awaited: AtomicBool,
    /// The number of checkpoints in progress. While there is one, no file is unlinked.
    pub(super) holds: AtomicUsize,
}

/// Prevents tables from being unlinked while it lives; see [`Lineage::hold_unlinks`].
pub(crate) struct UnlinkHold<'a> {
    lineage: &'a Lineage,
}

impl Drop for UnlinkHold<'_> {
    fn drop(&mut self) {
        self.lineage.holds.fetch_sub(1, Ordering::SeqCst);
        self.lineage.wake_cleanup();
    }
}

impl Lineage {
    /// Wakes the remover: a table may have lost its last reader.
    pub(crate) fn wake_cleanup(&self) {
        self.wake.notify_all();
    }

    /// Notes that a reader has dropped the tables that it held. Wakes the remover if a table waits for readers;
    /// otherwise this costs one load.
    pub(crate) fn readers_left(&self) {
        // Orders the drop before the load. The counterpart is in `Lineage::retain`.
        fence(Ordering::SeqCst);
        if self.readers_awaited.load(Ordering::Relaxed) {
            self.wake_cleanup();
        }
    }

    /// Returns the directory of the database.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps the files of every table of every state taken from now on, until the hold is dropped. For checkpoints.
    pub(crate) fn hold_unlinks(&self) -> UnlinkHold<'_> {
        self.holds.fetch_add(1, Ordering::SeqCst);
        UnlinkHold { lineage: self }
    }

    /// Returns the bytes of inputs on the disk whose files are not gone yet.
    pub(crate) fn retained_bytes(&self) -> u64 {
        let book = self.book();
        book.ledger.inputs().map(Input::disk_bytes).sum::<u64>() + book.retained.bytes()
    }

    /// Returns the bytes of replaced tables that the remover may remove now.
    pub(crate) fn removing_bytes(&self) -> u64 {
        self.book().retained.waiting_bytes()
    }

    /// Returns the number of unsettled edits, and the age of the first of them in nanoseconds.
    pub(crate) fn unsettled(&self) -> (u64, u64) {
        let now_ns = self.environment.clock.now_ns();
        let book = self.book();
        let edits = book.ledger.appended().0 - book.ledger.settled().0;
        (edits, book.ledger.unsettled_since_ns().map_or(0, |since_ns| now_ns.saturating_sub(since_ns)))
    }

    /// Begins rounds at once because a table found no room, so that the inputs of unsettled edits can be removed.
    pub(crate) fn settle_for_space(&self) {
        self.rounds_for_space.store(2, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Returns the state after all edits, settled or not.
    pub(crate) fn state(&self) -> State {
        let book = self.book();
        let mut state = book.state.clone();
        if let Some(before) = book.tentative.clone() {
            state.take_back(before);
        }
        state
    }

    /// Returns the state at the last edit that a `settled` record reaches. A hold and a pin that were taken before the
    /// call keep its tables and the log that it needs.
    pub(crate) fn durable_state(&self) -> State {
        self.book().ledger.to_rotate().0.clone()
    }

    /// Returns the last edit of [`Lineage::state`]. The log of a checkpoint may name as settled any edit up to the last
    /// one at the time of its copy. So the manifest of the checkpoint must reach that edit, too.
    pub(crate) fn last_edit(&self) -> EditId {
        self.book().ledger.appended()
    }

    /// Refills the reserve of disk space, where there is room.
    pub(super) fn replenish_reserve(&self) {
        let live = self.book().live_bytes();
        self.space.replenish_reserve(live);
    }

    /// Sets the growth in bytes after which a manifest is replaced. Later manifests must also grow to four times their
    /// first length.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn set_rotation_bytes(&self, bytes: u64) {
        let mut book = self.book();
        book.rotation_bytes = bytes;
        book.open.rotate_at = book.open.end.saturating_add(bytes);
    }

    /// Sets the size of the pieces in which larger files are removed.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn set_piece_bytes(&self, bytes: u64) {
        self.piece_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }

    pub(super) fn log_and_tables(&self) -> &LogAndTables {
        let Some(log_and_tables) = self.log_and_tables.get() else { panic!("lineage is used before it is attached") };
        log_and_tables
    }

    /// Returns an error if the database is poisoned. A database that is closing still settles.
    pub(super) fn check(&self) -> Result<()> {
        self.health.check().or_else(|error| if error.kind() == ErrorKind::Closed { Ok(()) } else { Err(error) })
    }
}
