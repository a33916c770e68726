//! Tables in memory, and a store for them that can fail, for the tests of this module.

use crate::cache::Warmth;
use crate::compaction::outputs::{Store, Writer};
use crate::compaction::runs::{Input, Scan};
use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, TableId, key};
use crate::memtable::SealedEntries;
use crate::table::{KeyRange, TableMeta};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Runs a future to its end on this thread; counts how often it gave way.
pub(in crate::compaction) fn block_on<T>(future: impl Future<Output = T>) -> (T, usize) {
    let mut future = pin!(future);
    let mut yields = 0;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return (value, yields),
            Poll::Pending => yields += 1,
        }
    }
}

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compaction) struct FakeEntry {
    pub(in crate::compaction) key: Vec<u8>,
    pub(in crate::compaction) seq: SeqNo,
    pub(in crate::compaction) kind: EntryKind,
    pub(in crate::compaction) value: Vec<u8>,
}

impl FakeEntry {
    pub(in crate::compaction) fn put(key: &str, seq: u64, value: &str) -> Self {
        FakeEntry { key: key.into(), seq: SeqNo(seq), kind: EntryKind::Put, value: value.into() }
    }
    pub(in crate::compaction) fn remove(key: &str, seq: u64) -> Self {
        FakeEntry { key: key.into(), seq: SeqNo(seq), kind: EntryKind::Remove, value: Vec::new() }
    }
}

/// An immutable table.
#[derive(Clone, Debug)]
pub(in crate::compaction) struct FakeTable {
    pub(in crate::compaction) meta: Arc<TableMeta>,
    pub(in crate::compaction) entries: Arc<Vec<FakeEntry>>,
}

impl FakeTable {
    pub(in crate::compaction) fn new(id: u64, entries: Vec<FakeEntry>) -> Self {
        let (first, last) = (entries.first().unwrap(), entries.last().unwrap());
        let seqs = entries.iter().map(|entry| entry.seq);
        let meta = TableMeta {
            id: TableId(id),
            bytes: entries.iter().map(entry_bytes).sum(),
            checksum: 0,
            entries: entries.len() as u64,
            tombstones: entries.iter().filter(|entry| entry.kind == EntryKind::Remove).count() as u64,
            keys: entries.chunk_by(|a, b| a.key == b.key).count() as u64,
            seq_min: seqs.clone().min().unwrap(),
            seq_max: seqs.max().unwrap(),
            key_min: first.key.clone().into(),
            key_max: last.key.clone().into(),
        };
        FakeTable { meta: Arc::new(meta), entries: Arc::new(entries) }
    }
}

fn entry_bytes(entry: &FakeEntry) -> u64 {
    (entry.key.len() + entry.value.len() + 10) as u64
}

impl Input for FakeTable {
    type Scan = FakeScan;
    fn meta(&self) -> &TableMeta {
        &self.meta
    }
    fn scan(&self, range: &Arc<KeyRange>) -> FakeScan {
        let within = |entry: &&FakeEntry| !range.is_after(&entry.key) && !range.is_before(&entry.key);
        FakeScan { entries: Arc::new(self.entries.iter().filter(within).cloned().collect()), next: 0, read: 0 }
    }
    /// Blocks of two entries.
    fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        let blocks: Vec<_> = self.entries.chunks(2).collect();
        let sample = |blocks: &[&[FakeEntry]]| {
            let last = blocks.last().and_then(|block| block.last()).unwrap();
            (Box::from(&*last.key), blocks.iter().copied().flatten().map(entry_bytes).sum())
        };
        Ok(blocks.chunks(blocks.len().div_ceil(most)).map(sample).collect())
    }
}

/// Values that begin with "long" are not in memory until they are read.
pub(in crate::compaction) struct FakeScan {
    entries: Arc<Vec<FakeEntry>>,
    next: usize,
    /// The entry whose value was read, as `next` is the current one.
    read: usize,
}

impl FakeScan {
    fn entry(&self) -> &FakeEntry {
        &self.entries[self.next - 1]
    }
}

impl Scan for FakeScan {
    /// Chunks of three entries.
    fn advance_in_chunk(&mut self) -> Result<bool> {
        let more = !self.next.is_multiple_of(3) && self.next < self.entries.len();
        self.next += usize::from(more);
        Ok(more)
    }
    async fn enter_next_chunk(&mut self) -> Result<bool> {
        let more = self.next < self.entries.len();
        self.next += usize::from(more);
        Ok(more)
    }
    fn key(&self) -> &[u8] {
        &self.entry().key
    }
    fn seq(&self) -> SeqNo {
        self.entry().seq
    }
    fn kind(&self) -> EntryKind {
        self.entry().kind
    }
    fn value(&self) -> &[u8] {
        assert!(self.has_value(), "it was not read");
        &self.entry().value
    }
    fn has_value(&self) -> bool {
        self.read == self.next || !self.entry().value.starts_with(b"long")
    }
    async fn read_value(&mut self) -> Result<()> {
        self.read = self.next;
        Ok(())
    }
    /// Even numbers come from hot blocks.
    fn warmth(&self) -> Warmth {
        if self.seq().0.is_multiple_of(2) { Warmth::Hot } else { Warmth::Cold }
    }
}

/// A directory of tables. An unfinished one is there with `None`.
#[derive(Default)]
pub(in crate::compaction) struct FakeStore {
    files: Mutex<BTreeMap<TableId, Option<FakeTable>>>,
    next_id: AtomicU64,
    /// Calls until one fails; 0: none does.
    fail_in: AtomicU64,
}

impl FakeStore {
    pub(in crate::compaction) fn failing_at(call: u64) -> Self {
        FakeStore { fail_in: AtomicU64::new(call), ..FakeStore::default() }
    }

    /// Whether the call that was to fail has not come yet.
    pub(in crate::compaction) fn fuse_left(&self) -> bool {
        self.fail_in.load(Ordering::Relaxed) > 0
    }

    pub(in crate::compaction) fn files(&self) -> MutexGuard<'_, BTreeMap<TableId, Option<FakeTable>>> {
        self.files.lock().unwrap()
    }

    pub(in crate::compaction) fn table(&self, meta: &TableMeta) -> FakeTable {
        self.files().get(&meta.id).cloned().flatten().expect("a finished table")
    }

    /// The entries of tables, one list a table.
    pub(in crate::compaction) fn entries(&self, tables: &[TableMeta]) -> Vec<Vec<FakeEntry>> {
        tables.iter().map(|meta| self.table(meta).entries.to_vec()).collect()
    }

    fn call(&self) -> Result<()> {
        let left = self.fail_in.load(Ordering::Relaxed);
        self.fail_in.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 { Err(Error::NoSpace { path: Arc::from(self.path(TableId(0))) }) } else { Ok(()) }
    }
}

impl<'a> Store for &'a FakeStore {
    type Writer = FakeWriter<'a>;
    async fn create(&self, _: usize) -> Result<FakeWriter<'a>> {
        self.call()?;
        let id = TableId(self.next_id.fetch_add(1, Ordering::Relaxed) + 1);
        self.files().insert(id, None);
        Ok(FakeWriter { store: self, id, entries: Vec::new(), warmth: None })
    }
    fn remove(&self, id: TableId) -> Result<()> {
        assert!(self.files().remove(&id).is_some(), "removing a table that is not there");
        Ok(())
    }
    fn path(&self, id: TableId) -> PathBuf {
        FakeStore::path(self, id)
    }
}

impl FakeStore {
    fn path(&self, id: TableId) -> PathBuf {
        PathBuf::from(format!("{id}.table"))
    }
}

pub(in crate::compaction) struct FakeWriter<'a> {
    store: &'a FakeStore,
    id: TableId,
    entries: Vec<FakeEntry>,
    /// Of the block that the next entry comes from; `Warm` of a flush.
    warmth: Option<Warmth>,
}

impl Writer for FakeWriter<'_> {
    /// Every entry is a chunk.
    fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        let last = self.entries.last().map_or(&[][..], |entry| &entry.key);
        assert_eq!(shared, key::shared_bytes(last, key), "bytes shared with the key before");
        let of_a_merge = if seq.0.is_multiple_of(2) { Warmth::Hot } else { Warmth::Cold };
        let warmth = self.warmth.take().expect("told before each entry");
        assert!(warmth == of_a_merge || warmth == Warmth::Warm, "{warmth:?} of {seq}");
        self.entries.push(FakeEntry { key: key.into(), seq, kind, value: value.into() });
        true
    }
    fn expect(&mut self, warmth: Warmth) {
        self.warmth = Some(warmth);
    }
    async fn write(&mut self) -> Result<()> {
        self.store.call()
    }
    fn bytes(&self) -> u64 {
        self.entries.iter().map(entry_bytes).sum()
    }
    async fn finish(self) -> Result<TableMeta> {
        if let Err(error) = self.store.call() {
            self.abandon().await;
            return Err(error);
        }
        let table = FakeTable::new(self.id.0, self.entries);
        self.store.files().insert(self.id, Some(table.clone()));
        Ok(TableMeta::clone(&table.meta))
    }
    async fn abandon(self) {
        assert!(self.store.files().remove(&self.id).is_some(), "abandoning a table that is not there");
    }
}

/// A memtable: sorted entries.
pub(in crate::compaction) struct FakeMemtable {
    pub(in crate::compaction) entries: Vec<FakeEntry>,
    pub(in crate::compaction) next: usize,
}

impl FakeMemtable {
    fn entry(&self) -> &FakeEntry {
        &self.entries[self.next - 1]
    }
}

impl SealedEntries for FakeMemtable {
    fn advance(&mut self) -> bool {
        self.next += 1;
        self.next <= self.entries.len()
    }
    fn key(&self) -> &[u8] {
        &self.entry().key
    }
    fn seq(&self) -> SeqNo {
        self.entry().seq
    }
    fn kind(&self) -> EntryKind {
        self.entry().kind
    }
    fn value(&self) -> &[u8] {
        &self.entry().value
    }
}
