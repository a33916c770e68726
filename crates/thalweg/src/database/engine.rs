//! [`Engine`]: one open database: its workshop, its coroutines, and how it is closed.
//!
//! Closing: writes are refused; records reserved by then are published and synced; background coroutines end; edits
//! are settled; the manifest gets its `closed` record and the log its clean-close seal, each naming the other's end.
//! Poisoned, it only waits: for every writer that has reserved, and for the coroutines. Then the lock is given back, so
//! that nobody of this process writes to a database that another one has opened.

use super::options::{Durability, Options, WriteOptions};
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, SeqNo};
use crate::metrics::Metrics;
use crate::ordered::{OrderedKeyspace, Registry, SnapshotRegistry, SnapshotSeq, Workshop};
use crate::runtime::{AsyncMutex, Environment, Event, Health, Lane};
use crate::storage::StorageLock;
use crate::table::TableStore;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Segments that a log may span after a close without being flushed.
const SEGMENTS_AT_CLOSE_MAX: usize = 4;

/// What an engine may do.
pub(super) enum Mode {
    Writable(Arc<Workshop>),
    /// Everything was replayed in memory; nothing changes.
    ReadOnly {
        registry: Arc<Registry>,
        visible: SeqNo,
        log_bytes: u64,
        tables: Arc<TableStore>,
    },
}

/// See the module.
pub(super) struct Engine {
    pub(super) environment: Environment,
    pub(super) metrics: Arc<Metrics>,
    pub(super) options: Options,
    pub(super) mode: Mode,
    pub(super) snapshots: Arc<SnapshotRegistry>,
    /// What recovery dropped, in words.
    pub(super) dropped: Vec<String>,
    /// Held while a keyspace is created or dropped.
    pub(super) definition_turn: AsyncMutex,
    pub(super) next_keyspace: AtomicU64,
    /// Coroutines that flush and compact.
    pub(super) workers: Arc<TaskCount>,
    /// Coroutines of log and lineage, which must outlive the workers to settle their last edits.
    pub(super) services: Arc<TaskCount>,
    pub(super) closed: AtomicBool,
    pub(super) lock: Mutex<Option<Box<dyn StorageLock>>>,
}

/// The coroutines that have not ended.
#[derive(Debug, Default)]
pub(super) struct TaskCount {
    running: AtomicUsize,
    ended: Event,
}

/// Counts a coroutine out, however it ends.
struct TaskGuard {
    count: Arc<TaskCount>,
    health: Arc<Health>,
    finished: bool,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.finished && std::thread::panicking() {
            self.health.poison(Error::internal("a background task panicked"));
        }
        self.count.running.fetch_sub(1, Ordering::SeqCst);
        self.count.ended.notify_all();
    }
}

impl TaskCount {
    pub(super) fn spawn(
        self: &Arc<Self>,
        environment: &Environment,
        health: &Arc<Health>,
        lane: Lane,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let guard = TaskGuard { count: Arc::clone(self), health: Arc::clone(health), finished: false };
        let task = async move {
            // The whole guard, not only the field written below.
            let mut guard = guard;
            task.await;
            guard.finished = true;
        };
        environment.scheduler.spawn(lane, Box::pin(task));
    }

    pub(super) fn wait(&self, environment: &Environment) {
        environment.wait_until(&self.ended, || (self.running.load(Ordering::SeqCst) == 0).then_some(()));
    }
}

impl Engine {
    /// The workshop, unless the database is closed. Only handles that may write ask for it.
    pub(super) fn writable(&self) -> Result<&Arc<Workshop>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match &self.mode {
            Mode::Writable(workshop) => Ok(workshop),
            Mode::ReadOnly { .. } => unreachable!("a read-only database has no handle that writes"),
        }
    }

    /// When a write with these options returns.
    pub(super) fn durability_of(&self, options: WriteOptions) -> Durability {
        options.durability.unwrap_or(self.options.durability)
    }

    /// `Err(Closed)` after a close.
    pub(super) fn readable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// The last sequence number that readers see.
    pub(super) fn visible(&self) -> SeqNo {
        match &self.mode {
            Mode::Writable(workshop) => workshop.log.visible(),
            Mode::ReadOnly { visible, .. } => *visible,
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        match &self.mode {
            Mode::Writable(workshop) => workshop.keyspaces(),
            Mode::ReadOnly { registry, .. } => Arc::clone(registry),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<OrderedKeyspace>> {
        self.registry().values().find(|keyspace| keyspace.name == name).cloned()
    }

    pub(super) fn pin(&self) -> SnapshotSeq {
        self.snapshots.pin(|| self.visible())
    }

    /// A reader that kept tables alive is gone.
    pub(super) fn readers_left(&self) {
        if let Mode::Writable(workshop) = &self.mode {
            workshop.lineage.readers_left();
        }
    }

    pub(super) fn take_keyspace_id(&self) -> KeyspaceId {
        KeyspaceId(self.next_keyspace.fetch_add(1, Ordering::SeqCst))
    }

    /// Closes; a second call gives `Closed`.
    pub(super) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        let result = match &self.mode {
            Mode::Writable(workshop) => self.close_writable(workshop),
            Mode::ReadOnly { tables, .. } => {
                tables.stop_warming();
                self.services.wait(&self.environment);
                Ok(())
            }
        };
        self.environment.scheduler.shutdown();
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        result
    }

    fn close_writable(&self, workshop: &Arc<Workshop>) -> Result<()> {
        // Each open goes on in a new segment: without this, many short lives would leave a long and nearly empty log.
        let is_long = workshop.log.backlog_bytes() > self.options.log_bytes_max;
        if is_long || workshop.log.segments() > SEGMENTS_AT_CLOSE_MAX {
            // What fails here is no reason not to close.
            let _ = workshop.shorten_log();
        }
        workshop.stop();
        let result = self.close_files(workshop);
        workshop.lineage.stop();
        workshop.log.stop();
        workshop.tables.stop_warming();
        self.workers.wait(&self.environment);
        self.services.wait(&self.environment);
        if result.is_ok() {
            workshop.log.remove_idle();
        }
        // Writers still waiting somewhere hear of it.
        workshop.health.close();
        result
    }

    fn close_files(&self, workshop: &Workshop) -> Result<()> {
        let end = workshop.log.finish_writes()?;
        self.workers.wait(&self.environment);
        let (manifest, bytes) = workshop.lineage.close(end)?;
        workshop.log.close(manifest, bytes)
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
