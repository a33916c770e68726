//! [`TableStore`]: names table files, creates them, opens them, removes them.
//!
//! Invariant: an id is given out once, whatever becomes of its file. No locks: the next id is one atomic.

use super::page_cache::direct_fds::Media;
use super::page_cache::mapping::Mappings;
use super::page_cache::warming::Warming;
use super::page_cache::write_through::Residence;
use super::read::file::is_missing;
use super::read::open_table::Residency;
use super::write::cache_handover::{Keeper, KeptBlocks};
use super::write::output::Output;
use super::{Table, TableMeta, TableOptions, TableReads, TableWriter};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Gate, ReadRings, WriteQueue, write_queue, yield_now};
use crate::storage::{BufferPool, File, OpenMode};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables are written, and read by compactions, in pieces of this size: where a device is near its full speed, and
/// small enough that all the buffers in use stay a few megabytes.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// A table may fill this part of the cache when it is new.
const KEPT_PART: u64 = 8;

/// How many orphans of earlier lives may be in the way of a new file.
const TAKEN_NAMES_MAX: usize = 1024;

/// All table files of a database: names them, creates them, opens them.
pub(crate) struct TableStore {
    environment: Environment,
    directory: PathBuf,
    options: TableOptions,
    cache: Arc<BlockCache>,
    metrics: Arc<Metrics>,
    next_id: AtomicU64,
    io: TableIo,
    kept: Arc<KeptBlocks>,
    residence: Arc<Residence>,
    /// Blocks that readers had asked for when the last table was begun.
    reads_seen: AtomicU64,
}

/// Room for a block that is read past the page cache, or together with others; larger ones are read alone.
const BLOCK_BUFFER_BYTES: usize = 32 << 10;

/// What all I/O on the tables of a database shares.
#[derive(Clone)]
pub(super) struct TableIo {
    pub(super) gate: Arc<Gate>,
    /// Of background reads and writes.
    pub(super) buffers: Arc<BufferPool>,
    pub(super) warming: Arc<Warming>,
    /// Of foreground reads.
    pub(super) block_buffers: Arc<BufferPool>,
    pub(super) rings: Arc<ReadRings>,
    pub(super) residency: Arc<Residency>,
    pub(super) media: Arc<Media>,
    pub(super) mappings: Arc<Mappings>,
}

impl TableIo {
    /// For tables of a process that may have so many files open, if that is bounded, and that are mapped as `mappings`
    /// has it.
    pub(super) fn new(
        io_depth: usize,
        open_files_max: Option<u64>,
        mappings: Arc<Mappings>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        TableIo {
            gate: Gate::new(io_depth, Arc::clone(metrics)),
            buffers: BufferPool::new(CHUNK_BYTES),
            block_buffers: BufferPool::new(BLOCK_BUFFER_BYTES),
            warming: Arc::default(),
            rings: ReadRings::new(Arc::clone(metrics)),
            residency: Arc::default(),
            media: Media::new(open_files_max),
            mappings,
        }
    }
}

/// Where the table `id` lies in `directory`.
pub(crate) fn path_in(directory: &Path, id: TableId) -> PathBuf {
    directory.join(format!("{:010}.table", id.0))
}

impl TableStore {
    /// Tables live in `directory`, which must exist; `next_id` is the first id that was never used.
    pub(crate) fn new(
        environment: Environment,
        directory: PathBuf,
        options: TableOptions,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
        next_id: TableId,
    ) -> Arc<Self> {
        let next_id = AtomicU64::new(next_id.0);
        let mappings = match options.reads {
            TableReads::Automatic => Mappings::new(environment.storage.mappings_max()),
            TableReads::Copied => Mappings::none(),
        };
        let io = TableIo::new(options.io_depth, environment.storage.open_files_max(), mappings, &metrics);
        let kept = Arc::new(KeptBlocks::new(environment.storage.open_files_max()));
        let reads_seen = AtomicU64::new(0);
        let residence = Arc::new(Residence::new(options.writes));
        Arc::new(TableStore {
            environment,
            directory,
            options,
            cache,
            metrics,
            next_id,
            io,
            kept,
            residence,
            reads_seen,
        })
    }

    /// A queue for the table writes of one worker, and the flush coroutine that makes them, to be spawned there.
    pub(crate) fn write_queue(&self) -> (WriteQueue, impl Future<Output = ()> + Send + use<>) {
        write_queue(Arc::clone(&self.io.buffers), Arc::clone(&self.io.gate), Arc::clone(&self.metrics))
    }

    /// The coroutine that brings tables into the page cache that are read; it ends after [`TableStore::stop_warming`].
    pub(crate) fn warming(&self) -> impl Future<Output = ()> + Send + use<> {
        let (environment, residence, io) = (self.environment.clone(), Arc::clone(&self.residence), self.io.clone());
        async move { io.warming.run(&environment, &residence, &io).await }
    }

    /// Frees the buffers that background I/O and reads of blocks keep for the next ones.
    pub(crate) fn rest(&self) {
        self.io.buffers.rest();
        self.io.block_buffers.rest();
    }

    pub(crate) fn stop_warming(&self) {
        self.io.warming.stop();
    }

    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        path_in(&self.directory, id)
    }

    /// The first id never used (for the manifest).
    #[cfg(test)]
    pub(crate) fn next_id(&self) -> TableId {
        TableId(self.next_id.load(Ordering::SeqCst))
    }

    /// A new file to write the entries of a table of `level` to, in internal-key order, through `queue`. An error
    /// leaves no file.
    pub(super) async fn create(&self, level: usize, queue: &WriteQueue) -> Result<TableWriter> {
        let mut taken = 0;
        loop {
            let id = TableId(self.next_id.fetch_add(1, Ordering::SeqCst));
            let path = self.path(id);
            yield_now().await;
            let storage = Arc::clone(&self.environment.storage);
            let is_read = self.is_read();
            let through_cache = self.residence.is_through_cache(&*storage, level, is_read);
            match if through_cache { storage.create(&path) } else { storage.create_direct(&path) } {
                Ok(file) => {
                    let counter = match (through_cache, file.is_direct()) {
                        (true, _) => &self.metrics.tables_through_cache,
                        (false, true) => &self.metrics.tables_direct,
                        (false, false) => &self.metrics.tables_refused_direct,
                    };
                    counter.increment();
                    let (output, compression) = (Output::new(queue, file), self.options.compression_of(level));
                    let room = if is_read && !through_cache { self.room_for_kept() } else { 0 };
                    let keeper = Keeper::new(Arc::clone(&self.kept), room, through_cache);
                    return Ok(TableWriter::new(storage, output, id, self.options.clone(), compression, keeper));
                }
                // An orphan that an earlier life wrote and no edit names: never overwritten, its id is not used.
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && taken < TAKEN_NAMES_MAX =>
                {
                    taken += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How many bytes of its blocks the writer of a table that is read may keep for the cache.
    fn room_for_kept(&self) -> usize {
        usize::try_from(self.cache.bytes_max() / KEPT_PART).unwrap_or(usize::MAX)
    }

    /// Whether anybody has read a block since the last table was begun.
    fn is_read(&self) -> bool {
        let reads =
            self.metrics.all_reads(|reads| &reads.cache_hits) + self.metrics.all_reads(|reads| &reads.cache_misses);
        self.reads_seen.swap(reads, Ordering::Relaxed) != reads
    }

    /// As [`TableStore::open`], for a table that was just written: what its writer kept goes into the cache, for which
    /// the file is opened now.
    pub(crate) fn open_written(&self, meta: TableMeta) -> Arc<Table> {
        let kept = self.kept.take_blocks(meta.id);
        let table = self.open_as(self.kept.is_through_cache(meta.id), meta);
        if let Some(blocks) = kept {
            // What is wrong with the file its readers will hear.
            let _ = table.fill_cache(blocks);
        }
        table
    }

    /// A handle on a table in the set of live files. No I/O: the file is opened at its first use.
    pub(crate) fn open(&self, meta: TableMeta) -> Arc<Table> {
        self.open_as(false, meta)
    }

    /// The file of a table that was just written, as its writer had it open, for who syncs it: a write-back that failed
    /// is told to the descriptor that was open then. `None` after [`TableStore::forget_unsynced`].
    pub(crate) fn unsynced(&self, id: TableId) -> Option<Arc<dyn File>> {
        self.kept.file(id)
    }

    /// How many tables have such a file, which is a descriptor each.
    pub(crate) fn unsynced_files(&self) -> usize {
        self.kept.files()
    }

    /// The table was synced, or need not be.
    pub(crate) fn forget_unsynced(&self, id: TableId) {
        self.kept.forget_file(id);
    }

    fn open_as(&self, through_cache: bool, meta: TableMeta) -> Arc<Table> {
        let path = self.path(meta.id);
        let storage = Arc::clone(&self.environment.storage);
        let (cache, metrics) = (Arc::clone(&self.cache), Arc::clone(&self.metrics));
        let (io, resident) = (self.io.clone(), self.residence.count(meta.bytes));
        Arc::new(Table::new(storage, path, meta, cache, metrics, io).with(resident, through_cache))
    }

    /// Nobody has another handle of this replaced table: what the page cache has of it goes, and it counts no more.
    pub(crate) fn let_go(&self, table: Arc<Table>) {
        if let Some(left) = Arc::into_inner(table).and_then(Table::into_left) {
            self.io.warming.forget(left);
        }
    }

    /// The file of a table; `None` when it cannot be opened.
    pub(crate) fn open_file(&self, id: TableId, mode: OpenMode) -> Option<Arc<dyn File>> {
        self.environment.storage.open(&self.path(id), mode).ok().flatten()
    }

    /// Removes a file that no edit names or will name (a failed output, a settled input, an orphan). That it is gone
    /// already is no error: a removal may be tried again after a crash.
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        self.kept.forget(id);
        match self.environment.storage.remove(&self.path(id)) {
            Err(error) if is_missing(&error) => Ok(()),
            done => done,
        }
    }
}
