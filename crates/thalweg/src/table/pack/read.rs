//! Foreground reads of a [`Table`] that is a pack. They go the same ways as reads of sorted tables
//! ([`crate::table::read::file_reads`]).

use super::block::{Block, Content};
use super::contents::{BlockAt, PackSpan};
use super::extent::extent_bytes;
use super::open_pack::{OpenPack, PackValue, PackVersion, part_of, version};
use super::{ALIGNMENT, PAGE_BYTES, block_length};
use crate::error::Result;
use crate::format::{EntryKey, NameHash, SeqNo, Slice, name_hash};
use crate::memory::Buffer;
use crate::planted::{Bug, planted};
use crate::storage::OpenMode;
use crate::table::page_cache::block_buffer::BlockBuffer;
use crate::table::read::file_reads::{MappedRead, PlannedRead, ReadWay};
use crate::table::read::table::Table;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The buffer that a thread's lookups copy the block of a mapping to.
    static BUFFER: Cell<BlockBuffer> = const { Cell::new(BlockBuffer::new()) };
}

impl Table {
    /// Whether the pack is open, and its filter says that it has no entry with this hash. No I/O.
    pub(crate) fn rules_out(&self, hash: u64) -> bool {
        let is_ruled_out = self.open_pack_now().is_some_and(|pack| !pack.may_have(hash));
        if is_ruled_out {
            let reads = self.metrics.reads();
            reads.filter_checks.increment();
            reads.filter_negatives.increment();
        }
        is_ruled_out
    }

    /// Returns the newest version of an entry with a sequence number of at most `visible`, among the versions in a
    /// span. The entry is given with its hash.
    pub(crate) fn newest_of(
        &self,
        span: PackSpan,
        (key, hash): (&EntryKey<'_>, u64),
        visible: SeqNo,
    ) -> Result<Option<PackVersion>> {
        let pack = self.pack()?;
        let reads = self.metrics.reads();
        reads.filter_checks.increment();
        if !pack.may_have(hash) {
            reads.filter_negatives.increment();
            return Ok(None);
        }
        // The thread's buffer no longer exists while the thread ends.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let found = self.newest_in(pack, span, key, visible, &mut buffer);
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
        found
    }

    fn newest_in(
        &self,
        pack: &OpenPack,
        span: PackSpan,
        key: &EntryKey<'_>,
        visible: SeqNo,
        buffer: &mut BlockBuffer,
    ) -> Result<Option<PackVersion>> {
        let mut newest: Option<PackVersion> = None;
        for (number, at) in pack.blocks_from(span, key.hash).enumerate() {
            if number > 0 && at.fence > key.hash.fence() {
                break;
            }
            let found = self.find_block(pack, at, buffer, true)?;
            let (bytes, block) = (&found.bytes, found.decode(pack, at.offset, key.directory)?);
            found.keep(pack);
            let fingerprint = key.hash.fingerprint();
            for (number, other) in block.fingerprints().enumerate() {
                if other != fingerprint {
                    continue;
                }
                let item = block.item(number)?;
                let is_newer = newest.as_ref().is_none_or(|found| found.seq < item.seq);
                let is_named = item.name == key.name || planted(Bug::FingerprintTrusted);
                if is_named && item.seq <= visible && is_newer {
                    let mut extent = at.offset + bytes.len() as u64;
                    if matches!(item.content, Content::Extent(_)) {
                        extent += block.extents_before(number)?;
                    }
                    newest = Some(version(bytes, &item, extent));
                }
            }
        }
        // The value is copied, or it would keep its pages in memory.
        if let Some(PackVersion { value: PackValue::Here(value), .. }) = &mut newest {
            *value = Slice::from(&**value);
        }
        Ok(newest)
    }

    /// Gives the versions in some blocks of a span to `visit`: those of all hashes from `from` to below `end`, and
    /// others that lie in the same blocks.
    pub(crate) fn visit_entries(
        &self,
        span: PackSpan,
        directory: u64,
        (from, end): (NameHash, Option<NameHash>),
        visit: &mut dyn FnMut(Slice, PackVersion),
    ) -> Result<()> {
        if !self.may_have_hashes(directory, (from, end)) {
            return Ok(());
        }
        let pack = self.pack()?;
        // A fence has only the highest bits of a hash, and a part may end at any hash. So a block whose fence is that
        // of `end` may begin before `end`.
        let begins_before = |at: &BlockAt, end: NameHash| {
            let is_rounded = planted(Bug::PartEndRounded);
            if is_rounded { at.fence < end.fence() } else { NameHash(u64::from(at.fence) << 32) < end }
        };
        let is_before_end = |at: &BlockAt| end.is_none_or(|end| begins_before(at, end));
        for at in pack.blocks_from(span, from).take_while(is_before_end) {
            // The visited versions keep their block in memory, so each block has memory of its own.
            let found = self.find_block(pack, at, &mut BlockBuffer::new(), false)?;
            visit_block(&found.bytes, &found.decode(pack, at.offset, directory)?, at.offset, visit)?;
            found.keep(pack);
        }
        Ok(())
    }

    /// Whether the range from the first to the last key of the pack overlaps the hashes of `directory` from `from` to
    /// below `end`. A merge cuts a large directory into packs of one range of hashes each.
    fn may_have_hashes(&self, directory: u64, (from, end): (NameHash, Option<NameHash>)) -> bool {
        let meta = self.meta();
        let ends_before = *meta.key_max < name_hash::prefix(directory, from)[..];
        let begins_after = |end| *meta.key_min >= name_hash::prefix(directory, end)[..];
        !ends_before && !end.is_some_and(begins_after)
    }

    /// Returns the first `most` fences of a span that are above that of `from`. Each block of a span but the first has
    /// a fence, and the fences ascend.
    pub(crate) fn fences_above(&self, span: PackSpan, from: NameHash, most: usize) -> Result<Vec<u32>> {
        let fences = self.pack()?.blocks_from(span, from).map(|at| at.fence);
        Ok(fences.filter(|fence| *fence > from.fence()).take(most).collect())
    }

    /// Returns a value that [`Table::newest_of`] or [`Table::visit_entries`] has found.
    pub(crate) fn pack_value(&self, value: PackValue) -> Result<Slice> {
        match value {
            PackValue::Here(value) => Ok(value),
            PackValue::Extent(offset, bytes) => self.pack()?.read_extent(offset, bytes),
        }
    }

    /// Finds a block in the block cache, the mapping, or the file. Of the blocks read from a mapping, only those of
    /// point reads go into the cache.
    pub(super) fn find_block(
        &self,
        pack: &OpenPack,
        at: BlockAt,
        buffer: &mut BlockBuffer,
        is_point: bool,
    ) -> Result<FoundBlock> {
        let reads = self.metrics.reads();
        let start = at.offset - at.offset % PAGE_BYTES as u64;
        let skip = (at.offset - start) as usize;
        let first = (start / PAGE_BYTES as u64) as usize;
        let pages = (skip + at.bytes_max).div_ceil(PAGE_BYTES);
        if let Some(found) = cached_block(pack, first, skip, at.bytes_max) {
            reads.cache_hits.increment();
            return Ok(found);
        }
        reads.cache_misses.increment();
        let mapped = pack.reads.mapped(&self.page_cache, at.offset, at.bytes_max as u64);
        if let Some(MappedRead { mapping, is_to_cache }) = mapped {
            let page_bytes = pack.footer.data_end().saturating_sub(start).min(PAGE_BYTES as u64) as usize;
            // A page in the cache is read without a copy.
            let is_to_cache = is_point && is_to_cache && !self.is_memory_tight();
            let page = if is_to_cache && skip + at.bytes_max <= page_bytes { page_bytes } else { 0 };
            let (from, bytes) = if page > 0 { (start, page) } else { (at.offset, at.bytes_max) };
            if let Some(read) = mapping.read(from, bytes, buffer) {
                reads.mapped_reads.increment();
                let pages = PagesRead { first, read: if page > 0 { Slice::packed(&read) } else { Slice::default() } };
                let block = if page > 0 { read.slice(skip..skip + at.bytes_max) } else { read };
                return Ok(FoundBlock::read(trimmed(block), pages));
            }
        }
        let end = (start + (pages * PAGE_BYTES) as u64).min(pack.footer.data_end());
        let (read, is_to_cache) = self.read_pages(pack, start, (end - start) as usize)?;
        let to = (skip + at.bytes_max).min(read.len());
        let block = trimmed(read.slice(skip.min(to)..to));
        Ok(FoundBlock::read(block, if is_to_cache { PagesRead { first, read } } else { PagesRead::default() }))
    }

    /// Reads pages from the file, through the page cache or past it. Returns also whether the block cache should have
    /// them.
    #[cold]
    fn read_pages(&self, pack: &OpenPack, start: u64, bytes: usize) -> Result<(Slice, bool)> {
        pack.reads.warm(&self.page_cache);
        let _at_the_device = self.io.gate.client_read();
        let place = (start, bytes as u64);
        let ReadWay { direct, is_to_cache } = pack.reads.way(&self.page_cache, place, || self.open_medium());
        let planned = direct.and_then(|file| pack.reads.plan(Some(file), place, &self.io.block_buffers));
        if let Some(PlannedRead { read, skip, bytes }) = planned {
            self.metrics.reads().direct_reads.increment();
            let read = read.carry_out()?;
            if let Some(filled) = read.filled().get(skip..skip + bytes) {
                return Ok((Slice::from_long(filled), is_to_cache));
            }
        }
        let buffer = Buffer::filled(bytes, |buffer| pack.file.read_exact_at(start, buffer))?;
        Ok((Slice::from(buffer), is_to_cache && !self.is_memory_tight()))
    }

    /// Whether memory has room for the pages of all tables, but only if each page is there once, in the page cache.
    /// Packs are not compressed, so the block cache would have the same bytes again.
    fn is_memory_tight(&self) -> bool {
        self.page_cache.room.is_tight(self.page_cache.policy.live_bytes())
    }

    fn open_medium(&self) -> Result<Option<Arc<dyn crate::storage::File>>> {
        self.storage.open(&self.path, OpenMode::ReadMedium)
    }
}

/// A block that was found, and the work that is due once the block is known to be whole.
pub(super) struct FoundBlock {
    pub(super) bytes: Slice,
    /// Whether its checksum was found right before.
    is_verified: bool,
    /// The pages that were read for it, which the block cache may take.
    pages: PagesRead,
    /// The page in the block cache that has it, with its number, and the mark that says that it is verified.
    marked: Option<(usize, Slice, u16)>,
}

impl FoundBlock {
    fn read(bytes: Slice, pages: PagesRead) -> FoundBlock {
        FoundBlock { bytes, is_verified: false, pages, marked: None }
    }

    /// The block of a directory that lies at `offset`.
    pub(super) fn decode<'a>(&'a self, pack: &'a OpenPack, offset: u64, directory: u64) -> Result<Block<'a>> {
        if self.is_verified {
            pack.decode_again(&self.bytes, offset, directory)
        } else {
            pack.decode(&self.bytes, offset, directory)
        }
    }

    /// Notes that the block is whole: caches its pages, or marks it in its page.
    pub(super) fn keep(&self, pack: &OpenPack) {
        self.pages.cache(pack);
        if let Some((number, page, mark)) = self.marked.as_ref().filter(|_| !self.is_verified) {
            pack.cached.mark(*number, page, *mark);
        }
    }
}

/// Finds a block in the block cache. The block begins `skip` bytes into the page `first`.
///
/// The mark of a page says where the last verified block of the page begins. No other block begins there, and a cached
/// page never changes.
fn cached_block(pack: &OpenPack, first: usize, skip: usize, bytes: usize) -> Option<FoundBlock> {
    let (page, found_mark) = pack.cached.get_marked(first)?;
    if skip + bytes > page.len() {
        return Some(FoundBlock::read(trimmed(over_pages(pack, first, page, skip, bytes)?), PagesRead::default()));
    }
    let bytes = trimmed(page.slice(skip..skip + bytes));
    let mark = 1 + (skip / ALIGNMENT) as u16;
    let (is_verified, marked) = (mark == found_mark, Some((first, page, mark)));
    Some(FoundBlock { bytes, is_verified, pages: PagesRead::default(), marked })
}

/// Pages that were read from a file, on their way into the block cache.
#[derive(Default)]
pub(super) struct PagesRead {
    /// The number of the first one in its pack.
    first: usize,
    read: Slice,
}

impl PagesRead {
    /// Puts them into the block cache, each with memory of its own: one may stay longer than the other.
    fn cache(&self, pack: &OpenPack) {
        match self.read.len() {
            0 => {}
            1..=PAGE_BYTES => pack.cached.insert(self.first, self.read.clone()),
            _ => {
                for (number, page) in self.read.chunks(PAGE_BYTES).enumerate() {
                    if !pack.cached.has(self.first + number) {
                        pack.cached.insert(self.first + number, Slice::packed(page));
                    }
                }
            }
        }
    }
}

/// Gives all versions in a block to `visit`, with their names, in the order of the block.
pub(in crate::table) fn visit_block(
    bytes: &Slice,
    block: &Block<'_>,
    offset: u64,
    visit: &mut dyn FnMut(Slice, PackVersion),
) -> Result<()> {
    let mut extent = offset + bytes.len() as u64;
    for item in block.items() {
        let item = item?;
        let at = extent;
        if let Content::Extent(value_bytes) = item.content {
            extent += extent_bytes(value_bytes as usize) as u64;
        }
        visit(part_of(bytes, item.name), version(bytes, &item, at));
    }
    Ok(())
}

/// Returns `bytes` bytes that begin `skip` bytes into the page `first`, if the block cache has their pages.
pub(super) fn cached(pack: &OpenPack, first: usize, skip: usize, bytes: usize) -> Option<Slice> {
    let page = pack.cached.get(first)?;
    if skip + bytes <= page.len() {
        return Some(page.slice(skip..skip + bytes));
    }
    over_pages(pack, first, page, skip, bytes)
}

/// Returns `bytes` bytes that begin `skip` bytes into `page` and end in the next page.
fn over_pages(pack: &OpenPack, first: usize, page: Slice, skip: usize, bytes: usize) -> Option<Slice> {
    let mut gathered = page.get(skip..)?.to_vec();
    if gathered.len() < bytes && page.len() == PAGE_BYTES {
        let second = pack.cached.get(first + 1)?;
        gathered.extend_from_slice(second.get(..bytes - gathered.len()).unwrap_or(&second));
    }
    Some(Slice::from_long(&gathered))
}

/// Returns the block at the beginning of `bytes`. If the block states more bytes than there are, decoding it reports
/// that.
pub(in crate::table) fn trimmed(bytes: Slice) -> Slice {
    let length = block_length(&bytes);
    if length < bytes.len() { bytes.slice(0..length) } else { bytes }
}
