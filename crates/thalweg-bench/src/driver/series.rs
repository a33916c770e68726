//! [`Series`]: the operations and latencies of each tenth of a second, and of each second.
//!
//! Each foreground thread has a histogram of its current interval of 100 ms. When the interval is over, the thread
//! hands the histogram in and takes an empty one, under a lock, ten times a second. The thread that called `run` adds
//! the histograms up, and finishes an interval when every thread has passed it. An operation belongs to the interval in
//! which it completes, so a thread in a long operation keeps open only the intervals since its last completion. Seconds
//! are sums of their intervals. Of a finished interval or second only its summary is kept.
//!
//! Lock: `shared` is a leaf, held for a push and a pop.

use crate::report::Second;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest latency of a histogram, in nanoseconds: ten minutes. Longer latencies count as ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;
const DIGITS: u8 = 3;

/// The number of intervals of a second.
const SECOND_INTERVALS: u64 = 10;
/// Intervals that are kept, of the first 30 s: a plot shows no more points.
pub(super) const INTERVALS_MAX: usize = 300;

/// An empty histogram for latencies in nanoseconds.
pub(super) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, LONGEST_NS, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("a histogram up to {LONGEST_NS} ns with {DIGITS} digits: {error}"),
    }
}

/// Adds a histogram of latencies to another.
pub(super) fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    let added = sum.add(more);
    assert!(added.is_ok(), "histograms with the same bounds add up: {added:?}");
}

/// The place where threads hand in the histograms of their intervals.
pub(super) struct Series {
    shared: Mutex<Shared>,
}

struct Shared {
    /// Intervals handed in and not yet collected.
    handed: Vec<(u64, Histogram<u64>)>,
    /// Empty histograms.
    spare: Vec<Histogram<u64>>,
    /// The current interval of each thread; `u64::MAX`: the thread has ended.
    current: Vec<u64>,
}

impl Series {
    /// The series of `threads` threads, all in interval 0.
    pub(super) fn new(threads: usize) -> Series {
        let shared = Shared { handed: Vec::new(), spare: Vec::new(), current: vec![0; threads] };
        Series { shared: Mutex::new(shared) }
    }

    /// Hands in the histogram of `interval`, which `thread` leaves for `next`, and puts an empty one in its place.
    pub(super) fn hand_in(&self, thread: usize, interval: u64, histogram_of_it: &mut Histogram<u64>, next: u64) {
        let spare = self.lock().spare.pop();
        let full = std::mem::replace(histogram_of_it, spare.unwrap_or_else(histogram));
        let mut shared = self.lock();
        shared.handed.push((interval, full));
        shared.current[thread] = next;
    }

    /// Hands in the last histogram of a thread that has ended.
    pub(super) fn end(&self, thread: usize, interval: u64, full: Histogram<u64>) {
        let mut shared = self.lock();
        shared.handed.push((interval, full));
        shared.current[thread] = u64::MAX;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The intervals and seconds collected so far.
#[derive(Default)]
pub(super) struct Collected {
    unfinished: BTreeMap<u64, Histogram<u64>>,
    /// The current second: its number, and the sum of its intervals.
    second: Option<(u64, Histogram<u64>)>,
    /// The finished seconds, from second 0 on.
    pub(super) seconds: Vec<Second>,
    /// The finished intervals, from interval 0 on, up to [`INTERVALS_MAX`].
    pub(super) intervals: Vec<Second>,
    /// Whether the last interval with an operation lies beyond [`INTERVALS_MAX`].
    pub(super) too_long: bool,
}

impl Collected {
    /// Collects the histograms handed in, and finishes the intervals and seconds that every thread has passed.
    pub(super) fn collect(&mut self, series: &Series) {
        let (handed, passed) = {
            let mut shared = series.lock();
            let passed = shared.current.iter().copied().min().unwrap_or(u64::MAX);
            (std::mem::take(&mut shared.handed), passed)
        };
        let mut spare = Vec::new();
        for (interval, full) in handed {
            match self.unfinished.get_mut(&interval) {
                Some(sum) => {
                    add(sum, &full);
                    spare.push(full);
                }
                None => {
                    self.unfinished.insert(interval, full);
                }
            }
        }
        while let Some(first) = self.unfinished.first_entry().filter(|first| *first.key() < passed) {
            let (interval, sum) = first.remove_entry();
            if !sum.is_empty() {
                self.finish(interval, &sum);
            }
            spare.push(sum);
        }
        if self.second.as_ref().is_some_and(|(second, _)| *second < passed / SECOND_INTERVALS) {
            self.finish_second();
        }
        if !spare.is_empty() {
            spare.iter_mut().for_each(Histogram::reset);
            series.lock().spare.append(&mut spare);
        }
    }

    fn finish(&mut self, interval: u64, sum: &Histogram<u64>) {
        match usize::try_from(interval) {
            Ok(place) if place < INTERVALS_MAX => {
                self.intervals.resize(place, Second::default());
                self.intervals.push(summary(sum));
            }
            _ => self.too_long = true,
        }
        let second = interval / SECOND_INTERVALS;
        if self.second.as_ref().is_some_and(|(under_way, _)| *under_way != second) {
            self.finish_second();
        }
        let (_, all) = self.second.get_or_insert_with(|| (second, histogram()));
        add(all, sum);
    }

    fn finish_second(&mut self) {
        if let Some((second, sum)) = self.second.take() {
            self.seconds.resize(second as usize, Second::default());
            self.seconds.push(summary(&sum));
        }
    }
}

fn summary(sum: &Histogram<u64>) -> Second {
    Second {
        operations: sum.len(),
        p50_ns: sum.value_at_quantile(0.5),
        p99_ns: sum.value_at_quantile(0.99),
        max_ns: sum.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram<u64> {
        let mut full = histogram();
        values.iter().for_each(|&value| full.saturating_record(value));
        full
    }

    #[test]
    fn a_second_is_finished_when_every_thread_has_passed_it() {
        let (series, mut collected) = (Series::new(2), Collected::default());
        series.hand_in(0, 3, &mut of(&[1, 2]), 7);
        series.hand_in(0, 7, &mut of(&[3]), 10);
        collected.collect(&series);
        assert!(collected.seconds.is_empty() && collected.intervals.is_empty());
        series.hand_in(0, 10, &mut of(&[10]), 20);
        series.hand_in(1, 3, &mut of(&[1000]), 20);
        collected.collect(&series);
        let intervals: Vec<u64> = collected.intervals.iter().map(|interval| interval.operations).collect();
        assert_eq!(intervals, [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 1]);
        let operations: Vec<u64> = collected.seconds.iter().map(|second| second.operations).collect();
        assert_eq!(operations, [4, 1]);
        assert_eq!(collected.seconds[0], Second { operations: 4, p50_ns: 2, p99_ns: 1000, max_ns: 1000 });
    }

    #[test]
    fn seconds_without_an_operation_are_there() {
        let (series, mut collected) = (Series::new(1), Collected::default());
        series.hand_in(0, 0, &mut of(&[1]), 44);
        series.end(0, 44, of(&[1, 1]));
        collected.collect(&series);
        assert_eq!((collected.intervals.len(), collected.too_long), (45, false));
        let operations: Vec<u64> = collected.seconds.iter().map(|second| second.operations).collect();
        assert_eq!(operations, [1, 0, 0, 0, 2]);
    }

    #[test]
    fn of_a_long_run_the_first_intervals_are_kept_and_all_seconds() {
        let (series, mut collected) = (Series::new(1), Collected::default());
        series.hand_in(0, 0, &mut of(&[1]), 600);
        series.end(0, 600, of(&[1, 1]));
        collected.collect(&series);
        assert_eq!((collected.intervals.len(), collected.too_long, collected.seconds.len()), (1, true, 61));
    }

    #[test]
    fn a_histogram_comes_back_empty() {
        let (series, mut collected) = (Series::new(1), Collected::default());
        let mut interval = of(&[5; 100]);
        series.hand_in(0, 0, &mut interval, 1);
        assert!(interval.is_empty());
        collected.collect(&series);
        assert_eq!(series.lock().spare.len(), 1);
        series.hand_in(0, 1, &mut of(&[7]), 2);
        assert_eq!(series.lock().spare.len(), 0);
        series.end(0, 2, interval);
        collected.collect(&series);
        assert_eq!(collected.seconds.iter().map(|second| second.operations).sum::<u64>(), 101);
    }

    #[test]
    fn a_latency_beyond_the_bounds_is_kept_as_the_longest() {
        let full = of(&[0, u64::MAX]);
        assert_eq!(full.len(), 2);
        assert!(full.max() >= LONGEST_NS);
    }
}
