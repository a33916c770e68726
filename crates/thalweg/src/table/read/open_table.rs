//! [`Live`]: an open table as point reads use it, and from where each block comes: the page cache, or past it.
//!
//! While what the page cache was given stays there, blocks are read through it. Of a table that was not written through
//! it, the first read of each 64 KiB asks for all of them, and the first of all for the whole table
//! ([`crate::table::page_cache::warming`]): so it fills. Where memory is too short for that, it only costs: a page is found for each read,
//! another one evicted, and the next read finds it gone. So [`Residency`] looks now and then whether a piece that was
//! asked for is still there. If most are gone, a block that the page cache does not have is read past it, which leaves
//! what it has alone; one such read in 64 asks for its piece all the same, so that memory that has become free is
//! noticed and used. But a block that is [`Wanted`] again soon after such a read goes through the page cache: what is
//! read often is worth what is evicted for it.
//!
//! A table that is all in the page cache is mapped, and its blocks are copied from there ([`crate::table::page_cache::mapping`]), until
//! memory is short.
//!
//! Deterministic: counts of reads decide, not time. Nothing here is needed for correctness: a table does not change, so
//! both ways give the same bytes, and each block is verified whichever way it came.
//!
//! No locks. Bits and counts are relaxed atomics; one lost is one look less.

use super::file::Opened;
use crate::cache::{BlockCache, TableBlocks};
use crate::error::Result;
use crate::runtime::ForegroundRead;
use crate::storage::{ALIGNMENT, BufferPool, File};
use crate::table::format::index::Handle;
use crate::table::page_cache::direct_fds::Medium;
use crate::table::page_cache::mapping::Mapped;
use crate::table::page_cache::recent_reads::Wanted;
use crate::table::store::TableIo;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that the page cache is asked for when the first block among them is read.
const ASKED_BYTES: u64 = 64 << 10;

/// While memory is thought to be enough, one read of this many looks.
const LOOK_EVERY: u32 = 8;

/// While memory is short, one read past the page cache of this many asks for its piece instead.
const ASK_EVERY: u32 = 64;

/// Memory is short when so many of the last 32 looks found nothing.
const GONE_MIN: u32 = 16;

/// Of the blocks that a table's mapping gives, one of so many looks, and one of so many that a point read wants goes
/// into the block cache: those that are wanted often come there soon, and the others do not cost the copy and what it
/// would push out.
const LOOK_EVERY_MAPPED: u32 = 16;
const KEEP_EVERY_MAPPED: u32 = 8;

/// An open table, and those of its blocks that are cached.
pub(in crate::table) struct Live {
    pub(in crate::table) opened: Opened,
    pub(in crate::table) cached: TableBlocks,
    /// A bit for each piece of the file that the page cache was asked for, or given.
    asked: Vec<AtomicU64>,
    /// What was read past the page cache of late.
    wanted: Wanted,
    /// All of it was given to the page cache, or [`crate::table::page_cache::warming`] was asked to bring it there.
    is_warm: AtomicBool,
    /// It was all in the page cache at some time.
    is_resident: Arc<AtomicBool>,
    /// Mapped when it is first read after that. `None` inside: it cannot be.
    mapped: OnceLock<Option<Mapped>>,
    /// Blocks that the mapping was asked for.
    mapped_reads: AtomicU32,
    /// The file past the page cache, opened when it is first needed. `None` inside: it is refused.
    medium: OnceLock<Option<Medium>>,
}

/// Whether the page cache keeps what it is asked for, as far as the reads of all tables of a database have seen.
#[derive(Debug, Default)]
pub(in crate::table) struct Residency {
    /// The last 32 looks, a bit each: set where it was gone.
    looks: AtomicU32,
    reads: AtomicU32,
}

impl Residency {
    fn is_short(&self) -> bool {
        self.looks.load(Ordering::Relaxed).count_ones() >= GONE_MIN
    }

    fn looked(&self, is_there: bool) {
        let looks = self.looks.load(Ordering::Relaxed);
        self.looks.store(looks << 1 | u32::from(!is_there), Ordering::Relaxed);
    }

    /// Whether it is the turn of one read in `every`.
    fn is_turn(&self, every: u32) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
    }
}

/// A table's mapping, for one block.
pub(in crate::table) struct MappedTurn<'a> {
    pub(in crate::table) mapped: &'a Mapped,
    /// Whether the block cache should have the block, if it is a point read that wants it.
    pub(in crate::table) is_to_keep: bool,
}

/// A block on its way into a buffer.
pub(in crate::table) struct Planned {
    pub(in crate::table) read: ForegroundRead,
    /// Where in the buffer the block with its trailer begins, and how long it is.
    pub(in crate::table) skip: usize,
    pub(in crate::table) bytes: usize,
}

impl Live {
    /// `is_warm`: it was written through the page cache.
    pub(in crate::table) fn new(opened: Opened, cache: &Arc<BlockCache>, is_warm: bool) -> Self {
        let cached = cache.table(opened.footer.table, opened.index.blocks());
        let pieces = opened.file_bytes.div_ceil(ASKED_BYTES).div_ceil(u64::from(u64::BITS));
        let asked = (0..pieces).map(|_| AtomicU64::new(if is_warm { u64::MAX } else { 0 })).collect();
        opened.file.expect_random_reads();
        let wanted = Wanted::new(opened.file_bytes);
        Live {
            wanted,
            opened,
            cached,
            asked,
            is_warm: AtomicBool::new(is_warm),
            is_resident: Arc::new(AtomicBool::new(is_warm)),
            mapped: OnceLock::new(),
            mapped_reads: AtomicU32::new(0),
            medium: OnceLock::new(),
        }
    }

    /// A block is read from the file: the first asks for all of it to be brought into the page cache.
    pub(in crate::table) fn warm(&self, io: &TableIo) {
        if !self.is_warm.load(Ordering::Relaxed) && !self.is_warm.swap(true, Ordering::Relaxed) {
            io.warming.ask(&self.opened.file, self.opened.file_bytes, &self.is_resident);
        }
    }

    /// The mapping, if `handle` should be read there: the page cache was given all of the table, and keeps what it has.
    #[inline]
    pub(in crate::table) fn mapped(&self, io: &TableIo, handle: Handle) -> Option<MappedTurn<'_>> {
        if !self.is_mapped(io) {
            return None;
        }
        let mapped = match self.mapped.get() {
            Some(mapped) => mapped,
            None => self.map(io),
        };
        let mapped = mapped.as_ref()?;
        let turn = self.mapped_reads.load(Ordering::Relaxed).wrapping_add(1);
        self.mapped_reads.store(turn, Ordering::Relaxed);
        if turn.is_multiple_of(LOOK_EVERY_MAPPED) {
            let is_there = self.opened.file.is_cached(handle.offset, handle.end()?.checked_sub(handle.offset)?);
            is_there.inspect(|is_there| io.residency.looked(*is_there));
            if is_there == Some(false) {
                return None;
            }
        }
        Some(MappedTurn { mapped, is_to_keep: turn.is_multiple_of(KEEP_EVERY_MAPPED) })
    }

    /// Whether blocks are read from the mapping, as far as is known.
    #[inline]
    pub(in crate::table) fn is_mapped(&self, io: &TableIo) -> bool {
        let is_usable =
            self.mapped.get().is_none_or(|mapped| mapped.as_ref().is_some_and(|mapped| !mapped.has_failed()));
        is_usable && self.is_resident.load(Ordering::Relaxed) && !io.residency.is_short()
    }

    /// Two that map it at once map it twice, and one of the mappings goes.
    #[cold]
    fn map(&self, io: &TableIo) -> &Option<Mapped> {
        let mapped = io.mappings.map(&*self.opened.file, self.opened.file_bytes, &io.warming);
        self.mapped.get_or_init(|| mapped)
    }

    /// Brings data block `at` near the processor, if it is in the block cache or the mapping has it.
    #[inline]
    pub(in crate::table) fn approach(&self, at: usize) {
        if self.cached.approach(at) {
            return;
        }
        let Some(Some(mapped)) = self.mapped.get() else { return };
        if let Some(handle) = self.opened.index.handle(at) {
            mapped.approach(handle.offset, usize::try_from(handle.bytes).unwrap_or(0));
        }
    }

    /// The file past the page cache, if `handle` should be read there; else through it. `open` opens it at first.
    pub(in crate::table) fn past_the_cache(
        &self,
        io: &TableIo,
        handle: Handle,
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>>,
    ) -> Option<&Arc<dyn File>> {
        let bytes = handle.end()?.checked_sub(handle.offset)?;
        let (residency, file) = (&io.residency, &self.opened.file);
        let is_short = residency.is_short();
        let was_asked = self.was_asked(handle.offset);
        if !is_short && !was_asked {
            self.ask(handle.offset);
            return None;
        }
        if !is_short && !residency.is_turn(LOOK_EVERY) {
            return None;
        }
        let is_there = file.is_cached(handle.offset, bytes)?;
        if was_asked {
            residency.looked(is_there);
        }
        if is_there || !is_short {
            return None;
        }
        if residency.is_turn(ASK_EVERY) {
            self.ask(handle.offset);
            return None;
        }
        if self.wanted.again(handle.offset) {
            return None;
        }
        self.medium(io, open)
    }

    fn medium(&self, io: &TableIo, open: impl FnOnce() -> Result<Option<Arc<dyn File>>>) -> Option<&Arc<dyn File>> {
        let medium = match self.medium.get() {
            Some(medium) => medium,
            None => {
                let is_refused = &mut false;
                let opened = io.media.open(|| open().inspect(|file| *is_refused = file.is_none()));
                // What keeps it from being opened now is no error of a read, the page cache is there; nor is it for
                // ever. Two that open it at once open it twice, and one of them is closed.
                let opened = opened.ok().filter(|medium| medium.is_some() || *is_refused)?;
                self.medium.get_or_init(|| opened)
            }
        };
        medium.as_ref().map(Medium::file)
    }

    /// The word and the bit of the piece that `offset` is in.
    fn piece(&self, offset: u64) -> Option<(&AtomicU64, u64)> {
        let piece = offset / ASKED_BYTES;
        let word = usize::try_from(piece / u64::from(u64::BITS)).ok().and_then(|word| self.asked.get(word))?;
        Some((word, 1 << (piece % u64::from(u64::BITS))))
    }

    fn was_asked(&self, offset: u64) -> bool {
        self.piece(offset).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether the page cache was given any of it.
    pub(in crate::table) fn was_asked_any(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed) || self.asked.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    fn ask(&self, offset: u64) {
        if let Some((word, bit)) = self.piece(offset) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        self.opened.file.will_need(offset / ASKED_BYTES * ASKED_BYTES, ASKED_BYTES);
    }

    /// How to read `handle` into a buffer of `buffers`: from `medium` in whole pages, or through the page cache. `None`
    /// for a block that is larger than a buffer.
    pub(in crate::table) fn plan(
        &self,
        medium: Option<&Arc<dyn File>>,
        handle: Handle,
        buffers: &Arc<BufferPool>,
    ) -> Option<Planned> {
        let end = handle.end()?;
        let bytes = usize::try_from(end.checked_sub(handle.offset)?).ok()?;
        let alignment = ALIGNMENT as u64;
        let held = self.opened.file.held();
        let (file, from, to) = match medium {
            Some(medium) => (medium, handle.offset / alignment * alignment, end.checked_next_multiple_of(alignment)?),
            None => (held.as_ref().unwrap_or(&self.opened.file), handle.offset, end),
        };
        let wanted = usize::try_from(to - from).ok()?;
        let mut buffer = buffers.take();
        if wanted > buffer.capacity() {
            return None;
        }
        buffer.set_len(wanted);
        let read = ForegroundRead { file: Arc::clone(file), offset: from, buffer };
        Some(Planned { read, skip: usize::try_from(handle.offset - from).ok()?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_while_most_looks_find_nothing() {
        let residency = Residency::default();
        assert!(!residency.is_short(), "until the contrary is seen");
        (0..15).for_each(|_| residency.looked(false));
        assert!(!residency.is_short());
        residency.looked(false);
        assert!(residency.is_short());
        (0..17).for_each(|_| residency.looked(true));
        assert!(!residency.is_short(), "it has become enough");
    }

    #[test]
    fn one_read_in_so_many_has_its_turn() {
        let residency = Residency::default();
        assert_eq!((0..800).filter(|_| residency.is_turn(LOOK_EVERY)).count(), 100);
    }
}
