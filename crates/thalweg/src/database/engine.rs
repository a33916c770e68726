//! [`Engine`]: one open database: what it is made of, and how it is closed.
//!
//! Closing: writes are refused; records reserved by then are published and synced; background coroutines end; edits
//! are settled; the manifest gets its `closed` record and the log its clean-close seal, each naming the other's end.
//! Poisoned, it only waits: for every writer that has reserved, and for the coroutines. Then the lock is given back, so
//! that nobody of this process writes to a database that another one has opened.

use super::options::{Durability, Options, WriteOptions};
use super::tasks::TaskCount;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, SeqNo};
use crate::keyspaces::{
    Backpressure, Keyspace, KeyspaceMap, Registry, Signals, SnapshotRegistry, SnapshotSeq, SpaceWatch,
};
use crate::lineage::Lineage;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::ordered::{OrderedBackground, OrderedKind};
use crate::runtime::{AsyncMutex, Environment, Health};
use crate::storage::StorageLock;
use crate::sync::Mutex;
use crate::table::TableStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Segments that a log may span after a close without being flushed.
const SEGMENTS_AT_CLOSE_MAX: usize = 4;

/// The parts of an engine that depend on whether it may write.
pub(super) enum Mode {
    Writable(Writable),
    /// Everything was replayed in memory; nothing changes.
    ReadOnly {
        keyspaces: Arc<KeyspaceMap>,
        visible: SeqNo,
        log_bytes: u64,
        tables: Arc<TableStore>,
    },
}

/// The parts of a database that is open for writing.
pub(super) struct Writable {
    pub(super) health: Arc<Health>,
    pub(super) log: Arc<Log>,
    pub(super) lineage: Arc<Lineage>,
    pub(super) tables: Arc<TableStore>,
    pub(super) registry: Arc<Registry>,
    pub(super) backpressure: Arc<Backpressure>,
    pub(super) space: Arc<SpaceWatch>,
    pub(super) signals: Arc<Signals>,
    /// Makes ordered keyspaces.
    pub(super) kind: OrderedKind,
    /// The background work on them.
    pub(super) ordered: OrderedBackground,
}

/// See the module. All handles have it; it is closed when the last one is dropped.
pub(super) struct Engine {
    pub(super) environment: Environment,
    pub(super) metrics: Arc<Metrics>,
    pub(super) options: Options,
    pub(super) mode: Mode,
    pub(super) snapshots: Arc<SnapshotRegistry>,
    /// The changes that recovery dropped, in words.
    pub(super) dropped: Vec<String>,
    /// Held while a keyspace is created, cleared or dropped.
    pub(super) definition_turn: AsyncMutex,
    pub(super) next_keyspace: AtomicU64,
    /// Coroutines that flush and compact.
    pub(super) workers: Arc<TaskCount>,
    /// Coroutines of log and lineage, which must outlive the workers to settle their last edits.
    pub(super) services: Arc<TaskCount>,
    pub(super) closed: AtomicBool,
    /// Those of the root, and of the directory of the fast tier.
    pub(super) locks: Mutex<Vec<Box<dyn StorageLock>>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nobody is left to get an error; `Database::close` is for those who want it.
        let _ = self.close();
    }
}

impl Engine {
    /// The writing part, unless the database is closed. Only handles that may write call this.
    pub(super) fn writable(&self) -> Result<&Writable> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match &self.mode {
            Mode::Writable(writable) => Ok(writable),
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

    /// The tables.
    pub(super) fn tables(&self) -> &Arc<TableStore> {
        match &self.mode {
            Mode::Writable(Writable { tables, .. }) | Mode::ReadOnly { tables, .. } => tables,
        }
    }

    /// The last sequence number that readers see.
    pub(super) fn visible(&self) -> SeqNo {
        match &self.mode {
            Mode::Writable(writable) => writable.log.visible(),
            Mode::ReadOnly { visible, .. } => *visible,
        }
    }

    /// The keyspaces that exist now.
    pub(super) fn keyspaces(&self) -> Arc<KeyspaceMap> {
        match &self.mode {
            Mode::Writable(writable) => writable.registry.keyspaces(),
            Mode::ReadOnly { keyspaces, .. } => Arc::clone(keyspaces),
        }
    }

    /// The keyspace of that name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<dyn Keyspace>> {
        self.keyspaces().find(name).cloned()
    }

    pub(super) fn pin(&self) -> SnapshotSeq {
        self.snapshots.pin(|| self.visible())
    }

    /// A reader that kept tables alive is gone.
    pub(super) fn readers_left(&self) {
        if let Mode::Writable(writable) = &self.mode {
            writable.lineage.readers_left();
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
            Mode::Writable(writable) => self.close_writable(writable),
            Mode::ReadOnly { tables, .. } => {
                tables.stop_warming();
                self.services.wait(&self.environment);
                Ok(())
            }
        };
        self.environment.scheduler.shutdown();
        self.locks.lock().clear();
        result
    }

    fn close_writable(&self, writable: &Writable) -> Result<()> {
        // What is in the fast tier keeps its log, which the next open would replay.
        let _ = writable.evict();
        // Each open goes on in a new segment: without this, many short lives would leave a long and nearly empty log.
        let is_long = writable.log.backlog_bytes() > self.options.log_bytes_max;
        if is_long || writable.log.segments() > SEGMENTS_AT_CLOSE_MAX {
            // What fails here is no reason not to close.
            let _ = writable.shorten_log();
        }
        writable.signals.stop();
        let result = self.close_files(writable);
        writable.lineage.stop();
        writable.log.stop();
        writable.tables.stop_warming();
        self.workers.wait(&self.environment);
        self.services.wait(&self.environment);
        if result.is_ok() {
            writable.log.remove_idle();
        }
        // Writers that still wait somewhere get the error.
        writable.health.close();
        result
    }

    fn close_files(&self, writable: &Writable) -> Result<()> {
        let end = writable.log.finish_writes()?;
        self.workers.wait(&self.environment);
        let (manifest, bytes) = writable.lineage.close(end)?;
        writable.log.close(manifest, bytes)
    }
}

impl Writable {
    /// Flushes what keeps the log long, and waits until the manifest knows that it may go.
    fn shorten_log(&self) -> Result<()> {
        self.ordered.sealer.seal_all();
        self.signals.wait_for_progress(|| !self.ordered.has_flush_work(), || self.flush_error())
    }

    /// Why flushes fail at present.
    pub(super) fn flush_error(&self) -> Option<Error> {
        self.health.flushes.get().or_else(|| self.health.evictions.get()).map(|trouble| trouble.error)
    }
}
