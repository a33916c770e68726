//! [`Acknowledgements`]: the inserts that are done, with many threads: YCSB's `AcknowledgedCounterGenerator`.
//!
//! Inserts begin in the order of their numbers, but end in any order. `Dataset::acknowledged` is the first number that
//! is not done yet. It stays at a hole, so that every record below it exists and may be read. Lock-free unless a hole
//! is [`WINDOW`] numbers old.
//!
//! A thread first marks its number as done, and then checks whether this number is the limit. A thread that moves the
//! limit then checks whether the next number is done. Of two threads that do so at once, at least one sees the other's
//! mark, because all operations are sequentially consistent.

use super::Dataset;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How far beyond the oldest hole a number may be before it must be set aside.
const WINDOW: usize = 4096;

/// The numbers of the inserts that are done beyond a hole.
pub(super) struct Acknowledgements {
    /// Slot n % WINDOW holds the latest done number of this slot, plus 1.
    done: Box<[AtomicU64]>,
    /// Done numbers too far beyond the hole: older numbers still need their slots.
    aside: Mutex<BTreeSet<u64>>,
    /// The number of entries of `aside`, readable without the lock.
    aside_len: AtomicUsize,
}

impl Acknowledgements {
    /// No insert is done so far.
    pub fn new() -> Acknowledgements {
        Acknowledgements {
            done: (0..WINDOW).map(|_| AtomicU64::new(0)).collect(),
            aside: Mutex::default(),
            aside_len: AtomicUsize::new(0),
        }
    }

    /// Notes that record `number` of the dataset is written. Each number is acknowledged once.
    pub fn tell(&self, dataset: &Dataset, number: u64) {
        // A stale, lower limit is harmless: it sets a number aside that would fit into its slot.
        if number < dataset.acknowledged.load(Ordering::SeqCst) + WINDOW as u64 {
            self.slot(number).store(number + 1, Ordering::SeqCst);
        } else {
            let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
            aside.insert(number);
            self.aside_len.fetch_add(1, Ordering::SeqCst);
        }
        self.advance(dataset);
    }

    fn advance(&self, dataset: &Dataset) {
        let mut limit = dataset.acknowledged.load(Ordering::SeqCst);
        while self.is_done(limit) {
            // If another thread has moved the limit meanwhile, continue from its new value.
            let moved = dataset.acknowledged.compare_exchange(limit, limit + 1, Ordering::SeqCst, Ordering::SeqCst);
            limit = moved.map_or_else(|stands| stands, |was| was + 1);
        }
    }

    fn is_done(&self, number: u64) -> bool {
        if self.slot(number).load(Ordering::SeqCst) == number + 1 {
            return true;
        }
        if self.aside_len.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let found = aside.remove(&number);
        if found {
            // Mark the slot too, for another thread that checks this number before the limit has moved on. The slot is
            // free, because the limit is `number`.
            self.slot(number).store(number + 1, Ordering::SeqCst);
            self.aside_len.fetch_sub(1, Ordering::SeqCst);
        }
        found
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.done[(number % WINDOW as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::DatasetKind;
    use super::*;

    fn dataset() -> Dataset {
        Dataset { kind: DatasetKind::Ycsb, records: 0, next: AtomicU64::new(0), acknowledged: AtomicU64::new(0) }
    }

    fn limit(dataset: &Dataset) -> u64 {
        dataset.acknowledged.load(Ordering::SeqCst)
    }

    #[test]
    fn a_hole_holds_the_limit_back_and_filling_it_lets_go() {
        let (dataset, acknowledgements) = (dataset(), Acknowledgements::new());
        for (number, then) in [(0, 1), (2, 1), (4, 1), (3, 1), (1, 5), (5, 6)] {
            acknowledgements.tell(&dataset, number);
            assert_eq!(limit(&dataset), then, "after {number}");
        }
    }

    #[test]
    fn a_hole_older_than_the_window_loses_nothing() {
        let (dataset, acknowledgements) = (dataset(), Acknowledgements::new());
        let far = 3 * WINDOW as u64;
        (1..far).for_each(|number| acknowledgements.tell(&dataset, number));
        assert_eq!(limit(&dataset), 0);
        acknowledgements.tell(&dataset, 0);
        assert_eq!(limit(&dataset), far);
        acknowledgements.tell(&dataset, far);
        assert_eq!(limit(&dataset), far + 1);
        assert_eq!(acknowledgements.aside_len.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn threads_that_insert_at_once_leave_no_hole_and_never_pass_one() {
        let (dataset, acknowledgements) = (dataset(), Acknowledgements::new());
        let records = 200_000;
        let written: Vec<AtomicU64> = (0..records).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = dataset.next.fetch_add(1, Ordering::SeqCst);
                        if number >= records {
                            break;
                        }
                        if number % 1000 == 0 {
                            std::thread::yield_now();
                        }
                        written[usize::try_from(number).unwrap()].store(1, Ordering::SeqCst);
                        acknowledgements.tell(&dataset, number);
                        let newest = limit(&dataset).saturating_sub(1);
                        let exists = written[usize::try_from(newest).unwrap()].load(Ordering::SeqCst) == 1;
                        assert!(exists || limit(&dataset) == 0, "record {newest}");
                    }
                });
            }
        });
        assert_eq!(limit(&dataset), records);
    }
}
