//! [`PackRead`]: a read of a part of a pack that a lookup needs ([`super::search`]), for callers that have several
//! reads at the device at once.
//!
//! A part is one or two pages that have a block, or an extent. Pages are read through the page cache or past it, as a
//! blocking lookup reads them; an extent is read through it. A read owns its buffer and holds the pack.

use super::PAGE_BYTES;
use super::contents::BlockAt;
use super::extent::{extent_bytes, verify_extent};
use super::open_pack::OpenPack;
use crate::error::{Error, Result};
use crate::format::Slice;
use crate::memory::Buffer;
use crate::runtime::{ForegroundRead, Gate};
use crate::storage::{ALIGNMENT, BufferPool, File, IoBuffer, OpenMode};
use crate::table::page_cache::block_buffer::BlockBuffer;
use crate::table::read::file_reads::{MappedRead, PlannedRead};
use crate::table::read::table::Table;
use std::cell::Cell;
use std::sync::Arc;

/// How many reads are planned, and have a buffer, at a time.
const AT_ONCE: usize = 64;

thread_local! {
    /// The buffer that a thread's lookups copy the block of a mapping to.
    static BUFFER: Cell<BlockBuffer> = const { Cell::new(BlockBuffer::new()) };
}

/// See the module.
pub(crate) struct PackRead {
    pack: Arc<Table>,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The offset of the first page, and the bytes of all pages.
    Pages(u64, usize),
    /// The offset of an extent, and the bytes of its value.
    Extent(u64, usize),
}

/// The place of the part in the buffer of a read.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    /// Where in the buffer the part begins, and its bytes.
    skip: usize,
    bytes: usize,
    /// Whether the buffer is larger than the part and goes back to its pool.
    is_pooled: bool,
}

impl PackRead {
    /// A read of the pages that have a block.
    pub(super) fn of_pages(pack: &Arc<Table>, open: &OpenPack, at: BlockAt) -> PackRead {
        let (start, pages) = pages_of(at);
        let end = (start + (pages * PAGE_BYTES) as u64).min(open.footer.data_end());
        PackRead { pack: Arc::clone(pack), part: Part::Pages(start, end.saturating_sub(start) as usize) }
    }

    /// A read of the value in the extent at `offset`.
    pub(crate) fn of_extent(pack: Arc<Table>, offset: u64, value_bytes: u32) -> Result<PackRead> {
        let value_bytes = value_bytes as usize;
        let (open, bytes) = (pack.pack()?, extent_bytes(value_bytes));
        let data_end = open.footer.data_end();
        if offset.checked_add(bytes as u64).is_none_or(|end| end > data_end) {
            let expected = format!("an extent of {bytes} bytes before {data_end}");
            return Err(Error::corruption(open.file.path(), offset, expected, "the end of the blocks"));
        }
        Ok(PackRead { pack, part: Part::Extent(offset, value_bytes) })
    }

    /// The gate that counts the read while it is at the device.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.pack.io.gate
    }

    /// The place of the read. Equal reads have equal places.
    fn place(&self) -> (u64, u64) {
        let (Part::Pages(offset, _) | Part::Extent(offset, _)) = self.part;
        (self.pack.meta().id.0, offset)
    }

    /// Whether `other` reads the same part of the same pack.
    fn is_same(&self, other: &PackRead) -> bool {
        Arc::ptr_eq(&self.pack, &other.pack) && self.part == other.part
    }

    /// Plans the read. `has_ring`: the read will be made together with others. Otherwise the kernel is requested to
    /// read ahead.
    pub(crate) fn plan(&self, has_ring: bool) -> Result<(ForegroundRead, Planned)> {
        let open = self.pack.pack()?;
        match self.part {
            Part::Pages(start, bytes) => self.plan_pages(open, start, bytes, has_ring),
            Part::Extent(offset, value_bytes) => {
                let bytes = extent_bytes(value_bytes);
                if !has_ring {
                    open.file.will_need(offset, bytes as u64);
                }
                Ok(match open.reads.plan(None, (offset, bytes as u64), &self.pack.io.block_buffers) {
                    Some(PlannedRead { read, skip, bytes }) => (read, Planned { skip, bytes, is_pooled: true }),
                    None => alone(open, offset, bytes),
                })
            }
        }
    }

    fn plan_pages(
        &self,
        open: &OpenPack,
        start: u64,
        bytes: usize,
        has_ring: bool,
    ) -> Result<(ForegroundRead, Planned)> {
        let pack = &*self.pack;
        open.reads.warm(&pack.page_cache);
        let place = (start, bytes as u64);
        let medium = || pack.storage.open(&pack.path, OpenMode::ReadMedium);
        let direct = open.reads.way(&pack.page_cache, place, medium).direct;
        let has_ring = has_ring || is_hidden(&open.file);
        let direct = direct.filter(|_| has_ring);
        if !has_ring {
            open.file.will_need(start, bytes as u64);
        }
        if direct.is_some() {
            pack.metrics.reads().direct_reads.increment();
        }
        Ok(match open.reads.plan(direct, place, &pack.io.block_buffers) {
            Some(PlannedRead { read, skip, bytes }) => (read, Planned { skip, bytes, is_pooled: true }),
            None => alone(open, start, bytes),
        })
    }

    /// Returns the result of the read: the bytes of the pages, not verified yet, or the value.
    pub(crate) fn finish(&self, planned: Planned, read: Result<IoBuffer>) -> Result<Slice> {
        let (open, buffer) = (self.pack.pack()?, read?);
        let Planned { skip, bytes, is_pooled } = planned;
        let part = match buffer.filled().get(skip..).and_then(|filled| filled.get(..bytes)) {
            Some(filled) if is_pooled => Slice::from_long(filled),
            Some(_) => buffer.share(skip, bytes).unwrap_or_default(),
            // The read was short. Another read returns the reason as its error.
            None => {
                let (_, offset) = self.place();
                Slice::from(Buffer::filled(bytes, |again| open.file.read_exact_at(offset, again))?)
            }
        };
        match self.part {
            Part::Pages(..) => Ok(part),
            Part::Extent(offset, value_bytes) => {
                verify_extent(&part, value_bytes, open.place(offset))?;
                Ok(part.slice(0..value_bytes))
            }
        }
    }
}

/// Makes several reads at once. Returns the result of each, in their order; equal reads are made once.
pub(crate) fn read_together(reads: &[PackRead]) -> Vec<Result<Slice>> {
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_unstable_by_key(|number| reads.get(*number).map(PackRead::place));
    let in_order: Vec<&PackRead> = order.iter().filter_map(|number| reads.get(*number)).collect();
    let different: Vec<&[&PackRead]> = in_order.chunk_by(|one, next| one.is_same(next)).collect();
    let mut results: Vec<(usize, Result<Slice>)> = Vec::with_capacity(reads.len());
    let mut numbers = order.into_iter();
    for some in different.chunks(AT_ONCE) {
        let firsts: Vec<&PackRead> = some.iter().filter_map(|same| same.first().copied()).collect();
        for (same, result) in some.iter().zip(read_at_once(&firsts)) {
            results.extend(numbers.by_ref().take(same.len()).map(|number| (number, result.clone())));
        }
    }
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn read_at_once(reads: &[&PackRead]) -> Vec<Result<Slice>> {
    let Some(first) = reads.first() else { return Vec::new() };
    let io = &first.pack.io;
    // Without a ring the reads are made one after the other. Then the kernel can read ahead only through the page
    // cache.
    let has_ring = reads.len() == 1 || io.rings.are_to_be_had();
    let mut to_read = Vec::with_capacity(reads.len());
    let planned: Vec<Result<Planned>> = reads
        .iter()
        .map(|read| {
            let (read, planned) = read.plan(has_ring)?;
            to_read.push(read);
            Ok(planned)
        })
        .collect();
    let mut made = io.rings.read(&io.gate, to_read).into_iter();
    let finish = |(read, planned): (&&PackRead, Result<Planned>)| {
        let planned = planned?;
        let made = made.next().unwrap_or_else(|| Err(Error::internal("a read was not made")));
        read.finish(planned, made)
    };
    reads.iter().zip(planned).map(finish).collect()
}

/// A read into a buffer of its own.
fn alone(open: &OpenPack, offset: u64, bytes: usize) -> (ForegroundRead, Planned) {
    let mut buffer = BufferPool::new(bytes.max(1).next_multiple_of(ALIGNMENT)).take();
    buffer.set_len(bytes);
    let file = open.file.held().unwrap_or_else(|| Arc::clone(&open.file));
    (ForegroundRead { file, offset, buffer }, Planned { skip: 0, bytes, is_pooled: false })
}

/// Whether the kernel does not know the file, because reads of it are system calls of the simulation.
fn is_hidden(file: &Arc<dyn File>) -> bool {
    file.held().as_ref().unwrap_or(file).descriptor().is_none()
}

/// Returns where the first page of a block begins, and how many pages have a part of the block.
fn pages_of(at: BlockAt) -> (u64, usize) {
    let skip = at.offset % PAGE_BYTES as u64;
    (at.offset - skip, (skip as usize + at.bytes_max).div_ceil(PAGE_BYTES))
}

/// Returns the bytes from the beginning of a block on, if the block cache or the mapping has them.
pub(super) fn in_memory(pack: &Table, open: &OpenPack, at: BlockAt) -> Option<Slice> {
    let reads = pack.metrics.reads();
    let (start, _) = pages_of(at);
    let (first, skip) = ((start / PAGE_BYTES as u64) as usize, (at.offset - start) as usize);
    if let Some(bytes) = super::read::cached(open, first, skip, at.bytes_max) {
        reads.cache_hits.increment();
        return Some(bytes);
    }
    reads.cache_misses.increment();
    let MappedRead { mapping, .. } = open.reads.mapped(&pack.page_cache, at.offset, at.bytes_max as u64)?;
    // The thread's buffer no longer exists while the thread ends.
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    let bytes = mapping.read(at.offset, at.bytes_max, &mut buffer);
    let _ = BUFFER.try_with(|kept| kept.set(buffer));
    reads.mapped_reads.add(u64::from(bytes.is_some()));
    bytes
}

/// Returns the bytes of `pages` from the beginning of a block on.
pub(super) fn of_pages(pages: &Slice, at: BlockAt) -> Slice {
    let (start, _) = pages_of(at);
    let from = ((at.offset - start) as usize).min(pages.len());
    pages.slice(from..(from + at.bytes_max).min(pages.len()))
}

/// Puts the pages of a block into the block cache, each in memory of its own.
pub(super) fn cache(open: &OpenPack, at: BlockAt, pages: &Slice) {
    let (start, _) = pages_of(at);
    let first = (start / PAGE_BYTES as u64) as usize;
    for (number, page) in pages.chunks(PAGE_BYTES).enumerate() {
        if !open.cached.has(first + number) {
            let page = if page.len() == pages.len() { pages.clone() } else { Slice::packed(page) };
            open.cached.insert(first + number, page);
        }
    }
}
