//! [`Bench`]: a table store on a disk in memory, and a loop that drives one future.

use super::disk::{Disk, Memory};
use super::entries::Entry;
use crate::cache::{BlockCache, Warmth};
use crate::clock::{Clock, Entropy};
use crate::error::Result;
use crate::format::{SeqNo, TableId, key};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
use crate::table::{
    Compression, PackWrites, TableMeta, TableOptions, TableReads, TableScan, TableStore, TableWriter, TableWriters,
    TableWrites,
};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A clock that stands still, and entropy and scheduler that tables must not use.
struct Nothing;

impl Clock for Nothing {
    fn now_ns(&self) -> u64 {
        0
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

/// Drives one future to its end. It must not wait for anything outside of itself.
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
    pub(in crate::table) environment: Environment,
    pub(in crate::table) metrics: Arc<Metrics>,
    pub(in crate::table) cache: Arc<BlockCache>,
    pub(in crate::table) store: Arc<TableStore>,
}

impl Bench {
    pub(in crate::table) fn new(options: TableOptions, cache_bytes: u64) -> Self {
        Bench::on(Disk::new(true), options, cache_bytes)
    }

    pub(super) fn on(disk: Arc<Disk>, options: TableOptions, cache_bytes: u64) -> Self {
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

    /// Drives `work`, given a worker's table writers, and that worker's coroutine of writes.
    pub(in crate::table) fn write_with<T>(&self, work: impl AsyncFnOnce(TableWriters) -> T) -> T {
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

/// Adds an entry, after one with the key `before`, and writes a piece that is full.
pub(super) async fn add(writer: &mut TableWriter, before: &[u8], entry: &Entry) -> Result<()> {
    let shared = key::shared_bytes(before, &entry.key);
    writer.expect(Warmth::Warm);
    if writer.add(&entry.key, shared, SeqNo(entry.seq), entry.kind, &entry.value) {
        writer.write().await?;
    }
    Ok(())
}

/// Makes one step of a scan, within the chunk or into the next one.
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
    TableOptions {
        block_bytes,
        pack_block_bytes: 4 << 10,
        compression,
        compression_per_level,
        filter_bits_per_key,
        writes,
        reads,
        io_depth: 8,
        defers_writes: true,
        may_be_late: false,
        pack_writes: PackWrites::default(),
    }
}
