//! The clock of all measurements, and precise sleep by this clock.
//!
//! All threads use one clock (VLSM-11): `CLOCK_MONOTONIC`, in nanoseconds since the machine started. No thread spins: a
//! waiting thread leaves its processor to the engine.

use crate::error::{Error, Result};
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds of a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// How often a sleeping thread checks `stop`.
const SLICE_NS: u64 = SECOND_NS / 10;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The time had already passed, and the thread did not sleep. Holds the time after the wait.
    Past(u64),
    /// The thread slept. Holds the time after the wait.
    Slept(u64),
    /// All threads must stop.
    Stopped,
}

/// The current time.
#[inline]
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// `seconds` in nanoseconds; at most `u64::MAX`, at least 0.
pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND_NS as f64) as u64
}

/// Makes the kernel wake this thread on time, and not up to 50 µs later.
///
/// # Errors
/// The kernel's.
pub(super) fn sharpen() -> Result<()> {
    set_current_timer_slack(Some(NonZeroU64::MIN)).map_err(|error| Error::io("set the timer slack", error.into()))
}

/// Sleeps until `time_ns`, or until `stop` is seen (within a tenth of a second).
///
/// # Errors
/// The kernel's.
pub(super) fn sleep_until(time_ns: u64, stop: &AtomicBool) -> Result<Wait> {
    let mut slept = false;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(Wait::Stopped);
        }
        let now = now_ns();
        if now >= time_ns {
            return Ok(if slept { Wait::Slept(now) } else { Wait::Past(now) });
        }
        let wake = time_ns.min(now + SLICE_NS);
        let request = Timespec { tv_sec: (wake / SECOND_NS) as i64, tv_nsec: (wake % SECOND_NS) as i64 };
        match clock_nanosleep_absolute(ClockId::Monotonic, &request) {
            Ok(()) | Err(Errno::INTR) => slept = true,
            Err(error) => return Err(Error::io("sleep", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_after_its_time() {
        sharpen().unwrap();
        let stop = AtomicBool::new(false);
        let time = now_ns() + 5_000_000;
        let Wait::Slept(end) = sleep_until(time, &stop).unwrap() else { panic!("no sleep") };
        assert!(end >= time);
        assert!(matches!(sleep_until(time, &stop).unwrap(), Wait::Past(now) if now >= end));
    }

    #[test]
    fn a_sleeper_stops_when_told() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_until(now_ns() + 100 * SECOND_NS, &stop).unwrap());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(sleeper.join().unwrap(), Wait::Stopped);
        });
    }
}
