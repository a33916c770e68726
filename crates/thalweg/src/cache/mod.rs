//! The block cache: decoded table blocks, shared by all tables, bounded in bytes (`docs/cache.md`).
//!
//! Every open table has a [`TableBlocks`]: one slot for each of its blocks, empty or with the block. A hit loads the
//! slot and counts a reference. It hashes nothing, and cannot return a block of another table. The queues decide which
//! blocks stay; only insertions touch them.
//!
//! Deterministic for the simulator: the number of shards depends on the capacity alone, and eviction uses neither
//! randomness nor time. The same calls give the same hits.
//!
//! Locks: one per slot, held to clone a handle; one per shard, held for an insertion and its evictions. Order: shard,
//! then slot. No lock is held across I/O.
//!
//! - `warmth`: how often a block is read
//! - `slot`: a slot for each block of a table
//! - `queues`: which blocks of a shard stay
//! - `block_cache`: the cache, and the cached blocks of one table
//! - `charged`, `charge`: other memory that blocks make room for

mod block_cache;
mod charge;
mod charged;
mod queues;
mod slot;
#[cfg(test)]
mod tests;
mod warmth;

pub(crate) use block_cache::{BlockCache, TableBlocks};
pub(crate) use charge::Charge;
pub(crate) use warmth::Warmth;
