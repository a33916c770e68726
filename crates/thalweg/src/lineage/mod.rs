//! Lineage: the set of live files, its edits, the manifest, and recovery (DESIGN 6, `docs/format/manifest.md`).
//!
//! A predecessor stays on its medium until everything that succeeds it is durable. [`Edit`]s change the [`State`],
//! the set of live files; [`Lineage::install`] writes them to the manifest and settles them; [`Recovered::run`] finds
//! the state again.
//!
//! Two turns, taken in this order where both are: `syncing` (whoever syncs the manifest) and `turn` (whoever appends to
//! it, and so the order of edits); nobody waits for a sync with the latter. One lock, `book`: never held across I/O, an
//! await, or a call to log or tables. Only the turn's holder changes `book.open` and appends to `book.ledger`; only the
//! holder of `syncing` tells it of syncs.

mod log_and_tables;
mod manifest;
mod recovery;
mod removal;
mod settle;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use manifest::check::check;
pub(crate) use manifest::checkpoint::write_checkpoint_manifest;
pub(crate) use manifest::dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use manifest::reader::fuzz_manifest;
pub(crate) use recovery::Recovered;
pub use settle::backend::DurabilityBackend;
pub(crate) use settle::settler::RETAINED_BYTES_MAX;
pub(crate) use state::apply::State;
pub(crate) use state::edit::{Change, Edit};
pub(crate) use state::keyspace::KeyspaceState;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{EditId, LogMark};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundDirectory, BackgroundFile, Environment, Event, Health, Space, Task, Turn};
use crate::table::TableStore;
use log_and_tables::{Attached, Neighbours};
use manifest::{current, record};
use removal::retained::{Input, Retained};
use settle::backend::Backend;
use settle::ledger::Ledger;
use settle::{round, settler};
use state::apply::TakeBack;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A manifest is replaced once it has grown by this much, and to four times what it began with: a few hundred edits
/// for the four syncs of a new manifest.
const ROTATION_BYTES: u64 = 64 << 10;

/// How and when edits are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settling {
    pub(crate) backend: DurabilityBackend,
    /// Edits that nothing presses are settled this much after the first of them.
    pub(crate) interval_ns: u64,
    /// See [`crate::Builder::retained_bytes_max`].
    pub(crate) retained_bytes_max: Option<u64>,
    /// Unsettled edits may pin half of this of the log.
    pub(crate) log_bytes_max: u64,
}

/// The lineage of an open database.
pub(crate) struct Lineage {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    root: PathBuf,
    /// Open, so that its names can be synced whatever else is.
    root_directory: BackgroundDirectory,
    backend: Box<dyn Backend>,
    settling: Settling,
    neighbours: OnceLock<Box<dyn Neighbours>>,
    space: Arc<Space>,
    turn: Turn,
    syncing: Turn,
    book: Mutex<Book>,
    /// Notified when edits are settled, when settling failed, and when the health changes.
    changed: Arc<Event>,
    /// Wakes the settler.
    wake: Arc<Event>,
    stopping: AtomicBool,
    /// Rounds that are to begin at once because a table found no room: one that settles, one that lets the inputs go.
    rounds_for_space: AtomicUsize,
    /// Edits are settled at once when their outputs keep more files open.
    unsynced_files_max: usize,
    /// A table found no room: what may go is to go at once, until nothing waits.
    presses: AtomicBool,
    /// Larger files are cut before they are let go.
    piece_bytes: AtomicU64,
    /// Settled inputs wait for their last reader. Set before the settler looks at them, so that a reader which lets go
    /// after the look finds it set.
    readers_awaited: AtomicBool,
    /// Checkpoints in progress: nothing is unlinked meanwhile.
    holds: AtomicUsize,
}

/// While it lives, no table is unlinked; see [`Lineage::hold_unlinks`].
pub(crate) struct UnlinkHold<'a> {
    lineage: &'a Lineage,
}

impl Drop for UnlinkHold<'_> {
    fn drop(&mut self) {
        self.lineage.holds.fetch_sub(1, Ordering::SeqCst);
        self.lineage.wake_cleanup();
    }
}

/// What the lock guards.
struct Book {
    /// All edits included, settled or not.
    state: State,
    /// The last edit of `state` is being appended; this takes it away again.
    tentative: Option<TakeBack>,
    ledger: Ledger<Input>,
    /// Inputs of settled edits.
    retained: Retained,
    open: OpenManifest,
    next_number: u64,
    rotation_bytes: u64,
    /// Somebody waits until this edit is settled.
    wanted: EditId,
    /// For [`settle::backend::Rule::Commits`].
    poll: Option<round::Poll>,
    /// How often settling failed without poisoning, and the last answer.
    failures: u64,
    failure: Option<Error>,
    /// The `closed` record was written: nothing may follow it.
    is_closed: bool,
}

/// The manifest in force.
struct OpenManifest {
    file: BackgroundFile,
    number: u64,
    generation: u64,
    /// Where the next record begins.
    end: u64,
    /// It is replaced when it is longer than this.
    rotate_at: u64,
}

impl Lineage {
    /// Begins a new manifest, with the recovered state (or an empty one), and makes it the current one, durably.
    /// After this the old manifest and orphans may go ([`Lineage::attach`] does that, once the log has begun too).
    /// `root` exists, durably; `log/`, `tables/` and `lost/` are created where they are missing.
    pub(crate) fn begin(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        space: Arc<Space>,
        settling: Settling,
        recovered: Option<&Recovered>,
    ) -> Result<Arc<Self>> {
        let root = space.root();
        if let Some(recovered) = recovered {
            recovered.put_damaged_manifest_aside(&*environment.storage, root)?;
        }
        let last = recovered.map_or(0, Recovered::manifest);
        let state = recovered.map(|recovered| recovered.state.clone());
        Self::begin_with(environment, health, metrics, space, settling, last, state)
    }

    /// As [`Lineage::begin`]; `last` is the number of the manifest that `state` came from.
    fn begin_with(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        space: Arc<Space>,
        settling: Settling,
        last: u64,
        state: Option<State>,
    ) -> Result<Arc<Self>> {
        let root = space.root().to_path_buf();
        for name in ["log", "tables", "lost"] {
            let path = root.join(name);
            if environment.storage.list(&path)?.is_none() {
                environment.storage.create_directory(&path)?;
            }
        }
        let number = recovery::next_number(&*environment.storage, &root, last)?;
        let state = state.unwrap_or_default();
        let begin = || manifest::write::begin(&environment, Some(&metrics), &root, number, &state);
        let begun = match begin() {
            // What frees space comes after the open, so that must not fail.
            Err(error) if error.kind() == ErrorKind::NoSpace && !planted(Bug::OpenKeepsReserve) => {
                if space.give_up_reserve() { begin()? } else { return Err(error) }
            }
            begun => begun?,
        };
        let backend = settling.backend.begin(&environment, &health, &metrics, &root)?;
        let book = Book {
            ledger: Ledger::new(state.clone(), begun.bytes),
            state,
            tentative: None,
            retained: Retained::default(),
            open: OpenManifest::new(begun, ROTATION_BYTES),
            next_number: number + 1,
            rotation_bytes: ROTATION_BYTES,
            wanted: EditId(0),
            poll: None,
            failures: 0,
            failure: None,
            is_closed: false,
        };
        let files_max = environment.storage.open_files_max().unwrap_or(u64::MAX) / settler::UNSYNCED_FILES_PART;
        let root_directory = BackgroundDirectory::open(&environment.storage, &root)?;
        Ok(Arc::new(Lineage {
            root_directory,
            unsynced_files_max: usize::try_from(files_max).unwrap_or(usize::MAX - 1),
            space,
            changed: health.watched_event(),
            wake: health.room_event(),
            environment,
            health,
            metrics,
            root,
            backend,
            settling,
            neighbours: OnceLock::new(),
            turn: Turn::default(),
            syncing: Turn::default(),
            book: Mutex::new(book),
            stopping: AtomicBool::new(false),
            rounds_for_space: AtomicUsize::new(0),
            presses: AtomicBool::new(false),
            piece_bytes: AtomicU64::new(removal::remover::PIECE_BYTES),
            readers_awaited: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
        }))
    }

    /// Gives lineage the log and the tables, which begin after it; removes the old manifest, orphans and the tables
    /// that only edits before the recovered state named. Before the first install.
    pub(crate) fn attach(&self, log: Arc<Log>, tables: Arc<TableStore>) -> Result<()> {
        self.attach_to(Box::new(Attached { log, tables }))
    }

    fn attach_to(&self, neighbours: Box<dyn Neighbours>) -> Result<()> {
        self.remove_leftovers(&*neighbours)?;
        neighbours.settled(self.book().ledger.settled(), None);
        let is_first = self.neighbours.set(neighbours).is_ok();
        assert!(is_first, "lineage is attached once");
        self.replenish_reserve();
        Ok(())
    }

    /// Where there is room for it.
    fn replenish_reserve(&self) {
        let live = self.book().state.distinct_tables().map(|meta| meta.bytes).sum();
        self.space.replenish_reserve(live);
    }

    /// What cannot be removed now stays for the next open.
    fn remove_leftovers(&self, neighbours: &dyn Neighbours) -> Result<()> {
        let storage = &*self.environment.storage;
        let (number, live) = {
            let book = self.book();
            (book.open.number, book.state.tables().map(|meta| meta.id.0).collect::<BTreeSet<_>>())
        };
        for entry in storage.list(&self.root)?.unwrap_or_default() {
            let is_old = current::manifest_number(&entry.name).is_some_and(|found| found != number);
            if is_old || entry.name == current::NEW_NAME {
                let _ = storage.remove(&self.root.join(&entry.name));
            }
        }
        for entry in storage.list(&self.root.join("tables"))?.unwrap_or_default() {
            if let Some(id) = current::table_id(&entry.name).filter(|id| !live.contains(id)) {
                let _ = neighbours.remove_table(crate::format::TableId(id));
            }
        }
        Ok(())
    }

    /// Background coroutines (settling what is left unsettled, removing settled inputs), for `Lane::Compaction`.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<Task> {
        vec![Box::pin(settler::run(Arc::clone(self))), Box::pin(removal::remover::run(Arc::clone(self)))]
    }

    /// Tables may have been let go by their last reader: look again.
    pub(crate) fn wake_cleanup(&self) {
        self.wake.notify_all();
    }

    /// A reader has let go of what it held: looks again if anything waits for readers. Costs one load if nothing does.
    pub(crate) fn readers_left(&self) {
        // Between letting go and looking; its counterpart is in `Lineage::let_go`.
        fence(Ordering::SeqCst);
        if self.readers_awaited.load(Ordering::Relaxed) {
            self.wake_cleanup();
        }
    }

    /// The directory of the database.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps every table of every state taken from now on on disk, until the hold is dropped: for checkpoints.
    pub(crate) fn hold_unlinks(&self) -> UnlinkHold<'_> {
        self.holds.fetch_add(1, Ordering::SeqCst);
        UnlinkHold { lineage: self }
    }

    /// Bytes of inputs kept until their edit is settled, their readers are gone, and their files too.
    pub(crate) fn retained_bytes(&self) -> u64 {
        let book = self.book();
        book.ledger.inputs().map(|input| input.bytes).sum::<u64>() + book.retained.bytes()
    }

    /// Bytes of replaced tables that nothing holds back any more.
    pub(crate) fn removing_bytes(&self) -> u64 {
        self.book().retained.waiting_bytes()
    }

    /// Edits that are not settled yet, and for how many nanoseconds the first of them has not been.
    pub(crate) fn unsettled(&self) -> (u64, u64) {
        let now_ns = self.environment.clock.now_ns();
        let book = self.book();
        let edits = book.ledger.appended().0 - book.ledger.settled().0;
        (edits, book.ledger.unsettled_since_ns().map_or(0, |since_ns| now_ns.saturating_sub(since_ns)))
    }

    #[cfg(test)]
    fn unsettled_edits(&self) -> u64 {
        self.unsettled().0
    }

    /// A table found no room: settles at once what is unsettled, so that its inputs give some back.
    pub(crate) fn settle_for_space(&self) {
        self.rounds_for_space.store(2, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Ends once every edit installed so far is settled, durably. The settler must be running. `NoSpace` when the disk
    /// is too full to write that down; it may be tried again.
    pub(crate) fn settle(&self) -> Result<()> {
        let (target, failures) = {
            let mut book = self.book();
            let target = book.ledger.appended();
            book.wanted = book.wanted.max(target);
            (target, book.failures)
        };
        self.wake.notify_all();
        self.environment.wait_until(&self.changed, || {
            let failure = {
                let book = self.book();
                if book.ledger.settled() >= target {
                    return Some(Ok(()));
                }
                book.failure.clone().filter(|_| book.failures > failures)
            };
            match (self.check(), failure) {
                (Err(error), _) | (Ok(()), Some(error)) => Some(Err(error)),
                _ if self.stopping.load(Ordering::Acquire) => Some(Err(Error::Closed)),
                _ => None,
            }
        })
    }

    /// The state now, all edits included, settled or not.
    pub(crate) fn state(&self) -> State {
        let book = self.book();
        let mut state = book.state.clone();
        if let Some(before) = book.tentative.clone() {
            state.take_back(before);
        }
        state
    }

    /// The state at the last edit of which it is recorded that everything is durable. Its inputs, and the log that it
    /// needs, are there as long as a hold and a pin that were taken before keep them.
    pub(crate) fn durable_state(&self) -> State {
        self.book().ledger.to_rotate().0.clone()
    }

    /// The last edit of [`Lineage::state`]. A checkpoint's log may name edits up to the last one at the time of its
    /// copy, as settled; so must its manifest.
    pub(crate) fn last_edit(&self) -> EditId {
        self.book().ledger.appended()
    }

    /// Clean close: settles, writes the `closed` record naming the log's end, syncs. Gives the manifest's number and
    /// length for the log's own seal. Edits cannot be installed any more. Before [`Lineage::stop`].
    pub(crate) fn close(&self, log_end: LogMark) -> Result<(u64, u64)> {
        loop {
            self.settle()?;
            let _syncing = self.syncing.take_blocking(&self.environment);
            let _turn = self.turn.take_blocking(&self.environment);
            self.check()?;
            let settled = {
                let book = self.book();
                if book.is_closed {
                    return Ok((book.open.number, book.open.end));
                }
                if book.ledger.settled() != book.ledger.appended() {
                    continue;
                }
                book.ledger.settled()
            };
            let end = self.append_blocking(&record::Record::Closed { log_end, edit: settled })?;
            let (file, number) = {
                let mut book = self.book();
                book.is_closed = true;
                (Arc::clone(book.open.file.file()), book.open.number)
            };
            file.sync().map_err(|error| self.health.poison(error))?;
            self.metrics.syncs_waited_for.increment();
            return Ok((number, end));
        }
    }

    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_all();
        self.changed.notify_all();
    }

    /// A manifest is replaced once it has grown by `bytes`, and to four times what it began with.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn set_rotation_bytes(&self, bytes: u64) {
        let mut book = self.book();
        book.rotation_bytes = bytes;
        book.open.rotate_at = book.open.end.saturating_add(bytes);
    }

    /// Files of more than `bytes` are cut into pieces of that when they go.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn set_piece_bytes(&self, bytes: u64) {
        self.piece_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn neighbours(&self) -> &dyn Neighbours {
        let Some(neighbours) = self.neighbours.get() else { panic!("lineage is used before it is attached") };
        &**neighbours
    }

    /// `Ok` unless poisoned. A database that is closing still settles.
    fn check(&self) -> Result<()> {
        self.health.check().or_else(|error| if error.kind() == ErrorKind::Closed { Ok(()) } else { Err(error) })
    }
}

impl OpenManifest {
    fn new(begun: manifest::write::Begun, rotation_bytes: u64) -> Self {
        OpenManifest {
            file: BackgroundFile::new(begun.file),
            number: begun.header.number,
            generation: begun.header.generation,
            end: begun.bytes,
            rotate_at: begun.bytes.saturating_add(rotation_bytes).max(begun.bytes.saturating_mul(4)),
        }
    }
}
