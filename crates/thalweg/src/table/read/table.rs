//! [`Table`]: a table of the set of live files, as reads use it.
//!
//! The file is opened at the first use and stays open. A file that is missing, has another length or says other things
//! of itself than the manifest is corruption. No lock is held over I/O: two threads that use a table first at the
//! same time may both open it, and one of the two is dropped.

use super::batch::ReadBlock;
use super::cursor::TableCursor;
use super::fence::Fence;
use super::file::Opened;
use super::open_table::{Live, MappedTurn, Planned};
use super::read_ahead::ReadAhead;
use crate::cache::{BlockCache, Warmth};
use crate::error::{Error, Result};
use crate::format::{SeqNo, Slice, Version};
use crate::metrics::Metrics;
use crate::storage::{File, OpenMode, Storage};
use crate::table::format::block::{Block, Found};
use crate::table::format::damage::Damage;
use crate::table::format::filter;
use crate::table::format::index::Handle;
use crate::table::page_cache::mapping::Room;
use crate::table::page_cache::write_through::{Left, Resident};
use crate::table::scan::table_scan::TableScan;
use crate::table::store::{CHUNK_BYTES, TableIo};
use crate::table::write::cache_handover::KeptBlock;
use crate::table::{KeyRange, TableMeta};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A table of the set of live files.
pub(crate) struct Table {
    meta: TableMeta,
    /// Where it begins and ends, for reads that look for their table.
    key_min: Fence,
    key_max: Fence,
    live: OnceLock<Live>,
    cache: Arc<BlockCache>,
    pub(in crate::table) metrics: Arc<Metrics>,
    pub(in crate::table) io: TableIo,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Written through the page cache by this process: read from there too.
    through_cache: bool,
    counted: Option<Resident>,
}

thread_local! {
    /// Where a thread's point reads put the block of a mapping that they look into.
    static ROOM: Cell<Room> = const { Cell::new(Room::new()) };
}

/// A key that is looked for, and what tables want to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointKey<'a> {
    key: &'a [u8],
    seq: SeqNo,
    hash: u64,
    fence: Fence,
}

impl<'a> PointKey<'a> {
    /// For the newest version of `key` at or below `seq`.
    pub(crate) fn new(key: &'a [u8], seq: SeqNo) -> Self {
        PointKey { key, seq, hash: filter::hash(key), fence: Fence::new(key) }
    }
}

/// The block of a table that has a key, if any has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockNumber(pub(in crate::table) usize);

impl Table {
    pub(in crate::table) fn new(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        meta: TableMeta,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
        io: TableIo,
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
            live: OnceLock::new(),
            through_cache: false,
            counted: None,
        }
    }

    /// Counted, and with what is known of where its bytes are.
    pub(in crate::table) fn with(self, counted: Resident, through_cache: bool) -> Self {
        Table { through_cache, counted: Some(counted), ..self }
    }

    /// What a replaced table leaves in the page cache, as far as is known; its file is closed, its mapping on its way
    /// out.
    pub(in crate::table) fn into_left(self) -> Option<Left> {
        let is_cached = self.through_cache || self.live.get().is_some_and(Live::was_asked_any);
        let (path, bytes) = (self.path, self.meta.bytes);
        self.counted.filter(|_| is_cached).map(|counted| Left { path, bytes, _counted: counted })
    }

    /// The file for reads past the page cache; `None` where that is refused or no descriptor is left, and where the
    /// bytes, from `offset` on, are in that cache: those of a table that was written through it, until memory was
    /// needed for others.
    pub(in crate::table) fn open_medium(&self, offset: u64) -> Result<Option<Arc<dyn File>>> {
        if self.through_cache && self.opened()?.file.is_cached(offset, CHUNK_BYTES as u64) != Some(false) {
            return Ok(None);
        }
        match self.storage.open(&self.path, OpenMode::ReadMedium) {
            // Through the page cache it needs none of its own.
            Err(error) if error.is_shortage() => Ok(None),
            opened => opened,
        }
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Whether all keys of the table are less.
    #[inline]
    pub(crate) fn ends_before(&self, point: &PointKey<'_>) -> bool {
        self.key_max.is_less(&self.meta.key_max, &point.fence, point.key)
    }

    /// The newest version of `key` at or below `seq`.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        self.find(&PointKey::new(key, seq))
    }

    /// The version that is looked for, if this table has it.
    pub(crate) fn find(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        match self.locate(point)? {
            Some(block) => self.find_in(block, point),
            None => Ok(None),
        }
    }

    /// The only block that may have what is looked for, by range, filter and index.
    pub(crate) fn locate(&self, point: &PointKey<'_>) -> Result<Option<BlockNumber>> {
        let begins_after = point.fence.is_less(point.key, &self.key_min, &self.meta.key_min);
        if begins_after || self.ends_before(point) || point.seq < self.meta.seq_min {
            return Ok(None);
        }
        let opened = self.opened()?;
        if let Some(filter) = &opened.filter {
            let reads = self.metrics.reads();
            reads.filter_checks.increment();
            if !filter.may_contain(point.hash) {
                reads.filter_negatives.increment();
                return Ok(None);
            }
        }
        // The first entry at or after (key, seq) is in this block, wherever the other versions of the key are.
        let at = opened.index.find(point.key, point.seq);
        Ok((at < opened.index.blocks()).then_some(BlockNumber(at)))
    }

    /// What `block`, as [`Table::locate`] gave it, has.
    pub(crate) fn find_in(&self, block: BlockNumber, point: &PointKey<'_>) -> Result<Option<Version>> {
        let BlockNumber(at) = block;
        let live = self.live()?;
        if let Some(content) = self.cached(live, at) {
            return self.find_in_block(live, at, self.parse(live, at, content)?, point);
        }
        // A thread that ends has none left.
        let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
        let found = self.find_mapped(live, at, point, &mut room);
        let _ = ROOM.try_with(|kept| kept.set(room));
        if let Some(found) = found? {
            return Ok(found);
        }
        let Some(content) = self.read(live, at, None)? else { return Ok(None) };
        self.find_in_block(live, at, self.parse(live, at, content)?, point)
    }

    /// As [`Table::find_in`], if the table's mapping has the block.
    fn find_mapped(
        &self,
        live: &Live,
        at: usize,
        point: &PointKey<'_>,
        room: &mut Room,
    ) -> Result<Option<Option<Version>>> {
        let Some(content) = self.read_mapped(live, at, room, true)? else { return Ok(None) };
        let content_bytes = content.len();
        let Some(mut found) = self.find_in_block(live, at, self.parse(live, at, content)?, point)? else {
            return Ok(Some(None));
        };
        // Most of a block keeps it: its memory is new for the next one. Less does not, or it would keep too much.
        if found.value.len() < content_bytes / 2 {
            found.value = Slice::from(&*found.value);
        }
        Ok(Some(Some(found)))
    }

    #[inline]
    fn find_in_block(&self, live: &Live, at: usize, block: Block, point: &PointKey<'_>) -> Result<Option<Version>> {
        match block.find(point.key, point.seq).map_err(|damage| self.block_damaged(&live.opened, at, damage))? {
            Found::Version(version) => Ok(Some(version)),
            Found::Nothing => Ok(None),
            Found::PastEnd => Err(self.ends_early(&live.opened, at)),
        }
    }

    /// Whether `block` is in the block cache, or its table mapped.
    pub(crate) fn is_at_hand(&self, block: BlockNumber) -> Result<bool> {
        let live = self.live()?;
        Ok(live.cached.has(block.0) || live.is_mapped(&self.io))
    }

    /// As [`Table::find_in`], in what was read of the block.
    pub(crate) fn find_in_read(&self, read: &ReadBlock, point: &PointKey<'_>) -> Result<Option<Version>> {
        let live = self.live()?;
        self.find_in_block(live, read.at, self.parse(live, read.at, read.content.clone())?, point)
    }

    /// A cursor through the block cache, for foreground reads.
    pub(crate) fn cursor(self: &Arc<Self>) -> TableCursor {
        TableCursor::new(Arc::clone(self))
    }

    /// A forward scan for compactions: asynchronous, reads ahead, leaves the block cache alone.
    pub(crate) fn scan(self: &Arc<Self>, range: &Arc<KeyRange>) -> TableScan {
        TableScan::new(Arc::clone(self), Arc::clone(range), Arc::clone(&self.metrics))
    }

    /// At most about `most` user keys of the table, evenly spread over its bytes, ascending; with each the bytes up to
    /// it since the one before. Opens the table.
    pub(crate) fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        let index = &self.opened()?.index;
        let (mut samples, mut before) = (Vec::new(), 0);
        for block in (0..index.blocks()).step_by(index.blocks().div_ceil(most.max(1))) {
            if let (Some((key, _)), Some(end)) = (index.last_key(block), index.handle(block).and_then(|it| it.end())) {
                samples.push((Box::from(key), end - before));
                before = end;
            }
        }
        Ok(samples)
    }

    /// Opens the file, if it was not.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        self.live().map(drop)
    }

    /// The file, opened now if it was not.
    #[inline]
    pub(in crate::table) fn opened(&self) -> Result<&Opened> {
        Ok(&self.live()?.opened)
    }

    #[inline]
    pub(in crate::table) fn live(&self) -> Result<&Live> {
        match self.live.get() {
            Some(live) => Ok(live),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Live> {
        let opened = Opened::open_live(&*self.storage, &self.path, &self.meta)?;
        Ok(self.live.get_or_init(|| Live::new(opened, &self.cache, self.through_cache)))
    }

    /// Data block `at`, for a cursor; `None` past the last one.
    pub(in crate::table) fn block(&self, at: usize, ahead: &mut ReadAhead) -> Result<Option<Block>> {
        let live = self.live()?;
        let content = match self.cached(live, at) {
            Some(content) => Some(content),
            None => match self.read_mapped(live, at, ahead.room(), false)? {
                Some(content) => Some(content),
                None => self.read(live, at, Some(ahead))?,
            },
        };
        content.map(|content| self.parse(live, at, content)).transpose()
    }

    #[inline]
    fn cached(&self, live: &Live, at: usize) -> Option<Slice> {
        let content = live.cached.get(at)?;
        self.metrics.reads().cache_hits.increment();
        Some(content)
    }

    /// Data block `at` from the table's mapping, in memory of `room`; `None` where it is not to be read there, or
    /// cannot be: then a read by position tells why.
    fn read_mapped(&self, live: &Live, at: usize, room: &mut Room, is_point: bool) -> Result<Option<Slice>> {
        let Some(handle) = live.opened.index.handle(at) else { return Ok(None) };
        let Some(MappedTurn { mapped, is_to_keep }) = live.mapped(&self.io, handle) else { return Ok(None) };
        let Some(bytes) = handle.sealed_bytes() else { return Ok(None) };
        let Some(sealed) = mapped.read(handle.offset, bytes, room) else { return Ok(None) };
        let reads = self.metrics.reads();
        reads.cache_misses.increment();
        reads.mapped_reads.increment();
        let content = live.opened.unseal(&sealed, handle)?;
        if handle.bytes != handle.raw_bytes {
            // What was decompressed is worth keeping, and lies in memory of its own.
            live.cached.insert(at, content.clone());
        } else if is_point && is_to_keep {
            live.cached.insert(at, Slice::from_long(&content));
        }
        Ok(Some(content))
    }

    /// Brings data block `at` near the processor, if it is cached.
    #[inline]
    pub(in crate::table) fn approach_block(&self, at: usize) {
        if let Some(live) = self.live.get() {
            live.approach(at);
        }
    }

    fn parse(&self, live: &Live, at: usize, content: Slice) -> Result<Block> {
        Block::parse(content).map_err(|damage| self.block_damaged(&live.opened, at, damage))
    }

    /// Reads a block from the file, and caches it.
    #[cold]
    fn read(&self, live: &Live, at: usize, ahead: Option<&mut ReadAhead>) -> Result<Option<Slice>> {
        let Some(handle) = live.opened.index.handle(at) else { return Ok(None) };
        self.metrics.reads().cache_misses.increment();
        live.warm(&self.io);
        let _at_the_device = self.io.gate.client_read();
        let content = match ahead {
            Some(ahead) => ahead.read(&live.opened, at, handle, || self.read_block(live, handle))?,
            None => self.read_block(live, handle)?,
        };
        live.cached.insert(at, content.clone());
        Ok(Some(content))
    }

    /// Reads one block by itself, through the page cache or past it.
    fn read_block(&self, live: &Live, handle: Handle) -> Result<Slice> {
        let direct =
            self.past_the_cache(live, handle).map(|file| live.plan(Some(file), handle, &self.io.block_buffers));
        match direct.flatten() {
            Some(Planned { read, skip, bytes }) => {
                self.metrics.reads().direct_reads.increment();
                live.opened.unseal_part(&read.carry_out()?, skip, bytes, handle)
            }
            None => live.opened.read_block(handle),
        }
    }

    /// The file past the page cache, if the block should be read there.
    pub(in crate::table) fn past_the_cache<'a>(&self, live: &'a Live, handle: Handle) -> Option<&'a Arc<dyn File>> {
        live.past_the_cache(&self.io, handle, || self.storage.open(&self.path, OpenMode::ReadMedium))
    }

    /// How much data block `at` is wanted, as far as the cache knows.
    pub(in crate::table) fn warmth(&self, at: usize) -> Warmth {
        self.live.get().map_or(Warmth::Cold, |live| live.cached.warmth(at))
    }

    /// Caches data blocks, whose writer kept their contents. Opens the table.
    pub(in crate::table) fn fill_cache(&self, blocks: Vec<KeptBlock>) -> Result<()> {
        let live = self.live()?;
        for KeptBlock { at, content, warmth } in blocks {
            live.cached.insert_as(at, content, warmth);
        }
        Ok(())
    }

    /// Damage inside data block `at`.
    #[cold]
    pub(in crate::table) fn block_damaged(&self, opened: &Opened, at: usize, damage: Damage) -> Error {
        damage.in_block(&self.path, opened.index.handle(at).map_or(0, |handle| handle.offset))
    }

    /// The index has an entry for block `at` that is not in it.
    #[cold]
    pub(in crate::table) fn ends_early(&self, opened: &Opened, at: usize) -> Error {
        let last = opened.index.last_key(at).map(|(key, _)| key).unwrap_or_default();
        let offset = opened.index.handle(at).map_or(0, |handle| handle.offset);
        Error::corruption(&self.path, offset, format!("a block up to key \"{}\"", last.escape_ascii()), "its end")
    }
}

#[cfg(any(test, feature = "simulation"))]
impl Table {
    /// A table that was opened already, from any file, for fuzzing.
    pub(in crate::table) fn of(storage: Arc<dyn Storage>, opened: Opened) -> Arc<Self> {
        let meta = opened.properties.to_meta(opened.file_bytes, 0);
        let (cache, metrics, path) = (BlockCache::new(0), Arc::<Metrics>::default(), opened.path().to_path_buf());
        let io = TableIo::new(1, None, crate::table::page_cache::mapping::Mappings::none(), &metrics);
        let table = Table::new(storage, path, meta, Arc::clone(&cache), metrics, io);
        table.live.get_or_init(|| Live::new(opened, &cache, true));
        Arc::new(table)
    }
}
