//! [`Charge`]: memory that is not the cache's own and counts against its room.
//!
//! A database has one number for its memory ([`crate::Builder::memory_budget`]). Filters, indexes of tables and indexes
//! of directories cannot be evicted, so blocks make room for them: the cache shrinks when they grow. A cache of any
//! kind also shrinks for blocks that wait until their table is taken into use, because they are the cache's own.
//!
//! Locks: those of the cache's shards, one after the other.

use super::block_cache::BlockCache;
use super::charged::Charged;
use std::sync::Arc;

/// See the module. Dropping a charge gives its room back.
pub(crate) struct Charge {
    cache: Arc<BlockCache>,
    charged: Charged,
    bytes: u64,
}

impl Charge {
    /// Counts `bytes` against the room of the cache.
    pub(crate) fn new(cache: &Arc<BlockCache>, bytes: u64) -> Self {
        let mut charge = Charge { cache: Arc::clone(cache), charged: Charged::Others, bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// Returns a charge for blocks that will be cached. It counts nothing yet.
    pub(crate) fn of_coming_blocks(cache: &Arc<BlockCache>) -> Self {
        Charge { cache: Arc::clone(cache), charged: Charged::ComingBlocks, bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` instead of the bytes counted before.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.cache.charge(self.charged, self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}
