//! [`MemtablePool`]: blocks of memory that memtables have given back, for the next ones.
//!
//! In the long run the pool spares inserts memory that was never touched, or that the system has to find first
//! (`docs/memtable.md`). The pool keeps at most the bytes that it was made for. It keeps no more than memtables leave
//! of the memory that they may have (`docs/memory.md`). The rest goes back to the system. All of it goes back when the
//! database is idle, or when the database and the last of its memtables are gone.
//!
//! Locks: `free`, held for a push or a pop.

use crate::memory::{PAGES_BYTES, Pages};
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See [`MemtablePool::is_over`].
const LOOK_BYTES: usize = 64 << 10;

/// See the module. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct MemtablePool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Mutex<Free>,
    blocks_max: usize,
    /// Bytes of all memtables, as they were allocated.
    used_bytes: AtomicUsize,
    /// The part of `used_bytes` that only readers hold.
    retired_bytes: AtomicUsize,
    /// Bytes that sealed memtables have handed out and flushes will put into a fast tier.
    sealed_bytes: AtomicUsize,
    /// Bytes that even empty memtables have. No flush gives them back, because the next memtable has them too.
    least_bytes: AtomicUsize,
    /// Bytes that memtables may have, not counting those that only readers hold.
    used_bytes_max: usize,
    /// The flushable bytes when [`MemtablePool::is_over`] last returned `true`.
    looked_at_bytes: AtomicUsize,
}

#[derive(Default)]
struct Free {
    /// The last one given back is the first to be taken: it is the warmest.
    blocks: Vec<Pages>,
    /// Whether the pool keeps nothing, until a block is taken.
    rests: bool,
}

impl MemtablePool {
    /// An empty pool that keeps up to `bytes_max` bytes.
    #[cfg(test)]
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::bounded(bytes_max, usize::MAX)
    }

    /// An empty pool that keeps up to `bytes_max` bytes, for memtables that may have `used_bytes_max` bytes together.
    pub(crate) fn bounded(bytes_max: usize, used_bytes_max: usize) -> Self {
        let shared = Shared {
            free: Mutex::new(Free::default()),
            blocks_max: bytes_max / PAGES_BYTES,
            used_bytes: AtomicUsize::new(0),
            retired_bytes: AtomicUsize::new(0),
            sealed_bytes: AtomicUsize::new(0),
            least_bytes: AtomicUsize::new(0),
            used_bytes_max,
            looked_at_bytes: AtomicUsize::new(0),
        };
        MemtablePool { shared: Arc::new(shared) }
    }

    /// Counts `after` bytes of a memtable instead of `before`.
    pub(super) fn count(&self, before: usize, after: usize) {
        // Relaxed: a statistic, it publishes nothing.
        self.shared.used_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Counts `after` bytes of a memtable that only readers hold instead of `before`.
    pub(super) fn count_retired(&self, before: usize, after: usize) {
        // Relaxed: a statistic, it publishes nothing.
        self.shared.retired_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Counts `after` bytes of a memtable that a flush will put into a fast tier instead of `before`.
    pub(super) fn count_sealed(&self, before: usize, after: usize) {
        // Relaxed: a statistic, it publishes nothing.
        self.shared.sealed_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Counts `after` bytes that a memtable has even if it is empty, instead of `before`.
    pub(super) fn count_least(&self, before: usize, after: usize) {
        // Relaxed: a statistic, it publishes nothing.
        self.shared.least_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Bytes of the memtables that a flush, or the end of a generation, gives back. Bytes that only readers hold do not
    /// count: no seal and no wait gives them back.
    fn flushable_bytes(&self) -> usize {
        let retired = self.shared.retired_bytes.load(Ordering::Relaxed);
        let least = self.shared.least_bytes.load(Ordering::Relaxed);
        self.used_bytes().saturating_sub(retired).saturating_sub(least)
    }

    /// Bytes of sealed memtables that flushes will put into a fast tier, as they were handed out.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.shared.sealed_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all memtables, as they were allocated.
    pub(crate) fn used_bytes(&self) -> usize {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a memtable may have beyond those of its entries: the rest of a block.
    pub(crate) const UNUSED_BYTES_MAX: usize = PAGES_BYTES;

    /// Bytes that memtables may have together.
    pub(crate) fn used_bytes_max(&self) -> usize {
        self.shared.used_bytes_max
    }

    /// Whether memtables have more memory than they may. Those that only readers hold do not count.
    pub(crate) fn is_past(&self) -> bool {
        self.flushable_bytes() > self.shared.used_bytes_max
    }

    /// Whether memtables have twice the memory that they may have. Those that only readers hold do not count.
    pub(crate) fn is_far_over(&self) -> bool {
        self.flushable_bytes() / 2 > self.shared.used_bytes_max
    }

    /// The memory of memtables above what they may have, as a part of what they may have: 0 to 1. At 1 writers wait.
    /// Memory that only readers hold does not count.
    pub(crate) fn over(&self) -> f64 {
        let most = self.shared.used_bytes_max;
        (self.flushable_bytes().saturating_sub(most) as f64 / most.max(1) as f64).min(1.0)
    }

    /// Whether memtables have more memory than they may; those that only readers hold do not count. Returns `true` once
    /// for each [`LOOK_BYTES`] that the others gain or lose, so that only one of many writers acts on it.
    pub(crate) fn is_over(&self) -> bool {
        let used = self.flushable_bytes();
        if used <= self.shared.used_bytes_max {
            return false;
        }
        let looked_at = self.shared.looked_at_bytes.load(Ordering::Relaxed);
        used.abs_diff(looked_at) >= LOOK_BYTES
            && self
                .shared
                .looked_at_bytes
                .compare_exchange(looked_at, used, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
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

    /// Keeps a block, or gives it back to the system.
    pub(super) fn give(&self, pages: Pages) {
        let mut free = self.free();
        let kept = (free.blocks.len() + 1) * PAGES_BYTES;
        let has_room = self.used_bytes().saturating_add(kept) <= self.shared.used_bytes_max;
        if free.blocks.len() < self.shared.blocks_max && has_room && !free.rests {
            free.blocks.push(pages);
        }
        // A surplus block is dropped after the lock is released: arguments are dropped last.
    }

    /// Gives all kept blocks back to the system, and from now on every returned block, until a block is taken.
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
    use crate::format::key::EntryKind;
    use crate::format::{LogMark, SeqNo};
    use crate::memtable::{Memtable, MemtableHandle};

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
    fn a_pool_keeps_no_more_than_memtables_leave() {
        let pool = MemtablePool::bounded(4 * PAGES_BYTES, 3 * PAGES_BYTES);
        pool.count(0, PAGES_BYTES + 1);
        (0..3).for_each(|_| pool.give(Pages::new()));
        assert_eq!(pool.free().blocks.len(), 1);
        assert!(!pool.is_over());
        pool.count(0, 2 * PAGES_BYTES);
        assert_eq!((pool.is_over(), pool.is_over()), (true, false), "one is to see to it");
        assert!((pool.over() - 1.0 / (3 * PAGES_BYTES) as f64).abs() < 1e-12);
        pool.count(0, LOOK_BYTES);
        assert!(pool.is_over());
    }

    #[test]
    fn memory_that_no_flush_gives_back_makes_no_pool_full() {
        let pool = MemtablePool::bounded(0, 4 * LOOK_BYTES);
        let new = || Memtable::new(&pool);
        let mut empty: Vec<_> = (0..512).map(|_| new()).collect();
        assert!(pool.used_bytes() > 4 * LOOK_BYTES);
        assert_eq!((pool.flushable_bytes(), pool.is_over(), pool.is_far_over()), (0, false, false));
        empty[0].insert(b"key", SeqNo(1), EntryKind::Put, &vec![7; 5 * LOOK_BYTES]);
        assert!(pool.flushable_bytes() >= 5 * LOOK_BYTES && pool.is_over());
        // Only readers hold it. Said twice, it counts once.
        empty[0].retire();
        empty[0].retire();
        assert_eq!((pool.flushable_bytes(), pool.is_over()), (0, false));
        empty.truncate(1);
        assert_eq!((pool.used_bytes() > 5 * LOOK_BYTES, pool.flushable_bytes()), (true, 0));
        drop(empty);
        let left = [&pool.shared.used_bytes, &pool.shared.retired_bytes, &pool.shared.least_bytes];
        assert_eq!(left.map(|bytes| bytes.load(Ordering::Relaxed)), [0; 3]);
    }

    #[test]
    fn a_memtable_that_several_own_is_flushable_until_the_last_has_flushed_it() {
        let pool = MemtablePool::bounded(0, 4 * LOOK_BYTES);
        let handle = MemtableHandle::new(SeqNo(0), &pool);
        let mark = LogMark::default();
        handle.insert(mark, b"key", SeqNo(1), EntryKind::Put, &vec![7; LOOK_BYTES]);
        handle.share();
        handle.share();
        assert_eq!(pool.sealed_bytes(), 0);
        handle.wait_for_flush();
        for _ in 0..2 {
            handle.leave();
            assert!(pool.flushable_bytes() >= LOOK_BYTES && handle.is_shared());
            assert!(pool.sealed_bytes() >= LOOK_BYTES);
        }
        handle.leave();
        assert_eq!((pool.flushable_bytes(), pool.sealed_bytes()), (0, 0));
        let never_flushed = MemtableHandle::new(SeqNo(1), &pool);
        never_flushed.wait_for_flush();
        drop(never_flushed);
        assert_eq!(pool.sealed_bytes(), 0);
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
