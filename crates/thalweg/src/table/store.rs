//! [`TableStore`]: all table files of a database: their names, creation, opening and removal.
//!
//! Invariant: an id is given out once, whatever happens to its file. No locks: the next id is one atomic.

use super::charged_buffers::ChargedBuffers;
use super::io::TableIo;
use super::meta::TableMeta;
use super::options::{PackWrites, TableOptions};
use super::pack::contents::{Fresh, FreshContents};
use super::pack::writer::PackWriter;
use super::page_cache::state::PageCacheState;
use super::page_cache::write_through::{WriteThroughPolicy, WriteWay};
use super::read::file_reads::Pages;
use super::read::table::Table;
use super::write::cache_handover::{BlockCollector, CacheHandover};
use super::write::output::Output;
use super::write::unsynced_files::UnsyncedFiles;
use super::write::writer::TableWriter;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::{HashKey, TableId};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Gate, ReadQueue, WriteQueue, write_queue, yield_now};
use crate::storage::{BufferPool, File, OpenMode};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A new table may fill one in this many parts of the block cache.
const HANDOVER_PART: u64 = 8;

/// How many names of new files may be taken by orphans of earlier lives.
const TAKEN_NAMES_MAX: usize = 1024;

/// See the module.
pub(crate) struct TableStore {
    environment: Environment,
    directory: PathBuf,
    options: TableOptions,
    cache: Arc<BlockCache>,
    metrics: Arc<Metrics>,
    next_id: AtomicU64,
    io: TableIo,
    buffers: Arc<ChargedBuffers>,
    page_cache: Arc<PageCacheState>,
    handover: Arc<CacheHandover>,
    unsynced: Arc<UnsyncedFiles>,
    fresh: Arc<FreshContents>,
    /// The number of blocks that reads had needed when the previous table was created.
    reads_seen: AtomicU64,
}

/// Returns the path of table `id` in `directory`.
pub(crate) fn path_in(directory: &Path, id: TableId) -> PathBuf {
    directory.join(format!("{:010}.table", id.0))
}

impl TableStore {
    /// Returns the store of the tables in `directory`, which must exist. `next_id` is the first id that was never used.
    pub(crate) fn new(
        environment: Environment,
        directory: PathBuf,
        options: TableOptions,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
        next_id: TableId,
    ) -> Arc<Self> {
        let storage = &*environment.storage;
        let keeps_space = storage.keeps_space_for_writes(&directory);
        let policy = WriteThroughPolicy::new(options.writes, options.may_be_late, keeps_space);
        let io = TableIo::new(options.io_depth, &metrics, &environment.clock);
        Arc::new(TableStore {
            next_id: AtomicU64::new(next_id.0),
            buffers: ChargedBuffers::new(&io.chunk_buffers, &cache),
            io,
            page_cache: PageCacheState::new(policy, options.reads, &environment.storage),
            handover: Arc::default(),
            unsynced: Arc::new(UnsyncedFiles::new(storage.open_files_max())),
            fresh: Arc::default(),
            reads_seen: AtomicU64::new(0),
            environment,
            directory,
            options,
            cache,
            metrics,
        })
    }

    /// Returns a queue for the table writes of one worker, and the coroutine that makes them, to be spawned there.
    pub(crate) fn write_queue(&self) -> (WriteQueue, impl Future<Output = ()> + Send + use<>) {
        let (queue, serve) =
            write_queue(Arc::clone(&self.io.chunk_buffers), Arc::clone(&self.io.gate), Arc::clone(&self.metrics));
        (if self.options.defers_writes { queue } else { queue.undeferred() }, serve)
    }

    /// Returns the coroutine that brings tables that are read into the page cache. It ends after
    /// [`TableStore::stop_warming`].
    pub(crate) fn warming(&self) -> impl Future<Output = ()> + Send + use<> {
        let (environment, page_cache, io) = (self.environment.clone(), Arc::clone(&self.page_cache), self.io.clone());
        async move { page_cache.warming.run(&environment, &page_cache.policy, &io).await }
    }

    /// A queue of reads of tables, for one thread that has at most `depth` in flight.
    pub(crate) fn read_queue(&self, depth: usize) -> ReadQueue {
        ReadQueue::new(&self.io.rings, depth, &self.io.gate)
    }

    /// The gate of all background reads and writes of tables.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.io.gate)
    }

    /// Frees the buffers that are kept for the next reads and writes.
    pub(crate) fn rest(&self) {
        self.buffers.rest();
        self.io.block_buffers.rest();
        self.io.page_buffers.rest();
    }

    /// Ends the coroutine of [`TableStore::warming`].
    pub(crate) fn stop_warming(&self) {
        self.page_cache.warming.stop();
    }

    /// The buffers of background reads and writes.
    pub(crate) fn buffers(&self) -> &Arc<ChargedBuffers> {
        &self.buffers
    }

    /// The block cache of the database.
    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Returns the path of table `id`.
    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        path_in(&self.directory, id)
    }

    /// Gives out an id, for a table of another store.
    pub(crate) fn take_id(&self) -> TableId {
        TableId(self.next_id.fetch_add(1, Ordering::SeqCst))
    }

    /// Returns the first id that was never used.
    #[cfg(test)]
    pub(crate) fn next_id(&self) -> TableId {
        TableId(self.next_id.load(Ordering::SeqCst))
    }

    /// Creates a file for a table of `level`, written through `queue`. An error leaves no file.
    pub(super) async fn create(&self, level: usize, queue: &WriteQueue) -> Result<TableWriter> {
        let is_read = self.is_read();
        yield_now().await;
        let (policy, storage) = (&self.page_cache.policy, &*self.environment.storage);
        let (way, fits) = (policy.way(storage, level, is_read), policy.fits(storage));
        let (id, output) = self.create_file(way, queue, queue.buffers()).await?;
        let stays = fits && output.is_through_cache();
        let room = if is_read && !stays { self.handover_bytes_max() } else { 0 };
        Ok(self.writer(id, level, output, room))
    }

    /// Creates a file for a pack of `level`, as [`TableStore::create`] does.
    pub(super) async fn create_pack(&self, level: usize, hash_key: HashKey, queue: &WriteQueue) -> Result<PackWriter> {
        let buffers = match self.options.pack_writes {
            PackWrites::ByDirectory => queue.buffers(),
            PackWrites::ByItem => &self.io.page_buffers,
        };
        yield_now().await;
        let way = self.page_cache.policy.way_of_pack(&*self.environment.storage, level, self.is_read());
        let (id, output) = self.create_file(way, queue, buffers).await?;
        self.count_file(&output);
        let (storage, kept) =
            (Arc::clone(&self.environment.storage), (Arc::clone(&self.unsynced), Arc::clone(&self.fresh)));
        Ok(PackWriter::new(storage, output, id, hash_key, &self.options, kept))
    }

    /// Creates a file with a name that no file has.
    async fn create_file(
        &self,
        way: WriteWay,
        queue: &WriteQueue,
        buffers: &Arc<BufferPool>,
    ) -> Result<(TableId, Output)> {
        let (is_direct, is_reserved) = (matches!(way, WriteWay::Direct), self.page_cache.policy.is_reserved(&way));
        let mut taken = 0;
        loop {
            let id = self.take_id();
            let path = self.path(id);
            yield_now().await;
            let storage = &self.environment.storage;
            match if is_direct { storage.create_direct(&path) } else { storage.create(&path) } {
                Ok(file) => return Ok((id, Output::new(queue, buffers, file, way, is_reserved))),
                // The name is that of an orphan of an earlier life, which no edit names. The orphan is never
                // overwritten, and its id is not used.
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && taken < TAKEN_NAMES_MAX =>
                {
                    taken += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn count_file(&self, output: &Output) {
        let counter = match (output.is_through_cache(), output.file().is_direct()) {
            (true, _) => &self.metrics.tables_through_cache,
            (false, true) => &self.metrics.tables_direct,
            (false, false) => &self.metrics.tables_refused_direct,
        };
        counter.increment();
        if output.is_late() {
            self.metrics.tables_late.increment();
        }
    }

    /// Returns the writer of table `id`, which may keep `room` bytes of blocks for the block cache.
    fn writer(&self, id: TableId, level: usize, output: Output, room: usize) -> TableWriter {
        self.count_file(&output);
        let (storage, compression) = (Arc::clone(&self.environment.storage), self.options.compression_of(level));
        let collector = BlockCollector::new(&self.handover, &self.cache, room);
        let unsynced = Arc::clone(&self.unsynced);
        TableWriter::new(storage, output, id, self.options.clone(), compression, collector, unsynced)
    }

    /// Returns how many bytes of blocks the writer of a table may keep for the block cache.
    fn handover_bytes_max(&self) -> usize {
        usize::try_from(self.cache.bytes_max() / HANDOVER_PART).unwrap_or(usize::MAX)
    }

    /// Whether any block was read since the previous table was created.
    fn is_read(&self) -> bool {
        let reads =
            self.metrics.all_reads(|reads| &reads.cache_hits) + self.metrics.all_reads(|reads| &reads.cache_misses);
        self.reads_seen.swap(reads, Ordering::Relaxed) != reads
    }

    /// As [`TableStore::open`], for a table that was just written. If its writer kept blocks, opens the file and puts
    /// them into the block cache.
    pub(crate) fn open_written(&self, meta: TableMeta) -> Arc<Table> {
        let kept = self.handover.take(meta.id);
        let (fresh, items) = (self.fresh.take(meta.id), self.fresh.take_items(meta.id));
        let fits = || self.page_cache.policy.fits(&*self.environment.storage);
        let pages = match self.unsynced.write_back(meta.id) {
            Some(write_back) if fits() => Pages::Stay(write_back),
            Some(write_back) => Pages::Written(write_back),
            None => Pages::Unknown,
        };
        let table = self.open_as(pages, meta, fresh);
        table.keep_items(items);
        // If the file cannot be opened, the first read reports it.
        let _ = kept.into_iter().flatten().try_for_each(|kept| table.cache_block(kept.at, kept.content, kept.warmth));
        table
    }

    /// Returns a handle of a table in the set of live files. No I/O: the file is opened at its first use.
    pub(crate) fn open(&self, meta: TableMeta) -> Arc<Table> {
        self.open_as(Pages::Unknown, meta, None)
    }

    /// Returns the file of a table that was just written, for a sync. It is the descriptor of its writer, because the
    /// kernel reports a failed write-back to a descriptor that was open then. Returns `None` after
    /// [`TableStore::forget_unsynced`].
    pub(crate) fn unsynced(&self, id: TableId) -> Option<Arc<dyn File>> {
        self.unsynced.get(id)
    }

    /// Returns the number of files that [`TableStore::unsynced`] can return. Each is an open descriptor.
    pub(crate) fn unsynced_files(&self) -> usize {
        self.unsynced.len()
    }

    /// Closes the file that [`TableStore::unsynced`] returns. `is_synced`: whether the table was synced. If not, it
    /// need not be, and will be removed.
    pub(crate) fn forget_unsynced(&self, id: TableId, is_synced: bool) {
        if is_synced {
            self.unsynced.remove(id);
        } else if self.unsynced.close(id) {
            self.metrics.tables_never_written.increment();
        }
    }

    fn open_as(&self, pages: Pages, meta: TableMeta, fresh: Option<Fresh>) -> Arc<Table> {
        let path = self.path(meta.id);
        let storage = Arc::clone(&self.environment.storage);
        let (cache, metrics) = (Arc::clone(&self.cache), Arc::clone(&self.metrics));
        let counted = self.page_cache.policy.count(meta.bytes);
        let (io, page_cache) = (self.io.clone(), Arc::clone(&self.page_cache));
        let table = Table::new(storage, path, meta, cache, metrics, io, page_cache);
        Arc::new(table.with(counted, pages, fresh))
    }

    /// Drops the pages of a replaced table from the page cache, and its part of the live bytes, if `table` is its only
    /// handle.
    pub(crate) fn let_go(&self, table: Arc<Table>) {
        // Dropping the pages of a late table would write them. The pages go with the file, which never needs to be
        // written.
        let is_late = self.unsynced.is_late(table.meta().id);
        if let Some(stale) = Arc::into_inner(table).and_then(Table::into_stale_pages).filter(|_| !is_late) {
            self.page_cache.warming.drop_stale(stale);
        }
    }

    /// Opens the file of a table. Returns `None` if that fails.
    pub(crate) fn open_file(&self, id: TableId, mode: OpenMode) -> Option<Arc<dyn File>> {
        self.environment.storage.open(&self.path(id), mode).ok().flatten()
    }

    /// Removes a file that no edit names or will name: a failed output, a settled input, an orphan. A missing file is
    /// no error, because a removal may be repeated after a crash.
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        drop((self.handover.take(id), self.fresh.take(id), self.fresh.take_items(id)));
        self.unsynced.remove(id);
        match self.environment.storage.remove(&self.path(id)) {
            Err(error) if error.is_missing() => Ok(()),
            done => done,
        }
    }
}
