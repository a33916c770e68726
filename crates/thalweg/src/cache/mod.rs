//! The block cache: decoded table blocks, shared by all tables, bounded in bytes.
//!
//! Keyed by table and offset. Table ids are never reused, so a block of a removed table can never be asked for again;
//! it is left to eviction. Deterministic for the simulator: a fixed hash, a number of shards that depends on the
//! capacity alone, and an eviction (CLOCK-Pro) without randomness or time; the same calls give the same hits.
//! Locks: one a shard, inside `quick_cache`, held for a look-up or an insertion, never across I/O.

use crate::format::{Slice, TableId};
use crate::planted::{Bug, planted};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// What an entry costs beside its bytes: the key, the slab and map slots, the shared buffer's header.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// A shard is not made smaller than this, so that small caches have one shard and large blocks find room.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 64;
/// A block larger than this part of a shard would push out too much for one read: it is not kept.
const SHARD_PART_MAX: u64 = 8;
/// For sizing the cache's memory of recently evicted keys.
const BLOCK_BYTES_TYPICAL: u64 = 4 << 10;

/// See the module.
pub(crate) struct BlockCache {
    /// `None` for a cache of 0 bytes, which keeps nothing.
    blocks: Option<Blocks>,
    block_bytes_max: u64,
}

type Blocks = Cache<BlockKey, Slice, BlockWeight, BuildHasherDefault<Passthrough>, DefaultLifecycle<BlockKey, Slice>>;

impl BlockCache {
    /// A cache of at most `bytes`, its own overhead included.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let shards = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 };
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(usize::try_from(bytes / BLOCK_BYTES_TYPICAL).unwrap_or(usize::MAX))
            .weight_capacity(bytes)
            .build();
        let blocks = options.ok().filter(|_| bytes > 0).map(|options| {
            Cache::with_options(options, BlockWeight, BuildHasherDefault::default(), DefaultLifecycle::default())
        });
        Arc::new(BlockCache { blocks, block_bytes_max: bytes / shards / SHARD_PART_MAX })
    }

    /// The block of `table` at `offset`, if it is here.
    pub(crate) fn get(&self, table: TableId, offset: u64) -> Option<Slice> {
        self.blocks.as_ref()?.get(&BlockKey::new(table, offset))
    }

    /// Keeps a block, unless it is too large for this cache.
    pub(crate) fn insert(&self, table: TableId, offset: u64, block: Slice) {
        let Some(blocks) = &self.blocks else { return };
        if weight(&block) <= self.block_bytes_max {
            blocks.insert(BlockKey::new(table, offset), block);
        }
    }

    /// Bytes in use, overhead included.
    #[cfg(test)]
    pub(crate) fn bytes_used(&self) -> u64 {
        self.blocks.as_ref().map_or(0, |blocks| blocks.weight())
    }
}

fn weight(block: &Slice) -> u64 {
    block.len() as u64 + ENTRY_OVERHEAD_BYTES
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct BlockKey {
    table: TableId,
    offset: u64,
}

impl BlockKey {
    fn new(table: TableId, offset: u64) -> Self {
        if planted(Bug::StaleCacheBlock) {
            return BlockKey { table: TableId(0), offset };
        }
        BlockKey { table, offset }
    }
}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let both = u128::from(self.table.0) << 64 | u128::from(self.offset);
        state.write_u64(xxh3_64(&both.to_le_bytes()));
    }
}

/// Passes on the hash that [`BlockKey`] computed.
#[derive(Default)]
struct Passthrough(u64);

impl Hasher for Passthrough {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= xxh3_64(bytes);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<BlockKey, Slice> for BlockWeight {
    fn weight(&self, _: &BlockKey, block: &Slice) -> u64 {
        weight(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8, len: usize) -> Slice {
        Slice::from(vec![byte; len])
    }

    #[test]
    fn blocks_of_two_tables_at_one_offset_do_not_mix() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(TableId(1), 0, block(1, 100));
        cache.insert(TableId(2), 0, block(2, 100));
        assert_eq!(cache.get(TableId(1), 0).unwrap(), block(1, 100));
        assert_eq!(cache.get(TableId(2), 0).unwrap(), block(2, 100));
        assert!(cache.get(TableId(1), 100).is_none());
    }

    #[test]
    fn bytes_used_never_pass_the_capacity() {
        let cache = BlockCache::new(64 << 10);
        for offset in 0..1000 {
            cache.insert(TableId(1), offset, block(0, 100 + offset as usize));
            assert!(cache.bytes_used() <= 64 << 10);
        }
        assert!(cache.bytes_used() > 32 << 10);
    }

    #[test]
    fn a_block_larger_than_an_eighth_is_not_kept() {
        let cache = BlockCache::new(64 << 10);
        cache.insert(TableId(1), 0, block(0, 8 << 10));
        assert_eq!(cache.bytes_used(), 0);
    }

    #[test]
    fn a_cache_of_no_bytes_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(TableId(1), 0, block(0, 1));
        assert!(cache.get(TableId(1), 0).is_none());
        assert_eq!(cache.bytes_used(), 0);
    }

    #[test]
    fn the_same_calls_give_the_same_hits() {
        let run = || {
            let cache = BlockCache::new(256 << 10);
            let mut state = 7u64;
            let mut hits = Vec::new();
            for _ in 0..20_000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (table, offset) = (TableId(state >> 62), (state >> 33) % 200);
                let hit = cache.get(table, offset).is_some();
                if !hit {
                    cache.insert(table, offset, block(0, 1000 + offset as usize));
                }
                hits.push(hit);
            }
            hits
        };
        let hits = run();
        assert!(hits.contains(&true) && hits.iter().skip(1000).any(|hit| !hit));
        assert_eq!(hits, run());
    }
}
