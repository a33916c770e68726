//! [`batch_read`]: reads blocks of several tables at once, for `multi_get`.
//!
//! The blocks are not in the block cache. They are put there once they are read, as far as there is room. Each block is
//! read as a point read would read it, through the page cache or past it (`open_table.rs`); but all reads are submitted
//! before the first is waited for. A block that fails does not keep the others from the cache.

use super::file_reads::PlannedRead;
use super::open_table::OpenTable;
use super::point_key::BlockNumber;
use super::table::Table;
use crate::error::Result;
use crate::format::Slice;
use crate::runtime::ForegroundRead;
use crate::storage::IoBuffer;
use crate::table::format::index::BlockHandle;

/// How many blocks are planned, and have a buffer, at a time.
const AT_ONCE: usize = 64;

/// A block that was read.
pub(crate) struct ReadBlock {
    /// Its number in the table.
    pub(super) at: usize,
    pub(super) content: Slice,
}

/// A block that is being read.
struct Pending<'a> {
    table: &'a Table,
    open: &'a OpenTable,
    at: usize,
    handle: BlockHandle,
    /// Where in its buffer the block will lie, and its length. `None`: it is too large for a buffer and is read alone.
    part: Option<(usize, usize)>,
    is_to_cache: bool,
}

/// Reads `blocks`, each of which should be named once. Returns the result of each, in their order.
pub(crate) fn batch_read(blocks: &[(&Table, BlockNumber)]) -> Vec<Result<ReadBlock>> {
    blocks.chunks(AT_ONCE).flat_map(read_at_once).collect()
}

fn read_at_once(blocks: &[(&Table, BlockNumber)]) -> Vec<Result<ReadBlock>> {
    let Some((first, _)) = blocks.first() else { return Vec::new() };
    let (mut reads, mut pending) = (Vec::new(), Vec::new());
    // Without a ring the reads are made one after the other. Then the kernel can read ahead only through the page
    // cache.
    let has_ring = blocks.len() == 1 || first.io.rings.are_to_be_had();
    for (table, BlockNumber(at)) in blocks {
        pending.push(plan(table, *at, has_ring, &mut reads));
    }
    let mut read = first.io.rings.read(&first.io.gate, reads).into_iter();
    let complete = |pending: Result<Pending<'_>>| {
        let pending = pending?;
        pending.complete(pending.part.and_then(|_| read.next()))
    };
    pending.into_iter().map(complete).collect()
}

/// Plans the read of block `at`, and adds it to `reads` unless the block is too large.
fn plan<'a>(table: &'a Table, at: usize, has_ring: bool, reads: &mut Vec<ForegroundRead>) -> Result<Pending<'a>> {
    let open = table.opened()?;
    let table_file = &open.table_file;
    let Some(handle) = table_file.index.handle(at) else { return Err(table_file.ends_early(at)) };
    open.reads.warm(&table.page_cache);
    let way = table.way(open, handle);
    let held = table_file.file.held();
    let has_ring = has_ring || held.as_ref().unwrap_or(&table_file.file).descriptor().is_none();
    let direct = way.direct.filter(|_| has_ring);
    let is_to_cache = way.is_to_cache || handle.bytes != handle.raw_bytes;
    if !has_ring {
        let end = handle.end().unwrap_or(handle.offset);
        table_file.file.will_need(handle.offset, end - handle.offset);
    }
    if direct.is_some() {
        table.metrics.reads().direct_reads.increment();
    }
    let part = open.plan(direct, handle, &table.io.block_buffers).map(|PlannedRead { read, skip, bytes }| {
        reads.push(read);
        (skip, bytes)
    });
    Ok(Pending { table, open, at, handle, part, is_to_cache })
}

impl Pending<'_> {
    /// Verifies and caches the block. `read`: the result of its read; a block without one is read now.
    fn complete(&self, read: Option<Result<IoBuffer>>) -> Result<ReadBlock> {
        self.table.metrics.reads().cache_misses.increment();
        let table_file = &self.open.table_file;
        let content = match (self.part, read) {
            (Some((skip, bytes)), Some(read)) => table_file.unseal_part(&read?, skip, bytes, self.handle)?,
            _ => table_file.read_block(self.handle)?,
        };
        if self.is_to_cache {
            self.open.cached.insert(self.at, content.clone());
        }
        Ok(ReadBlock { at: self.at, content })
    }
}
