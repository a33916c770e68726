//! Opening: lock, recovery, replay, and the start of the background.
//!
//! Order (DESIGN 6, Recovery): nothing on disk is changed until the recovered state is durable in a new manifest; only
//! then is the log's valid end sealed, and only then do orphans go.

use super::engine::{Engine, Mode, TaskCount};
use super::handle::Database;
use super::options::Options;
use super::status;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::{EntryKind, KeyspaceId, LogMark, SeqNo, TableId};
use crate::lineage::{Change, Edit, KeyspaceState, Lineage, Recovered, State};
use crate::log::{Log, Operation, Record};
use crate::metrics::Metrics;
use crate::ordered::{DefinitionEdit, MemtablePool, OrderedKeyspace, Partition, RecoveredPartition, Registry, Share};
use crate::ordered::{SnapshotRegistry, Workshop};
use crate::runtime::{AsyncMutex, Environment, Health, Lane, Space};
use crate::storage::{Storage, StorageLock, frugal, metered};
use crate::table::{Table, TableMeta, TableStore, TableWriters};
use crate::trace;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// What a database directory may hold; anything else in a directory without a database is somebody else's.
fn is_ours(name: &str) -> bool {
    matches!(name, "LOCK" | "STATUS" | "CURRENT" | "CURRENT.new" | "RESERVE" | "log" | "tables" | "lost")
        || name.starts_with("manifest-")
}

impl Database {
    pub(super) fn open_with(mut environment: Environment, root: &Path, options: Options) -> Result<Database> {
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
        let (clock, delay) = (Arc::clone(&environment.clock), options.sync_delay);
        environment.storage = metered(frugal(environment.storage), clock, Arc::clone(&metrics), delay);
        let lock = lock_for_writing(&*environment.storage, root, options.create_if_missing)?;
        trace::event!(INFO, "thalweg::open", "locked");
        let recovered = Recovered::run(&environment, root, options.damage_policy, false)?;
        if let Some(found) = &recovered {
            trace::event!(
                INFO,
                "thalweg::open",
                "recovered",
                log_records = found.log.records,
                dropped = found.dropped.len(),
                tables = found.state.tables().count(),
            );
        }
        if recovered.is_none() {
            create_layout(&environment, root, options.create_if_missing)?;
        }
        let state = recovered.as_ref().map(|recovered| recovered.state.clone()).unwrap_or_default();
        let tables = table_store(&environment, root, &options, &metrics, &state);
        let mut replay = Replay::new(&state, &tables, options.memtable_bytes(), memtable_pool(&options), root);
        if let Some(recovered) = &recovered {
            recovered.log.replay(&mut |mark, seq, record| replay.record(mark, seq, record))?;
        }
        trace::event!(INFO, "thalweg::open", "replayed", keyspaces = replay.registry.len());
        let dropped = recovered.as_ref().map(|recovered| recovered.dropped.clone()).unwrap_or_default();
        let space = options.space(&environment.storage, root);
        let (log, lineage) = begin(&environment, &space, &options, &health, &metrics, recovered)?;
        trace::event!(INFO, "thalweg::open", "began a manifest and the log");
        lineage.attach(Arc::clone(&log), Arc::clone(&tables))?;
        let snapshots = Arc::new(SnapshotRegistry::default());
        let workshop = Workshop::new(
            environment.clone(),
            Arc::clone(&health),
            Arc::clone(&metrics),
            options.ordered(space),
            log,
            lineage,
            tables,
            Arc::clone(&snapshots),
            replay.registry,
            replay.definitions,
            replay.memtable_pool,
        );
        let engine = Engine {
            environment,
            metrics,
            options,
            mode: Mode::Writable(Arc::clone(&workshop)),
            snapshots,
            dropped,
            definition_turn: AsyncMutex::default(),
            next_keyspace: AtomicU64::new(replay.next_keyspace.0),
            workers: Arc::new(TaskCount::default()),
            services: Arc::new(TaskCount::default()),
            closed: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
        };
        // What was replayed counts to what the partitions of a keyspace share.
        workshop.partitions().for_each(|partition| partition.count_active());
        workshop.watch_space();
        engine.start(&workshop, root);
        trace::event!(INFO, "thalweg::open", "opened");
        Ok(Database::from_engine(engine))
    }

    pub(super) fn open_read_only_with(mut environment: Environment, root: &Path, options: Options) -> Result<Database> {
        environment.storage = frugal(environment.storage);
        let lock = lock_for_reading(&environment, root)?;
        let recovered = Recovered::run(&environment, root, options.damage_policy, true)?;
        let recovered = recovered.ok_or_else(|| Error::NoDatabase { path: Arc::from(root) })?;
        let metrics = Arc::new(Metrics::default());
        let tables = table_store(&environment, root, &options, &metrics, &recovered.state);
        let mut replay = Replay::new(&recovered.state, &tables, usize::MAX, MemtablePool::new(0), root);
        recovered.log.replay(&mut |mark, seq, record| replay.record(mark, seq, record))?;
        let registry = Arc::new(replay.registry);
        let services = Arc::<TaskCount>::default();
        services.spawn(&environment, &Arc::default(), Lane::Compaction, tables.warming());
        Ok(Database::from_engine(Engine {
            environment,
            metrics,
            options,
            mode: Mode::ReadOnly { registry, visible: recovered.log.end.seq, log_bytes: recovered.log.bytes(), tables },
            snapshots: Arc::new(SnapshotRegistry::default()),
            dropped: recovered.dropped,
            definition_turn: AsyncMutex::default(),
            next_keyspace: AtomicU64::new(replay.next_keyspace.0),
            workers: Arc::new(TaskCount::default()),
            services,
            closed: AtomicBool::new(false),
            lock: Mutex::new(lock),
        }))
    }
}

impl Engine {
    fn start(&self, workshop: &Arc<Workshop>, root: &Path) {
        let environment = &self.environment;
        let status =
            status::keep(environment.clone(), root.to_path_buf(), Arc::clone(&self.metrics), Arc::clone(workshop));
        self.services.spawn(environment, &workshop.health, Lane::Compaction, status);
        for (lane, task) in workshop.log.tasks() {
            self.services.spawn(environment, &workshop.health, lane, task);
        }
        for task in workshop.lineage.tasks() {
            self.services.spawn(environment, &workshop.health, Lane::Compaction, task);
        }
        self.services.spawn(environment, &workshop.health, Lane::Compaction, workshop.tables.warming());
        let writers = |lane: Lane| {
            let (queue, flush_coroutine) = workshop.tables.write_queue();
            self.workers.spawn(environment, &workshop.health, lane, flush_coroutine);
            TableWriters::new(Arc::clone(&workshop.tables), queue)
        };
        let flusher = Arc::clone(workshop).run_flusher(writers(Lane::Flush));
        self.workers.spawn(environment, &workshop.health, Lane::Flush, flusher);
        for worker in 0..self.options.compaction_workers {
            let lane = Lane::CompactionWorker(worker);
            let writers = writers(lane);
            for _ in 0..self.options.compactions_a_worker() {
                let compactor = Arc::clone(workshop).run_compactor(writers.clone());
                self.workers.spawn(environment, &workshop.health, lane, compactor);
            }
        }
    }
}

/// Begins the manifest, then the log: the recovered state is durable in a new manifest before the log is touched. A
/// new database's manifest says that the log starts with its first segment, whichever that will be.
fn begin(
    environment: &Environment,
    space: &Arc<Space>,
    options: &Options,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
    recovered: Option<Recovered>,
) -> Result<(Arc<Log>, Arc<Lineage>)> {
    let lineage = Lineage::begin(
        environment.clone(),
        Arc::clone(health),
        Arc::clone(metrics),
        Arc::clone(space),
        options.settling(),
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

fn table_store(
    environment: &Environment,
    root: &Path,
    options: &Options,
    metrics: &Arc<Metrics>,
    state: &State,
) -> Arc<TableStore> {
    let cache = BlockCache::new(options.block_cache_bytes);
    let directory = root.join("tables");
    TableStore::new(environment.clone(), directory, options.tables(), cache, Arc::clone(metrics), state.next_table)
}

fn lock_for_writing(storage: &dyn Storage, root: &Path, create: bool) -> Result<Box<dyn StorageLock>> {
    let path = root.join("LOCK");
    if storage.list(root)?.is_none() {
        if !create {
            return Err(Error::NoDatabase { path: Arc::from(root) });
        }
        storage.create_directory(root)?;
    }
    if storage.file_bytes(&path)?.is_none() {
        refuse_foreign(storage, root, create)?;
        match storage.create(&path) {
            // Another first open was faster: who has the database, the lock tells.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
    }
    storage.lock(&path, false)
}

/// Makes the names of a new directory, and of those above it that may be new too, durable.
pub(super) fn sync_ancestors(storage: &dyn Storage, root: &Path) -> Result<()> {
    let parents = root.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let working = root.is_relative().then_some(Path::new("."));
    for parent in parents.chain(working) {
        match storage.sync_directory(parent) {
            // A directory that may not be opened was not created by us either.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => break,
            // Its file system (squashfs, autofs, proc) has no sync of directories, and names that do not get lost. It
            // is above the mount of the database's.
            Err(Error::Io { source, .. }) if has_no_sync(&source) => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Whether `fsync` says that there is no such thing here.
fn has_no_sync(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::ReadOnlyFilesystem)
}

fn refuse_foreign(storage: &dyn Storage, root: &Path, create: bool) -> Result<()> {
    let entries = storage.list(root)?.unwrap_or_default();
    if entries.iter().any(|entry| entry.name == "CURRENT") {
        return Ok(());
    }
    if !create {
        return Err(Error::NoDatabase { path: Arc::from(root) });
    }
    match entries.iter().find(|entry| !is_ours(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(Error::invalid_input(format!(
            "{} holds no database but other files ({:?}); give a new or empty directory",
            root.display(),
            entry.name
        ))),
    }
}

pub(super) fn lock_for_reading(environment: &Environment, root: &Path) -> Result<Option<Box<dyn StorageLock>>> {
    let path: PathBuf = root.join("LOCK");
    if environment.storage.file_bytes(&path)?.is_none() {
        // Never opened for writing (a checkpoint), or no database at all: recovery will tell.
        return Ok(None);
    }
    environment.storage.lock(&path, true).map(Some)
}

fn create_layout(environment: &Environment, root: &Path, create: bool) -> Result<()> {
    refuse_foreign(&*environment.storage, root, create)?;
    // Here and not where the directory is created: whoever created it may not have got as far.
    sync_ancestors(&*environment.storage, root)?;
    environment.storage.create_directory(&root.join("log"))?;
    environment.storage.create_directory(&root.join("tables"))?;
    environment.storage.sync_directory(root)
}

/// It keeps what a partition writes to and what it flushes meanwhile: with more, idle memory would grow.
fn memtable_pool(options: &Options) -> MemtablePool {
    MemtablePool::new(options.memtable_bytes().saturating_mul(2))
}

/// The memtables and keyspaces that the log makes of the recovered state.
struct Replay<'a> {
    root: &'a Path,
    memtable_bytes: usize,
    memtable_pool: MemtablePool,
    registry: Registry,
    definitions: VecDeque<DefinitionEdit>,
    next_keyspace: KeyspaceId,
}

impl<'a> Replay<'a> {
    fn new(state: &State, tables: &TableStore, memtable_bytes: usize, pool: MemtablePool, root: &'a Path) -> Self {
        let recover = |(id, keyspace): (&KeyspaceId, &KeyspaceState)| {
            // One handle a table: a file goes when nobody holds its table, whichever partition that is in.
            let mut opened: BTreeMap<TableId, Arc<Table>> = BTreeMap::new();
            let mut open =
                |meta: &TableMeta| Arc::clone(opened.entry(meta.id).or_insert_with(|| tables.open(meta.clone())));
            let partitions = keyspace.partitions.iter().map(|partition| RecoveredPartition {
                id: partition.id,
                flushed: partition.flushed,
                levels: partition.levels.iter().map(|level| level.iter().map(&mut open).collect()).collect(),
            });
            let created = usize::try_from(keyspace.created).unwrap_or(usize::MAX);
            let share = Share::new(created, keyspace.partitions.len());
            let (splits, next) = (keyspace.splits.clone(), keyspace.next_partition);
            (*id, OrderedKeyspace::recovered(*id, &keyspace.name, splits, partitions, next, share, &pool))
        };
        Replay {
            root,
            memtable_bytes,
            registry: state.keyspaces.iter().map(recover).collect(),
            memtable_pool: pool,
            definitions: VecDeque::new(),
            next_keyspace: state.next_keyspace.max(KeyspaceId(1)),
        }
    }

    fn record(&mut self, mark: LogMark, first: SeqNo, record: &Record) -> Result<()> {
        let mut seq = first;
        let mut touched: Vec<Arc<Partition>> = Vec::new();
        for operation in record.operations() {
            match operation {
                Operation::Put { keyspace, key, value } => {
                    touched.extend(self.entry(mark, keyspace, key, seq, EntryKind::Put, value)?);
                }
                Operation::Remove { keyspace, key } => {
                    touched.extend(self.entry(mark, keyspace, key, seq, EntryKind::Remove, &[])?);
                }
                Operation::CreateKeyspace { keyspace, name, splits } => {
                    let splits = splits.into_iter().map(Box::from).collect();
                    self.create(mark, keyspace, name, splits, seq);
                }
                Operation::DropKeyspace { keyspace } => self.drop_keyspace(mark, keyspace, seq),
                Operation::ClearKeyspace { keyspace } => self.clear_keyspace(mark, keyspace, seq)?,
            }
            seq = SeqNo(seq.0 + 1);
        }
        for partition in touched {
            let active = Arc::clone(&partition.view().active);
            if active.memtable.bytes() >= self.memtable_bytes {
                partition.seal(&active, SeqNo(seq.0 - 1));
            }
        }
        Ok(())
    }

    /// Inserts an entry unless it is in a table already or its keyspace is gone. Gives the partition it went to.
    fn entry(
        &self,
        mark: LogMark,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: &[u8],
    ) -> Result<Option<Arc<Partition>>> {
        let Some(found) = self.registry.get(&keyspace) else {
            if keyspace < self.next_keyspace {
                return Ok(None);
            }
            return Err(self.unknown_keyspace(mark, keyspace));
        };
        let layout = found.layout();
        let partition = layout.partition_for(key);
        if seq <= partition.recovered {
            return Ok(None);
        }
        partition.view().slot_for(seq).insert(mark, key, seq, kind, value);
        Ok(Some(Arc::clone(partition)))
    }

    fn unknown_keyspace(&self, mark: LogMark, keyspace: KeyspaceId) -> Error {
        Error::corruption(
            &self.root.join("log"),
            mark.position.raw(),
            format!("a keyspace below {}", self.next_keyspace),
            format!("a record of keyspace {keyspace}"),
        )
    }

    fn create(&mut self, mark: LogMark, id: KeyspaceId, name: &str, splits: Vec<Box<[u8]>>, seq: SeqNo) {
        if id < self.next_keyspace {
            return; // The manifest knows it, or knows that it was dropped.
        }
        self.next_keyspace = KeyspaceId(id.0 + 1);
        let change = Change::CreateKeyspace { keyspace: id, name: name.to_owned(), splits: splits.clone() };
        let edit = Edit { changes: vec![change], seq, log_start: None };
        self.definitions.push_back(DefinitionEdit { edit, mark, dropped: None });
        self.registry.insert(id, OrderedKeyspace::new(id, name, splits, seq, &self.memtable_pool));
    }

    fn clear_keyspace(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) -> Result<()> {
        let Some(keyspace) = self.registry.get(&id).cloned() else {
            return if id < self.next_keyspace { Ok(()) } else { Err(self.unknown_keyspace(mark, id)) };
        };
        // No partition of the generation before is flushed up to the clear, and every one after it is.
        if keyspace.layout().partitions().iter().any(|partition| partition.recovered >= seq) {
            return Ok(());
        }
        let next = keyspace.clear(seq, &self.memtable_pool);
        self.registry.insert(id, next);
        let change = Change::ClearKeyspace { keyspace: id, seq };
        let edit = Edit { changes: vec![change], seq, log_start: None };
        self.definitions.push_back(DefinitionEdit { edit, mark, dropped: Some(keyspace) });
        Ok(())
    }

    fn drop_keyspace(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) {
        if let Some(keyspace) = self.registry.remove(&id) {
            keyspace.drop_now();
            let edit = Edit { changes: vec![Change::DropKeyspace { keyspace: id }], seq, log_start: None };
            self.definitions.push_back(DefinitionEdit { edit, mark, dropped: Some(keyspace) });
        }
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
