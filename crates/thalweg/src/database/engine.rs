//! [`Engine`]: one open database: its parts, and its close.
//!
//! The steps of a close: writes are refused; records reserved by then are published and synced; background coroutines
//! end; edits are settled; the manifest gets its `closed` record and the log its clean-close seal, each naming the
//! other's end. The close of a poisoned database only waits for every writer that has reserved, and for the coroutines.
//! The lock is released last, so that nobody in this process writes to a database that another process has opened.

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

/// The most segments of a log that a close leaves as it is; it flushes a longer one.
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
    /// The background work on ordered keyspaces.
    pub(super) ordered: OrderedBackground,
}

/// One open database. All handles have it; it is closed when the last one is dropped.
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
    /// The locks of the root, and of the directory of the fast tier.
    pub(super) locks: Mutex<Vec<Box<dyn StorageLock>>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nobody is left to get an error; a caller who wants it calls `Database::close`.
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

    /// The durability of a write with these options.
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

    /// Tells the lineage that a reader which kept tables alive is gone.
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
        // Entries in the fast tier pin their log, and the next open would replay it.
        let _ = writable.evict();
        // Each open begins a new segment: without this, many short runs would leave a long and nearly empty log.
        let is_long = writable.log.backlog_bytes() > self.options.log_bytes_max;
        if is_long || writable.log.segments() > SEGMENTS_AT_CLOSE_MAX {
            // A failure here does not keep the database from closing.
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
    /// Flushes the memtables that pin the log, and waits until the manifest says that the log may be released.
    fn shorten_log(&self) -> Result<()> {
        self.ordered.sealer.seal_all();
        self.signals.wait_for_progress(|| !self.ordered.has_flush_work(), || self.flush_error())
    }

    /// The error of the flushes or evictions that fail at present.
    pub(super) fn flush_error(&self) -> Option<Error> {
        self.health.flushes.get().or_else(|| self.health.evictions.get()).map(|trouble| trouble.error)
    }
}
