//! [`Charge`]: memory that is not the cache's own and counts against its room.
//!
//! A database has one number for its memory ([`crate::Builder::memory_budget`]). Filters, indexes of tables and indexes
//! of directories cannot be evicted, so blocks make room for them: the cache shrinks when they grow.
//!
//! Locks: those of the cache's shards, one after the other.

use super::block_cache::BlockCache;
use std::sync::Arc;

/// See the module. Dropping it gives the room back.
pub(crate) struct Charge {
    cache: Arc<BlockCache>,
    bytes: u64,
}

impl Charge {
    /// Counts `bytes` against the room of the cache.
    pub(crate) fn new(cache: &Arc<BlockCache>, bytes: u64) -> Self {
        cache.charge(0, bytes);
        Charge { cache: Arc::clone(cache), bytes }
    }

    /// Counts `bytes` instead of what was counted.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.cache.charge(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.cache.charge(self.bytes, 0);
    }
}
