//! [`FileReads`]: the way of each foreground read of a table's file: through the page cache, past it, or from the
//! mapping.
//!
//! While the page cache keeps what it was given, blocks are read through it. If all tables fit and this one was not
//! written through the page cache, the first read of each 64 KiB piece requests the whole piece. The first read of the
//! table also requests the whole table ([`crate::table::page_cache::warming`]). So the page cache fills.
//!
//! If memory is too short, reads through the page cache only cost: each read allocates a page and evicts another one,
//! and the next read finds its page gone. Memory is too short in two cases:
//! - The tables have more bytes than memory has for files, and the page cache is full
//!   ([`crate::table::page_cache::room`]).
//! - Requested pieces do not stay, as reads that probe now and then find ([`crate::table::page_cache::probe`]).
//!
//! Then a block that is not in the page cache is read past it, which leaves the page cache as it is. There are two
//! exceptions:
//! - A block that was read past the page cache recently goes through it at its next read, if some blocks of the table
//!   are likelier than others ([`crate::table::page_cache::recent_reads`]). Such a block is worth the pages that it
//!   evicts.
//! - In the second case, one such read in [`REQUEST_EVERY`] requests its piece nevertheless. So memory that has become
//!   free is used.
//!
//! If the tables do not fit, the page cache and the block cache should not have the same blocks. So of the reads of
//! blocks that the page cache has, only one in [`CACHE_EVERY`] puts its block into the block cache. (Lookups of packs
//! in steps put all their pages there.)
//!
//! A table that is all in the page cache and on the device is mapped, and its blocks are copied out of the mapping
//! ([`crate::table::page_cache::mapping`]), unless memory is short. Then a read of an evicted page would make the
//! kernel read the page and its neighbours, and evict others for them.
//!
//! Deterministic: counts of reads decide, not time. Nothing here is needed for correctness: a table never changes, so
//! all ways give the same bytes, and each block is verified whichever way it came.
//!
//! No locks. Bits and counts are relaxed atomics; a lost update is one probe less.

use crate::error::Result;
use crate::runtime::ForegroundRead;
use crate::storage::{ALIGNMENT, BufferPool, File};
use crate::table::page_cache::direct_fd_pool::DirectFd;
use crate::table::page_cache::mapping::TableMapping;
use crate::table::page_cache::recent_reads::RecentReads;
use crate::table::page_cache::room::Room;
use crate::table::page_cache::state::PageCacheState;
use crate::table::page_cache::write_back::WriteBack;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The size of a piece. The first read of a block in a piece requests the whole piece for the page cache.
const PIECE_BYTES: u64 = 64 << 10;

/// The size of the pages that random checks look for.
const PAGE_BYTES: u64 = 4 << 10;

/// While memory suffices, one read of this many probes.
const PROBE_EVERY: u32 = 8;

/// While memory is short, one read past the page cache of this many requests its piece instead.
const REQUEST_EVERY: u32 = 64;

/// Of the blocks read from a mapping, one of this many probes.
const PROBE_EVERY_MAPPED: u32 = 16;

/// Of the blocks that point reads take from a mapping, or from the page cache where it cannot have all tables, one of
/// this many goes into the block cache. So blocks that are read often soon get there. Other blocks cost neither a copy
/// nor the block that the copy would evict.
const CACHE_EVERY: u32 = 8;

/// See the module.
pub(in crate::table) struct FileReads {
    file: Arc<dyn File>,
    file_bytes: u64,
    /// A bit for each piece of the file that the page cache was given or requested to read.
    requested: Vec<AtomicU64>,
    recent_reads: RecentReads,
    /// Whether the page cache was given all of the table, or [`crate::table::page_cache::warming`] was requested to
    /// bring it there.
    is_warm: AtomicBool,
    /// Whether the page cache had all of the table at some time.
    is_resident: Arc<AtomicBool>,
    /// If this process wrote the table through the page cache: whether it is all on the device. Until then the table is
    /// not mapped.
    write_back: Option<WriteBack>,
    /// Set by the first read once the table is resident and written back. `None` inside: it cannot be mapped.
    mapping: OnceLock<Option<TableMapping>>,
    /// Blocks read from the mapping, and before there was one.
    mapped_reads: AtomicU32,
    /// The file for reads past the page cache, opened when it is first needed. `None` inside: direct reads are refused.
    direct_fd: OnceLock<Option<DirectFd>>,
}

/// A block to read from the table's mapping.
pub(in crate::table) struct MappedRead<'a> {
    pub(in crate::table) mapping: &'a TableMapping,
    /// Whether the block should go into the block cache if a point read needs it.
    pub(in crate::table) is_to_cache: bool,
}

/// The way of a read that blocks.
pub(in crate::table) struct ReadWay<'a> {
    /// The file, open for reads past the page cache; `None`: the read goes through the page cache.
    pub(in crate::table) direct: Option<&'a Arc<dyn File>>,
    /// Whether the block should go into the block cache.
    pub(in crate::table) is_to_cache: bool,
}

/// A block to read into a buffer.
pub(in crate::table) struct PlannedRead {
    pub(in crate::table) read: ForegroundRead,
    /// Where in the buffer the block with its trailer begins, and their length.
    pub(in crate::table) skip: usize,
    pub(in crate::table) bytes: usize,
}

/// The state of a table's pages in the page cache when the table is opened.
#[derive(Debug)]
pub(in crate::table) enum Pages {
    /// Nothing is known.
    Unknown,
    /// They were written there.
    Written(WriteBack),
    /// They were written there, and memory has room for the pages of all tables.
    Stay(WriteBack),
}

impl Pages {
    /// For a reader that need not fill the page cache.
    pub(in crate::table) fn all_there() -> Self {
        Pages::Stay(WriteBack::done())
    }
}

impl FileReads {
    /// Makes the reads of `file`, which has `file_bytes` bytes.
    pub(in crate::table) fn new(file: Arc<dyn File>, file_bytes: u64, pages: &Pages) -> Self {
        let words = file_bytes.div_ceil(PIECE_BYTES).div_ceil(u64::from(u64::BITS));
        let (requested, stays, write_back) = match pages {
            Pages::Unknown => (0, false, None),
            Pages::Written(write_back) => (u64::MAX, false, Some(write_back.clone())),
            Pages::Stay(write_back) => (u64::MAX, true, Some(write_back.clone())),
        };
        file.expect_random_reads();
        FileReads {
            recent_reads: RecentReads::new(file_bytes),
            file,
            file_bytes,
            requested: (0..words).map(|_| AtomicU64::new(requested)).collect(),
            is_warm: AtomicBool::new(stays),
            is_resident: Arc::new(AtomicBool::new(stays)),
            write_back,
            mapping: OnceLock::new(),
            mapped_reads: AtomicU32::new(0),
            direct_fd: OnceLock::new(),
        }
    }

    /// Requests that the whole table be brought into the page cache, at the first read of a block from the file.
    pub(in crate::table) fn warm(&self, page_cache: &PageCacheState) {
        if !self.is_warm.load(Ordering::Relaxed) && !self.is_warm.swap(true, Ordering::Relaxed) {
            page_cache.warming.request(&self.file, self.file_bytes, &self.is_resident);
        }
    }

    /// Returns the mapping if these bytes should be read there: the page cache was given all of the table, and keeps
    /// it.
    #[inline]
    pub(in crate::table) fn mapped(
        &self,
        page_cache: &PageCacheState,
        offset: u64,
        bytes: u64,
    ) -> Option<MappedRead<'_>> {
        if !self.is_mapped(page_cache) {
            return None;
        }
        let mapping = match self.mapping.get() {
            Some(mapping) => mapping,
            None => self.map(page_cache),
        };
        let mapping = mapping.as_ref()?;
        let turn = self.next_turn();
        if turn.is_multiple_of(PROBE_EVERY_MAPPED) {
            page_cache.room.count(PROBE_EVERY_MAPPED);
            let is_cached = self.file.is_cached(offset, bytes);
            is_cached.inspect(|is_cached| page_cache.probe.record(*is_cached));
            if is_cached == Some(false) {
                return None;
            }
        }
        Some(MappedRead { mapping, is_to_cache: turn.is_multiple_of(CACHE_EVERY) })
    }

    /// Whether blocks are read from the mapping, as far as is known.
    #[inline]
    pub(in crate::table) fn is_mapped(&self, page_cache: &PageCacheState) -> bool {
        let is_usable = match self.mapping.get() {
            Some(mapping) => mapping.as_ref().is_some_and(|mapping| !mapping.has_failed()),
            None => self.write_back.as_ref().is_none_or(WriteBack::is_done),
        };
        is_usable
            && self.is_resident.load(Ordering::Relaxed)
            && !page_cache.probe.is_short()
            && page_cache.room.has_all(page_cache.policy.live_bytes())
    }

    /// Counts a block read from the mapping, or from a table that is to be mapped.
    #[inline]
    fn next_turn(&self) -> u32 {
        let turn = self.mapped_reads.load(Ordering::Relaxed).wrapping_add(1);
        self.mapped_reads.store(turn, Ordering::Relaxed);
        turn
    }

    /// Whether the table is to be mapped once it is on the device.
    fn awaits_mapping(&self) -> bool {
        self.is_resident.load(Ordering::Relaxed) && self.write_back.as_ref().is_some_and(|it| !it.is_done())
    }

    /// Maps the file. If two threads map it at once, one of their mappings is dropped.
    #[cold]
    fn map(&self, page_cache: &PageCacheState) -> &Option<TableMapping> {
        let (file, bytes) = (&*self.file, self.file_bytes);
        let mapping = page_cache.mappings.map(file, bytes, &page_cache.warming);
        self.mapping.get_or_init(|| mapping)
    }

    /// Prefetches these bytes, if they are mapped.
    #[inline]
    pub(in crate::table) fn prefetch(&self, offset: u64, bytes: usize) {
        if let Some(Some(mapping)) = self.mapping.get() {
            mapping.prefetch(offset, bytes);
        }
    }

    /// Returns the way in which these bytes should be read. `open` opens the file for reads past the page cache, when
    /// such a read is first needed.
    pub(in crate::table) fn way(
        &self,
        page_cache: &PageCacheState,
        (offset, bytes): (u64, u64),
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>>,
    ) -> ReadWay<'_> {
        let room = page_cache.room.look(page_cache.policy.live_bytes(), |random| self.has_any_page(random));
        if room == Room::All {
            let is_direct = self.is_past_short_page_cache(page_cache, offset, bytes);
            let direct = if is_direct { self.open_direct(page_cache, open) } else { None };
            let is_to_cache =
                direct.is_some() || !self.awaits_mapping() || self.next_turn().is_multiple_of(CACHE_EVERY);
            return ReadWay { direct, is_to_cache };
        }
        let is_cached = self.file.is_cached(offset, bytes) != Some(false);
        let is_through = is_cached || room == Room::More || self.recent_reads.record(offset);
        let direct = if is_through { None } else { self.open_direct(page_cache, open) };
        ReadWay { direct, is_to_cache: direct.is_some() || page_cache.probe.is_turn(CACHE_EVERY) }
    }

    /// Whether these bytes should be read past the page cache although, as far as the system says, it has room for all
    /// tables.
    fn is_past_short_page_cache(&self, page_cache: &PageCacheState, offset: u64, bytes: u64) -> bool {
        let probe = &page_cache.probe;
        let is_short = probe.is_short();
        let was_requested = self.was_requested(offset);
        if !is_short && !was_requested {
            self.request(offset);
            return false;
        }
        if !is_short && !probe.is_turn(PROBE_EVERY) {
            return false;
        }
        let Some(is_cached) = self.file.is_cached(offset, bytes) else { return false };
        if was_requested {
            probe.record(is_cached);
        }
        if is_cached || !is_short {
            return false;
        }
        if probe.is_turn(REQUEST_EVERY) {
            self.request(offset);
            return false;
        }
        !self.recent_reads.record(offset)
    }

    /// Whether a random page of the table is in the page cache.
    fn has_any_page(&self, random: u64) -> Option<bool> {
        let page = random % self.file_bytes.div_ceil(PAGE_BYTES).max(1);
        self.file.is_cached(page * PAGE_BYTES, PAGE_BYTES.min(self.file_bytes.saturating_sub(page * PAGE_BYTES)))
    }

    fn open_direct(
        &self,
        page_cache: &PageCacheState,
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>>,
    ) -> Option<&Arc<dyn File>> {
        let direct_fd = match self.direct_fd.get() {
            Some(direct_fd) => direct_fd,
            None => {
                let is_refused = &mut false;
                let opened = page_cache.direct_fds.open(|| open().inspect(|file| *is_refused = file.is_none()));
                // A failure to open is no error of the read. The read falls back to the page cache, and the next read
                // tries again. If two threads open the file at once, one of their descriptors is closed.
                let opened = opened.ok().filter(|direct_fd| direct_fd.is_some() || *is_refused)?;
                self.direct_fd.get_or_init(|| opened)
            }
        };
        direct_fd.as_ref().map(DirectFd::file)
    }

    /// Returns the word and the bit of the piece at `offset`.
    fn piece(&self, offset: u64) -> Option<(&AtomicU64, u64)> {
        let piece = offset / PIECE_BYTES;
        let word = usize::try_from(piece / u64::from(u64::BITS)).ok().and_then(|word| self.requested.get(word))?;
        Some((word, 1 << (piece % u64::from(u64::BITS))))
    }

    fn was_requested(&self, offset: u64) -> bool {
        self.piece(offset).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether the page cache was given, or requested to read, any piece of the table.
    pub(in crate::table) fn was_any_requested(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed) || self.requested.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    fn request(&self, offset: u64) {
        if let Some((word, bit)) = self.piece(offset) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        self.file.will_need(offset / PIECE_BYTES * PIECE_BYTES, PIECE_BYTES);
    }

    /// Plans a read into a buffer of `buffers`: from `direct` in whole pages, or through the page cache. Returns `None`
    /// if the read is larger than a buffer.
    pub(in crate::table) fn plan(
        &self,
        direct: Option<&Arc<dyn File>>,
        (offset, length): (u64, u64),
        buffers: &Arc<BufferPool>,
    ) -> Option<PlannedRead> {
        let end = offset.checked_add(length)?;
        let bytes = usize::try_from(length).ok()?;
        let alignment = ALIGNMENT as u64;
        let held = self.file.held();
        let (file, from, to) = match direct {
            Some(direct) => (direct, offset / alignment * alignment, end.checked_next_multiple_of(alignment)?),
            None => (held.as_ref().unwrap_or(&self.file), offset, end),
        };
        let read_bytes = usize::try_from(to - from).ok()?;
        let mut buffer = buffers.take();
        if read_bytes > buffer.capacity() {
            return None;
        }
        buffer.set_len(read_bytes);
        let read = ForegroundRead { file: Arc::clone(file), offset: from, buffer };
        Some(PlannedRead { read, skip: usize::try_from(offset - from).ok()?, bytes })
    }
}
