//! Tests of lineage as a whole, with a real log and real table files on a disk in memory; and samples for the tests
//! of its files.

mod crash;
mod disk;
mod installing;
mod reading;
mod removing;
mod rounds;

use super::files::{manifest_path, table_name};
use super::manifest::medium::{Medium, read_manifest};
use super::manifest::reader::Contents;
use super::recovery::{Reach, choose};
use super::{
    Change, DurabilityBackend, Edit, FastPlace, Handle, Homes, Lineage, Settling, State, check, dump, fuzz_manifest,
};
use crate::cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    EditId, EntryKind, HashKey, KeyspaceId, KeyspaceKind, LogMark, LogPosition, PartitionId, SeqNo, TableId,
};
use crate::log::{DamagePolicy, Log, LogOptions, Operation, RecordBuilder, Scan};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health, Lane, Scheduler, Space};
use crate::storage::Storage;
use crate::table::{
    Compression, PackWrites, Table, TableMeta, TableOptions, TableReads, TableStore, TableWriters, TableWrites,
};
use disk::{Fake, OneThread, environment};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(super) const ROOT: &str = "/db";

pub(super) fn table(id: u64, from: &str, to: &str) -> TableMeta {
    TableMeta {
        id: TableId(id),
        bytes: id.saturating_add(100),
        checksum: id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        entries: 10,
        tombstones: 1,
        keys: 9,
        seq_min: SeqNo(id.min(1 << 40)),
        seq_max: SeqNo(id.min(1 << 40) + 5),
        key_min: from.as_bytes().into(),
        key_max: to.as_bytes().into(),
    }
}

pub(super) fn mark(offset: u32) -> LogMark {
    LogMark { position: LogPosition::new(1, offset), generation: 77, seq: SeqNo(u64::from(offset)) }
}

const KEYSPACE: KeyspaceId = KeyspaceId(1);

pub(super) fn create(id: u64, splits: &[&str]) -> Change {
    let splits = splits.iter().map(|split| split.as_bytes().into()).collect();
    Change::CreateKeyspace { keyspace: KeyspaceId(id), name: format!("k{id}"), splits, kind: KeyspaceKind::Ordered }
}

/// A directory keyspace.
pub(super) fn create_directories(id: u64) -> Change {
    let kind = KeyspaceKind::Directory(HashKey([id as u8; 16]));
    Change::CreateKeyspace { keyspace: KeyspaceId(id), name: format!("d{id}"), splits: Vec::new(), kind }
}

pub(super) fn add(partition: u64, level: u8, meta: TableMeta) -> Change {
    Change::Add { keyspace: KEYSPACE, partition: PartitionId(partition), level, meta }
}

pub(super) fn remove(partition: u64, level: u8, table: u64) -> Change {
    Change::Remove { keyspace: KEYSPACE, partition: PartitionId(partition), level, table: TableId(table) }
}

pub(super) fn add_fast(partition: u64, place: FastPlace, meta: TableMeta) -> Change {
    Change::AddFast { keyspace: KEYSPACE, partition: PartitionId(partition), place, meta }
}

pub(super) fn remove_fast(partition: u64, table: u64) -> Change {
    Change::RemoveFast { keyspace: KEYSPACE, partition: PartitionId(partition), table: TableId(table) }
}

pub(super) fn shift(partition: u64, from: u8, to: u8, table: u64) -> Change {
    Change::Move { keyspace: KEYSPACE, partition: PartitionId(partition), from, to, table: TableId(table) }
}

pub(super) fn split(partition: u64, at: &str, into: u64) -> Change {
    let (partition, into) = (PartitionId(partition), PartitionId(into));
    Change::Split { keyspace: KEYSPACE, partition, at: at.as_bytes().into(), into }
}

pub(super) fn merge(partition: u64, next: u64) -> Change {
    Change::Merge { keyspace: KEYSPACE, partition: PartitionId(partition), next: PartitionId(next) }
}

pub(super) fn flushed(partition: u64, seq: u64) -> Change {
    Change::Flushed { keyspace: KEYSPACE, partition: PartitionId(partition), seq: SeqNo(seq) }
}

pub(super) fn edit(changes: Vec<Change>) -> Edit {
    let mut edit = Edit { changes, ..Edit::default() };
    edit.seq = edit.flushed();
    edit
}

/// An edit with every kind of change; it need not make sense.
pub(super) fn one_of_each() -> Edit {
    let changes = vec![
        create(5, &["m", "s"]),
        create_directories(8),
        Change::DropKeyspace { keyspace: KeyspaceId(4) },
        Change::ClearKeyspace { keyspace: KeyspaceId(6), seq: SeqNo(1 << 40) },
        add(0, 3, table(9, "a", "b")),
        remove(1, 0, 300),
        shift(1, 1, 2, 1 << 40),
        flushed(2, 1 << 50),
        split(1, "p", 1 << 33),
        merge(1, 1 << 33),
        add_fast(1, FastPlace::Oldest, table(11, "a", "c")),
        remove_fast(2, 1 << 41),
    ];
    Edit { changes, seq: SeqNo(1 << 50), log_start: Some(mark(4711)) }
}

/// Three keyspaces, tables in three levels, more than one record holds in one of them.
pub(super) fn sample_state() -> State {
    let mut state = State::default();
    let many = (0..100).map(|id| add(1, 2, table(100 + id, &format!("m{id:03}a"), &format!("m{id:03}b"))));
    let mut changes =
        vec![create(1, &["m"]), create(3, &[]), create_directories(4), add(0, 0, table(8, "a", "c")), flushed(1, 20)];
    changes.extend([add(0, 0, table(7, "b", "l")), add(0, 1, table(3, "d", "e")), add(0, 1, table(4, "a", "c"))]);
    changes.extend(many);
    state.apply(&Edit { log_start: Some(mark(40)), ..edit(changes) }, EditId(1)).unwrap();
    state.apply(&edit(vec![flushed(0, 30)]), EditId(2)).unwrap();
    state
}

fn table_path(id: u64) -> PathBuf {
    Path::new(ROOT).join("tables").join(table_name(TableId(id)))
}

/// The tables of a database in `environment`. A table that is written for real gets an id of 1000 or more.
fn tables_in(environment: &Environment) -> Arc<TableStore> {
    let options = TableOptions {
        pack_block_bytes: 4 << 10,
        block_bytes: 4096,
        compression: Compression::None,
        compression_per_level: Vec::new(),
        filter_bits_per_key: 0,
        writes: TableWrites::default(),
        pack_writes: PackWrites::default(),
        reads: TableReads::default(),
        io_depth: 8,
        defers_writes: true,
        may_be_late: false,
    };
    let directory = Path::new(ROOT).join("tables");
    TableStore::new(environment.clone(), directory, options, BlockCache::new(0), Arc::default(), TableId(1000))
}

/// The tables of a database on an empty disk.
pub(super) fn tables() -> Arc<TableStore> {
    tables_in(&environment(&Fake::default()).0)
}

/// A lineage with its surroundings.
struct World {
    disk: Fake,
    thread: Arc<OneThread>,
    health: Arc<Health>,
    lineage: Arc<Lineage>,
    log: Arc<Log>,
    tables: Arc<TableStore>,
}

impl World {
    fn new() -> World {
        World::on(DurabilityBackend::SyncEachFile, Fake::default())
    }

    /// A lineage on an empty disk.
    fn on(backend: DurabilityBackend, disk: Fake) -> World {
        disk.create_directory(Path::new(ROOT)).unwrap();
        World::begin_as(backend, disk, None).unwrap()
    }

    /// Begins a manifest with `state`, and attaches.
    fn begin(disk: Fake, state: Option<State>) -> Result<World> {
        World::begin_as(DurabilityBackend::SyncEachFile, disk, state)
    }

    fn begin_as(backend: DurabilityBackend, disk: Fake, state: Option<State>) -> Result<World> {
        let (environment, thread) = environment(&disk);
        let (health, metrics) = (Arc::<Health>::default(), Arc::<Metrics>::default());
        let settling = Settling {
            backend,
            interval_ns: 100_000_000,
            retained_bytes_max: Some(10_000),
            fast_retained_bytes_max: None,
            log_bytes_max: 1 << 20,
        };
        let root = Path::new(ROOT);
        let space = || Space::new(Arc::clone(&environment.storage), root, 1 << 20, 1 << 20);
        let tables = tables_in(&environment);
        let scan = Scan::run(&environment, &root.join("log"), LogMark::default(), DamagePolicy::Strict, false)?;
        let lineage = Lineage::begin_with(
            environment.clone(),
            Arc::clone(&health),
            Arc::clone(&metrics),
            space(),
            (settling, None),
            0,
            state,
        )?;
        let options = LogOptions { segment_bytes: 64 << 10, sync_interval: None, space: space() };
        let log = Log::begin(environment.clone(), Arc::clone(&health), metrics, root.join("log"), options, Some(scan))?;
        log.tasks().into_iter().for_each(|(lane, task)| thread.spawn(lane, task));
        lineage.attach(Arc::clone(&log), Arc::clone(&tables), None)?;
        Ok(World { disk, thread, health, lineage, log, tables })
    }

    fn start(self) -> Self {
        for task in self.lineage.tasks() {
            self.thread.spawn(Lane::Compaction, task);
        }
        self
    }

    /// Writes one record to the log, so that `seq` is its last sequence number, if it is not reached yet.
    fn log_to(&self, seq: SeqNo) -> Result<()> {
        let mut record = RecordBuilder::new();
        let missing = seq.0.saturating_sub(self.log.visible().0);
        (0..missing).for_each(|_| record.push(&Operation::DropKeyspace { keyspace: KeyspaceId(7) }));
        if missing == 0 { Ok(()) } else { self.log_record(record) }
    }

    /// Writes one record of `bytes` bytes to the log.
    fn log_bytes(&self, bytes: usize) {
        let mut record = RecordBuilder::new();
        record.push(&Operation::Put { keyspace: KeyspaceId(7), key: b"key", value: &vec![7; bytes] });
        self.log_record(record).unwrap();
    }

    fn log_record(&self, record: RecordBuilder) -> Result<()> {
        let record = record.finish();
        let reservation = self.log.reserve(&record)?;
        self.log.copy_in(&reservation, &record, false)?;
        self.log.publish(reservation)
    }

    /// How many syncs the segments of the log have had.
    fn log_syncs(&self) -> usize {
        self.disk.disk().syncs.iter().filter(|name| name.ends_with(".log")).count()
    }

    /// Writes a real table. Its file stays open, as its writer had it, until it is synced.
    fn write_table(&self) -> TableMeta {
        let (queue, flush) = self.tables.write_queue();
        self.thread.spawn(Lane::Flush, Box::pin(flush));
        let writers = TableWriters::new(Arc::clone(&self.tables), queue);
        self.thread.run(async {
            let mut writer = writers.create(0).await.unwrap();
            writer.add(b"a", 0, SeqNo(1), EntryKind::Put, b"value");
            writer.finish().await.unwrap()
        })
    }

    /// Writes what the edit needs and installs it: the log up to its number, and its outputs. Its inputs have no
    /// readers.
    async fn install(&self, edit: Edit) -> Result<EditId> {
        self.log_to(edit.seq.max(edit.flushed()))?;
        for (_, meta) in edit.outputs() {
            let file = self.disk.create(&table_path(meta.id.0))?;
            file.write_all_at(0, &vec![7; meta.bytes as usize])?;
        }
        let inputs = edit.changes.iter().filter_map(|change| match change {
            Change::Remove { table: id, .. } => Some(self.tables.open(table(id.0, "a", "z"))),
            _ => None,
        });
        let inputs = inputs.collect();
        self.install_with(edit, inputs).await
    }

    /// Installs the edit alone.
    async fn install_with(&self, edit: Edit, inputs: Vec<Arc<Table>>) -> Result<EditId> {
        self.lineage.install(edit, inputs.into_iter().map(Handle::from).collect(), || None, || ()).await
    }

    fn manifest(&self) -> PathBuf {
        manifest_path(Path::new(ROOT), self.lineage.book().open.number)
    }

    fn unsettled_edits(&self) -> u64 {
        self.lineage.unsettled().0
    }
}

/// The state that an open finds, with a log that reaches every edit.
fn recover(disk: &Fake) -> Result<Option<(State, Contents)>> {
    recover_with_log(disk, LogMark { seq: SeqNo::MAX, ..mark(u32::MAX) })
}

/// The state that an open finds, with a log that ends at `end`.
fn recover_with_log(disk: &Fake, end: LogMark) -> Result<Option<(State, Contents)>> {
    let medium = Medium { storage: disk, read_only: false };
    let Some((path, contents)) = read_manifest(&medium, Path::new(ROOT))? else { return Ok(None) };
    if let Some(lost) = contents.lost.clone() {
        return Err(lost);
    }
    medium.sync_outputs(&Homes::of(Path::new(ROOT)), contents.unsettled.iter().map(|(_, edit)| edit))?;
    let log = Reach { end, settled: EditId(0), closed: None };
    let state = choose(disk, Homes::of(Path::new(ROOT)), &path, &contents, &log, &mut |_, path, meta| {
        Ok(disk.file_bytes(path)? == Some(meta.bytes))
    })?;
    Ok(Some((state, contents)))
}
