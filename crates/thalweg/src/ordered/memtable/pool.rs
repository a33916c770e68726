//! [`MemtablePool`]: blocks of memory that memtables have given back, for the next ones.
//!
//! So that in the long run no insert meets memory that was never touched, or that the system has to find first
//! (`docs/memtable.md`). The pool keeps so many bytes at most as it was made for; the rest goes back to the system, and
//! all of it when the database and the last of its memtables are gone.
//!
//! Locks: `free`, held for a push or a pop.

use super::pages::{PAGES_BYTES, Pages};
use super::sync::Mutex;
use std::sync::{Arc, PoisonError};

/// See the module. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct MemtablePool {
    shared: Arc<Shared>,
}

struct Shared {
    /// The last one given back is the first to be taken: it is the warmest.
    free: Mutex<Vec<Pages>>,
    blocks_max: usize,
}

impl MemtablePool {
    /// An empty pool that keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let shared = Shared { free: Mutex::new(Vec::new()), blocks_max: bytes_max / PAGES_BYTES };
        MemtablePool { shared: Arc::new(shared) }
    }

    /// A block, new if none was given back.
    pub(super) fn take(&self) -> Pages {
        let free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(Pages::new)
    }

    /// Keeps a block, or lets it go.
    pub(super) fn give(&self, pages: Pages) {
        let mut free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.shared.blocks_max {
            free.push(pages);
        }
        // A block too many is dropped after the lock: arguments go last.
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
        assert_eq!(pool.shared.free.lock().unwrap().len(), 2);
        let again = [pool.take(), pool.take()];
        assert_eq!(again.map(|pages| pages.memory()), [addresses[1], addresses[0]]);
        assert!(pool.shared.free.lock().unwrap().is_empty());
    }
}
