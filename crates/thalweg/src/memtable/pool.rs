//! [`MemtablePool`]: blocks of memory that memtables have given back, for the next ones.
//!
//! So that in the long run no insert meets memory that was never touched, or that the system has to find first
//! (`docs/memtable.md`). The pool keeps so many bytes at most as it was made for; the rest goes back to the system, and
//! all of it when the database rests, or it and the last of its memtables are gone.
//!
//! Locks: `free`, held for a push or a pop.

use super::pages::{PAGES_BYTES, Pages};
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// See the module. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct MemtablePool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Mutex<Free>,
    blocks_max: usize,
}

#[derive(Default)]
struct Free {
    /// The last one given back is the first to be taken: it is the warmest.
    blocks: Vec<Pages>,
    /// Nothing is kept until a block is taken.
    rests: bool,
}

impl MemtablePool {
    /// An empty pool that keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let shared = Shared { free: Mutex::new(Free::default()), blocks_max: bytes_max / PAGES_BYTES };
        MemtablePool { shared: Arc::new(shared) }
    }

    /// A block, new if none was given back.
    pub(super) fn take(&self) -> Pages {
        let block = {
            let mut free = self.free();
            free.rests = false;
            free.blocks.pop()
        };
        block.unwrap_or_else(Pages::new)
    }

    /// Keeps a block, or lets it go.
    pub(super) fn give(&self, pages: Pages) {
        let mut free = self.free();
        if free.blocks.len() < self.shared.blocks_max && !free.rests {
            free.blocks.push(pages);
        }
        // A block too many is dropped after the lock: arguments go last.
    }

    /// Gives back to the system what it keeps, and what it is given from now on until a block is taken.
    pub(crate) fn rest(&self) {
        let blocks = {
            let mut free = self.free();
            free.rests = true;
            std::mem::take(&mut free.blocks)
        };
        drop(blocks);
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.shared.free.lock()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_handed_out_again_up_to_the_bound() {
        let pool = MemtablePool::new(2 * PAGES_BYTES + 1);
        let blocks: Vec<_> = (0..3).map(|_| pool.take()).collect();
        let addresses: Vec<_> = blocks.iter().map(Pages::memory).collect();
        blocks.into_iter().for_each(|pages| pool.give(pages));
        assert_eq!(pool.free().blocks.len(), 2);
        let again = [pool.take(), pool.take()];
        assert_eq!(again.map(|pages| pages.memory()), [addresses[1], addresses[0]]);
        assert!(pool.free().blocks.is_empty());
    }

    #[test]
    fn a_pool_that_rests_keeps_nothing_until_a_block_is_taken() {
        let pool = MemtablePool::new(4 * PAGES_BYTES);
        let late = pool.take();
        pool.give(Pages::new());
        pool.rest();
        assert!(pool.free().blocks.is_empty());
        pool.give(late);
        assert!(pool.free().blocks.is_empty());
        let taken = pool.take();
        pool.give(taken);
        assert_eq!(pool.free().blocks.len(), 1);
    }
}
