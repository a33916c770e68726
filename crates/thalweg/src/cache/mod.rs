//! The block cache: decoded table blocks, shared by all tables, bounded in bytes (`docs/cache.md`).
//!
//! Every open table has a [`TableBlocks`]: one slot for each of its blocks, empty or with the block. A hit is a load of
//! the slot and a reference count: nothing is hashed, and no two tables' blocks can be taken for each other. Which
//! blocks stay is decided by [`queues::Queues`], which only insertions touch.
//!
//! Deterministic for the simulator: a number of shards that depends on the capacity alone, and an eviction without
//! randomness or time; the same calls give the same hits.
//!
//! Locks: one a slot, held for a clone of a handle; one a shard, held for an insertion and what it evicts. Order:
//! shard, then slot. Never across I/O.

mod queues;
mod slot;

use crate::format::{Slice, TableId};
use crate::planted::{Bug, planted};
use queues::Queues;
use slot::{Slot, Slots};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What an entry costs beside its bytes: its slot, its place in a queue, the buffer's trailer and headers.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// A shard is not made smaller than this, so that small caches have one shard and large blocks find room.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;
/// A block larger than this part of a shard would push out too much for one read: it is not kept.
const SHARD_PART_MAX: u64 = 8;

/// See the module.
pub(crate) struct BlockCache {
    /// None for a cache of 0 bytes, which keeps nothing.
    shards: Box<[Mutex<Queues>]>,
    block_bytes_max: u64,
    bytes_max: u64,
    /// The slots that every table gets while a bug is planted.
    mixed: OnceLock<Arc<Slots>>,
}

/// How much a block is wanted, as far as the cache knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Warmth {
    /// It is not here, or was not hit since it came.
    Cold,
    /// It was hit once, and is still here.
    Warm,
    /// It was hit of late.
    Hot,
}

/// The cached blocks of one open table, by number. Dropped, it lets go of them.
pub(crate) struct TableBlocks {
    cache: Arc<BlockCache>,
    slots: Arc<Slots>,
    /// Where its first block's shard is.
    first_shard: usize,
}

impl BlockCache {
    /// A cache of at most `bytes`, its own overhead included.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let shards = if bytes == 0 { 0 } else { (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX) };
        let shard_bytes = bytes.checked_div(shards).unwrap_or(0);
        Arc::new(BlockCache {
            shards: (0..shards).map(|_| Mutex::new(Queues::new(shard_bytes))).collect(),
            block_bytes_max: shard_bytes / SHARD_PART_MAX,
            bytes_max: bytes,
            mixed: OnceLock::new(),
        })
    }

    /// What it may hold, overhead included.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Room for the blocks of a table that is opened. Each table asks once.
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

    /// Bytes in use, overhead included.
    #[cfg(test)]
    pub(crate) fn bytes_used(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum()
    }
}

impl TableBlocks {
    /// Block number `at`, if it is here.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Slice> {
        self.slots.get(at)?.take_hit()
    }

    /// Brings block number `at` near the processor, if it is here, and gives whether it is; no use of it.
    #[inline]
    pub(crate) fn approach(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.approach())
    }

    /// Whether block number `at` is here; no use of it.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.is_full())
    }

    /// How much block number `at` is wanted; no use of it.
    pub(crate) fn warmth(&self, at: usize) -> Warmth {
        self.slots.get(at).map_or(Warmth::Cold, Slot::warmth)
    }

    /// Keeps block number `at`, unless it is here already or too large for this cache.
    pub(crate) fn insert(&self, at: usize, block: Slice) {
        self.insert_as(at, block, Warmth::Warm);
    }

    /// As [`TableBlocks::insert`]; one that is hot has nothing to prove.
    pub(crate) fn insert_as(&self, at: usize, block: Slice, warmth: Warmth) {
        let weight = weight(block.len());
        let Some(shard) = self.shard(at).filter(|_| weight <= self.cache.block_bytes_max) else { return };
        // What is pushed out is freed once the lock is given back.
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

fn weight(bytes: usize) -> u64 {
    bytes as u64 + ENTRY_OVERHEAD_BYTES
}

fn lock(shard: &Mutex<Queues>) -> MutexGuard<'_, Queues> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
