//! [`BlockCache`]: the cache of a database, and [`TableBlocks`]: the cached blocks of one open table.

use super::charged::Charged;
use super::queues::{Queues, weight};
use super::slot::{Slot, Slots};
use super::warmth::Warmth;
use crate::format::{Slice, TableId};
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The least bytes of a shard, so that small caches have one shard and large blocks find room.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;
/// A block larger than one in this many parts of a shard is not kept: it would evict too much for one read.
const SHARD_PART_MAX: u64 = 8;
/// Blocks that will be cached, of new tables, may take one part in this many of the cache, plus the steps that their
/// writers have begun.
const COMING_PART: u64 = 4;
/// Cached blocks keep at least one part in this many of the cache, however much is charged.
const ROOM_PART_MIN: u64 = 8;

/// See the module.
pub(crate) struct BlockCache {
    /// Empty for a cache of 0 bytes, which keeps nothing.
    shards: Box<[Mutex<Queues>]>,
    block_bytes_max: u64,
    bytes_max: u64,
    /// Bytes of other memory that are charged to the cache ([`super::Charge`]).
    charged: AtomicU64,
    /// Whether `charged` counts against the room of the cache.
    is_budget: bool,
    /// Bytes of blocks that will be cached.
    coming: AtomicU64,
    /// The slots that every table gets while a bug is planted.
    mixed: OnceLock<Arc<Slots>>,
}

/// The cached blocks of one open table, by number. Dropping it frees them.
pub(crate) struct TableBlocks {
    cache: Arc<BlockCache>,
    slots: Arc<Slots>,
    /// The shard of its first block.
    first_shard: usize,
}

impl BlockCache {
    /// Returns a cache of at most `bytes`, its own overhead included.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Self::with(bytes, false)
    }

    /// Returns a cache that has at most `bytes` together with everything that is charged to it.
    pub(crate) fn within_budget(bytes: u64) -> Arc<Self> {
        Self::with(bytes, true)
    }

    fn with(bytes: u64, is_budget: bool) -> Arc<Self> {
        let shards = if bytes == 0 { 0 } else { (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX) };
        let shard_bytes = bytes.checked_div(shards).unwrap_or(0);
        Arc::new(BlockCache {
            shards: (0..shards).map(|_| Mutex::new(Queues::new(shard_bytes))).collect(),
            block_bytes_max: shard_bytes / SHARD_PART_MAX,
            bytes_max: bytes,
            charged: AtomicU64::new(0),
            is_budget,
            coming: AtomicU64::new(0),
            mixed: OnceLock::new(),
        })
    }

    /// The bytes that the cache may hold, overhead included.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether a block of `bytes` may be kept until it is cached. It may if it is not too large for this cache, and the
    /// blocks that will be cached have not yet used up their part of the cache.
    pub(crate) fn takes_coming(&self, bytes: usize) -> bool {
        weight(bytes) <= self.block_bytes_max && self.coming.load(Ordering::Relaxed) <= self.bytes_max / COMING_PART
    }

    /// Returns empty slots for the blocks of a table, which calls this once, when it is opened.
    pub(crate) fn table(self: &Arc<Self>, table: TableId, blocks: usize) -> TableBlocks {
        let blocks = if self.shards.is_empty() { 0 } else { blocks };
        let first_shard = usize::try_from(table.0).unwrap_or_default();
        TableBlocks { cache: Arc::clone(self), slots: self.slots(blocks), first_shard }
    }

    fn slots(&self, blocks: usize) -> Arc<Slots> {
        const MIXED_BLOCKS: usize = 1 << 16;
        if planted(Bug::StaleCacheBlock) {
            return Arc::clone(self.mixed.get_or_init(|| Slots::new(MIXED_BLOCKS)));
        }
        Slots::new(blocks)
    }

    /// Bytes of other memory that are charged to the cache, even if they do not count against its room.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Counts `after` bytes of other memory instead of `before`, and evicts the blocks that no longer fit.
    pub(super) fn charge(&self, charged: Charged, before: u64, after: u64) {
        let (bytes, counts) = match charged {
            Charged::Others => (&self.charged, self.is_budget),
            Charged::ComingBlocks => (&self.coming, true),
        };
        bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if !counts || before == after {
            return;
        }
        for shard in &self.shards {
            let evicted = {
                let mut queues = lock(shard);
                // The room is read under the lock, so the last of several charges to take the lock sees all of them.
                queues.set_room(self.shard_room())
            };
            drop(evicted);
        }
    }

    fn shard_room(&self) -> u64 {
        let others = if self.is_budget { self.charged_bytes() } else { 0 };
        let charged = others.saturating_add(self.coming.load(Ordering::Relaxed));
        let room = self.bytes_max.saturating_sub(charged).max(self.bytes_max / ROOM_PART_MIN);
        room.checked_div(self.shards.len() as u64).unwrap_or(0)
    }

    /// The bytes in use, overhead and blocks that will be cached included.
    pub(crate) fn bytes_used(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum::<u64>() + self.coming.load(Ordering::Relaxed)
    }
}

impl TableBlocks {
    /// The bytes of memory that the slots of `blocks` blocks take.
    pub(crate) fn memory_bytes(blocks: usize) -> usize {
        blocks * size_of::<Slot>()
    }

    /// Returns block `at`, if it is cached. Counts a hit.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Slice> {
        self.slots.get(at)?.take_hit()
    }

    /// Returns block `at` and counts a hit, as [`TableBlocks::get`] does, with the mark that [`TableBlocks::mark`] has
    /// set. A mark of 0 means none.
    #[inline]
    pub(crate) fn get_marked(&self, at: usize) -> Option<(Slice, u16)> {
        self.slots.get(at)?.take_hit_marked()
    }

    /// Marks `block`, which [`TableBlocks::get_marked`] returned as block `at`. The mark is lost when the block leaves
    /// the cache.
    pub(crate) fn mark(&self, at: usize, block: &Slice, mark: u16) {
        if let Some(slot) = self.slots.get(at) {
            slot.mark(block, mark);
        }
    }

    /// Prefetches block `at`, and returns whether it is cached. Counts no hit.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.prefetch())
    }

    /// Whether block `at` is cached. Counts no hit.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.is_full())
    }

    /// Returns how often block `at` is read. Counts no hit.
    pub(crate) fn warmth(&self, at: usize) -> Warmth {
        self.slots.get(at).map_or(Warmth::Cold, Slot::warmth)
    }

    /// Caches block `at`, unless it is cached already or too large for this cache.
    pub(crate) fn insert(&self, at: usize, block: Slice) {
        self.insert_as(at, block, Warmth::Warm);
    }

    /// As [`TableBlocks::insert`]. A hot block goes to the main queue at once.
    pub(crate) fn insert_as(&self, at: usize, block: Slice, warmth: Warmth) {
        let fits = weight(block.len()) <= self.cache.block_bytes_max && !self.has(at);
        let Some(shard) = self.shard(at).filter(|_| fits) else { return };
        let block = block.into_packed();
        // The evicted blocks are freed after the lock is released.
        let evicted = lock(shard).insert(&self.slots, at, block, warmth);
        drop(evicted);
    }

    fn shard(&self, at: usize) -> Option<&Mutex<Queues>> {
        let shards = &self.cache.shards;
        shards.get(self.first_shard.wrapping_add(at).checked_rem(shards.len())?)
    }
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        if planted(Bug::StaleCacheBlock) {
            return;
        }
        let shards = self.cache.shards.len();
        for start in 0..shards.min(self.slots.len()) {
            let Some(shard) = self.shard(start) else { return };
            let blocks = (start..self.slots.len()).step_by(shards).filter_map(|at| self.slots.get(at));
            let taken: Vec<_> = blocks.filter_map(|slot| slot.take()).collect();
            if !taken.is_empty() {
                lock(shard).forget(&taken);
            }
        }
    }
}

#[cfg(test)]
impl BlockCache {
    /// The entries of all queues, those of dropped tables included.
    pub(super) fn queue_entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries()).sum()
    }
}

fn lock(shard: &Mutex<Queues>) -> MutexGuard<'_, Queues> {
    shard.lock()
}
