//! The numbers of new inodes: each is given once, also across crashes.
//!
//! The volume has a *high water*: no number from it on was given. The next high water is stored [`AHEAD`] numbers
//! ahead, with half of the numbers left, and an open goes on at the stored one. So a power cut that takes the last high
//! water also takes every inode beyond the previous one. Before a number beyond the last durable high water is given,
//! the next high water is made durable. That waits only for a volume that creates half of [`AHEAD`] inodes within one
//! sync of the log.

use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::row::{Ino, Totals, encode_number};
use crate::store::{Batch, MetaStore, Promise, Space};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How far ahead the high water is stored.
const AHEAD: u64 = 1 << 20;

pub(super) struct Numbers {
    next: AtomicU64,
    /// Numbers below are given without a look at `water`.
    free_until: AtomicU64,
    water: Mutex<Water>,
}

struct Water {
    /// The stored high water.
    high: u64,
    /// The high water before it, which is durable.
    durable: u64,
    /// The promise that `high` is stored.
    promise: Box<dyn Promise>,
}

impl Numbers {
    /// Goes on at `high`, the stored high water, and stores the next.
    pub(super) fn new(store: &dyn MetaStore, high: u64) -> Result<Self> {
        let next_high = high.saturating_add(AHEAD);
        store_high(store, next_high)?;
        let promise = store.promise()?;
        promise.wait()?;
        let water = Water { high: next_high, durable: next_high, promise };
        let free_until = AtomicU64::new(next_high - AHEAD / 2);
        Ok(Numbers { next: AtomicU64::new(high), free_until, water: Mutex::new(water) })
    }

    pub(super) fn take(&self, store: &dyn MetaStore) -> Result<Ino> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.free_until.load(Ordering::Acquire) {
            self.raise(store, number)?;
        }
        Ok(number)
    }

    /// Ensures that a high water above `number` is stored and durable, and that a further one is stored.
    fn raise(&self, store: &dyn MetaStore, number: u64) -> Result<()> {
        let mut water = self.water.lock().unwrap_or_else(PoisonError::into_inner);
        while number >= water.high - AHEAD / 2 {
            if water.durable < water.high {
                water.promise.wait()?;
                water.durable = water.high;
            }
            let high = water.high + AHEAD;
            store_high(store, high)?;
            water.promise = store.promise()?;
            water.high = high;
        }
        // The numbers up to the durable high water are free; those beyond wait for the next to be durable.
        if water.durable < water.high && water.promise.is_durable() {
            water.durable = water.high;
        }
        if number >= water.durable {
            water.promise.wait()?;
            water.durable = water.high;
        }
        self.free_until.store(water.durable.min(water.high - AHEAD / 2), Ordering::Release);
        Ok(())
    }
}

fn store_high(store: &dyn MetaStore, high: u64) -> Result<()> {
    if planted(Bug::HighWaterNotStored) {
        return Ok(());
    }
    let mut batch = Batch::new();
    // Every mount stores a high water, also a mount that is to make room.
    batch.set_needs_no_room();
    batch.put(Space::Volume, Totals::HIGH_WATER, encode_number(Totals::HIGH_WATER, high));
    store.commit(&batch)
}
