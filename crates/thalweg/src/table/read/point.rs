//! Point reads of a [`Table`]: which block may have a key, and the version in it.

use super::batch::ReadBlock;
use super::open_table::OpenTable;
use super::point_key::{BlockNumber, PointKey};
use super::table::{Table, parse};
use crate::error::Result;
#[cfg(any(test, feature = "simulation"))]
use crate::format::SeqNo;
use crate::format::{Slice, Version};
use crate::table::format::block::{Block, Found};
use crate::table::page_cache::block_buffer::BlockBuffer;
use std::cell::Cell;

thread_local! {
    /// The buffer that a thread's point reads copy the block of a mapping to.
    static BUFFER: Cell<BlockBuffer> = const { Cell::new(BlockBuffer::new()) };
}

impl Table {
    /// Whether all keys of the table are less than the key of `point`.
    #[inline]
    pub(crate) fn ends_before(&self, point: &PointKey<'_>) -> bool {
        self.key_max.is_less(&self.meta.key_max, &point.fence, point.key)
    }

    /// Returns the newest version of `key` at or below `seq`.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        self.find(&PointKey::new(key, seq))
    }

    /// Returns the version that `point` looks for, if this table has it.
    pub(crate) fn find(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        match self.locate(point)? {
            Some(block) => self.find_in(block, point),
            None => Ok(None),
        }
    }

    /// Returns the only block that may have what `point` looks for, by key range, filter and index.
    pub(crate) fn locate(&self, point: &PointKey<'_>) -> Result<Option<BlockNumber>> {
        let begins_after = point.fence.is_less(point.key, &self.key_min, &self.meta.key_min);
        if begins_after || self.ends_before(point) || point.seq < self.meta.seq_min {
            return Ok(None);
        }
        let table_file = self.table_file()?;
        if let Some(filter) = &table_file.filter {
            let reads = self.metrics.reads();
            reads.filter_checks.increment();
            if !filter.may_contain(point.hash) {
                reads.filter_negatives.increment();
                return Ok(None);
            }
        }
        // The first entry at or after (key, seq) is in this block, wherever the other versions of the key are.
        let at = table_file.index.find(point.key, point.seq);
        Ok((at < table_file.index.blocks()).then_some(BlockNumber(at)))
    }

    /// Returns the version that `point` looks for, if `block`, which [`Table::locate`] returned, has it.
    pub(crate) fn find_in(&self, block: BlockNumber, point: &PointKey<'_>) -> Result<Option<Version>> {
        let BlockNumber(at) = block;
        let open = self.opened()?;
        if let Some(content) = self.cached(open, at) {
            return find_in_block(open, at, parse(open, at, content)?, point);
        }
        // The thread's buffer no longer exists while the thread ends.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let found = self.find_mapped(open, at, point, &mut buffer);
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
        if let Some(found) = found? {
            return Ok(found);
        }
        let Some(content) = self.read(open, at, None)? else { return Ok(None) };
        find_in_block(open, at, parse(open, at, content)?, point)
    }

    /// As [`Table::find_in`], from the table's mapping. Returns `None` if the block is not read there.
    fn find_mapped(
        &self,
        open: &OpenTable,
        at: usize,
        point: &PointKey<'_>,
        buffer: &mut BlockBuffer,
    ) -> Result<Option<Option<Version>>> {
        let Some(content) = self.read_mapped(open, at, buffer, true)? else { return Ok(None) };
        let content_bytes = content.len();
        let Some(mut found) = find_in_block(open, at, parse(open, at, content)?, point)? else {
            return Ok(Some(None));
        };
        // A value of half a block or more keeps the block in memory, and the next block gets new memory. A smaller
        // value is copied, because it would keep too much memory.
        if found.value.len() < content_bytes / 2 {
            found.value = Slice::from(&*found.value);
        }
        Ok(Some(Some(found)))
    }

    /// Whether `block` is in the block cache, or read from the table's mapping.
    pub(crate) fn is_at_hand(&self, block: BlockNumber) -> Result<bool> {
        let open = self.opened()?;
        Ok(open.cached.has(block.0) || open.reads.is_mapped(&self.page_cache))
    }

    /// As [`Table::find_in`], in a block that [`super::batch::batch_read`] read.
    pub(crate) fn find_in_read(&self, read: &ReadBlock, point: &PointKey<'_>) -> Result<Option<Version>> {
        let open = self.opened()?;
        find_in_block(open, read.at, parse(open, read.at, read.content.clone())?, point)
    }
}

#[inline]
fn find_in_block(open: &OpenTable, at: usize, block: Block, point: &PointKey<'_>) -> Result<Option<Version>> {
    match block.find(point.key, point.seq).map_err(|damage| open.table_file.block_damaged(at, damage))? {
        Found::Version(version) => Ok(Some(version)),
        Found::Nothing => Ok(None),
        Found::PastEnd => Err(open.table_file.ends_early(at)),
    }
}
