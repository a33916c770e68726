//! [`Opening`]: the part of an open for writing in which the log is replayed, and a manifest and the log begin.
//!
//! A replay within its bounds ([`ReplayBounds`]) changes nothing on the disk; a manifest and the log begin after it. A
//! longer replay begins them on the way, and from then on flushes whenever a bound is exceeded. Nothing else flushes,
//! compacts or settles before the open has ended, and no coroutine of a replay is left when the replay goes on.

use super::dropped::DroppedReport;
use super::engine::Writable;
use super::opened_tier::OpenedTier;
use super::options::Options;
use super::tasks::TaskCount;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{KeyspaceId, LogMark, SeqNo};
use crate::keyspaces::{
    Backpressure, ClearedGenerations, CompactionPace, DefinitionInstaller, IdleMemory, LogPins, Pacer, Registry,
    Replay, Replayed, Signals, SnapshotRegistry, SpaceWatch,
};
use crate::lineage::{Lineage, Recovered};
use crate::log::{Log, LogReader};
use crate::metrics::Metrics;
use crate::ordered::{Dependencies, OrderedBackground, OrderedKind, ReplayBounds};
use crate::runtime::{Environment, Health, Lane, Space};
use crate::storage::StorageLock;
use crate::sync::Mutex;
use crate::table::{TableStore, TableWriters};
use crate::trace;
use std::path::Path;
use std::sync::Arc;

/// The parts of an open that exist before it replays the log.
pub(super) struct Opening {
    pub(super) environment: Environment,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) options: Options,
    pub(super) space: Arc<Space>,
    pub(super) tables: Arc<TableStore>,
    pub(super) kind: OrderedKind,
}

/// The findings of recovery, from which a manifest begins.
pub(super) struct Found<'a> {
    pub(super) recovered: Option<Recovered>,
    pub(super) tier: OpenedTier,
    pub(super) report: &'a DroppedReport<'a>,
}

/// The parts of an open whose manifest has begun.
pub(super) struct Begun {
    pub(super) writable: Writable,
    pub(super) snapshots: Arc<SnapshotRegistry>,
    /// The changes that recovery dropped, in words.
    pub(super) dropped: Vec<String>,
    /// The lock of the fast tier's directory.
    pub(super) lock: Option<Box<dyn StorageLock>>,
}

/// A replay in progress.
struct Progress<'a> {
    of: &'a Opening,
    bounds: ReplayBounds,
    /// The findings of recovery, until a manifest begins.
    found: Option<Found<'a>>,
    begun: Option<Begun>,
    /// Whether a table found no room. Then the rest of the log is replayed in memory, and flushed when there is room.
    has_no_room: bool,
    /// The most memory that memtables had.
    memory_bytes: usize,
}

impl Opening {
    /// Replays `log`, and begins a manifest and the log. Also returns the first id that no keyspace has had.
    pub(super) fn replay(
        &self,
        mut replay: Replay<'_>,
        log: Option<&LogReader>,
        found: Found<'_>,
    ) -> Result<(Begun, KeyspaceId)> {
        let (pool, sealed_max) = (&self.kind.memory.pool, self.options.sealed_memtables_max);
        let mut progress = Progress {
            of: self,
            bounds: ReplayBounds::new(replay.registry(), pool, sealed_max, &self.kind.options),
            found: Some(found),
            begun: None,
            has_no_room: false,
            memory_bytes: 0,
        };
        if let Some(log) = log {
            log.replay(&mut |mark, first, record| {
                let has_filled = replay.record(mark, first, record)?;
                progress.look(&mut replay, mark, has_filled)
            })?;
        }
        self.metrics.replay_memory_bytes.raise_to(progress.memory_bytes as u64);
        let Replayed { registry, next_keyspace } = replay.finish()?;
        trace::event!(INFO, "thalweg::open", "replayed", keyspaces = registry.keyspaces().len());
        progress.begin(&registry)?;
        let Some(begun) = progress.begun else { unreachable!("it has begun") };
        begun.writable.ordered.replay.finish();
        Ok((begun, next_keyspace))
    }

    /// Begins a manifest, then the log, then the removal of orphans.
    fn begin(&self, Found { recovered, tier, report }: Found<'_>, registry: &Arc<Registry>) -> Result<Begun> {
        let (manifest, new) = dropped_of(recovered.as_ref());
        let dropped = report.told(manifest, new);
        report.keep(manifest, new)?;
        let fast_directory = tier.files.as_ref().map(|files| files.directory());
        let (log, lineage) = begin(self, fast_directory, recovered)?;
        trace::event!(INFO, "thalweg::open", "began a manifest and the log");
        lineage.attach(Arc::clone(&log), Arc::clone(&self.tables), tier.files)?;
        if let Some(unused) = tier.unused {
            unused.forget(&*self.environment.storage, self.space.root());
        }
        let (writable, snapshots) = assemble(self, (log, lineage), Arc::clone(registry));
        Ok(Begun { writable, snapshots, dropped, lock: tier.lock })
    }
}

impl Progress<'_> {
    /// Begins a manifest and the log, if that was not done.
    fn begin(&mut self, registry: &Arc<Registry>) -> Result<()> {
        if let Some(found) = self.found.take() {
            self.begun = Some(self.of.begin(found, registry)?);
        }
        Ok(())
    }

    /// Called after the record at `mark`. Flushes if a bound is exceeded.
    fn look(&mut self, replay: &mut Replay<'_>, mark: LogMark, has_filled: bool) -> Result<()> {
        self.memory_bytes = self.memory_bytes.max(self.of.kind.memory.pool.used_bytes());
        if self.has_no_room || !self.bounds.are_exceeded(has_filled) {
            return Ok(());
        }
        replay.load()?;
        self.begin(&Arc::clone(replay.registry()))?;
        match self.flush(mark, replay.last()) {
            Err(error) if (error.kind() == ErrorKind::NoSpace || error.is_shortage()) && self.is_sound() => {
                self.has_no_room = true;
                trace::event!(INFO, "thalweg::open", "no room for tables: replays in memory");
                Ok(())
            }
            done => done,
        }
    }

    fn is_sound(&self) -> bool {
        self.of.health.check().is_ok()
    }

    /// Flushes in coroutines, and waits for their end.
    fn flush(&self, mark: LogMark, last: SeqNo) -> Result<()> {
        let Some(Begun { writable, .. }) = &self.begun else { unreachable!("it has begun") };
        let Opening { environment, health, tables, .. } = self.of;
        let coroutines = Arc::<TaskCount>::default();
        let (queue, serve) = tables.write_queue();
        coroutines.spawn(environment, health, Lane::Flush, serve);
        let done = Arc::new(Mutex::new(None));
        let flush = {
            let (flusher, bounds, done) =
                (Arc::clone(&writable.ordered.replay), self.bounds.clone(), Arc::clone(&done));
            let writers = TableWriters::new(Arc::clone(tables), queue);
            async move {
                let result = flusher.relieve(&bounds, &writers, (mark, last)).await;
                *done.lock() = Some(result);
            }
        };
        coroutines.spawn(environment, health, Lane::Flush, flush);
        coroutines.wait(environment);
        let result = done.lock().take();
        match result {
            // The flush has panicked, which poisons.
            None => health.check().and(Err(Error::internal("a flush of a replay has no result"))),
            // The failure that has poisoned the database stopped the flush.
            Some(Err(Error::Closed)) => health.check().and(Err(Error::Closed)),
            Some(result) => result,
        }
    }
}

/// The number of the manifest that was read, and the changes that are dropped.
fn dropped_of(recovered: Option<&Recovered>) -> (u64, &[String]) {
    recovered.map_or((0, &[]), |recovered| (recovered.manifest(), &recovered.dropped))
}

/// Puts together what all kinds of keyspaces share, and the background work on ordered ones.
fn assemble(
    of: &Opening,
    (log, lineage): (Arc<Log>, Arc<Lineage>),
    registry: Arc<Registry>,
) -> (Writable, Arc<SnapshotRegistry>) {
    let Opening { environment, health, metrics, options, tables, kind, .. } = of;
    let (environment, health, metrics) = (environment.clone(), Arc::clone(health), Arc::clone(metrics));
    let (tables, kind) = (Arc::clone(tables), kind.clone());
    let signals = Signals::new(&environment, &health);
    let snapshots = Arc::new(SnapshotRegistry::default());
    log.tell_when_quiet(Arc::clone(&signals.flush_wanted));
    snapshots.notify_on_return(Arc::clone(&signals.flush_wanted), Arc::clone(&signals.compaction_wanted));
    let tier = kind.options.tier.as_ref().map(|tier| &tier.room);
    let log_pins = LogPins::new(&log, &registry, options.log_bytes_max, lineage.state().log_start, tier);
    let cleared = ClearedGenerations::new(&snapshots, &log, &lineage, &signals);
    let space = SpaceWatch::new(&kind.options.space, &log, &lineage, &registry);
    let backpressure = Arc::new(Backpressure {
        environment: environment.clone(),
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        lineage: Arc::clone(&lineage),
        registry: Arc::clone(&registry),
        log_pins: Arc::clone(&log_pins),
        signals: Arc::clone(&signals),
        limits: options.backpressure(),
        pool: kind.memory.pool.clone(),
        tier: tier.cloned(),
        shared_pacer: Pacer::default(),
        compaction_pace: CompactionPace::default(),
        gate: tables.gate(),
    });
    let installer = Arc::new(DefinitionInstaller {
        environment: environment.clone(),
        lineage: Arc::clone(&lineage),
        registry: Arc::clone(&registry),
        log_pins: Arc::clone(&log_pins),
        cleared: Arc::clone(&cleared),
        signals: Arc::clone(&signals),
    });
    let idle_memory = Arc::new(IdleMemory::new(&environment, &kind.memory.pool, &tables, &metrics));
    let with = Dependencies {
        environment,
        health,
        metrics,
        log,
        lineage,
        tables,
        registry,
        log_pins,
        snapshots,
        cleared,
        installer,
        backpressure,
        space,
        idle_memory,
        signals,
        options: Arc::clone(&kind.options),
    };
    let ordered = OrderedBackground::new(&with);
    let Dependencies { health, log, lineage, tables, registry, snapshots, backpressure, space, signals, .. } = with;
    (Writable { health, log, lineage, tables, registry, backpressure, space, signals, kind, ordered }, snapshots)
}

/// Begins the manifest, then the log: the recovered state is durable in a new manifest before the log is touched. A
/// new database's manifest says that the log starts with its first segment, whichever that will be.
fn begin(
    of: &Opening,
    fast_directory: Option<&Path>,
    recovered: Option<Recovered>,
) -> Result<(Arc<Log>, Arc<Lineage>)> {
    let Opening { environment, health, metrics, options, space, .. } = of;
    let lineage = Lineage::begin(
        environment.clone(),
        Arc::clone(health),
        Arc::clone(metrics),
        Arc::clone(space),
        options.settling(),
        fast_directory,
        recovered.as_ref(),
    )?;
    #[cfg(feature = "simulation")]
    if let Some(bytes) = options.manifest_rotation_bytes {
        lineage.set_rotation_bytes(bytes);
    }
    #[cfg(feature = "simulation")]
    if let Some(bytes) = options.removed_piece_bytes {
        lineage.set_piece_bytes(bytes);
    }
    let log = Log::begin(
        environment.clone(),
        Arc::clone(health),
        Arc::clone(metrics),
        space.root().join("log"),
        options.log(Arc::clone(space)),
        recovered.map(|recovered| recovered.log),
    )?;
    Ok((log, lineage))
}
