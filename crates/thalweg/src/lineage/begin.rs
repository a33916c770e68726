//! Begins a lineage: writes a new manifest, removes what is left over, starts the background coroutines.

use super::book::Book;
use super::files::{self, Homes};
use super::log_and_tables::LogAndTables;
use super::manifest::{current, write};
use super::open::{Lineage, Settling};
use super::recovery::Recovered;
use super::removal::remover;
use super::settle::settler;
use super::state::live::State;
use crate::error::{ErrorKind, Result};
use crate::fast_table::FastTableFiles;
use crate::format::{Home, TableFile};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{AsyncMutex, BackgroundDirectory, Environment, Health, Space, Task};
use crate::sync::Mutex;
use crate::table::TableStore;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

/// Outputs of unsettled edits may keep open one part in this many of the files that the process may open: an eighth.
const UNSYNCED_FILES_PART: u64 = 8;

impl Lineage {
    /// Begins a new manifest with the recovered state, or an empty one, and makes it the current one, durably. The old
    /// manifest and orphans are not needed afterwards; [`Lineage::attach`] removes them after the log has begun, too.
    /// The root directory must exist and be durable. `log/`, `tables/` and `lost/` are created if they are missing.
    pub(crate) fn begin(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        space: Arc<Space>,
        settling: Settling,
        fast: Option<&Path>,
        recovered: Option<&Recovered>,
    ) -> Result<Arc<Self>> {
        let root = space.root();
        if let Some(recovered) = recovered {
            recovered.put_damaged_manifest_aside(&*environment.storage, root)?;
        }
        let last = recovered.map_or(0, Recovered::manifest);
        let state = recovered.map(|recovered| recovered.state.clone());
        Self::begin_with(environment, health, metrics, space, (settling, fast), last, state)
    }

    /// Does what [`Lineage::begin`] does; `last` is the number of the manifest that `state` came from.
    pub(super) fn begin_with(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        space: Arc<Space>,
        (settling, fast): (Settling, Option<&Path>),
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
        let state = state.unwrap_or_default();
        // Each attempt takes a new number: the manifest of a failed attempt may be in force, although its name is not
        // durable yet.
        let begin = || {
            let number = files::next_manifest_number(&*environment.storage, &root, last)?;
            write::begin(&environment, Some(&metrics), &root, number, &state)
        };
        let begun = match begin() {
            // The work that frees space starts after the open, so the open must not fail for lack of space.
            Err(error) if error.kind() == ErrorKind::NoSpace && !planted(Bug::OpenKeepsReserve) => {
                if space.give_up_reserve() { begin()? } else { return Err(error) }
            }
            begun => begun?,
        };
        let homes = Homes { root: &root, fast };
        let backend = settling.backend.begin(&environment, &health, &metrics, homes)?;
        let files_max = environment.storage.open_files_max().unwrap_or(u64::MAX) / UNSYNCED_FILES_PART;
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
            log_and_tables: OnceLock::new(),
            turn: AsyncMutex::default(),
            syncing: AsyncMutex::default(),
            book: Mutex::new(Book::new(state, begun)),
            stopping: AtomicBool::new(false),
            rounds_for_space: AtomicUsize::new(0),
            presses: AtomicBool::new(false),
            piece_bytes: AtomicU64::new(remover::PIECE_BYTES),
            readers_awaited: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
        }))
    }

    /// Connects the lineage to the log and the tables, which begin after it. Removes the old manifest, orphans, and
    /// tables that only edits before the recovered state named. Must be called before the first install.
    pub(crate) fn attach(
        &self,
        log: Arc<Log>,
        tables: Arc<TableStore>,
        fast: Option<Arc<FastTableFiles>>,
    ) -> Result<()> {
        let log_and_tables = LogAndTables { log, tables, fast };
        self.remove_leftovers(&log_and_tables)?;
        log_and_tables.settled(self.book().ledger.settled(), None);
        let is_first = self.log_and_tables.set(log_and_tables).is_ok();
        assert!(is_first, "lineage is attached once");
        self.replenish_reserve();
        Ok(())
    }

    /// Removes old manifests and orphans. A file that cannot be removed now is removed by the next open.
    fn remove_leftovers(&self, log_and_tables: &LogAndTables) -> Result<()> {
        let storage = &*self.environment.storage;
        let (number, live) = {
            let book = self.book();
            let tables = book.state.tables().map(|meta| TableFile::on_disk(meta.id));
            let fast = book.state.fast_tables().map(|meta| TableFile::fast(meta.id));
            (book.open.number, tables.chain(fast).collect::<BTreeSet<_>>())
        };
        for entry in storage.list(&self.root)?.unwrap_or_default() {
            let is_old = files::manifest_number(&entry.name).is_some_and(|found| found != number);
            if is_old || entry.name == current::NEW_NAME {
                let _ = storage.remove(&self.root.join(&entry.name));
            }
        }
        let fast = log_and_tables.fast.as_ref().map(|fast| fast.directory());
        let homes = Homes { root: &self.root, fast };
        for home in [Home::Disk, Home::Fast] {
            let Some(directory) = homes.directory(home) else { continue };
            for entry in storage.list(&directory)?.unwrap_or_default() {
                if let Some(orphan) = files::table_file(home, &entry.name).filter(|file| !live.contains(file)) {
                    let _ = log_and_tables.remove(orphan);
                }
            }
        }
        Ok(())
    }

    /// Returns the background coroutines, the settler and the remover, for `Lane::Compaction`.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<Task> {
        vec![Box::pin(settler::run(Arc::clone(self))), Box::pin(remover::run(Arc::clone(self)))]
    }
}
