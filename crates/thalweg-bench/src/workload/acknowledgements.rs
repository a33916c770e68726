//! [`Acknowledgements`]: which inserts are done, when many threads insert: YCSB's `AcknowledgedCounterGenerator`.
//!
//! Records are inserted in the order of their numbers, but done in any. `Dataset::acknowledged` is the first number
//! that is not done yet: a hole holds it back, so that every record below it exists and may be read. Lock-free unless
//! a hole is [`WINDOW`] numbers old.
//!
//! A thread first marks its number as done and then checks whether the limit stands at it; one that moves the limit
//! looks afterwards whether the next number is done: of two that do so at once, at least one sees the other (all of it
//! is sequentially consistent).

use super::Dataset;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Numbers that may be done beyond the oldest hole before one must be set aside.
const WINDOW: usize = 4096;

/// The inserts that are done beyond a hole.
pub(super) struct Acknowledgements {
    /// Slot n % WINDOW holds the latest number done that belongs there, plus 1.
    done: Box<[AtomicU64]>,
    /// Numbers done too far beyond the hole for their slots, which older numbers still need.
    aside: Mutex<BTreeSet<u64>>,
    /// How many those are, to look without locking.
    aside_len: AtomicUsize,
}

impl Acknowledgements {
    /// None so far.
    pub fn new() -> Acknowledgements {
        Acknowledgements {
            done: (0..WINDOW).map(|_| AtomicU64::new(0)).collect(),
            aside: Mutex::default(),
            aside_len: AtomicUsize::new(0),
        }
    }

    /// Record `number` of the dataset is written. Each number is acknowledged once.
    pub fn tell(&self, dataset: &Dataset, number: u64) {
        // Seen too low, the limit only sets a number aside that has a slot.
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
            // Another may have moved it meanwhile: go on from where it stands.
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
            // Into its slot, for another thread that looks before the limit has moved on. It is free: the limit is
            // here.
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
