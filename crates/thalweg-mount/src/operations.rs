//! [`Operations`]: how often each operation was asked for, how often it failed, and how long it took.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
        let Some(count) = self.counts.get(begun.operation as usize) else { return };
        let ns = u64::try_from(begun.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        count.asked.fetch_add(1, Ordering::Relaxed);
        count.failed.fetch_add(u64::from(!is_done), Ordering::Relaxed);
        count.total_ns.fetch_add(ns, Ordering::Relaxed);
        count.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// A line for each operation that was asked for: its name, how often, how often it failed, and the mean and the
    /// longest time in microseconds.
    pub(crate) fn report(&self, text: &mut String) {
        for (name, count) in NAMES.iter().zip(&self.counts) {
            let asked = count.asked.load(Ordering::Relaxed);
            if asked > 0 {
                let mean_us = count.total_ns.load(Ordering::Relaxed) as f64 / asked as f64 / 1e3;
                let longest_us = count.longest_ns.load(Ordering::Relaxed) as f64 / 1e3;
                let failed = count.failed.load(Ordering::Relaxed);
                let _ = writeln!(text, "{name:<12} {asked:>12} {failed:>10} {mean_us:>12.1} {longest_us:>14.1}");
            }
        }
    }
}
