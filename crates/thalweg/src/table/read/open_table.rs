//! [`OpenTable`]: an open table: its file, its blocks in the block cache, and the ways of its reads.

use super::file::TableFile;
use super::file_reads::{FileReads, MappedRead, Pages, PlannedRead, ReadWay};
use crate::cache::{BlockCache, Charge, TableBlocks};
use crate::error::Result;
use crate::storage::{BufferPool, File};
use crate::table::format::filter::Filter;
use crate::table::format::index::BlockHandle;
use crate::table::page_cache::state::PageCacheState;
use std::sync::Arc;

/// See the module.
pub(in crate::table) struct OpenTable {
    pub(in crate::table) table_file: TableFile,
    /// The table's blocks in the block cache.
    pub(in crate::table) cached: TableBlocks,
    pub(in crate::table) reads: FileReads,
    /// The charge for filter, index and slots in the memory budget.
    _charge: Charge,
}

impl OpenTable {
    pub(in crate::table) fn new(table_file: TableFile, cache: &Arc<BlockCache>, pages: &Pages) -> Self {
        let cached = cache.table(table_file.footer.table, table_file.index.blocks());
        let reads = FileReads::new(Arc::clone(&table_file.file), table_file.file_bytes, pages);
        let filter = table_file.filter.as_ref().map_or(0, Filter::memory_bytes);
        let blocks = table_file.index.blocks();
        let bytes = filter + table_file.index.memory_bytes() + TableBlocks::memory_bytes(blocks);
        let charge = Charge::new(cache, bytes as u64);
        OpenTable { table_file, cached, reads, _charge: charge }
    }

    /// See [`FileReads::mapped`].
    #[inline]
    pub(in crate::table) fn mapped(&self, page_cache: &PageCacheState, handle: BlockHandle) -> Option<MappedRead<'_>> {
        self.reads.mapped(page_cache, handle.offset, length(handle)?)
    }

    /// Prefetches data block `at`, if the block cache or the mapping has it.
    #[inline]
    pub(in crate::table) fn prefetch(&self, at: usize) {
        if self.cached.prefetch(at) {
            return;
        }
        if let Some(handle) = self.table_file.index.handle(at) {
            self.reads.prefetch(handle.offset, usize::try_from(handle.bytes).unwrap_or(0));
        }
    }

    /// See [`FileReads::way`].
    pub(in crate::table) fn way(
        &self,
        page_cache: &PageCacheState,
        handle: BlockHandle,
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>>,
    ) -> ReadWay<'_> {
        match length(handle) {
            Some(bytes) => self.reads.way(page_cache, (handle.offset, bytes), open),
            None => ReadWay { direct: None, is_to_cache: true },
        }
    }

    /// See [`FileReads::plan`].
    pub(in crate::table) fn plan(
        &self,
        direct: Option<&Arc<dyn File>>,
        handle: BlockHandle,
        buffers: &Arc<BufferPool>,
    ) -> Option<PlannedRead> {
        self.reads.plan(direct, (handle.offset, length(handle)?), buffers)
    }
}

/// The bytes of a block with its trailer.
fn length(handle: BlockHandle) -> Option<u64> {
    handle.end()?.checked_sub(handle.offset)
}
