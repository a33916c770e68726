//! [`CacheHandover`]: blocks of new tables, kept by their writers for the block cache.
//!
//! A read of a new table that was written past the page cache would wait for the device. So while the database is read,
//! the writer of such a table keeps copies of blocks. When the table is taken into use they go into the block cache;
//! the blocks of the tables that it replaces leave the cache at the same moment.
//!
//! - A flush keeps all blocks: what was written recently is read soon.
//! - A compaction keeps the new blocks that have an entry from a cached block that was hit. They take the place of that
//!   block. If half of the entries of a new block come from hot blocks, the new block is hot at once.
//!
//! A load that is not read copies nothing.
//!
//! Locks: `blocks` is held for an insertion or a removal.

use crate::cache::{BlockCache, Charge, Warmth};
use crate::format::{Slice, TableId};
use crate::memory::Buffer;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block is hot if one in this many of its entries comes from hot blocks.
const HOT_PART: u64 = 2;

/// The step in which the bytes of kept blocks are charged, because a charge locks every shard of the cache.
const CHARGED_STEP_BYTES: usize = 1 << 20;

/// The kept blocks of finished tables, until these are taken into use or removed.
#[derive(Default)]
pub(in crate::table) struct CacheHandover {
    blocks: Mutex<BTreeMap<TableId, KeptBlocks>>,
}

/// The kept blocks of a table. Their bytes count as the cache's own.
struct KeptBlocks {
    blocks: Vec<KeptBlock>,
    /// The memory of their contents.
    bytes: usize,
    charge: Charge,
}

/// A data block for the block cache.
pub(in crate::table) struct KeptBlock {
    /// Its number in the table.
    pub(in crate::table) at: usize,
    pub(in crate::table) content: Slice,
    pub(in crate::table) warmth: Warmth,
}

impl CacheHandover {
    /// Takes the kept blocks of `table` out.
    pub(in crate::table) fn take(&self, table: TableId) -> Option<Vec<KeptBlock>> {
        let kept = self.blocks.lock().remove(&table)?;
        drop(kept.charge);
        Some(kept.blocks)
    }
}

/// Copies blocks while their table is written, up to a number of bytes.
pub(in crate::table) struct BlockCollector {
    handover: Arc<CacheHandover>,
    cache: Arc<BlockCache>,
    kept: Option<KeptBlocks>,
    /// The bytes that may still be kept.
    room: usize,
    /// The number of the open block, and its entries so far.
    at: usize,
    counted: EntryCounts,
}

/// The entries of a block, and how many of them come from warm and from hot blocks.
#[derive(Default)]
struct EntryCounts {
    entries: u64,
    warm: u64,
    hot: u64,
}

impl BlockCollector {
    /// Returns a collector that keeps at most `room` bytes for `cache`.
    pub(in crate::table) fn new(handover: &Arc<CacheHandover>, cache: &Arc<BlockCache>, room: usize) -> Self {
        let (handover, cache) = (Arc::clone(handover), Arc::clone(cache));
        BlockCollector { handover, cache, kept: None, room, at: 0, counted: EntryCounts::default() }
    }

    /// Counts the next entry of the open block, which comes from a block of `warmth`.
    #[inline]
    pub(in crate::table) fn count(&mut self, warmth: Warmth) {
        self.counted.entries += 1;
        self.counted.warm += u64::from(warmth == Warmth::Warm);
        self.counted.hot += u64::from(warmth == Warmth::Hot);
    }

    /// Ends the open block, and keeps its uncompressed `content` if it is worth it.
    pub(in crate::table) fn keep(&mut self, content: &[u8]) {
        let EntryCounts { entries, warm, hot } = std::mem::take(&mut self.counted);
        let at = self.at;
        self.at += 1;
        let warmth = match (hot * HOT_PART >= entries, hot + warm) {
            (_, 0) => return,
            (true, _) => Warmth::Hot,
            (false, _) => Warmth::Warm,
        };
        let room = self.room.checked_sub(Buffer::packed_bytes(content.len()));
        if let Some(room) = room.filter(|_| self.cache.takes_coming(content.len())) {
            self.room = room;
            let kept = self.kept.get_or_insert_with(|| KeptBlocks::new(&self.cache));
            kept.push(KeptBlock { at, content: Slice::packed(content), warmth }, room);
        }
    }

    /// Hands the blocks over, as those of the finished `table`.
    pub(in crate::table) fn finish(&mut self, table: TableId) {
        if let Some(mut kept) = self.kept.take() {
            kept.charge.set(kept.bytes as u64);
            self.handover.blocks.lock().insert(table, kept);
        }
    }
}

impl KeptBlocks {
    fn new(cache: &Arc<BlockCache>) -> Self {
        KeptBlocks { blocks: Vec::new(), bytes: 0, charge: Charge::of_coming_blocks(cache) }
    }

    /// Adds a block. At most `room` bytes will follow it.
    fn push(&mut self, block: KeptBlock, room: usize) {
        self.bytes += Buffer::packed_bytes(block.content.len());
        if self.bytes as u64 > self.charge.bytes() {
            self.charge.set((self.bytes + CHARGED_STEP_BYTES.min(room)) as u64);
        }
        self.blocks.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a buffer besides its contents.
    const HEADER_BYTES: usize = 16;

    #[test]
    fn blocks_are_kept_only_as_far_as_the_cache_takes_them() {
        let (handover, cache) = (Arc::<CacheHandover>::default(), BlockCache::new(4 << 20));
        let collector = || BlockCollector::new(&handover, &cache, usize::MAX);
        let keep = |collector: &mut BlockCollector, bytes| {
            collector.count(Warmth::Hot);
            collector.keep(&vec![1; bytes]);
        };
        let mut first = collector();
        keep(&mut first, 600 << 10);
        assert_eq!(cache.bytes_used(), 0, "too large for this cache");
        for _ in 0..1000 {
            keep(&mut first, 4096);
        }
        let used = cache.bytes_used();
        assert!((1 << 20..3 << 20).contains(&used), "a quarter of the cache, and a step: {used}");
        let mut second = collector();
        keep(&mut second, 4096);
        second.finish(TableId(2));
        assert!(handover.take(TableId(2)).is_none(), "others have that part already");
        drop(first);
        assert_eq!(cache.bytes_used(), 0, "an abandoned writer");
    }

    #[test]
    fn blocks_with_entries_of_warm_blocks_are_kept_as_far_as_there_is_room() {
        let handover = Arc::<CacheHandover>::default();
        let cache = BlockCache::new(1 << 20);
        let mut collector = BlockCollector::new(&handover, &cache, 450 + 5 * HEADER_BYTES);
        let block = |cold, warm, hot, len: u8| ([cold, warm, hot], len);
        let blocks = [
            block(9, 0, 0, 100),
            block(9, 1, 0, 101),
            block(9, 0, 1, 102),
            block(5, 1, 5, 103),
            block(5, 0, 5, 104),
            block(0, 0, 1, 105),
            block(0, 0, 1, 40),
            block(1, 0, 0, 1),
        ];
        for (entries, len) in blocks {
            for (count, warmth) in entries.into_iter().zip([Warmth::Cold, Warmth::Warm, Warmth::Hot]) {
                (0..count).for_each(|_| collector.count(warmth));
            }
            collector.keep(&vec![len; usize::from(len)]);
        }
        assert!(handover.take(TableId(1)).is_none(), "not finished");
        collector.finish(TableId(1));
        let kept_bytes = 450 + 5 * HEADER_BYTES as u64;
        assert_eq!(cache.bytes_used(), kept_bytes, "they count before they are cached");
        let blocks: Vec<_> = handover.take(TableId(1)).unwrap();
        let blocks = blocks.iter().map(|block| (block.at, block.content.len(), block.warmth));
        let (warm, hot) = (Warmth::Warm, Warmth::Hot);
        let expected = [(1, 101, warm), (2, 102, warm), (3, 103, warm), (4, 104, hot), (6, 40, hot)];
        assert_eq!(blocks.collect::<Vec<_>>(), expected);
        assert!(handover.take(TableId(1)).is_none(), "taken");
        assert_eq!(cache.bytes_used(), 0);
    }
}
