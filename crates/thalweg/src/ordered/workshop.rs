//! [`Workshop`]: what the background work on ordered keyspaces shares: the keyspaces, the log, lineage, the tables,
//! and the events by which foreground and background tell each other that there is something to do.
//!
//! Locks: `registry`, `definitions` and `trouble` are each held for a clone or a swap, never together.

use super::{OrderedKeyspace, Partition, SnapshotRegistry, View};
use crate::compaction::LeveledOptions;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, LogMark};
use crate::lineage::{Edit, Lineage};
use crate::log::Log;
use crate::metrics::{Metrics, Stall};
use crate::ordered::view::Slot;
use crate::planted::{Bug, planted};
use crate::runtime::{Environment, Event, Health, Point};
use crate::table::{Table, TableStore};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How ordered keyspaces are kept.
#[derive(Clone, Debug)]
pub(crate) struct OrderedOptions {
    /// An active memtable is sealed at this many bytes.
    pub(crate) memtable_bytes: usize,
    /// Writers wait when a partition has this many sealed memtables.
    pub(crate) sealed_max: usize,
    /// Writers wait when a partition has this many tables in level 0.
    pub(crate) level0_stop: usize,
    /// The memtables that pin the oldest segment are flushed when the log holds more.
    pub(crate) log_bytes_max: u64,
    pub(crate) leveled: LeveledOptions,
}

/// All keyspaces that exist, by id.
pub(crate) type Registry = BTreeMap<KeyspaceId, Arc<OrderedKeyspace>>;

/// A keyspace was created or dropped by a record of the log; the manifest must learn it before that record may go.
pub(crate) struct DefinitionEdit {
    pub(crate) edit: Edit,
    /// Where its record begins.
    pub(crate) mark: LogMark,
    /// The keyspace that goes, for a drop.
    pub(crate) dropped: Option<Arc<OrderedKeyspace>>,
}

/// See the module.
pub(crate) struct Workshop {
    pub(crate) environment: Environment,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) options: OrderedOptions,
    pub(crate) log: Arc<Log>,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) tables: Arc<TableStore>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) registry: RwLock<Arc<Registry>>,
    /// In log order; the flush coroutine installs them before any flush.
    pub(super) definitions: Mutex<VecDeque<DefinitionEdit>>,
    /// A memtable was sealed, a definition queued, the log grew beyond its cap, or it is time to stop.
    pub(super) flush_wanted: Arc<Event>,
    /// Levels changed, or it is time to stop.
    pub(super) compaction_wanted: Arc<Event>,
    /// Something waiting writers, `flush` or `wait_for_compactions` look at has changed.
    pub(super) progress: Arc<Event>,
    /// Why the last flush or compaction failed; cleared by the next that succeeds.
    pub(super) trouble: Mutex<Option<Error>>,
    stopping: AtomicBool,
    /// Where `take_job` begins to look, so that no partition starves.
    pub(super) next_partition: AtomicUsize,
}

impl Workshop {
    #[expect(clippy::too_many_arguments, reason = "everything it shares, named once")]
    pub(crate) fn new(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        options: OrderedOptions,
        log: Arc<Log>,
        lineage: Arc<Lineage>,
        tables: Arc<TableStore>,
        snapshots: Arc<SnapshotRegistry>,
        registry: Registry,
        definitions: VecDeque<DefinitionEdit>,
    ) -> Arc<Self> {
        Arc::new(Workshop {
            flush_wanted: health.watched_event(),
            compaction_wanted: health.watched_event(),
            progress: health.watched_event(),
            environment,
            health,
            metrics,
            options,
            log,
            lineage,
            tables,
            snapshots,
            registry: RwLock::new(Arc::new(registry)),
            definitions: Mutex::new(definitions),
            trouble: Mutex::new(None),
            stopping: AtomicBool::new(false),
            next_partition: AtomicUsize::new(0),
        })
    }

    /// The keyspaces that exist now.
    pub(crate) fn keyspaces(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the set of keyspaces and queues the edit that tells the manifest, in one step with respect to flushes:
    /// the edit is queued first, so that no flush of a new keyspace can come before it.
    pub(crate) fn define(&self, definition: DefinitionEdit, change: impl FnOnce(&mut Registry)) {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).push_back(definition);
        {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            let mut changed = Registry::clone(&registry);
            change(&mut changed);
            *registry = Arc::new(changed);
        }
        self.flush_wanted.notify_all();
    }

    /// Seals `slot` of `partition`, unless somebody else did.
    pub(crate) fn seal(&self, partition: &Partition, slot: &Arc<Slot>) {
        let sealed = self.log.at_seal_point(|last| partition.seal(slot, last));
        if sealed {
            self.flush_wanted.notify_all();
        }
    }

    /// After a write: seals the partition's memtable if it is full.
    pub(crate) fn seal_if_full(&self, partition: &Partition) {
        let view = partition.view();
        if view.active.memtable.bytes() >= self.options.memtable_bytes {
            self.seal(partition, &view.active);
            self.environment.point(Point::Sealed);
        }
    }

    /// After a write: asks for flushes when the log has outgrown its cap.
    pub(crate) fn watch_log(&self) {
        if self.log.backlog_bytes() > self.options.log_bytes_max {
            self.flush_wanted.notify_all();
        }
    }

    /// Before a write: waits while a partition has no room. `Err` when the wait could be for ever, because flushes or
    /// compactions fail.
    pub(crate) fn wait_for_room(&self, partition: &Partition) -> Result<()> {
        self.stall_while(&self.metrics.stalls_memtable, || {
            !partition.is_dropped() && partition.view().sealed.len() >= self.options.sealed_max
        })?;
        self.stall_while(&self.metrics.stalls_level0, || {
            let view = partition.view();
            !partition.is_dropped()
                && view.levels.first().is_some_and(|level0| level0.len() >= self.options.level0_stop)
        })?;
        // The log's own segments are bounded too: beyond twice the cap writers wait for the flushes that free them.
        self.stall_while(&self.metrics.stalls_log, || {
            self.log.backlog_bytes() > self.options.log_bytes_max.saturating_mul(2) && self.flush_pending()
        })
    }

    fn stall_while(&self, stall: &Stall, full: impl Fn() -> bool) -> Result<()> {
        if !full() {
            return Ok(());
        }
        let start = self.environment.clock.now_ns();
        let result = self.environment.wait_until(&self.progress, || {
            if let Err(error) = self.health.check() {
                return Some(Err(error));
            }
            if !full() {
                return Some(Ok(()));
            }
            self.trouble().map(Err)
        });
        stall.record(self.environment.clock.now_ns().saturating_sub(start));
        result
    }

    /// Whether a memtable waits for its flush.
    pub(crate) fn flush_pending(&self) -> bool {
        self.partitions().any(|partition| !partition.view().sealed.is_empty())
    }

    /// Why background work fails at present.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_trouble(&self, error: Option<Error>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = error;
        self.progress.notify_all();
    }

    /// All partitions of all keyspaces, in order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Arc<Partition>> + use<> {
        let keyspaces = self.keyspaces();
        let partitions: Vec<_> =
            keyspaces.values().flat_map(|keyspace| keyspace.partitions().iter().cloned()).collect();
        partitions.into_iter()
    }

    /// Where the log is needed from, if `flushed` and everything flushed before are let go (DESIGN 5, Letting go).
    ///
    /// The published mark is read first: a record published before it was read is in a slot that is in a view now or
    /// was flushed; one published later begins at or after the mark.
    pub(super) fn log_needed(&self, flushed: Option<&Arc<Slot>>) -> LogMark {
        let mut needed = self.log.published();
        let mut keep = |mark: LogMark| {
            if mark.position < needed.position {
                needed = mark;
            }
        };
        let mut partitions: Vec<Arc<Partition>> = Vec::new();
        for definition in self.definitions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            keep(definition.mark);
            // Until the drop is in the manifest a power cut may bring the keyspace back, with its records.
            partitions.extend(definition.dropped.iter().flat_map(|keyspace| keyspace.partitions().iter().cloned()));
        }
        if !planted(Bug::ColdPartitionForgotten) {
            partitions.extend(self.partitions());
        }
        for partition in partitions {
            let view = partition.view();
            let slots = view.slots().filter(|slot| !flushed.is_some_and(|flushed| Arc::ptr_eq(slot, flushed)));
            slots.filter_map(|slot| slot.first()).for_each(&mut keep);
        }
        needed
    }

    /// Seals every memtable that holds something.
    pub(crate) fn seal_all(&self) {
        for partition in self.partitions() {
            let view = partition.view();
            if !view.active.memtable.is_empty() {
                self.seal(&partition, &view.active);
            }
        }
    }

    /// Waits until every memtable is in tables (the active ones are sealed first).
    pub(crate) fn flush(&self) -> Result<()> {
        self.seal_all();
        let waiting: Vec<(Arc<Partition>, Arc<View>)> =
            self.partitions().map(|partition| (Arc::clone(&partition), partition.view())).collect();
        self.wait_for_progress(|| {
            waiting.iter().all(|(partition, then)| {
                let now = partition.view();
                partition.is_dropped()
                    || then.sealed.iter().all(|slot| !now.sealed.iter().any(|other| Arc::ptr_eq(slot, other)))
            })
        })
    }

    /// Waits until `done`, or background work fails.
    pub(crate) fn wait_for_progress(&self, done: impl Fn() -> bool) -> Result<()> {
        self.environment.wait_until(&self.progress, || {
            if done() {
                return Some(Ok(()));
            }
            self.health.check().err().or_else(|| self.trouble()).map(Err)
        })
    }

    /// Lets the background coroutines end at the next opportunity.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.flush_wanted.notify_all();
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
    }

    /// Whether background work should end: closing, or poisoned (nothing it makes could be installed).
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.health.check().is_err()
    }

    /// All tables of a keyspace.
    pub(super) fn tables_of(keyspace: &OrderedKeyspace) -> Vec<Arc<Table>> {
        keyspace.partitions().iter().flat_map(|partition| partition.view().levels.concat()).collect()
    }
}
