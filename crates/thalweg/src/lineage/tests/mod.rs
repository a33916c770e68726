//! Samples for the tests of lineage's rooms, and the tests of the rooms together: on an in-memory disk, with
//! stand-ins for the log and the tables.

mod crash;
mod disk;
mod installing;
mod reading;
mod removing;

use super::*;
use crate::format::{KeyspaceId, LogPosition, PartitionId, SeqNo, TableId};
use crate::lineage::manifest::current::{manifest_path, table_name};
use crate::lineage::manifest::reader::Contents;
use crate::lineage::recovery::{Medium, Reach, choose, read_manifest};
use crate::lineage::removal::retained::Handle;
use crate::lineage::settle::backend::Step;
use crate::table::TableMeta;
use disk::{Fake, OneThread, environment};
use std::path::Path;

pub(super) const ROOT: &str = "/db";

pub(super) fn table(id: u64, from: &str, to: &str) -> TableMeta {
    TableMeta {
        id: TableId(id),
        bytes: id.saturating_add(100),
        checksum: id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        entries: 10,
        tombstones: 1,
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
    Change::CreateKeyspace { keyspace: KeyspaceId(id), name: format!("k{id}"), splits }
}

pub(super) fn add(partition: u64, level: u8, meta: TableMeta) -> Change {
    Change::Add { keyspace: KEYSPACE, partition: PartitionId(partition), level, meta }
}

pub(super) fn remove(partition: u64, level: u8, table: u64) -> Change {
    Change::Remove { keyspace: KEYSPACE, partition: PartitionId(partition), level, table: TableId(table) }
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
        Change::DropKeyspace { keyspace: KeyspaceId(4) },
        Change::ClearKeyspace { keyspace: KeyspaceId(6), seq: SeqNo(1 << 40) },
        add(0, 3, table(9, "a", "b")),
        remove(1, 0, 300),
        shift(1, 1, 2, 1 << 40),
        flushed(2, 1 << 50),
        split(1, "p", 1 << 33),
        merge(1, 1 << 33),
    ];
    Edit { changes, seq: SeqNo(1 << 50), log_start: Some(mark(4711)) }
}

/// Two keyspaces, tables in three levels, more than one record holds in one of them.
pub(super) fn sample_state() -> State {
    let mut state = State::default();
    let many = (0..100).map(|id| add(1, 2, table(100 + id, &format!("m{id:03}a"), &format!("m{id:03}b"))));
    let mut changes = vec![create(1, &["m"]), create(3, &[]), add(0, 0, table(8, "a", "c")), flushed(1, 20)];
    changes.extend([add(0, 0, table(7, "b", "l")), add(0, 1, table(3, "d", "e")), add(0, 1, table(4, "a", "c"))]);
    changes.extend(many);
    state.apply(&Edit { log_start: Some(mark(40)), ..edit(changes) }, EditId(1)).unwrap();
    state.apply(&edit(vec![flushed(0, 30)]), EditId(2)).unwrap();
    state
}

/// What was asked of the log and the tables.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The file that the tables hand over next.
type Handed = Arc<Mutex<Option<Arc<dyn crate::storage::File>>>>;

struct Others {
    asked: Asked,
    unsynced: Handed,
    files: Arc<Mutex<usize>>,
    log_bytes: Arc<Mutex<u64>>,
    disk: Fake,
}

impl Neighbours for Others {
    fn sync_log(&self, seq: SeqNo) -> Step<'_> {
        self.asked.note(format!("sync log to {seq}"));
        Box::pin(async { Ok(()) })
    }
    fn settled(&self, edit: EditId, log_start: Option<LogMark>) {
        let from = log_start.map(|mark| format!(", log from {}", mark.position)).unwrap_or_default();
        self.asked.note(format!("settled {edit}{from}"));
    }
    fn log_bytes_before(&self, _: LogMark) -> u64 {
        *self.log_bytes.lock().unwrap()
    }
    fn unsynced(&self, _: TableId) -> Option<Arc<dyn crate::storage::File>> {
        self.unsynced.lock().unwrap().clone()
    }
    fn unsynced_files(&self) -> usize {
        *self.files.lock().unwrap()
    }
    fn forget_unsynced(&self, _: TableId) {
        *self.unsynced.lock().unwrap() = None;
    }
    fn let_go(&self, table: Handle) {
        drop(table);
    }
    fn open_table(&self, id: TableId) -> Option<Arc<dyn crate::storage::File>> {
        crate::storage::Storage::open(&self.disk, &table_path(id.0), crate::storage::OpenMode::ReadWrite).ok().flatten()
    }
    fn remove_table(&self, id: TableId) -> Result<()> {
        self.asked.note(format!("remove {id}"));
        crate::storage::Storage::remove(&self.disk, &table_path(id.0))
    }
}

fn table_path(id: u64) -> PathBuf {
    Path::new(ROOT).join("tables").join(table_name(TableId(id)))
}

/// A lineage with its surroundings.
struct World {
    disk: Fake,
    thread: Arc<OneThread>,
    health: Arc<Health>,
    lineage: Arc<Lineage>,
    asked: Asked,
    unsynced: Handed,
    /// How many files wait for their sync.
    files: Arc<Mutex<usize>>,
    /// What unsettled edits pin of the log.
    log_bytes: Arc<Mutex<u64>>,
}

impl World {
    fn new() -> World {
        let disk = Fake::default();
        crate::storage::Storage::create_directory(&disk, Path::new(ROOT)).unwrap();
        World::begin(disk, None).unwrap()
    }

    /// Begins a manifest with `state`, and attaches.
    fn begin(disk: Fake, state: Option<State>) -> Result<World> {
        World::begin_as(DurabilityBackend::SyncEachFile, disk, state)
    }

    fn begin_as(backend: DurabilityBackend, disk: Fake, state: Option<State>) -> Result<World> {
        let (environment, thread) = environment(&disk);
        let (health, asked) = (Arc::new(Health::default()), Asked::default());
        let metrics = Arc::new(Metrics::default());
        let settling =
            Settling { backend, interval_ns: 100_000_000, retained_bytes_max: Some(10_000), log_bytes_max: 1 << 20 };
        let space = Space::new(Arc::clone(&environment.storage), Path::new(ROOT), 1 << 20, 1 << 20);
        let lineage = Lineage::begin_with(environment, Arc::clone(&health), metrics, space, settling, 0, state)?;
        let log_bytes = Arc::<Mutex<u64>>::default();
        let (unsynced, files) = (Handed::default(), Arc::<Mutex<usize>>::default());
        let others = Others {
            asked: asked.clone(),
            unsynced: Arc::clone(&unsynced),
            files: Arc::clone(&files),
            log_bytes: Arc::clone(&log_bytes),
            disk: disk.clone(),
        };
        lineage.attach_to(Box::new(others))?;
        Ok(World { disk, thread, health, lineage, asked, unsynced, files, log_bytes })
    }

    fn start(self) -> Self {
        for task in self.lineage.tasks() {
            crate::runtime::Scheduler::spawn(&*self.thread, crate::runtime::Lane::Compaction, task);
        }
        self
    }

    /// Writes the outputs and installs the edit; its inputs are held by nobody else.
    async fn install(&self, edit: Edit) -> Result<EditId> {
        for meta in edit.outputs() {
            let file = crate::storage::Storage::create(&self.disk, &table_path(meta.id.0))?;
            file.write_all_at(0, &vec![7; meta.bytes as usize])?;
        }
        let inputs = edit.changes.iter().filter_map(|change| match change {
            Change::Remove { table, .. } => Some(Input { table: Some(Arc::new(())), id: *table, bytes: 100 + table.0 }),
            _ => None,
        });
        self.lineage.install_inputs(edit.clone(), inputs.collect(), || None, || ()).await
    }

    fn manifest(&self) -> PathBuf {
        manifest_path(Path::new(ROOT), self.lineage.book().open.number)
    }
}

/// What an open would find: the log is as long as need be.
fn recover(disk: &Fake) -> Result<Option<(State, Contents)>> {
    recover_with_log(disk, LogMark { seq: SeqNo::MAX, ..mark(u32::MAX) })
}

/// The same, where the log ends at `end`.
fn recover_with_log(disk: &Fake, end: LogMark) -> Result<Option<(State, Contents)>> {
    let medium = Medium { storage: disk, read_only: false };
    let Some((path, contents)) = read_manifest(&medium, Path::new(ROOT))? else { return Ok(None) };
    if let Some(lost) = contents.lost.clone() {
        return Err(lost);
    }
    medium.sync_outputs(&Path::new(ROOT).join("tables"), contents.unsettled.iter().map(|(_, edit)| edit))?;
    let log = Reach { end, settled: EditId(0), closed: None };
    let state = choose(disk, Path::new(ROOT), &path, &contents, &log, &mut |path, meta| {
        Ok(crate::storage::Storage::file_bytes(disk, path)? == Some(meta.bytes))
    })?;
    Ok(Some((state, contents)))
}
