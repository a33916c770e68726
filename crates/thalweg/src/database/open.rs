//! Opening: lock, recovery, replay, and the start of the background work.
//!
//! Order (`docs/durability.md`): nothing on disk is changed until the recovered state is durable in a new manifest;
//! only then is the log's valid end sealed, and only then do orphans go. Copies and a report of what `PointInTime`
//! drops come first ([`super::dropped`]).

use super::directory::{create_layout, lock_for_reading, lock_for_writing};
use super::dropped::DroppedReport;
use super::engine::{Engine, Mode, Writable};
use super::fast_home::{self, FastHome};
use super::opened_tier::{FoundTier, fast_tables};
use super::opening::{Begun, Found, Opening};
use super::options::Options;
use super::statistics::StatisticsSource;
use super::status;
use super::tasks::TaskCount;
#[cfg(feature = "experiments")]
use crate::directory::remove_scratch_files;
use crate::error::{Error, Result};
use crate::keyspaces::{Replay, Replayed, SnapshotRegistry};
use crate::lineage::{Recovered, State};
use crate::memtable::MemtablePool;
use crate::metrics::Metrics;
use crate::ordered::{Memory, OrderedKeyspace, OrderedKind, OrderedOptions};
use crate::runtime::threads::RINGS_ARE_OFF;
use crate::runtime::{AsyncMutex, Environment, Health, Lane};
use crate::storage::{Storage, frugal, metered};
use crate::sync::Mutex;
use crate::table::{TableStore, TableWriters};
use crate::trace;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

fn tell_recovered(recovered: &Recovered) {
    trace::event!(
        INFO,
        "thalweg::open",
        "recovered",
        log_records = recovered.log.records,
        dropped = recovered.dropped.len(),
        tables = recovered.state.tables().count(),
    );
}

/// Runs recovery. If recovery fails because of trouble with the fast tier, that trouble is the error.
fn recover(
    environment: &Environment,
    root: &Path,
    home: Option<&FastHome>,
    options: &Options,
    read_only: bool,
) -> Result<Option<Recovered>> {
    let recovered = Recovered::run(environment, fast_home::homes(root, home), options.damage_policy, read_only);
    recovered.map_err(|error| fast_home::trouble_or(home, error))
}

/// Opens a database for reading and writing.
pub(super) fn open(mut environment: Environment, root: &Path, options: Options) -> Result<Engine> {
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
    let (clock, delay) = (Arc::clone(&environment.clock), options.sync_delay);
    environment.storage = metered(frugal(environment.storage), clock, Arc::clone(&metrics), delay);
    let lock = lock_for_writing(&*environment.storage, root, options.create_if_missing)?;
    trace::event!(INFO, "thalweg::open", "locked");
    let found = FoundTier::find(&*environment.storage, root, &options)?;
    let recovered = recover(&environment, root, found.home.as_ref(), &options, false)?;
    recovered.iter().for_each(tell_recovered);
    if recovered.is_none() {
        create_layout(&environment, root, options.create_if_missing)?;
    }
    let state = recovered.as_ref().map(|recovered| recovered.state.clone()).unwrap_or_default();
    let tables = table_store(&environment, root, &options, &metrics, &state);
    let space = options.space(&environment.storage, root);
    let tier = found.open(&environment, &space, &options, &state, (&tables, &metrics))?;
    let directory_options = options.directories(Arc::clone(&space));
    #[cfg(feature = "experiments")]
    let directory_options = with_f_hashes(directory_options, &environment.storage, root, &options)?;
    let kind = OrderedKind {
        options: Arc::new(options.ordered(Arc::clone(&space), tier.tier.clone())),
        directory_options: Arc::new(directory_options),
        memory: memory(&options, &*environment.storage, &tables),
    };
    let log = recovered.as_ref().map(|recovered| recovered.log.reader());
    let replay = Replay::new(&kind, &state, &tables, root)?;
    let storage = Arc::clone(&environment.storage);
    let report = DroppedReport::read(&*storage, root)?;
    let found = Found { recovered, tier, report: &report };
    let of = Opening { environment, health, metrics, options, space, tables, kind: kind.clone() };
    let (begun, next_keyspace) = of.replay(replay, log.as_ref(), found)?;
    let Begun { writable, snapshots, dropped, lock: tier_lock } = begun;
    // Replayed entries count to the budget of their keyspace.
    writable.ordered.partitions.iter().for_each(|partition| {
        partition.count_active(&partition.super_version().active);
    });
    writable.space.watch();
    let Opening { environment, metrics, options, .. } = of;
    let engine = Engine {
        environment,
        metrics,
        options,
        mode: Mode::Writable(writable),
        snapshots,
        dropped,
        definition_turn: AsyncMutex::default(),
        next_keyspace: AtomicU64::new(next_keyspace.0),
        workers: Arc::new(TaskCount::default()),
        services: Arc::new(TaskCount::default()),
        closed: AtomicBool::new(false),
        locks: Mutex::new([Some(lock), tier_lock].into_iter().flatten().collect()),
    };
    engine.start(root)?;
    report.remove(&engine.dropped);
    trace::event!(INFO, "thalweg::open", "opened");
    Ok(engine)
}

/// Opens a database for reading: everything is replayed in memory.
pub(super) fn open_read_only(mut environment: Environment, root: &Path, options: Options) -> Result<Engine> {
    environment.storage = frugal(environment.storage);
    let lock = lock_for_reading(&environment, root)?;
    let wanted = options.fast_tier().and_then(|tier| tier.directory());
    let wanted = wanted.map(|(directory, _)| environment.storage.resolved(directory)).transpose()?;
    let found = FastHome::find(&*environment.storage, root, wanted.as_deref())?;
    let recovered = recover(&environment, root, found.as_ref(), &options, true)?;
    let recovered = recovered.ok_or_else(|| Error::NoDatabase { path: Arc::from(root) })?;
    let metrics = Arc::new(Metrics::default());
    let tables = table_store(&environment, root, &options, &metrics, &recovered.state);
    let space = options.space(&environment.storage, root);
    // Nothing is sealed, as nothing will be flushed.
    let fast = found.filter(|_| recovered.state.fast_tables().next().is_some());
    let fast = fast.map(|home| fast_tables(&environment, &home, &metrics)).transpose()?;
    let tier = fast.and_then(|fast| options.tier(&environment, Some(&fast), &tables, &recovered.state));
    let unsealed = |options| Arc::new(OrderedOptions { memtable_bytes: usize::MAX, ..options });
    let kind = OrderedKind {
        options: unsealed(options.ordered(Arc::clone(&space), tier)),
        directory_options: unsealed(options.directories(space)),
        memory: Memory { pool: options.replayed_pool(&*environment.storage), cache: Arc::clone(tables.cache()) },
    };
    let mut replay = Replay::new(&kind, &recovered.state, &tables, root)?;
    replay_in_memory(&mut replay, &recovered, &kind.memory.pool, root)?;
    metrics.replay_memory_bytes.raise_to(kind.memory.pool.used_bytes() as u64);
    let Replayed { registry, next_keyspace } = replay.finish()?;
    let keyspaces = registry.keyspaces();
    let report = DroppedReport::read(&*environment.storage, root)?;
    let dropped = report.told(recovered.manifest(), &recovered.dropped);
    let services = Arc::<TaskCount>::default();
    services.spawn(&environment, &Arc::default(), Lane::Compaction, tables.warming());
    Ok(Engine {
        environment,
        metrics,
        options,
        mode: Mode::ReadOnly { keyspaces, visible: recovered.log.end.seq, log_bytes: recovered.log.bytes(), tables },
        snapshots: Arc::new(SnapshotRegistry::default()),
        dropped,
        definition_turn: AsyncMutex::default(),
        next_keyspace: AtomicU64::new(next_keyspace.0),
        workers: Arc::new(TaskCount::default()),
        services,
        closed: AtomicBool::new(false),
        locks: Mutex::new(lock.into_iter().collect()),
    })
}

/// Replays the log of a database that is opened for reading. Refuses a log that takes more memory than memtables may
/// have; the rest of such a log is only measured.
fn replay_in_memory(replay: &mut Replay<'_>, recovered: &Recovered, pool: &MemtablePool, root: &Path) -> Result<()> {
    let (mut is_too_much, mut rest_bytes) = (false, 0);
    recovered.log.reader().replay(&mut |mark, seq, record| {
        if is_too_much {
            rest_bytes += Replay::bytes_of(record);
            return Ok(());
        }
        replay.record(mark, seq, record)?;
        is_too_much = pool.is_past();
        Ok(())
    })?;
    if !is_too_much {
        return Ok(());
    }
    let (used, inserted) = (pool.used_bytes() as u64, replay.inserted_bytes().max(1));
    let needed = u128::from(used) * u128::from(inserted + rest_bytes) / u128::from(inserted);
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    // A memtable grows by a block at most, and at most doubles.
    let keyspaces = replay.registry().keyspaces();
    let memtables: usize = keyspaces.of_kind::<OrderedKeyspace>().map(|it| it.layout().partitions().len()).sum();
    let unused = (memtables * MemtablePool::UNUSED_BYTES_MAX) as u64;
    let needed_bytes = needed.saturating_add(unused.min(needed));
    Err(Error::NotEnoughMemory { path: Arc::from(root), needed_bytes, allowed_bytes: pool.used_bytes_max() as u64 })
}

impl Engine {
    /// Starts the background work.
    fn start(&self, root: &Path) -> Result<()> {
        let writable = self.writable()?;
        let Writable { health, log, lineage, tables, ordered, .. } = writable;
        let environment = &self.environment;
        let (storage, source) = (Arc::clone(&environment.storage), StatisticsSource::of(self, writable));
        let status = status::keep(storage, root.to_path_buf(), Arc::clone(log), source);
        self.services.spawn(environment, health, Lane::Compaction, status);
        for (lane, task) in log.tasks() {
            self.services.spawn(environment, health, lane, task);
        }
        for task in lineage.tasks() {
            self.services.spawn(environment, health, Lane::Compaction, task);
        }
        self.services.spawn(environment, health, Lane::Compaction, tables.warming());
        let writers = |lane: Lane| {
            let (queue, coroutine) = tables.write_queue();
            self.workers.spawn(environment, health, lane, coroutine);
            TableWriters::new(Arc::clone(tables), queue)
        };
        let flusher = Arc::clone(&ordered.flusher).run(writers(Lane::Flush));
        self.workers.spawn(environment, health, Lane::Flush, flusher);
        if let Some(evictor) = &ordered.evictor {
            let evictor = Arc::clone(evictor).run(writers(Lane::Flush));
            self.workers.spawn(environment, health, Lane::Flush, evictor);
        }
        let (workers, compactions_each) = match self.options.scheduling().blocks() {
            true => (self.options.compactors(), 1),
            false => (self.options.compaction_workers(), self.options.compactions_a_worker()),
        };
        for worker in 0..workers {
            let lane = Lane::CompactionWorker(worker);
            let writers = writers(lane);
            for _ in 0..compactions_each {
                let compactor = Arc::clone(&ordered.compactor).run(writers.clone());
                self.workers.spawn(environment, health, lane, compactor);
            }
            if let Some(evictor) = &ordered.evictor {
                self.workers.spawn(environment, health, lane, Arc::clone(evictor).run(writers.clone()));
            }
        }
        Ok(())
    }
}

fn table_store(
    environment: &Environment,
    root: &Path,
    options: &Options,
    metrics: &Arc<Metrics>,
    state: &State,
) -> Arc<TableStore> {
    if !options.io_uring {
        metrics.read_ring_refused.get_or_init(|| RINGS_ARE_OFF.to_owned());
    }
    let cache = options.block_cache(&*environment.storage);
    let directory = root.join("tables");
    TableStore::new(environment.clone(), directory, options.tables(), cache, Arc::clone(metrics), state.next_table)
}

/// The options of directory keyspaces that are open for writing: with f-hashes, if these were chosen.
#[cfg(feature = "experiments")]
fn with_f_hashes(
    ordered: OrderedOptions,
    storage: &Arc<dyn Storage>,
    root: &Path,
    options: &Options,
) -> Result<OrderedOptions> {
    remove_scratch_files(&**storage, root)?;
    Ok(OrderedOptions { f_hashes: options.f_hashes(storage, root), ..ordered })
}

/// The memory for memtables. The pool keeps memory for the active memtable and for one that is flushed meanwhile. With
/// more, idle memory would grow.
fn memory(options: &Options, storage: &dyn Storage, tables: &TableStore) -> Memory {
    let most = options.memtables_bytes_max(options.memory_budget(storage));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let pool = MemtablePool::bounded(options.memtable_bytes().saturating_mul(2), most);
    Memory { pool, cache: Arc::clone(tables.cache()) }
}
