//! [`Workshop`]: what the background work on ordered keyspaces shares: the keyspaces, the log, lineage, the tables,
//! and the events by which foreground and background tell each other that there is something to do.
//!
//! Locks: `registry`, `definitions` and `parked` are each held for a clone or a swap, never together.

use super::compactor::Parked;
use super::generations::Cleared;
use super::pacing::{Pressure, pressure};
use super::subtasks::Subtasks;
use super::{MemtablePool, OrderedKeyspace, Partition, SnapshotRegistry};
use crate::compaction::Policy;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, LogMark, PartitionId};
use crate::lineage::{Change, Edit, Lineage};
use crate::log::Log;
use crate::metrics::{Metrics, Stall};
use crate::ordered::view::Slot;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundError, Environment, Event, Health, Point, Space};
use crate::table::{Table, TableStore};
use crate::trace;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
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
    /// Coroutines that compact.
    pub(crate) compactors: usize,
    /// Splits make so many partitions at most of one.
    pub(crate) partitions_max: usize,
    pub(crate) policy: Policy,
    pub(crate) space: Arc<Space>,
}

/// Creations and drops that the manifest may be behind with before the next one waits.
const DEFINITIONS_MAX: usize = 1000;

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

impl DefinitionEdit {
    /// Whether it creates this keyspace, or clears it.
    pub(super) fn creates(&self, id: KeyspaceId) -> bool {
        let creates = |change: &Change| match change {
            Change::CreateKeyspace { keyspace, .. } | Change::ClearKeyspace { keyspace, .. } => *keyspace == id,
            _ => false,
        };
        self.edit.changes.iter().any(creates)
    }
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
    /// Where the memory of memtables comes from and goes to.
    pub(crate) memtable_pool: MemtablePool,
    /// In log order; the flush coroutine installs them before any flush.
    pub(super) definitions: Mutex<VecDeque<DefinitionEdit>>,
    /// Generations that were cleared and that snapshots may read.
    pub(super) kept_generations: Mutex<Vec<Cleared>>,
    /// A memtable was sealed, a definition queued, the log grew beyond its cap, or it is time to stop.
    pub(super) flush_wanted: Arc<Event>,
    /// What coroutines that compact may take before they look for a job.
    pub(super) subtasks: Subtasks,
    /// Levels changed, subtasks wait, or it is time to stop.
    pub(super) compaction_wanted: Arc<Event>,
    /// Something waiting writers, `flush` or `wait_for_compactions` look at has changed.
    pub(super) progress: Arc<Event>,
    /// Compactions that failed, until they are tried again.
    pub(super) parked: Mutex<Vec<Parked>>,
    /// Notified when a flush that failed is to be tried again before its time.
    pub(super) flush_retry: Arc<Event>,
    stopping: AtomicBool,
    /// Notified when it is time to stop, and by nothing else.
    pub(super) stopped: Arc<Event>,
    /// The segment that the last edit with a log start named.
    pub(super) log_start_segment: AtomicU32,
    /// Callers of [`Workshop::tidy`].
    pub(super) tidying: AtomicUsize,
    /// The log's bytes when somebody last looked at the room of the file system.
    pub(super) seen_backlog: AtomicU64,
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
        memtable_pool: MemtablePool,
    ) -> Arc<Self> {
        let flush_wanted = health.watched_event();
        log.tell_when_quiet(Arc::clone(&flush_wanted));
        snapshots.tell(Arc::clone(&flush_wanted));
        Arc::new(Workshop {
            flush_wanted,
            flush_retry: health.room_event(),
            compaction_wanted: health.room_event(),
            progress: health.watched_event(),
            stopped: health.watched_event(),
            log_start_segment: AtomicU32::new(lineage.state().log_start.position.segment()),
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
            kept_generations: Mutex::default(),
            subtasks: Subtasks::default(),
            memtable_pool,
            parked: Mutex::default(),
            stopping: AtomicBool::new(false),
            tidying: AtomicUsize::new(0),
            seen_backlog: AtomicU64::new(0),
            next_partition: AtomicUsize::new(0),
        })
    }

    /// The keyspaces that exist now.
    pub(crate) fn keyspaces(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keyspace that has this partition; `None` once it was dropped or cleared.
    pub(super) fn keyspace_of(&self, partition: &Partition) -> Option<Arc<OrderedKeyspace>> {
        self.keyspaces().get(&partition.keyspace).filter(|keyspace| keyspace.owns(partition)).cloned()
    }

    /// Changes the set of keyspaces and queues the edit that tells the manifest. The edit is queued first, and whoever
    /// needs both looks at the registry first: so a keyspace that is new in the registry has its definition in the
    /// queue, and so has one that is gone from it, until the manifest knows.
    pub(crate) fn define(&self, definition: DefinitionEdit, change: impl FnOnce(&mut Registry)) {
        self.change_registry(definition, change);
        self.flush_wanted.notify_all();
        // A compaction of a dropped keyspace that waits for its next try is given up.
        self.compaction_wanted.notify_all();
    }

    /// As [`Workshop::define`], without a word to anybody.
    pub(super) fn change_registry(&self, definition: DefinitionEdit, change: impl FnOnce(&mut Registry)) {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).push_back(definition);
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Registry::clone(&registry);
        change(&mut changed);
        *registry = Arc::new(changed);
    }

    /// Seals `slot` of `partition`, unless somebody else did.
    pub(crate) fn seal(&self, partition: &Partition, slot: &Arc<Slot>) {
        let sealed = self.log.at_seal_point(|last| partition.seal(slot, last));
        if sealed {
            self.flush_wanted.notify_all();
            self.pace(partition);
        }
    }

    /// After a write: seals the partition's memtable if it is full, or the largest of the keyspace if all of them
    /// together have what they may.
    pub(crate) fn seal_if_full(&self, partition: &Partition) {
        let view = partition.view();
        let most = self.options.space.memtable_bytes(self.options.memtable_bytes);
        if view.active.count(&partition.share) >= most {
            self.seal(partition, &view.active);
        } else if partition.share.is_full(most) {
            self.seal_largest(partition);
        } else {
            return;
        }
        drop(view);
        self.environment.point(Point::Sealed);
    }

    fn seal_largest(&self, partition: &Partition) {
        let Some(keyspace) = self.keyspace_of(partition) else { return };
        let layout = keyspace.layout();
        let bytes = |partition: &&Arc<Partition>| partition.view().active.memtable.bytes();
        if let Some(largest) = layout.partitions().iter().max_by_key(bytes) {
            let active = Arc::clone(&largest.view().active);
            // Asked again where one seals at a time: of many writers that have seen it full only the first need.
            let most = self.options.space.memtable_bytes(self.options.memtable_bytes);
            let is_full = || partition.share.is_full(most) && !active.memtable.is_empty();
            if self.log.at_seal_point(|last| is_full() && largest.seal(&active, last)) {
                self.flush_wanted.notify_all();
                self.pace(largest);
            }
        }
    }

    /// After a write: asks for flushes when the log has outgrown its cap.
    pub(crate) fn watch_log(&self) {
        if self.log.backlog_bytes() > self.options.log_bytes_max {
            self.flush_wanted.notify_all();
        }
        self.watch_space();
    }

    /// Finds out how fast writers of a partition may go, now that its room has changed.
    pub(super) fn pace(&self, partition: &Partition) {
        let options = &self.options;
        let (trigger, stop) = (options.policy.level0_trigger() as u64, options.level0_stop as u64);
        let (sealed, sealed_max) = (partition.sealed_memtables() as u64, options.sealed_max as u64);
        let level0 = partition.level0_tables() as u64;
        let now_ns = self.environment.clock.now_ns();
        if level0 >= trigger {
            partition.pacer.level0_due(now_ns);
        }
        if sealed > 0 {
            partition.pacer.flush_due(now_ns);
        }
        // The flushes that relieve a long log come first, and get a quarter of what it may still grow by. What only
        // waits for a round to let it go is not theirs to free.
        let log_from = options.log_bytes_max.saturating_add(options.log_bytes_max / 4);
        let log = match self.log.backlog_bytes() {
            backlog if backlog <= log_from => backlog,
            _ => self.log.bytes_from(self.log_needed(None).position.segment()),
        };
        let flush = pressure(sealed, sealed_max.saturating_sub(2), sealed_max)
            .max(pressure(log, log_from, options.log_bytes_max.saturating_mul(2)))
            .max((self.lineage.retained_share() - 1.0).clamp(0.0, 1.0));
        let level0 = pressure(level0, trigger + stop.saturating_sub(trigger) / 4, stop);
        partition.pacer.press(now_ns, Pressure { flush, level0 });
    }

    /// Before a write of `bytes`, whose operation i goes to `routes[i]`: lets time pass while there is little room.
    pub(crate) fn let_time_pass(&self, routes: &[Arc<Partition>], bytes: usize) {
        let (ticket, clock) = (self.stopped.ticket(), &self.environment.clock);
        let mut now_ns = None;
        let mut delay_of = |run: &[Arc<Partition>]| {
            let partition = run.first().filter(|partition| partition.pacer.is_pressed())?;
            let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
            if partition.pacer.is_stale(now_ns) {
                self.pace(partition);
            }
            partition.pacer.delay_ns(bytes / routes.len() * run.len(), now_ns)
        };
        let longest = routes.chunk_by(Arc::ptr_eq).filter_map(&mut delay_of).max();
        if let Some((delay_ns, now_ns)) = longest.zip(now_ns) {
            self.environment.scheduler.wait(&self.stopped, ticket, Some(now_ns.saturating_add(delay_ns)));
            self.metrics.stalls_paced.record(clock.now_ns().saturating_sub(now_ns));
        }
    }

    /// Before a write: waits while a partition has no room. `Err` when the wait could be for ever, because what would
    /// make the room fails.
    pub(crate) fn wait_for_room(&self, partition: &Partition) -> Result<()> {
        let flush_trouble = || self.flush_trouble();
        self.stall_while("memtable", &self.metrics.stalls_memtable, flush_trouble, || {
            partition.sealed_memtables() >= self.options.sealed_max && !partition.is_dropped()
        })?;
        self.stall_while(
            "level 0",
            &self.metrics.stalls_level0,
            || partition.trouble().map(|trouble| trouble.error),
            || partition.level0_tables() >= self.options.level0_stop && !partition.is_dropped(),
        )?;
        // The log's own segments are bounded too: beyond twice the cap writers wait for the flushes that free them.
        self.stall_while("log", &self.metrics.stalls_log, flush_trouble, || {
            let most = self.options.log_bytes_max.saturating_mul(2);
            // What only waits for a round to let it go is not the flushes' to free.
            let is_long = || self.log.bytes_from(self.log_needed(None).position.segment()) > most;
            self.log.backlog_bytes() > most && self.flush_pending() && is_long()
        })
    }

    /// Before a keyspace is created or dropped: waits while the manifest is far behind with earlier ones.
    pub(crate) fn wait_for_definitions(&self) -> Result<()> {
        self.stall_while(
            "log",
            &self.metrics.stalls_log,
            || self.flush_trouble(),
            || self.definitions.lock().unwrap_or_else(PoisonError::into_inner).len() >= DEFINITIONS_MAX,
        )
    }

    fn stall_while(
        &self,
        cause: &'static str,
        stall: &Stall,
        trouble: impl Fn() -> Option<Error>,
        full: impl Fn() -> bool,
    ) -> Result<()> {
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
            trouble().map(Err)
        });
        let waited_ns = self.environment.clock.now_ns().saturating_sub(start);
        stall.record(waited_ns);
        trace::event!(INFO, "thalweg::stall", "a writer waited for room", cause = cause, waited_ns = waited_ns);
        result
    }

    /// Whether a memtable waits for its flush.
    pub(crate) fn flush_pending(&self) -> bool {
        let reshaped = self.metrics.reshaped();
        // A split meanwhile has made a partition that was not looked at.
        self.partitions().any(|partition| partition.sealed_memtables() > 0) || self.metrics.reshaped() != reshaped
    }

    /// Why flushes fail at present.
    pub(crate) fn flush_trouble(&self) -> Option<Error> {
        self.health.flushes.get().map(|trouble| trouble.error)
    }

    /// Has what failed tried again at once: somebody waits for it. Only failures from now on are told to those who ask
    /// [`Workshop::new_flush_trouble`] and [`Workshop::new_trouble`].
    fn retry_now(&self) {
        self.health.flushes.request_retry();
        self.flush_retry.notify_all();
        self.retry_parked();
    }

    /// Why a flush has failed, of those tried since somebody asked for it.
    fn new_flush_trouble(&self) -> Option<Error> {
        self.health.flushes.get().filter(|trouble| !trouble.is_retry_requested).map(|trouble| trouble.error)
    }

    /// Why a flush or a compaction of any partition has failed, of those tried since somebody asked for it.
    fn new_trouble(&self) -> Option<Error> {
        let compaction = |partition: Arc<Partition>| partition.trouble().filter(|trouble| !trouble.is_retry_requested);
        self.new_flush_trouble().or_else(|| self.partitions().find_map(compaction).map(|trouble| trouble.error))
    }

    /// What fails at present: each with the keyspace and partition it is of, for compactions.
    pub(crate) fn troubles(&self) -> Vec<(Option<(String, PartitionId)>, BackgroundError)> {
        let mut troubles: Vec<_> = self.health.background_errors().map(|trouble| (None, trouble)).collect();
        for keyspace in self.keyspaces().values() {
            for partition in keyspace.layout().partitions() {
                let place = || Some((keyspace.name.clone(), partition.id));
                troubles.extend(partition.trouble().map(|trouble| (place(), trouble)));
            }
        }
        troubles
    }

    /// All partitions of all keyspaces, in order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Arc<Partition>> + use<> {
        let keyspaces = self.keyspaces();
        let partitions: Vec<_> =
            keyspaces.values().flat_map(|keyspace| keyspace.layout().partitions().to_vec()).collect();
        partitions.into_iter()
    }

    /// Where the log is needed from, if the memtable `flushed` of a partition and everything flushed before are let go
    /// (DESIGN 5, Letting go).
    ///
    /// The published mark is read first: a record published before it was read is in a slot that is in a view now or
    /// was flushed; one published later begins at or after the mark. Then the registry, then the definitions: a
    /// keyspace that is gone from the registry by a drop the manifest does not know is among these.
    pub(super) fn log_needed(&self, flushed: Option<(&Partition, &Arc<Slot>)>) -> LogMark {
        let mut needed = self.log.published();
        let mut keep = |mark: LogMark| {
            if mark.position < needed.position {
                needed = mark;
            }
        };
        let mut partitions: Vec<Arc<Partition>> = Vec::new();
        if !planted(Bug::ColdPartitionForgotten) {
            partitions.extend(self.partitions());
        }
        for definition in self.definitions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            keep(definition.mark);
            // Until the drop is in the manifest a power cut may bring the keyspace back, with its records.
            partitions.extend(definition.dropped.iter().flat_map(|keyspace| keyspace.layout().partitions().to_vec()));
        }
        for partition in partitions {
            let view = partition.view();
            // After a split the other side may still need the same memtable.
            let flushed = flushed.filter(|(of, _)| std::ptr::eq(*of, &*partition)).map(|(_, slot)| slot);
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

    /// Flushes what keeps the log long, and waits until the manifest knows that it may go.
    pub(crate) fn shorten_log(&self) -> Result<()> {
        self.seal_all();
        let done = || {
            // A bar that has ended has told nobody.
            self.is_to_merge();
            self.next_work(false).is_none()
        };
        self.wait_for_progress(done, || self.flush_trouble())
    }

    /// Waits until every memtable is in tables (the active ones are sealed first).
    pub(crate) fn flush(&self) -> Result<()> {
        self.seal_all();
        // Not by partition: after a split both sides have to flush what was sealed before.
        let waiting: Vec<Arc<Slot>> = self.partitions().flat_map(|partition| partition.view().sealed.clone()).collect();
        let is_waiting = |slot: &Arc<Slot>| waiting.iter().any(|other| Arc::ptr_eq(slot, other));
        let done = || {
            let reshaped = self.metrics.reshaped();
            let is_left = self.partitions().any(|partition| partition.view().sealed.iter().any(is_waiting));
            !is_left && self.metrics.reshaped() == reshaped
        };
        self.retry_now();
        self.wait_for_progress(done, || self.new_flush_trouble())
    }

    /// Waits until no memtable waits for its flush and no compaction runs or is wanted.
    pub(crate) fn wait_for_compactions(&self) -> Result<()> {
        let done = || !self.flush_pending() && !self.compaction_pending();
        self.retry_now();
        self.wait_for_progress(done, || self.new_trouble())
    }

    /// Flushes, and compacts as a quiet database does, until little of what was replaced is left.
    pub(crate) fn tidy(&self) -> Result<()> {
        self.flush()?;
        self.wait_for_compactions()?;
        self.tidying.fetch_add(1, Ordering::Relaxed);
        self.compaction_wanted.notify_all();
        let is_untidy = |partition: Arc<Partition>| {
            let running = partition.running();
            let view = partition.view();
            let is_wanted = || self.policy_of(&partition).pick_tidy(&view.levels, &running).is_some();
            !running.is_empty() || (!partition.is_dropped() && is_wanted())
        };
        let is_done = || !self.partitions().any(is_untidy) && !self.compaction_pending();
        let done = self.wait_for_progress(is_done, || self.new_trouble());
        self.tidying.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Waits until `done`, or what would bring it about fails.
    fn wait_for_progress(&self, done: impl Fn() -> bool, trouble: impl Fn() -> Option<Error>) -> Result<()> {
        self.environment.wait_until(&self.progress, || {
            if done() {
                return Some(Ok(()));
            }
            self.health.check().err().or_else(&trouble).map(Err)
        })
    }

    /// Lets the background coroutines end at the next opportunity.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stopped.notify_all();
        self.flush_retry.notify_all();
        self.flush_wanted.notify_all();
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
    }

    /// Whether background work should end: closing, or poisoned (nothing it makes could be installed).
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.health.check().is_err()
    }

    /// All tables of a keyspace, each once.
    pub(super) fn tables_of(keyspace: &OrderedKeyspace) -> Vec<Arc<Table>> {
        let layout = keyspace.layout();
        let tables = layout.partitions().iter().flat_map(|partition| partition.view().levels.concat());
        // Partitions may share some.
        tables.map(|table: Arc<Table>| (table.meta().id, table)).collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
