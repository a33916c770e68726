//! [`Operations`]: how often each operation was asked for, how often it failed, and how long it took.

use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Percentiles are within 1 %.
const DIGITS: u8 = 2;
/// The longest time in percentiles; longer operations count as this long.
const LONGEST_NS: u64 = 1000 * 1_000_000_000;
/// The percentiles that are reported.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

macro_rules! operations {
    ($($name:ident)*) => {
        /// An operation that the kernel asks for.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_camel_case_types)]
        pub(crate) enum Operation { $($name),* }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

operations! {
    lookup getattr setattr readlink mknod mkdir unlink rmdir symlink rename link open read write release fsync opendir
    readdir readdirplus fsyncdir statfs setxattr getxattr listxattr removexattr create fallocate lseek
}

/// Counts of all operations.
pub(crate) struct Operations {
    counts: [Count; NAMES.len()],
}

#[derive(Default)]
struct Count {
    asked: AtomicU64,
    failed: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
    /// 35 KB, made when the operation is asked for first. A thread holds the lock for some 20 ns of the 15 µs or more
    /// that an operation takes.
    latencies: OnceLock<Option<Mutex<Histogram<u64>>>>,
}

impl Count {
    fn latencies(&self) -> Option<&Mutex<Histogram<u64>>> {
        let made = || Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok().map(Mutex::new);
        self.latencies.get_or_init(made).as_ref()
    }

    /// The percentiles in microseconds.
    fn percentiles_us(&self) -> [f64; QUANTILES.len()] {
        let Some(latencies) = self.latencies() else { return [f64::NAN; QUANTILES.len()] };
        let latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
        QUANTILES.map(|quantile| latencies.value_at_quantile(quantile) as f64 / 1e3)
    }
}

/// An operation that began.
pub(crate) struct Begun {
    operation: Operation,
    at: Instant,
}

impl Begun {
    /// The operation.
    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }
}

impl Operations {
    pub(crate) fn new() -> Self {
        Operations { counts: std::array::from_fn(|_| Count::default()) }
    }

    pub(crate) fn begin(&self, operation: Operation) -> Begun {
        Begun { operation, at: Instant::now() }
    }

    /// Counts an operation right before its answer.
    pub(crate) fn end(&self, begun: &Begun, is_done: bool) {
        self.count(begun.operation, u64::try_from(begun.at.elapsed().as_nanos()).unwrap_or(u64::MAX), is_done);
    }

    fn count(&self, operation: Operation, ns: u64, is_done: bool) {
        let Some(count) = self.counts.get(operation as usize) else { return };
        count.asked.fetch_add(1, Ordering::Relaxed);
        count.failed.fetch_add(u64::from(!is_done), Ordering::Relaxed);
        count.total_ns.fetch_add(ns, Ordering::Relaxed);
        count.longest_ns.fetch_max(ns, Ordering::Relaxed);
        if let Some(latencies) = count.latencies() {
            latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(ns);
        }
    }

    /// A heading, and a line for each operation that was asked for: its name, how often, how often it failed, and the
    /// mean, percentiles and the longest time in microseconds.
    pub(crate) fn report(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:<12} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "operation", "asked", "failed", "mean us", "P50 us", "P99 us", "P99.9 us", "longest us"
        );
        for (name, count) in NAMES.iter().zip(&self.counts) {
            let asked = count.asked.load(Ordering::Relaxed);
            if asked > 0 {
                let mean = count.total_ns.load(Ordering::Relaxed) as f64 / asked as f64 / 1e3;
                let longest = count.longest_ns.load(Ordering::Relaxed) as f64 / 1e3;
                let failed = count.failed.load(Ordering::Relaxed);
                let [p50, p99, p999] = count.percentiles_us();
                let times = format!("{mean:>10.1} {p50:>10.1} {p99:>10.1} {p999:>10.1} {longest:>12.1}");
                let _ = writeln!(text, "{name:<12} {asked:>12} {failed:>10} {times}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_operation_within_a_percent() {
        let operations = Operations::new();
        // 1 to 1 000 µs, and one that took a minute: a thousandth of them takes longer than P99.9.
        for us in 1..=1000 {
            operations.count(Operation::create, us * 1000, us % 10 != 0);
        }
        operations.count(Operation::create, 60_000_000_000, true);
        operations.count(Operation::fsync, u64::MAX, true);
        let mut text = String::new();
        operations.report(&mut text);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((lines.len(), lines[1][0], lines[2][0]), (3, "fsync", "create"), "{text}");
        assert_eq!(lines[2][1..3], ["1001", "100"]);
        for (column, expected) in [(4, 501.0), (5, 991.0), (6, 1000.0)] {
            let found: f64 = lines[2][column].parse().unwrap_or(f64::NAN);
            assert!((found / expected - 1.0).abs() < 0.01, "column {column}: {found}, not {expected}\n{text}");
        }
        assert_eq!(lines[2][7], "60000000.0");
    }
}
