//! [`Clock`]: the time that inodes get.

use crate::row::Time;
use rustix::fs::{MemfdFlags, Timespec, Timestamps, UTIME_NOW, fstat, futimens, memfd_create};
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of time. A simulator has its own.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
    }
}

/// The clock by which the kernel stamps files. Of a stamp of the kernel's and a time of this clock, the one that was
/// taken later is never smaller. `make` compares such times.
///
/// The kernel's stamps lag up to a tick (10 ms) behind the system's clock. They are finer only for a file whose
/// previous stamp was read. So this clock has the kernel stamp a file in memory, and reads the stamp: about 1 µs.
#[derive(Debug)]
pub struct KernelClock {
    /// The stamped file. `None` where the kernel gives no such file: this is then the system's clock.
    stamped: Option<OwnedFd>,
}

impl KernelClock {
    /// Makes the file.
    pub fn new() -> Self {
        KernelClock { stamped: memfd_create("thalweg-clock", MemfdFlags::CLOEXEC).ok() }
    }

    fn stamp(&self) -> Option<Time> {
        let file = self.stamped.as_ref()?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        futimens(file, &Timestamps { last_access: now, last_modification: now }).ok()?;
        let stat = fstat(file).ok()?;
        Some(Time { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec.try_into().ok()? })
    }
}

impl Default for KernelClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for KernelClock {
    fn now(&self) -> Time {
        self.stamp().unwrap_or_else(|| SystemClock.now())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn stamps_of_the_kernel_and_of_its_clock_have_one_order() {
        let clock = KernelClock::new();
        let file = tempfile::tempfile().unwrap();
        let written = || {
            file.write_all_at(b"x", 0).unwrap();
            let metadata = file.metadata().unwrap();
            (metadata.mtime(), metadata.mtime_nsec())
        };
        let told = || {
            let time = clock.now();
            (time.seconds, i64::from(time.nanoseconds))
        };
        let mut before = told();
        for _ in 0..2000 {
            let at_write = written();
            let after = told();
            assert!(before <= at_write && at_write <= after, "{before:?} {at_write:?} {after:?}");
            before = after;
        }
    }

    #[test]
    fn it_is_the_systems_clock_but_for_a_tick() {
        for clock in [KernelClock::new(), KernelClock { stamped: None }] {
            let (system, kernel) = (SystemClock.now(), clock.now());
            let ns = |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
            assert!((ns(system) - ns(kernel)).abs() < 1_000_000_000, "{system:?} {kernel:?}");
        }
    }
}
