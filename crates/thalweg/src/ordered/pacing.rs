//! [`Pacer`]: writers of a partition go slower the less room it has, so that they never have to stop (DESIGN 7).
//!
//! The room is looked at whenever it changes. Each thing that can run out has a *pressure*: 0 up to where it is as it
//! should be, 1 where writers would have to wait. And each has the rate, in bytes of memtables a second, at which the
//! background gives room back while it is busy with that. Writers may go at
//!
//! ```text
//! rate × 2 × (1 − pressure)
//! ```
//!
//! of the thing that allows least: faster than room is given back up to half of the way, slower beyond, and at the rate
//! itself in between, where it comes to rest. The nearer to the end the slower, so that the end is not reached while
//! the background gets anything done.
//!
//! A level that is too large needs no pressure of its own: what it holds up is level 0, whose length and rate show it.
//!
//! Every byte has its time: the writers share one schedule, in which each takes the place after the one before, and
//! sleeps until it is up if that is far enough ahead. Locks: `rates` is held for arithmetic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A shorter sleep costs more than it delays.
const SLEEP_MIN_NS: u64 = 200_000;

/// A longer sleep would be a stall; what is left is slept by those who come after.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// Writers are not slowed down below this: what stops them then is the thing itself, and that is counted.
const RATE_MIN: f64 = 1e6;

/// The part of a new measurement in a rate.
const NEWEST: f64 = 0.3;

const NS_A_SECOND: f64 = 1e9;

/// See the module.
#[derive(Default)]
pub(super) struct Pacer {
    /// Nanoseconds for a mebibyte of memtable; 0: as fast as they can.
    ns_per_mib: AtomicU64,
    /// Until when the writers so far have used the schedule up.
    until_ns: AtomicU64,
    rates: Mutex<Rates>,
}

#[derive(Default)]
struct Rates {
    /// Bytes of memtables a second that flushes write.
    flush: Option<f64>,
    /// Bytes of memtables that a byte of a table in level 0 was.
    expansion: f64,
    /// Bytes of memtables a second that leave level 0.
    level0: Option<f64>,
    /// Since when level 0 has had something to give.
    level0_busy_since_ns: Option<u64>,
}

/// How far what can run out has run out: 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressure {
    /// Sealed memtables, the log, and replaced tables: what flushes and rounds give back.
    pub(super) flush: f64,
    /// Tables in level 0.
    pub(super) level0: f64,
}

/// How far `amount` is on its way from `from` to `to`.
pub(super) fn pressure(amount: u64, from: u64, to: u64) -> f64 {
    let way = to.saturating_sub(from).max(1);
    (amount.saturating_sub(from) as f64 / way as f64).min(1.0)
}

impl Pacer {
    /// A flush of `bytes` of memtable, to `table_bytes`, took `ns`.
    pub(super) fn flushed(&self, bytes: u64, table_bytes: u64, ns: u64) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.flush = Some(mixed(rates.flush, bytes as f64, ns));
        rates.expansion = bytes as f64 / table_bytes.max(1) as f64;
    }

    /// Level 0 has tables to give, since now if not before.
    pub(super) fn level0_due(&self, now_ns: u64) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.level0_busy_since_ns.get_or_insert(now_ns);
    }

    /// Tables of `bytes` have left level 0, and it has more to give or not.
    pub(super) fn level0_gave(&self, now_ns: u64, bytes: u64, has_more: bool) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = rates.level0_busy_since_ns {
            // Not known before the first flush: tables that were there when the database was opened.
            let expansion = if rates.expansion > 0.0 { rates.expansion } else { 1.0 };
            rates.level0 = Some(mixed(rates.level0, bytes as f64 * expansion, now_ns.saturating_sub(since)));
        }
        rates.level0_busy_since_ns = has_more.then_some(now_ns);
    }

    /// The room has changed.
    pub(super) fn press(&self, pressure: Pressure) {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = |rate: Option<f64>, pressure: f64| {
            rate.filter(|_| pressure > 0.0).map(|rate| (rate * 2.0 * (1.0 - pressure)).max(RATE_MIN))
        };
        let (flush, level0) = (allowed(rates.flush, pressure.flush), allowed(rates.level0, pressure.level0));
        let least = flush.into_iter().chain(level0).min_by(f64::total_cmp);
        let ns_per_mib = least.map_or(0, |rate| (f64::from(1 << 20) / rate * NS_A_SECOND) as u64);
        self.ns_per_mib.store(ns_per_mib, Ordering::Relaxed);
    }

    /// How long a writer of `bytes` sleeps; `None`: not at all. `now_ns` is asked only if writers are slowed down.
    #[inline]
    pub(super) fn delay_ns(&self, bytes: usize, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        let ns_per_mib = self.ns_per_mib.load(Ordering::Relaxed);
        if ns_per_mib == 0 {
            return None;
        }
        let (now, cost) = (now_ns(), (bytes as u64).saturating_mul(ns_per_mib) >> 20);
        let mut end = 0;
        let _ = self.until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            end = until.max(now).saturating_add(cost);
            Some(end)
        });
        let wait = end - now;
        (wait >= SLEEP_MIN_NS).then_some(wait.min(SLEEP_MAX_NS))
    }
}

fn mixed(rate: Option<f64>, bytes: f64, ns: u64) -> f64 {
    let newest = bytes / ns.max(1) as f64 * NS_A_SECOND;
    rate.map_or(newest, |rate| rate * (1.0 - NEWEST) + newest * NEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn nobody_is_slowed_down_while_there_is_room_or_nothing_is_known() {
        let pacer = Pacer::default();
        pacer.press(Pressure { flush: 0.9, level0: 0.9 });
        assert_eq!(pacer.delay_ns(1 << 30, || 0), None);
        pacer.flushed(100 * MIB, 100 * MIB, SECOND);
        pacer.press(Pressure { flush: 0.0, level0: 0.9 });
        assert_eq!(pacer.delay_ns(1 << 30, || 0), None);
        pacer.press(Pressure { flush: 0.5, level0: 0.0 });
        assert_eq!(pacer.delay_ns(1 << 20, || 0), Some(SECOND / 100), "the rate itself, half of the way");
    }

    #[test]
    fn the_nearer_the_end_the_slower_and_never_faster_than_what_allows_least() {
        let pacer = Pacer::default();
        pacer.flushed(100 * MIB, 100 * MIB, SECOND);
        pacer.level0_due(SECOND);
        pacer.level0_due(2 * SECOND);
        pacer.level0_gave(3 * SECOND, 40 * MIB, true);
        let mut before = 0;
        for step in 1..10 {
            pacer.press(Pressure { flush: 0.1, level0: f64::from(step) / 10.0 });
            let ns = pacer.ns_per_mib.load(Ordering::Relaxed);
            assert!(ns > before);
            before = ns;
        }
        pacer.press(Pressure { flush: 0.1, level0: 0.5 });
        assert_eq!(pacer.ns_per_mib.load(Ordering::Relaxed), SECOND / 20, "20 MiB a second have left level 0");
        pacer.press(Pressure { flush: 0.1, level0: 1.0 });
        assert!(pacer.ns_per_mib.load(Ordering::Relaxed) < 2 * SECOND, "there is a least rate");
    }

    #[test]
    fn time_in_which_level_0_had_nothing_to_give_is_not_counted() {
        let pacer = Pacer::default();
        pacer.level0_due(SECOND);
        pacer.level0_gave(2 * SECOND, 10 * MIB, false);
        pacer.level0_due(100 * SECOND);
        pacer.level0_gave(101 * SECOND, 10 * MIB, false);
        pacer.level0_gave(200 * SECOND, 10 * MIB, false);
        pacer.press(Pressure { flush: 0.0, level0: 0.5 });
        assert_eq!(pacer.ns_per_mib.load(Ordering::Relaxed), SECOND / 10);
    }

    #[test]
    fn writers_take_turns_in_one_schedule_and_sleep_only_where_it_pays() {
        let pacer = Pacer::default();
        pacer.flushed(MIB, MIB, SECOND);
        pacer.press(Pressure { flush: 0.5, level0: 0.0 });
        // 100 bytes are about 95 µs.
        assert_eq!(pacer.delay_ns(100, || 0), None);
        assert_eq!(pacer.delay_ns(100, || 0), None);
        let third = pacer.delay_ns(100, || 0).unwrap();
        assert!((280_000..290_000).contains(&third), "{third}");
        assert_eq!(pacer.delay_ns(100, || third), None, "the schedule is not ahead of the clock any more");
        assert_eq!(pacer.delay_ns(1 << 30, || third), Some(SLEEP_MAX_NS));
        assert_eq!(pacer.delay_ns(1, || third), Some(SLEEP_MAX_NS), "what the one before did not sleep");
    }

    #[test]
    fn pressure_goes_from_0_to_1() {
        assert_eq!((pressure(3, 4, 8), pressure(4, 4, 8), pressure(9, 4, 8)), (0.0, 0.0, 1.0));
        assert_eq!(pressure(6, 4, 8), 0.5);
        assert_eq!((pressure(0, 5, 5), pressure(6, 5, 5)), (0.0, 1.0));
    }
}
