//! [`ChargedBuffers`]: the buffers of background table I/O, counted against the block cache.
//!
//! Flushes and compactions use a few megabytes of these buffers, which are not counted. A fast tier builds each of its
//! tables in these buffers, and calls [`ChargedBuffers::count`] when they are to be counted.
//!
//! Locks: `charge`, and under it those of the cache's shards.

use crate::cache::{BlockCache, Charge};
use crate::storage::BufferPool;
use crate::sync::Mutex;
use std::sync::Arc;

/// A count lowers the charge by at most one part in this many, because the next merge needs the buffers again.
const GOES_PART: u64 = 16;

/// See the module.
pub(crate) struct ChargedBuffers {
    pool: Arc<BufferPool>,
    charge: Mutex<Charge>,
}

impl ChargedBuffers {
    /// Returns the buffers of `pool`. Nothing is charged yet.
    pub(in crate::table) fn new(pool: &Arc<BufferPool>, cache: &Arc<BlockCache>) -> Arc<Self> {
        Arc::new(ChargedBuffers { pool: Arc::clone(pool), charge: Mutex::new(Charge::new(cache, 0)) })
    }

    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// Charges the memory that the buffers have now.
    pub(crate) fn count(&self) {
        let mut charge = self.charge.lock();
        let before = charge.bytes();
        let bytes = self.pool.memory_bytes().max(before - before / GOES_PART);
        if bytes != before {
            charge.set(bytes);
        }
    }

    /// Frees the unused buffers. If any were charged, charges the remaining ones.
    pub(in crate::table) fn rest(&self) {
        self.pool.rest();
        let mut charge = self.charge.lock();
        if charge.bytes() > 0 {
            charge.set(self.pool.memory_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ALIGNMENT;

    #[test]
    fn what_was_charged_goes_in_steps_and_all_of_it_at_rest() {
        let cache = BlockCache::within_budget(1 << 20);
        let buffers = ChargedBuffers::new(&BufferPool::new(ALIGNMENT), &cache);
        let taken: Vec<_> = (0..160).map(|_| buffers.pool().take()).collect();
        assert_eq!(cache.charged_bytes(), 0, "nobody counts them");
        buffers.count();
        assert_eq!(cache.charged_bytes(), (160 * ALIGNMENT) as u64);
        drop(taken);
        buffers.count();
        assert_eq!(cache.charged_bytes(), (150 * ALIGNMENT) as u64);
        (0..100).for_each(|_| buffers.count());
        let kept = buffers.pool().memory_bytes();
        assert!((1..=64 * ALIGNMENT as u64).contains(&kept) && cache.charged_bytes() == kept);
        buffers.rest();
        assert_eq!(cache.charged_bytes(), 0);
    }
}
