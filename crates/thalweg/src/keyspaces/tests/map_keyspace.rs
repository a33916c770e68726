//! [`MapKeyspace`]: a sketch of a second kind of keyspace. It keeps a map in memory and flushes all of it to one table.

use crate::compaction;
use crate::error::{Error, Result};
use crate::format::{EntryKind, KeyspaceId, LogMark, PartitionId, SeqNo, Slice};
use crate::keyspaces::{
    CompactionDebt, Keyspace, Kind, Lifecycle, LogPins, NewKeyspace, Pacer, ReplayedEntry, WriteBuffer,
};
use crate::lineage::{Change, Edit, Handle, KeyspaceState, Lineage};
use crate::log::Log;
use crate::memtable::SealedEntries;
use crate::memtable::test_model::Entries;
use crate::runtime::BackgroundError;
use crate::table::{PointKey, Table, TableStore, TableWriters};
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard};

/// The one partition.
const WHOLE: PartitionId = PartitionId(0);

/// A map that replay fills beyond this many entries is sealed.
const REPLAYED_MAX: usize = 50;

/// The records of a range of sequence numbers.
#[derive(Default)]
struct Map {
    entries: Entries,
    first: Option<LogMark>,
    last: SeqNo,
}

#[derive(Default)]
struct Contents {
    active: Map,
    /// Waiting for their flush, oldest first, each with the number that it was sealed at.
    sealed: Vec<(Arc<Map>, SeqNo)>,
    /// Oldest first.
    tables: Vec<Arc<Table>>,
}

pub(super) struct MapKeyspace {
    id: KeyspaceId,
    name: String,
    lifecycle: Lifecycle,
    /// Every record at or below it was in a table when the keyspace was made.
    recovered: SeqNo,
    contents: Mutex<Contents>,
    pacer: Pacer,
}

pub(super) struct MapKind;

impl Kind for MapKind {
    fn create(&self, new: NewKeyspace<'_>) -> Arc<dyn Keyspace> {
        MapKeyspace::new(new.id, new.name, new.after, Vec::new())
    }

    fn recover(&self, id: KeyspaceId, state: &KeyspaceState, tables: &TableStore) -> Result<Arc<dyn Keyspace>> {
        let whole = &state.partitions[0];
        let opened = whole.levels.iter().flatten().map(|meta| tables.open(meta.clone())).collect();
        Ok(MapKeyspace::new(id, &state.name, whole.flushed, opened))
    }
}

impl MapKeyspace {
    fn new(id: KeyspaceId, name: &str, recovered: SeqNo, tables: Vec<Arc<Table>>) -> Arc<Self> {
        Arc::new(MapKeyspace {
            id,
            name: name.to_owned(),
            lifecycle: Lifecycle::default(),
            recovered,
            contents: Mutex::new(Contents { tables, ..Contents::default() }),
            pacer: Pacer::default(),
        })
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    pub(super) fn insert(&self, mark: LogMark, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        let active = &mut self.contents().active;
        active.first.get_or_insert(mark);
        active.last = active.last.max(seq);
        active.entries.insert((key.to_vec(), Reverse(seq)), (kind, value.to_vec()));
    }

    pub(super) fn get(&self, key: &[u8], seq: SeqNo) -> Option<Slice> {
        let contents = self.contents();
        let sealed = contents.sealed.iter().rev().map(|(map, _)| &**map);
        let in_memory = std::iter::once(&contents.active).chain(sealed).find_map(|map| {
            let found = map.entries.range((key.to_vec(), Reverse(seq))..).next()?;
            (found.0.0 == key).then(|| (found.1.0, Slice::from(found.1.1.as_slice())))
        });
        let point = PointKey::new(key, seq);
        let in_tables = || contents.tables.iter().rev().find_map(|table| table.find(&point).unwrap());
        let found = in_memory.or_else(|| in_tables().map(|version| (version.kind, version.value)));
        found.filter(|(kind, _)| *kind == EntryKind::Put).map(|(_, value)| value)
    }

    /// Seals the map. Called where no log space can be reserved.
    pub(super) fn seal(&self, last: SeqNo) {
        let mut contents = self.contents();
        let map = std::mem::take(&mut contents.active);
        contents.sealed.push((Arc::new(map), last));
    }

    /// Flushes the oldest sealed map as a whole.
    pub(super) async fn flush(
        &self,
        log: &Log,
        lineage: &Lineage,
        log_pins: &LogPins,
        writers: (&TableStore, &TableWriters),
    ) -> Result<()> {
        let (map, sealed_at) = self.contents().sealed.first().cloned().unwrap();
        log.until_visible(sealed_at).await?;
        let (tables, writers) = writers;
        let meta = compaction::flush(&mut Walk::new(&map), writers, &[SeqNo::MAX]).await?.unwrap();
        let changes = vec![
            Change::Add { keyspace: self.id, partition: WHOLE, level: 0, meta: meta.clone() },
            Change::Flushed { keyspace: self.id, partition: WHOLE, seq: map.last },
        ];
        let edit = Edit { changes, seq: map.last, log_start: None };
        let table = tables.open_written(meta);
        let apply = || {
            let mut contents = self.contents();
            contents.sealed.remove(0);
            contents.tables.push(table);
        };
        let mark_of = |keyspace: &dyn Keyspace| match keyspace.downcast_ref::<MapKeyspace>() {
            Some(same) if std::ptr::eq(same, self) => self.oldest_mark_behind(1),
            _ => keyspace.oldest_mark(),
        };
        lineage.install(edit, Vec::new(), || Some(log_pins.start_after(mark_of)), apply).await?;
        Ok(())
    }

    /// The oldest mark, without those of the `flushed` oldest sealed maps.
    fn oldest_mark_behind(&self, flushed: usize) -> Option<LogMark> {
        let contents = self.contents();
        let sealed = contents.sealed.iter().skip(flushed).find_map(|(map, _)| map.first);
        sealed.or(contents.active.first)
    }
}

impl Keyspace for MapKeyspace {
    fn id(&self) -> KeyspaceId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn load(&self) -> Result<()> {
        Ok(())
    }

    fn oldest_mark(&self) -> Option<LogMark> {
        self.oldest_mark_behind(0)
    }

    fn has_pending_flush(&self) -> bool {
        !self.contents().sealed.is_empty()
    }

    fn pending_bytes(&self) -> u64 {
        let of = |map: &Map| map.entries.iter().map(|((key, _), (_, value))| key.len() + value.len()).sum::<usize>();
        let contents = self.contents();
        (of(&contents.active) + contents.sealed.iter().map(|(map, _)| of(map)).sum::<usize>()) as u64
    }

    fn failures(&self) -> Vec<(PartitionId, BackgroundError)> {
        Vec::new()
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn tables(&self) -> Vec<Handle> {
        self.contents().tables.iter().cloned().map(Handle::from).collect()
    }

    fn retire_buffers(&self) {}

    fn empty(&self) {
        self.lifecycle.set_emptied();
        *self.contents() = Contents::default();
    }

    fn next_generation(self: Arc<Self>, at: SeqNo) -> Arc<dyn Keyspace> {
        self.lifecycle.set_cleared();
        MapKeyspace::new(self.id, &self.name, at, Vec::new())
    }

    fn replay(&self, entry: ReplayedEntry<'_>) -> Option<bool> {
        if entry.seq <= self.recovered {
            return None;
        }
        self.insert(entry.mark, entry.key, entry.seq, entry.kind, entry.value);
        Some(self.contents().active.entries.len() >= REPLAYED_MAX)
    }

    fn seal_replayed(&self, last: SeqNo) {
        if self.contents().active.entries.len() >= REPLAYED_MAX {
            self.seal(last);
        }
    }

    fn was_flushed_at(&self, seq: SeqNo) -> bool {
        self.recovered >= seq
    }
}

impl WriteBuffer for MapKeyspace {
    fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    fn sealed_memtables(&self) -> usize {
        self.contents().sealed.len()
    }

    fn active_share(&self) -> f64 {
        0.0
    }

    fn compaction_debt(&self) -> CompactionDebt {
        let tables = self.contents().tables.len();
        CompactionDebt { tables, due_at: usize::MAX, press_to: usize::MAX, stop_at: usize::MAX }
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn compaction_error(&self) -> Option<Error> {
        None
    }

    fn is_dropped(&self) -> bool {
        self.lifecycle.is_dropped()
    }
}

/// The entries of a map, for a flush.
struct Walk<'a> {
    entries: Vec<(&'a [u8], SeqNo, EntryKind, &'a [u8])>,
    next: usize,
}

impl<'a> Walk<'a> {
    fn new(map: &'a Map) -> Self {
        let entries = map.entries.iter().map(|((key, seq), (kind, value))| (&**key, seq.0, *kind, &**value));
        Walk { entries: entries.collect(), next: 0 }
    }
}

impl SealedEntries for Walk<'_> {
    fn advance(&mut self) -> bool {
        self.next += 1;
        self.next <= self.entries.len()
    }
    fn key(&self) -> &[u8] {
        self.entries[self.next - 1].0
    }
    fn seq(&self) -> SeqNo {
        self.entries[self.next - 1].1
    }
    fn kind(&self) -> EntryKind {
        self.entries[self.next - 1].2
    }
    fn value(&self) -> &[u8] {
        self.entries[self.next - 1].3
    }
}
