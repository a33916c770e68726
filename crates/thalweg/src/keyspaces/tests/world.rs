//! [`World`]: log, lineage, tables and what keyspaces share, open on a simulated disk, without an engine.

use super::map_keyspace::{MapKeyspace, MapKind};
use crate::cache::BlockCache;
use crate::clock::{SystemClock, SystemEntropy};
use crate::format::{EntryKind, KeyspaceId, KeyspaceKind, SeqNo, Slice};
use crate::keyspaces::{
    Backpressure, BackpressureLimits, ClearedGenerations, CompactionPace, DefinitionInstaller, Keyspace, Kind, LogPins,
    NewKeyspace, Pacer, Registry, Replay, Replayed, Signals, SnapshotRegistry, SpaceWatch,
};
use crate::lineage::{DurabilityBackend, Homes, Lineage, Recovered, Settling};
use crate::log::{DamagePolicy, Log, LogOptions, Operation, RecordBuilder};
use crate::memtable::MemtablePool;
use crate::metrics::Metrics;
use crate::runtime::threads::ThreadScheduler;
use crate::runtime::{Environment, Health, Lane, Space};
use crate::storage::Storage;
use crate::storage::simulated::{SimulatedDisk, Strictness};
use crate::table::{Compression, PackWrites, TableOptions, TableReads, TableStore, TableWriters, TableWrites};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(super) struct World {
    disk: SimulatedDisk,
    environment: Environment,
    pub(super) log: Arc<Log>,
    pub(super) lineage: Arc<Lineage>,
    tables: Arc<TableStore>,
    writers: TableWriters,
    pub(super) registry: Arc<Registry>,
    pub(super) log_pins: Arc<LogPins>,
    pub(super) snapshots: Arc<SnapshotRegistry>,
    pub(super) backpressure: Backpressure,
    pub(super) space: Arc<SpaceWatch>,
    pub(super) installer: DefinitionInstaller,
    signals: Arc<Signals>,
    next_keyspace: KeyspaceId,
}

impl World {
    pub(super) fn new() -> World {
        let disk = SimulatedDisk::new(1);
        for path in ["/db", "/db/log", "/db/tables"] {
            disk.create_directory(Path::new(path)).unwrap();
        }
        for path in ["/", "/db"] {
            disk.sync_directory(Path::new(path)).unwrap();
        }
        World::open(disk)
    }

    /// Ends everything and opens what a crash leaves.
    pub(super) fn crash(self) -> World {
        let after = self.disk.crash(Strictness::LoseUnsynced);
        self.stop();
        World::open(after)
    }

    fn open(disk: SimulatedDisk) -> World {
        let root = Path::new("/db");
        let clock = Arc::new(SystemClock::default());
        let scheduler = Arc::new(ThreadScheduler::new(clock.clone(), 1).unwrap());
        let environment =
            Environment { storage: Arc::new(disk.clone()), clock, entropy: Arc::new(SystemEntropy), scheduler };
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
        let recovered = Recovered::run(&environment, Homes::of(root), DamagePolicy::Strict, false).unwrap();
        let state = recovered.as_ref().map(|recovered| recovered.state.clone()).unwrap_or_default();
        let tables = TableStore::new(
            environment.clone(),
            root.join("tables"),
            table_options(),
            BlockCache::new(1 << 20),
            Arc::clone(&metrics),
            state.next_table,
        );
        let mut replay = Replay::new(&MapKind, &state, &tables, root).unwrap();
        if let Some(recovered) = &recovered {
            let each = &mut |mark, seq, record: &_| replay.record(mark, seq, record).map(drop);
            recovered.log.reader().replay(each).unwrap();
        }
        let Replayed { registry, next_keyspace } = replay.finish().unwrap();
        let space = Space::new(Arc::clone(&environment.storage), root, 1 << 20, 1 << 20);
        let below = (environment.clone(), Arc::clone(&health), Arc::clone(&metrics));
        let lineage = {
            let (environment, health, metrics) = below.clone();
            Lineage::begin(environment, health, metrics, Arc::clone(&space), settling(), None, recovered.as_ref())
                .unwrap()
        };
        let options = LogOptions { segment_bytes: 64 << 10, sync_interval: None, space: Arc::clone(&space) };
        let log = {
            let (environment, health, metrics) = below;
            let scan = recovered.map(|recovered| recovered.log);
            Log::begin(environment, health, metrics, root.join("log"), options, scan).unwrap()
        };
        lineage.attach(Arc::clone(&log), Arc::clone(&tables), None).unwrap();
        log.tasks().into_iter().for_each(|(lane, task)| environment.scheduler.spawn(lane, task));
        lineage.tasks().into_iter().for_each(|task| environment.scheduler.spawn(Lane::Compaction, task));
        let (queue, coroutine) = tables.write_queue();
        environment.scheduler.spawn(Lane::Flush, Box::pin(coroutine));
        let writers = TableWriters::new(Arc::clone(&tables), queue);

        let signals = Signals::new(&environment, &health);
        let snapshots = Arc::new(SnapshotRegistry::default());
        let log_pins = LogPins::new(&log, &registry, 1 << 20, state.log_start, None);
        let cleared = ClearedGenerations::new(&snapshots, &log, &lineage, &signals);
        let space = SpaceWatch::new(&space, &log, &lineage, &registry);
        let backpressure = Backpressure {
            environment: environment.clone(),
            health,
            metrics,
            lineage: Arc::clone(&lineage),
            registry: Arc::clone(&registry),
            log_pins: Arc::clone(&log_pins),
            signals: Arc::clone(&signals),
            limits: BackpressureLimits { sealed_max: 2, log_bytes_max: 1 << 20 },
            pool: MemtablePool::new(0),
            tier: None,
            shared_pacer: Pacer::default(),
            compaction_pace: CompactionPace::default(),
            gate: tables.gate(),
        };
        let installer = DefinitionInstaller {
            environment: environment.clone(),
            lineage: Arc::clone(&lineage),
            registry: Arc::clone(&registry),
            log_pins: Arc::clone(&log_pins),
            cleared,
            signals: Arc::clone(&signals),
        };
        World {
            disk,
            environment,
            log,
            lineage,
            tables,
            writers,
            registry,
            log_pins,
            snapshots,
            backpressure,
            space,
            installer,
            signals,
            next_keyspace,
        }
    }

    fn stop(&self) {
        self.signals.stop();
        self.lineage.stop();
        self.log.stop();
        self.environment.scheduler.shutdown();
    }

    /// Creates a keyspace by a record of the log.
    pub(super) fn create(&mut self, name: &str) -> Arc<MapKeyspace> {
        let id = self.next_keyspace;
        self.next_keyspace = KeyspaceId(id.0 + 1);
        let operation =
            Operation::CreateKeyspace { keyspace: id, name, splits: Vec::new(), kind: KeyspaceKind::Ordered };
        let mut made = None;
        self.write_definition(&operation, |mark, seq| {
            let new = NewKeyspace { id, name, splits: Vec::new(), kind: KeyspaceKind::Ordered, after: seq };
            let creation = new.change();
            let keyspace = MapKind.create(new);
            made = Arc::clone(&keyspace).downcast();
            self.registry.create(keyspace, creation, mark, seq);
        });
        made.unwrap()
    }

    /// Drops a keyspace by a record of the log.
    pub(super) fn drop_keyspace(&self, keyspace: &Arc<MapKeyspace>) {
        let keyspace: Arc<dyn Keyspace> = Arc::clone(keyspace) as _;
        let operation = Operation::DropKeyspace { keyspace: keyspace.id() };
        self.write_definition(&operation, |mark, seq| self.registry.drop_keyspace(&keyspace, mark, seq));
    }

    fn write_definition(&self, operation: &Operation<'_>, apply: impl FnOnce(crate::format::LogMark, SeqNo)) {
        self.backpressure.wait_for_definitions().unwrap();
        let mut record = RecordBuilder::new();
        record.push(operation);
        let record = record.finish();
        let reservation = self.space.reserve(&record, false).unwrap();
        self.log.copy_in(&reservation, &record, true).unwrap();
        apply(reservation.mark(), reservation.first_seq());
        self.signals.definition_queued();
        let end = reservation.end();
        self.log.publish(reservation).unwrap();
        self.log.sync(end).unwrap();
    }

    /// Clears a keyspace by a record of the log. Returns its next generation.
    pub(super) fn clear(&self, keyspace: &Arc<MapKeyspace>) -> Arc<MapKeyspace> {
        let before: Arc<dyn Keyspace> = Arc::clone(keyspace) as _;
        let mut record = RecordBuilder::new();
        record.push(&Operation::ClearKeyspace { keyspace: before.id() });
        let record = record.finish();
        let granted = |mark, seq| self.registry.clear(&before, mark, seq);
        let reservation = self.space.reserve_and(&record, granted).unwrap();
        self.log.copy_in(&reservation, &record, true).unwrap();
        let end = reservation.end();
        self.log.publish(reservation).unwrap();
        self.log.sync(end).unwrap();
        self.keyspace(before.name()).unwrap()
    }

    /// Puts a value, durably.
    pub(super) fn put(&self, keyspace: &Arc<MapKeyspace>, key: &str, value: &str) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let mut record = RecordBuilder::new();
        record.push(&Operation::Put { keyspace: keyspace.id(), key, value });
        let record = record.finish();
        self.backpressure.let_time_pass(std::slice::from_ref(keyspace), record.bytes());
        self.backpressure.wait_for_room(&**keyspace).unwrap();
        let reservation = self.space.reserve(&record, false).unwrap();
        self.log.copy_in(&reservation, &record, true).unwrap();
        keyspace.insert(reservation.mark(), key, reservation.first_seq(), EntryKind::Put, value);
        let end = reservation.end();
        self.log.publish(reservation).unwrap();
        self.log.sync(end).unwrap();
    }

    pub(super) fn get(&self, keyspace: &MapKeyspace, key: &str) -> Option<Slice> {
        keyspace.get(key.as_bytes(), self.log.visible())
    }

    /// Seals the keyspace and flushes it, after the definitions.
    pub(super) fn flush(&self, keyspace: &MapKeyspace) {
        self.install_definitions();
        self.log.at_seal_point(|last| keyspace.seal(last));
        self.backpressure.pace(keyspace);
        let writers = (&*self.tables, &self.writers);
        block_on(keyspace.flush(&self.log, &self.lineage, &self.log_pins, writers)).unwrap();
        self.backpressure.pace(keyspace);
    }

    pub(super) fn install_definitions(&self) {
        if !self.registry.definitions().is_empty() {
            block_on(self.installer.install()).unwrap();
        }
    }

    /// The keyspace of that name, as one of the second kind.
    pub(super) fn keyspace(&self, name: &str) -> Option<Arc<MapKeyspace>> {
        self.registry.keyspaces().find(name).cloned()?.downcast()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

fn settling() -> Settling {
    Settling {
        backend: DurabilityBackend::default(),
        interval_ns: 1_000_000,
        retained_bytes_max: None,
        fast_retained_bytes_max: None,
        log_bytes_max: 1 << 20,
    }
}

fn table_options() -> TableOptions {
    TableOptions {
        pack_block_bytes: 4 << 10,
        block_bytes: 4 << 10,
        compression: Compression::None,
        compression_per_level: Vec::new(),
        filter_bits_per_key: 10,
        writes: TableWrites::PageCache,
        pack_writes: PackWrites::default(),
        reads: TableReads::Copied,
        io_depth: 4,
        defers_writes: true,
        may_be_late: false,
    }
}

/// Drives a future while the scheduler's threads drive what it waits for.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
