//! What these tests stand on: files in memory, a loop that drives one future, a small random generator.

use crate::cache::{BlockCache, Warmth};
use crate::clock::{Clock, Entropy};
use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, TableId, key};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
use crate::storage::{DirectoryEntry, File, OpenMode, ReadMapping, Storage, StorageLock};
use crate::table::{
    Compression, TableMeta, TableOptions, TableReads, TableScan, TableStore, TableWriter, TableWriters, TableWrites,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Files in memory. Writes fail once `room` bytes were written.
pub(in crate::table) struct Disk {
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>>,
    pub(super) room: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(in crate::table) read_bytes: AtomicU64,
    /// What memory has room for; 0: nobody knows.
    pub(in crate::table) file_room: AtomicU64,
    pub(super) medium: bool,
    /// Direct reads are refused from now on.
    pub(super) refuses_medium: AtomicBool,
    pub(super) medium_reads: AtomicU64,
    /// What every file says of the page cache.
    pub(super) is_cached: AtomicBool,
    /// Whether files can be mapped to be read.
    pub(in crate::table) is_mapped: AtomicBool,
    /// Bytes that the page cache was to forget.
    pub(super) forgotten_bytes: AtomicU64,
    /// Reads of the byte at this offset fail.
    pub(super) failing: AtomicU64,
}

struct MemoryFile {
    mode: OpenMode,
    disk: Arc<Disk>,
    path: PathBuf,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// The disk as a storage; a newtype, so that files can hold the disk.
pub(in crate::table) struct Memory(pub(in crate::table) Arc<Disk>);

fn error(operation: &'static str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(operation, path, io::Error::from(kind))
}

impl Disk {
    pub(in crate::table) fn new(medium: bool) -> Arc<Self> {
        Arc::new(Disk {
            files: Mutex::default(),
            room: AtomicU64::new(u64::MAX),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            file_room: AtomicU64::new(0),
            medium,
            refuses_medium: AtomicBool::new(false),
            medium_reads: AtomicU64::new(0),
            is_cached: AtomicBool::new(false),
            is_mapped: AtomicBool::new(false),
            forgotten_bytes: AtomicU64::new(0),
            failing: AtomicU64::new(u64::MAX),
        })
    }
    pub(super) fn names(&self) -> Vec<PathBuf> {
        self.files.lock().unwrap().keys().cloned().collect()
    }
    pub(super) fn contents(&self, path: &Path) -> Vec<u8> {
        self.files.lock().unwrap()[path].lock().unwrap().clone()
    }
    pub(super) fn flip(&self, path: &Path, at: u64) {
        self.files.lock().unwrap()[path].lock().unwrap()[at as usize] ^= 1;
    }
    pub(super) fn cut(&self, path: &Path, bytes: usize) {
        self.files.lock().unwrap()[path].lock().unwrap().truncate(bytes);
    }
    pub(in crate::table) fn put(&self, path: &Path, bytes: &[u8]) {
        self.files.lock().unwrap().insert(path.to_path_buf(), Arc::new(Mutex::new(bytes.to_vec())));
    }
}

impl Memory {
    fn file(&self, path: &Path, mode: OpenMode, bytes: Arc<Mutex<Vec<u8>>>) -> Arc<dyn File> {
        Arc::new(MemoryFile { disk: Arc::clone(&self.0), path: path.to_path_buf(), mode, bytes })
    }
}

impl Storage for Memory {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut files = self.0.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(error("create", path, io::ErrorKind::AlreadyExists));
        }
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        files.insert(path.to_path_buf(), Arc::clone(&bytes));
        Ok(self.file(path, OpenMode::ReadWrite, bytes))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium && (!self.0.medium || self.0.refuses_medium.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        match self.0.files.lock().unwrap().get(path) {
            Some(bytes) => Ok(Some(self.file(path, mode, Arc::clone(bytes)))),
            None => Err(error("open", path, io::ErrorKind::NotFound)),
        }
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        Ok(self.0.files.lock().unwrap().get(path).map(|bytes| bytes.lock().unwrap().len() as u64))
    }
    fn file_room_bytes(&self) -> Option<u64> {
        Some(self.0.file_room.load(Ordering::Relaxed)).filter(|room| *room > 0)
    }
    fn list(&self, _: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        unreachable!()
    }
    fn create_directory(&self, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.0.files.lock().unwrap().remove(path);
        removed.map(|_| ()).ok_or_else(|| error("remove", path, io::ErrorKind::NotFound))
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn hard_link(&self, _: &Path, _: &Path) -> Result<bool> {
        unreachable!()
    }
    fn sync_directory(&self, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn lock(&self, _: &Path, _: bool) -> Result<Box<dyn StorageLock>> {
        unreachable!()
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.disk.reads.fetch_add(1, Ordering::Relaxed);
        if self.mode == OpenMode::ReadMedium {
            self.disk.medium_reads.fetch_add(1, Ordering::Relaxed);
        }
        let failing = self.disk.failing.load(Ordering::Relaxed);
        if (offset..offset + buffer.len() as u64).contains(&failing) {
            return Err(error("read", &self.path, io::ErrorKind::Other));
        }
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        // Short reads are allowed at any time.
        let read = rest.len().min(buffer.len()).min(100_000);
        buffer[..read].copy_from_slice(&rest[..read]);
        self.disk.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
    fn map_for_reads(&self, _: u64) -> Option<Arc<dyn ReadMapping>> {
        let is_mapped = self.disk.is_mapped.load(Ordering::Relaxed);
        let (disk, path, bytes) = (Arc::clone(&self.disk), self.path.clone(), Arc::clone(&self.bytes));
        is_mapped.then(|| Arc::new(MemoryMapping(MemoryFile { mode: self.mode, disk, path, bytes })) as _)
    }
    fn is_cached(&self, _: u64, _: u64) -> Option<bool> {
        Some(self.disk.is_cached.load(Ordering::Relaxed))
    }
    fn forget_cached(&self, _: u64, bytes: u64) {
        self.disk.forgotten_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    fn write_all_at(&self, offset: u64, new: &[u8]) -> Result<()> {
        let room = self.disk.room.load(Ordering::Relaxed);
        if room < new.len() as u64 {
            return Err(error("write", &self.path, io::ErrorKind::StorageFull));
        }
        self.disk.room.store(room - new.len() as u64, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap();
        let end = offset as usize + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(new);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        unreachable!("tables are synced by lineage")
    }
    fn bytes(&self) -> Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.bytes.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }
}

/// A file in memory as one mapped to be read: no reads are counted.
struct MemoryMapping(MemoryFile);

impl ReadMapping for MemoryMapping {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let failing = self.0.disk.failing.load(Ordering::Relaxed);
        let bytes = self.0.bytes.lock().unwrap();
        let Some(found) = bytes.get(offset as usize..offset as usize + buffer.len()) else { return false };
        buffer.copy_from_slice(found);
        !(offset..offset + buffer.len() as u64).contains(&failing)
    }
}

struct Nothing;

impl Clock for Nothing {
    fn now_ns(&self) -> u64 {
        unreachable!()
    }
}

impl Entropy for Nothing {
    fn next_u64(&self) -> u64 {
        unreachable!()
    }
}

impl Scheduler for Nothing {
    fn spawn(&self, _: Lane, _: Task) {
        unreachable!()
    }
    fn sleep_until(&self, _: u64) -> Task {
        unreachable!()
    }
    fn wait(&self, _: &Event, _: Ticket, _: Option<u64>) {
        unreachable!()
    }
    fn point(&self, _: Point) {}
    fn shutdown(&self) {}
}

/// Drives one future to its end; nothing it waits for is elsewhere.
pub(in crate::table) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// A store on a disk in memory.
pub(in crate::table) struct Bench {
    pub(in crate::table) disk: Arc<Disk>,
    pub(super) environment: Environment,
    pub(in crate::table) metrics: Arc<Metrics>,
    pub(in crate::table) cache: Arc<BlockCache>,
    pub(in crate::table) store: Arc<TableStore>,
}

impl Bench {
    pub(in crate::table) fn new(options: TableOptions, cache_bytes: u64) -> Self {
        let disk = Disk::new(true);
        let storage = Arc::new(Memory(Arc::clone(&disk)));
        let environment =
            Environment { storage, clock: Arc::new(Nothing), entropy: Arc::new(Nothing), scheduler: Arc::new(Nothing) };
        let metrics = Arc::<Metrics>::default();
        let cache = BlockCache::new(cache_bytes);
        let store = TableStore::new(
            environment.clone(),
            PathBuf::from("db/tables"),
            options,
            Arc::clone(&cache),
            Arc::clone(&metrics),
            TableId(7),
        );
        Bench { disk, environment, metrics, cache, store }
    }

    /// Drives what `work` makes of a worker's table writers, and the flush coroutine of that worker.
    pub(super) fn write_with<T>(&self, work: impl AsyncFnOnce(TableWriters) -> T) -> T {
        let (queue, flush) = self.store.write_queue();
        let mut flush = std::pin::pin!(flush);
        let mut work = std::pin::pin!(work(TableWriters::new(Arc::clone(&self.store), queue)));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
                return value;
            }
            let _ = flush.as_mut().poll(&mut context);
        }
    }

    pub(in crate::table) fn write(&self, entries: &[Entry]) -> TableMeta {
        self.write_to(0, entries)
    }

    pub(super) fn write_to(&self, level: usize, entries: &[Entry]) -> TableMeta {
        self.write_with(async |writers| {
            let mut writer = writers.create(level).await.unwrap();
            let mut before = &[][..];
            for entry in entries {
                add(&mut writer, before, entry).await.unwrap();
                before = &entry.key;
            }
            writer.finish().await.unwrap()
        })
    }
}

/// Adds an entry, after one with the key `before`, and writes what it makes due.
pub(super) async fn add(writer: &mut TableWriter, before: &[u8], entry: &Entry) -> Result<()> {
    let shared = key::shared_bytes(before, &entry.key);
    writer.expect(Warmth::Warm);
    if writer.add(&entry.key, shared, SeqNo(entry.seq), entry.kind, &entry.value) {
        writer.write().await?;
    }
    Ok(())
}

/// One step of a scan, whether it stays in the block or not.
pub(super) async fn advance(scan: &mut TableScan) -> Result<bool> {
    Ok(scan.advance_in_chunk()? || scan.enter_next_chunk().await?)
}

pub(in crate::table) fn options(
    block_bytes: usize,
    compression: Compression,
    filter_bits_per_key: u32,
) -> TableOptions {
    let (compression_per_level, writes) = (Vec::new(), TableWrites::default());
    let reads = TableReads::default();
    TableOptions { block_bytes, compression, compression_per_level, filter_bits_per_key, writes, reads, io_depth: 8 }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) seq: u64,
    pub(super) kind: EntryKind,
    pub(super) value: Vec<u8>,
}

pub(in crate::table) fn put(key: &[u8], seq: u64, value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), seq, kind: EntryKind::Put, value: value.to_vec() }
}

pub(super) fn tombstone(key: &[u8], seq: u64) -> Entry {
    Entry { key: key.to_vec(), seq, kind: EntryKind::Remove, value: Vec::new() }
}

/// xorshift64*: the same seed, the same numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
    /// A key with long shared prefixes now and then, sometimes empty.
    pub(super) fn key(&mut self) -> Vec<u8> {
        let prefix = [&b""[..], b"a", b"river/", b"river/bed/deep/"][self.below(4) as usize];
        let mut key = prefix.to_vec();
        key.extend((0..self.below(5)).map(|_| b"ab\x00\xff"[self.below(4) as usize]));
        key
    }
    /// Entries in order, each once, with many versions of few keys.
    pub(super) fn entries(&mut self, count: u64) -> Vec<Entry> {
        let mut sorted = BTreeMap::new();
        for _ in 0..count {
            let (key, seq) = (self.key(), self.below(1000) + 1);
            let bytes = if self.below(50) == 0 { 3000 } else { 40 };
            let len = self.below(bytes) as usize;
            let byte = self.below(256) as u8;
            let entry = if self.below(5) == 0 { tombstone(&key, seq) } else { put(&key, seq, &vec![byte; len]) };
            sorted.insert((key, std::cmp::Reverse(seq)), entry);
        }
        sorted.into_values().collect()
    }
}
