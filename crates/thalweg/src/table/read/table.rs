//! [`Table`]: a handle of a table in the set of live files, and its blocks.
//!
//! The file is opened at its first use and stays open. It is corruption if the file is missing, has another length, or
//! differs from what the manifest says. No lock is held over I/O: two threads that use a table first at the same time
//! may both open it, and one of the two open files is dropped.

use super::fence::Fence;
use super::file::TableFile;
use super::file_reads::{MappedRead, Pages, PlannedRead, ReadWay};
use super::open_table::OpenTable;
use super::read_ahead::ReadAhead;
use crate::cache::{BlockCache, Warmth};
use crate::error::{Error, Result};
use crate::format::{HashKey, Slice};
use crate::metrics::Metrics;
use crate::storage::{File, OpenMode, Storage};
use crate::sync::Mutex;
use crate::table::format::block::Block;
use crate::table::format::index::BlockHandle;
use crate::table::io::{CHUNK_BYTES, TableIo};
use crate::table::meta::TableMeta;
use crate::table::pack::contents::{self, Fresh, PackSpan};
use crate::table::pack::items::PackItems;
use crate::table::pack::open_pack::OpenPack;
use crate::table::page_cache::block_buffer::BlockBuffer;
use crate::table::page_cache::state::PageCacheState;
use crate::table::page_cache::write_through::{CountedBytes, StalePages};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A table of the set of live files.
pub(crate) struct Table {
    pub(super) meta: TableMeta,
    /// The beginning of the first and the last key, for reads that look for their table.
    pub(super) key_min: Fence,
    pub(super) key_max: Fence,
    open: OnceLock<OpenTable>,
    /// The open pack. A pack has this instead of `open`.
    pack: OnceLock<OpenPack>,
    /// The contents of a pack that was just written.
    fresh: Mutex<Option<Fresh>>,
    /// The items of a pack that was just written, if an index has each item.
    fresh_items: Mutex<Option<PackItems>>,
    cache: Arc<BlockCache>,
    pub(in crate::table) metrics: Arc<Metrics>,
    pub(in crate::table) io: TableIo,
    pub(in crate::table) page_cache: Arc<PageCacheState>,
    pub(in crate::table) storage: Arc<dyn Storage>,
    pub(in crate::table) path: PathBuf,
    /// The state of the table's pages. If this process wrote the table through the page cache, it is read from there,
    /// too.
    pages: Pages,
    counted: Option<CountedBytes>,
}

impl Table {
    pub(in crate::table) fn new(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        meta: TableMeta,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
        io: TableIo,
        page_cache: Arc<PageCacheState>,
    ) -> Self {
        let (key_min, key_max) = (Fence::new(&meta.key_min), Fence::new(&meta.key_max));
        Table {
            storage,
            path,
            meta,
            key_min,
            key_max,
            cache,
            metrics,
            io,
            page_cache,
            open: OnceLock::new(),
            pack: OnceLock::new(),
            fresh: Mutex::default(),
            fresh_items: Mutex::default(),
            pages: Pages::Unknown,
            counted: None,
        }
    }

    /// Adds the table's part of the live bytes, and what is known of its pages.
    pub(in crate::table) fn with(self, counted: CountedBytes, pages: Pages, fresh: Option<Fresh>) -> Self {
        Table { pages, counted: Some(counted), fresh: Mutex::new(fresh), ..self }
    }

    fn is_through_cache(&self) -> bool {
        !matches!(self.pages, Pages::Unknown)
    }

    /// Closes the file, and returns the pages that the replaced table may have in the page cache.
    pub(in crate::table) fn into_stale_pages(self) -> Option<StalePages> {
        let was_requested = self.open.get().is_some_and(|open| open.reads.was_any_requested())
            || self.pack.get().is_some_and(|pack| pack.reads.was_any_requested());
        let is_cached = self.is_through_cache() || was_requested;
        let (path, bytes) = (self.path, self.meta.bytes);
        self.counted.filter(|_| is_cached).map(|counted| StalePages { path, bytes, _counted: counted })
    }

    /// Opens the file for reads past the page cache. Returns `None` if those are refused, if no descriptor is left, or
    /// if the table was written through the page cache, which still has the bytes at `offset`.
    pub(in crate::table) fn open_direct(&self, offset: u64) -> Result<Option<Arc<dyn File>>> {
        if self.is_through_cache() && self.is_chunk_cached(&*self.table_file()?.file, offset) {
            return Ok(None);
        }
        self.open_medium_if_possible()
    }

    /// Whether the page cache has the chunk at `offset`, as far as the file reaches, or cannot tell.
    fn is_chunk_cached(&self, file: &dyn File, offset: u64) -> bool {
        let bytes = (CHUNK_BYTES as u64).min(self.meta.bytes.saturating_sub(offset));
        file.is_cached(offset, bytes) != Some(false)
    }

    /// Opens the file for reads past the page cache, if possible. A shortage of descriptors is no error, because reads
    /// through the page cache need no second one.
    fn open_medium_if_possible(&self) -> Result<Option<Arc<dyn File>>> {
        match self.storage.open(&self.path, OpenMode::ReadMedium) {
            Err(error) if error.is_shortage() => Ok(None),
            opened => opened,
        }
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Returns at most `most` user keys, ascending and evenly spread over the bytes of the table, each with the number
    /// of bytes between the previous key and it. Opens the table.
    pub(crate) fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        let index = &self.table_file()?.index;
        let (mut samples, mut before) = (Vec::new(), 0);
        for block in (0..index.blocks()).step_by(index.blocks().div_ceil(most.max(1))) {
            if let (Some((key, _)), Some(end)) = (index.last_key(block), index.handle(block).and_then(|it| it.end())) {
                samples.push((Box::from(key), end - before));
                before = end;
            }
        }
        Ok(samples)
    }

    /// Opens the file, if it is not open yet.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        self.opened().map(drop)
    }

    /// Returns the file, opening it if it is not open yet.
    #[inline]
    pub(in crate::table) fn table_file(&self) -> Result<&TableFile> {
        Ok(&self.opened()?.table_file)
    }

    /// Returns the open table, opening it if it is not open yet.
    #[inline]
    pub(super) fn opened(&self) -> Result<&OpenTable> {
        match self.open.get() {
            Some(open) => Ok(open),
            None => self.open_now(),
        }
    }

    #[cold]
    fn open_now(&self) -> Result<&OpenTable> {
        let table_file = TableFile::open_live(&*self.storage, &self.path, &self.meta)?;
        Ok(self.open.get_or_init(|| OpenTable::new(table_file, &self.cache, &self.pages)))
    }

    /// Returns the open pack, opening it if it is not open yet.
    #[inline]
    pub(in crate::table) fn pack(&self) -> Result<&OpenPack> {
        match self.pack.get() {
            Some(pack) => Ok(pack),
            None => self.open_pack(&mut |_, _| ()),
        }
    }

    /// The pack, if it is open.
    pub(in crate::table) fn open_pack_now(&self) -> Option<&OpenPack> {
        self.pack.get()
    }

    /// Whether this is a pack that was opened.
    pub(crate) fn is_pack(&self) -> bool {
        self.pack.get().is_some()
    }

    #[cold]
    fn open_pack(&self, visit: &mut dyn FnMut(u64, PackSpan)) -> Result<&OpenPack> {
        let pack = OpenPack::open_live(&*self.storage, &self.path, &self.meta, &self.cache, &self.pages, visit)?;
        Ok(self.pack.get_or_init(|| pack))
    }

    /// Gives each directory of a pack to `visit`, in order. If the pack was just written, the first call takes the
    /// directories from memory; otherwise this reads them from the file, and opens the pack.
    pub(crate) fn visit_directories(&self, visit: &mut dyn FnMut(u64, PackSpan)) -> Result<()> {
        if let Some((content, data_end)) = self.fresh.lock().take() {
            let decoded = contents::decode(&content, data_end, visit);
            return decoded.map(drop).map_err(|damage| damage.in_block(&self.path, 0));
        }
        match self.pack.get() {
            Some(pack) => pack.visit_directories(visit),
            None => self.open_pack(visit).map(drop),
        }
    }

    /// Whether the hashes of a pack are those of the keyspace with this key.
    ///
    /// # Errors
    /// `Corruption` if they are not; errors of opening the file.
    pub(crate) fn check_hash_key(&self, key: &HashKey) -> Result<()> {
        let pack = self.pack()?;
        if pack.hash_key == *key {
            return Ok(());
        }
        let at = pack.footer.index.offset;
        Err(Error::corruption(&self.path, at, "the hash key of the keyspace", "that of another"))
    }

    /// Keeps the items of a pack that was just written.
    pub(in crate::table) fn keep_items(&self, items: Option<PackItems>) {
        if items.is_some() {
            *self.fresh_items.lock() = items;
        }
    }

    /// Takes the items that [`Table::keep_items`] has kept.
    #[cfg(feature = "experiments")]
    pub(in crate::table) fn take_fresh_items(&self) -> Option<PackItems> {
        self.fresh_items.lock().take()
    }

    /// Opens the file of a pack for reads past the page cache, as [`Table::open_direct`] does.
    pub(in crate::table) fn open_direct_pack(&self, offset: u64) -> Result<Option<Arc<dyn File>>> {
        if self.is_through_cache() && self.is_chunk_cached(&*self.pack()?.file, offset) {
            return Ok(None);
        }
        self.open_medium_if_possible()
    }

    /// Returns data block `at` for a cursor, or `None` past the last block.
    pub(super) fn block(&self, at: usize, ahead: &mut ReadAhead) -> Result<Option<Block>> {
        let open = self.opened()?;
        let content = match self.cached(open, at) {
            Some(content) => Some(content),
            None => match self.read_mapped(open, at, ahead.buffer(), false)? {
                Some(content) => Some(content),
                None => self.read(open, at, Some(ahead))?,
            },
        };
        content.map(|content| parse(open, at, content)).transpose()
    }

    /// Returns data block `at` if the block cache has it.
    #[inline]
    pub(super) fn cached(&self, open: &OpenTable, at: usize) -> Option<Slice> {
        let content = open.cached.get(at)?;
        self.metrics.reads().cache_hits.increment();
        Some(content)
    }

    /// Copies data block `at` from the table's mapping to `buffer`. Returns `None` if the block should not or cannot be
    /// read there; a read of the file then tells why.
    pub(super) fn read_mapped(
        &self,
        open: &OpenTable,
        at: usize,
        buffer: &mut BlockBuffer,
        is_point: bool,
    ) -> Result<Option<Slice>> {
        let Some(handle) = open.table_file.index.handle(at) else { return Ok(None) };
        let Some(MappedRead { mapping, is_to_cache }) = open.mapped(&self.page_cache, handle) else { return Ok(None) };
        let Some(bytes) = handle.sealed_bytes() else { return Ok(None) };
        let Some(sealed) = mapping.read(handle.offset, bytes, buffer) else { return Ok(None) };
        let reads = self.metrics.reads();
        reads.cache_misses.increment();
        reads.mapped_reads.increment();
        let content = open.table_file.unseal(&sealed, handle)?;
        // Decompressing a block again would cost more than its copy.
        let is_compressed = handle.bytes != handle.raw_bytes;
        if is_compressed || is_point && is_to_cache {
            open.cached.insert(at, content.clone());
        }
        Ok(Some(content))
    }

    /// Prefetches data block `at`, if it is cached.
    #[inline]
    pub(super) fn prefetch_block(&self, at: usize) {
        if let Some(open) = self.open.get() {
            open.prefetch(at);
        }
    }

    /// Reads data block `at` from the file, and caches it. Returns `None` past the last block.
    #[cold]
    pub(super) fn read(&self, open: &OpenTable, at: usize, ahead: Option<&mut ReadAhead>) -> Result<Option<Slice>> {
        let Some(handle) = open.table_file.index.handle(at) else { return Ok(None) };
        self.metrics.reads().cache_misses.increment();
        open.reads.warm(&self.page_cache);
        let _at_the_device = self.io.gate.client_read();
        let mut is_to_cache = true;
        let mut read_block = || {
            let way = self.way(open, handle);
            is_to_cache = way.is_to_cache || handle.bytes != handle.raw_bytes;
            self.read_block(open, handle, way.direct)
        };
        let content = match ahead {
            Some(ahead) => ahead.read(&open.table_file, at, handle, read_block)?,
            None => read_block()?,
        };
        if is_to_cache {
            open.cached.insert(at, content.clone());
        }
        Ok(Some(content))
    }

    /// Reads a single block, through the page cache or past it.
    fn read_block(&self, open: &OpenTable, handle: BlockHandle, direct: Option<&Arc<dyn File>>) -> Result<Slice> {
        match direct.and_then(|file| open.plan(Some(file), handle, &self.io.block_buffers)) {
            Some(PlannedRead { read, skip, bytes }) => {
                self.metrics.reads().direct_reads.increment();
                open.table_file.unseal_part(&read.carry_out()?, skip, bytes, handle)
            }
            None => open.table_file.read_block(handle),
        }
    }

    /// Returns the way in which a block should be read.
    pub(super) fn way<'a>(&self, open: &'a OpenTable, handle: BlockHandle) -> ReadWay<'a> {
        open.way(&self.page_cache, handle, || self.storage.open(&self.path, OpenMode::ReadMedium))
    }

    /// Returns how often data block `at` is read, as far as the block cache knows.
    pub(in crate::table) fn warmth(&self, at: usize) -> Warmth {
        self.open.get().map_or(Warmth::Cold, |open| open.cached.warmth(at))
    }

    /// Puts data block `at`, whose content the writer of the table kept, into the block cache. Opens the table.
    pub(in crate::table) fn cache_block(&self, at: usize, content: Slice, warmth: Warmth) -> Result<()> {
        self.opened()?.cached.insert_as(at, content, warmth);
        Ok(())
    }
}

/// Parses `content` as data block `at`.
pub(super) fn parse(open: &OpenTable, at: usize, content: Slice) -> Result<Block> {
    Block::parse(content).map_err(|damage| open.table_file.block_damaged(at, damage))
}

#[cfg(any(test, feature = "simulation"))]
impl Table {
    /// Returns a table of an open file, for fuzzing.
    pub(in crate::table) fn of(storage: Arc<dyn Storage>, table_file: TableFile) -> Arc<Self> {
        let meta = table_file.properties.to_meta(table_file.file_bytes, 0);
        let table = Table::unopened(storage, table_file.path(), meta);
        table.open.get_or_init(|| OpenTable::new(table_file, &table.cache, &Pages::all_there()));
        Arc::new(table)
    }

    /// As [`Table::of`], for a pack with `bytes` bytes.
    #[cfg(feature = "simulation")]
    pub(in crate::table) fn of_pack(storage: Arc<dyn Storage>, pack: OpenPack, bytes: u64) -> Arc<Self> {
        let table = Table::unopened(storage, pack.file.path(), pack.properties.to_meta(bytes, 0));
        table.pack.get_or_init(|| pack);
        Arc::new(table)
    }

    fn unopened(storage: Arc<dyn Storage>, path: &std::path::Path, meta: TableMeta) -> Self {
        use crate::table::options::{TableReads, TableWrites};
        use crate::table::page_cache::write_through::WriteThroughPolicy;
        let (cache, metrics) = (BlockCache::new(0), Arc::<Metrics>::default());
        let policy = WriteThroughPolicy::new(TableWrites::default(), false, true);
        let page_cache = PageCacheState::new(policy, TableReads::Copied, &storage);
        let clock: Arc<dyn crate::clock::Clock> = Arc::new(crate::clock::SystemClock::default());
        let io = TableIo::new(1, &metrics, &clock);
        Table::new(storage, path.to_path_buf(), meta, cache, metrics, io, page_cache)
    }
}
