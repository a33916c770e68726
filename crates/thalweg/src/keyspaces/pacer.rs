//! [`Pacer`]: slows the writers of a buffer down as its room runs out, so that they never have to stop.
//!
//! The pacer computes a rate whenever the room changes. Each kind of room has a *pressure*: 0 while there is enough, 1
//! where writers would have to wait. Each also has the rate, in bytes of memtables a second, at which the background
//! makes such room. Writers may go at
//!
//! ```text
//! rate × 2 × (1 − pressure)
//! ```
//!
//! of the kind that allows least ([`super::level0_job`] has a bound of its own). If writers stop once that kind of room
//! is used up, they may go at a tenth of the rate at least. Below a pressure of one half writers are faster than room
//! is made, above it they are slower. At one half both are equal, and writers settle there. Writers hardly ever reach
//! the end while the background makes any room.
//!
//! A level that is too large has no pressure of its own: it delays the compactions of level 0, and the length and the
//! rate of level 0 show that.
//!
//! The writers share one schedule. Each takes the time after the writer before it, and sleeps until then if that is far
//! enough ahead. The schedule is at most a second ahead, and is reset once there is no pressure, so that no writer pays
//! long for a shortage that is over.
//!
//! Locks: `rates` is held for arithmetic.

use super::level0_job::{CompactionDebt, Level0Job, Level0Pressure};
use super::supply::{NS_A_SECOND, Supply};
use crate::metrics::PacingCause;
use crate::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};

/// A shorter sleep costs more than it delays.
const SLEEP_MIN_NS: u64 = 200_000;

/// A longer sleep would be a stall. Later writers sleep the rest. A writer of many bytes sleeps for as long as its
/// bytes take, and checks after each such time whether it still has to.
pub(super) const SLEEP_MAX_NS: u64 = 20_000_000;

/// The schedule is at most this far ahead.
const LEAD_MAX_NS: u64 = 1_000_000_000;

/// Writers that are slowed down compute the rate again after this time: settle rounds and other buffers make room, too.
const STALE_NS: u64 = 10_000_000;

/// Writers are never slowed down below this rate, in bytes a second. A stall stops them then, and is counted.
const RATE_MIN: f64 = 1e6;

/// Writers are also never slowed down below this part of the rate at which the background makes room, if they stop once
/// there is no room. If the room is only a few memtables, a single sealed one may be full pressure, and a flush removes
/// it within milliseconds.
const RATE_PART_MIN: f64 = 0.1;

/// See the module.
#[derive(Default)]
pub(crate) struct Pacer {
    /// Nanoseconds for a mebibyte of memtable; 0: writers are not slowed down.
    ns_per_mib: AtomicU64,
    /// When `ns_per_mib` was computed.
    pressed_ns: AtomicU64,
    /// The end of the schedule.
    until_ns: AtomicU64,
    rates: Mutex<Rates>,
}

#[derive(Clone, Default)]
struct Rates {
    /// Bytes of memtables that flushes write.
    flush: Supply,
    /// Bytes of memtables that leave level 0.
    compaction: Supply,
    /// Bytes of memtables for each byte of their tables.
    expansion: f64,
    level0_job: Level0Job,
    /// The kind of room that allows least.
    cause: PacingCause,
}

impl Rates {
    /// Returns how many bytes of memtables became `table_bytes` of tables.
    fn expanded(&self, table_bytes: u64) -> f64 {
        // Not known before the first flush: tables that were there when the database was opened.
        let expansion = if self.expansion > 0.0 { self.expansion } else { 1.0 };
        table_bytes as f64 * expansion
    }
}

/// How far each kind of room has run out: 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressure {
    /// The pressure of sealed memtables.
    pub(crate) flush: f64,
    /// The pressure of the log, whose room flushes give back, too.
    pub(crate) log: f64,
    /// The pressure of replaced tables, whose room settle rounds give back. Writers never stop for them, so they may
    /// become as slow as it takes.
    pub(crate) retained: f64,
    /// The pressure of tables in level 0.
    pub(crate) compaction: f64,
    /// The bytes a second for which level 0 has room until the compaction under way ends.
    pub(crate) compaction_rate_max: Option<f64>,
    /// The fast tier, and the bytes a second that evictions give back of it, if there were any.
    pub(crate) tier: f64,
    pub(crate) tier_rate: Option<f64>,
    /// Segments of the log that are prepared, and the bytes a second of those that are made.
    pub(crate) segments: f64,
    pub(crate) segment_rate: Option<f64>,
}

/// How far `amount` is on its way from `from` to `to`, 0 to 1.
pub(crate) fn pressure(amount: u64, from: u64, to: u64) -> f64 {
    let way = to.saturating_sub(from).max(1);
    (amount.saturating_sub(from) as f64 / way as f64).min(1.0)
}

/// The pressure of `sealed` memtables, where writers stop at `most`. If the active one is the last before that, it
/// counts by its share: writers get slower as it fills, so that a flush may take longer than usual before they stop. A
/// single sealed one is no sign of a slow flush, and writers that slow down for it leave the flush coroutine idle.
pub(crate) fn memtable_pressure(sealed: u64, most: u64, active_share: impl FnOnce() -> f64) -> f64 {
    let of_sealed = pressure(sealed, most.saturating_sub(2), most);
    let is_last = sealed > 1 && sealed + 1 == most;
    if is_last { of_sealed + (1.0 - of_sealed) * active_share() } else { of_sealed }
}

impl Pacer {
    /// Notes that a memtable waits for its flush.
    pub(crate) fn flush_due(&self, now_ns: u64) {
        self.rates().flush.due(now_ns);
    }

    /// Notes that a memtable of `bytes` became a table of `table_bytes`, and whether more wait.
    pub(crate) fn flushed(&self, now_ns: u64, bytes: u64, table_bytes: u64, has_more: bool) {
        let mut rates = self.rates();
        rates.flush.gave(now_ns, bytes as f64, has_more);
        rates.expansion = bytes as f64 / table_bytes.max(1) as f64;
    }

    /// Notes that a memtable that other partitions share was flushed. Its time is no measure for this buffer.
    pub(crate) fn flushed_in_part(&self, now_ns: u64, has_more: bool) {
        self.rates().flush.pass_over(now_ns, has_more);
    }

    /// Gives this pacer half of what `other` has measured, after a split: half of the writes went to each side.
    pub(crate) fn share_with(&self, other: &Pacer) {
        let mut theirs = other.rates();
        theirs.flush.bytes /= 2.0;
        theirs.compaction.bytes /= 2.0;
        *self.rates() = theirs.clone();
    }

    /// Notes that level 0 has tables to give, from now on if it had none before.
    pub(crate) fn compaction_due(&self, now_ns: u64) {
        self.rates().compaction.due(now_ns);
    }

    /// Notes that a compaction has begun. It takes `tables` tables of level 0, which have `bytes`.
    pub(crate) fn compaction_begun(&self, now_ns: u64, tables: usize, bytes: u64) {
        let mut rates = self.rates();
        rates.compaction.due(now_ns);
        let bytes = rates.expanded(bytes);
        rates.level0_job.begun(now_ns, tables, bytes);
    }

    /// Notes that the compaction of level 0 pauses voluntarily for `ns`: it could go faster, and does once writers
    /// wait.
    pub(crate) fn compaction_rested(&self, ns: u64) {
        let mut rates = self.rates();
        rates.compaction.rested(ns);
        rates.level0_job.rested(ns);
    }

    /// Notes that tables of `bytes` have left level 0, and whether it has more to give.
    pub(crate) fn compaction_gave(&self, now_ns: u64, bytes: u64, has_more: bool) {
        let mut rates = self.rates();
        let bytes = rates.expanded(bytes);
        rates.compaction.gave(now_ns, bytes, has_more);
        rates.level0_job.gave(now_ns);
    }

    /// Notes that the compaction of level 0 has ended, successfully or not.
    pub(crate) fn compaction_ended(&self) {
        self.rates().level0_job.ended();
    }

    /// The pressure of a level 0, with `sealed` memtables on their way there.
    pub(super) fn level0_pressure(&self, now_ns: u64, debt: &CompactionDebt, sealed: u64) -> Level0Pressure {
        self.rates().level0_job.pressure(now_ns, debt, sealed)
    }

    /// Whether writers are slowed down at present.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.ns_per_mib.load(Ordering::Relaxed) > 0
    }

    /// Whether it is time to look at the room again.
    pub(crate) fn is_stale(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.pressed_ns.load(Ordering::Relaxed)) >= STALE_NS
    }

    /// Computes the rate. Called when the room has changed.
    pub(crate) fn press(&self, now_ns: u64, pressure: Pressure) {
        self.pressed_ns.store(now_ns, Ordering::Relaxed);
        let least = {
            let mut rates = self.rates();
            let allowed_from = |part_min: f64, rate: Option<f64>, pressure: f64| {
                let rate = rate.filter(|_| pressure > 0.0)?;
                Some((rate * (2.0 * (1.0 - pressure)).max(part_min)).max(RATE_MIN))
            };
            let allowed = |rate, pressure| allowed_from(RATE_PART_MIN, rate, pressure);
            let flush = allowed(rates.flush.rate_at(now_ns), pressure.flush);
            let log = allowed(rates.flush.rate_at(now_ns), pressure.log);
            let retained = allowed_from(0.0, rates.flush.rate_at(now_ns), pressure.retained);
            let compaction = allowed(rates.compaction.rate_at(now_ns), pressure.compaction);
            let tier = allowed(pressure.tier_rate, pressure.tier);
            let segments = allowed(pressure.segment_rate, pressure.segments);
            let least = rates.compaction.rate_at(now_ns).map_or(RATE_MIN, |rate| (rate * RATE_PART_MIN).max(RATE_MIN));
            let room = pressure.compaction_rate_max.map(|rate| rate.max(least));
            let of_causes = [
                (flush, PacingCause::Memtables),
                (log, PacingCause::Log),
                (retained, PacingCause::Replaced),
                (compaction, PacingCause::Level0),
                (room, PacingCause::Level0),
                (tier, PacingCause::Tier),
                (segments, PacingCause::Segments),
            ];
            let known = of_causes.into_iter().filter_map(|(rate, cause)| Some((rate?, cause)));
            let least = known.min_by(|a, b| a.0.total_cmp(&b.0));
            rates.cause = least.map(|least| least.1).unwrap_or_default();
            least.map(|least| least.0)
        };
        let ns_per_mib = least.map_or(0, |rate| (f64::from(1 << 20) / rate * NS_A_SECOND) as u64);
        self.ns_per_mib.store(ns_per_mib, Ordering::Relaxed);
        if ns_per_mib == 0 {
            self.until_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Why writers are slowed down at present.
    pub(crate) fn cause(&self) -> PacingCause {
        self.rates().cause
    }

    /// How long a writer of `bytes` sleeps; `None`: not at all.
    pub(crate) fn delay_ns(&self, bytes: usize, now_ns: u64) -> Option<u64> {
        let cost = (bytes as u64).saturating_mul(self.ns_per_mib.load(Ordering::Relaxed)) >> 20;
        let mut end = now_ns;
        let _ = self.until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            end = until.max(now_ns).saturating_add(cost).min(now_ns.saturating_add(LEAD_MAX_NS));
            Some(end)
        });
        let wait = end - now_ns;
        (cost > 0 && wait >= SLEEP_MIN_NS).then_some(wait.min(SLEEP_MAX_NS.max(cost)))
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    /// A pacer that knows of a flush of `mib` MiB in one second.
    fn flushing(mib: u64) -> Pacer {
        let pacer = Pacer::default();
        pacer.flush_due(SECOND);
        pacer.flush_due(2 * SECOND);
        pacer.flushed(2 * SECOND, mib * MIB, mib * MIB, false);
        pacer
    }

    #[test]
    fn nobody_is_slowed_down_while_there_is_room_or_nothing_is_known() {
        let pacer = Pacer::default();
        pacer.press(0, Pressure { flush: 0.9, compaction: 0.9, ..Pressure::default() });
        assert_eq!(pacer.delay_ns(1 << 30, 0), None);
        let pacer = flushing(100);
        pacer.press(0, Pressure { flush: 0.0, compaction: 0.9, ..Pressure::default() });
        assert_eq!(pacer.delay_ns(1 << 30, 0), None);
        pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        assert_eq!(pacer.delay_ns(1 << 20, 0), Some(SECOND / 100), "the rate itself, half of the way");
    }

    #[test]
    fn the_last_memtable_counts_as_it_fills() {
        let with = |sealed, most| [0.0, 0.5, 1.0].map(|share| memtable_pressure(sealed, most, || share));
        assert_eq!([with(0, 3), with(1, 3), with(2, 3), with(3, 3)], [[0.0; 3], [0.0; 3], [0.5, 0.75, 1.0], [1.0; 3]]);
        assert_eq!([with(0, 1), with(1, 1), with(0, 2), with(1, 2)], [[0.0; 3], [1.0; 3], [0.0; 3], [0.5; 3]]);
    }

    #[test]
    fn writers_do_not_stop_while_a_flush_takes_twice_its_time() {
        // 64 MiB memtables that are flushed in 0.64 s; the flush of the first of two sealed ones takes 1.28 s.
        const MEMTABLE: u64 = 64 * MIB;
        let pacer = flushing(100);
        pacer.flush_due(10 * SECOND);
        let (mut now_ns, mut active) = (10 * SECOND, 0);
        while now_ns < 10 * SECOND + 1_280_000_000 {
            if pacer.is_stale(now_ns) {
                let flush = memtable_pressure(2, 3, || active as f64 / MEMTABLE as f64);
                pacer.press(now_ns, Pressure { flush, ..Pressure::default() });
            }
            active += 64 << 10;
            now_ns += pacer.delay_ns(64 << 10, now_ns).unwrap_or(0);
            assert!(active < MEMTABLE, "it is full after {} ms", (now_ns - 10 * SECOND) / 1_000_000);
        }
        assert!(active > MEMTABLE / 2, "only {active} bytes were written");
    }

    #[test]
    fn two_that_were_one_begin_with_half_of_its_rate_each() {
        let (left, right) = (flushing(100), Pacer::default());
        right.share_with(&left);
        for pacer in [left, right] {
            pacer.flush_due(SECOND);
            // Whatever was another partition's is passed over.
            pacer.flushed_in_part(900 * SECOND, false);
            pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
            assert_eq!(pacer.delay_ns(1 << 20, 0), Some(SECOND / 50));
        }
    }

    #[test]
    fn the_nearer_the_end_the_slower_and_never_faster_than_what_allows_least() {
        let pacer = flushing(100);
        pacer.compaction_due(SECOND);
        pacer.compaction_due(2 * SECOND);
        pacer.compaction_gave(3 * SECOND, 40 * MIB, true);
        let mut before = 0;
        for step in 1..10 {
            pacer.press(0, Pressure { flush: 0.1, compaction: f64::from(step) / 10.0, ..Pressure::default() });
            let ns = pacer.ns_per_mib.load(Ordering::Relaxed);
            assert!(ns > before);
            before = ns;
        }
        pacer.press(0, Pressure { flush: 0.1, compaction: 0.5, ..Pressure::default() });
        assert_eq!(pacer.ns_per_mib.load(Ordering::Relaxed), SECOND / 20, "20 MiB a second have left level 0");
        assert_eq!(pacer.cause(), PacingCause::Level0);
        for (cause, pressure) in [
            (PacingCause::Memtables, Pressure { flush: 0.9, compaction: 0.1, ..Pressure::default() }),
            (PacingCause::Log, Pressure { log: 0.9, flush: 0.8, ..Pressure::default() }),
            (PacingCause::Replaced, Pressure { retained: 0.99, flush: 0.9, ..Pressure::default() }),
            (PacingCause::Tier, Pressure { tier: 0.5, tier_rate: Some(1e6), flush: 0.9, ..Pressure::default() }),
            (PacingCause::Segments, Pressure { segments: 0.5, segment_rate: Some(1e6), ..Pressure::default() }),
        ] {
            pacer.press(0, pressure);
            assert_eq!(pacer.cause(), cause);
        }
        pacer.press(0, Pressure { flush: 0.1, compaction: 1.0, ..Pressure::default() });
        assert!(pacer.ns_per_mib.load(Ordering::Relaxed) < 2 * SECOND, "there is a least rate");
    }

    #[test]
    fn a_compaction_that_takes_long_slows_writers_down_before_it_ends() {
        let pacer = Pacer::default();
        pacer.compaction_due(SECOND);
        pacer.compaction_gave(2 * SECOND, 100 * MIB, true);
        // After one piece of work their mean is taken as 0.3 s: the weight of the next one.
        let ns_a_mib_at = |now_ns: u64| {
            pacer.press(now_ns, Pressure { compaction: 0.5, ..Pressure::default() });
            pacer.ns_per_mib.load(Ordering::Relaxed)
        };
        let usual = [2 * SECOND, 2 * SECOND + SECOND * 3 / 10].map(ns_a_mib_at);
        assert!(usual.iter().all(|ns| ns.abs_diff(SECOND / 100) < 10), "{usual:?}");
        let slow = ns_a_mib_at(4 * SECOND + SECOND * 3 / 10);
        assert!(slow.abs_diff(3 * SECOND / 100) < 10, "{slow}");
    }

    #[test]
    fn the_time_for_which_a_compaction_rests_by_its_own_will_is_not_counted() {
        let (rests, works) = (Pacer::default(), Pacer::default());
        for (pacer, rest_ns) in [(&rests, 8 * SECOND), (&works, 0)] {
            pacer.compaction_begun(SECOND, 10, 100 * MIB);
            pacer.compaction_rested(rest_ns);
            pacer.compaction_gave(2 * SECOND + rest_ns, 100 * MIB, true);
            pacer.compaction_begun(2 * SECOND + rest_ns, 30, 100 * MIB);
            pacer.compaction_rested(rest_ns);
        }
        let pressure = |pacer: &Pacer, now_ns| {
            let debt = CompactionDebt { tables: 40, due_at: 16, press_to: 48, stop_at: 48 };
            pacer.press(now_ns, Pressure { compaction: 0.5, ..Pressure::default() });
            (pacer.ns_per_mib.load(Ordering::Relaxed), pacer.level0_pressure(now_ns, &debt, 0))
        };
        assert_eq!(pressure(&rests, 18 * SECOND + SECOND / 4), pressure(&works, 2 * SECOND + SECOND / 4));
        assert_eq!(pressure(&works, 2 * SECOND + SECOND / 4).0, SECOND / 100);
    }

    #[test]
    fn time_in_which_level_0_had_nothing_to_give_is_not_counted() {
        let pacer = Pacer::default();
        pacer.compaction_due(SECOND);
        pacer.compaction_gave(2 * SECOND, 10 * MIB, false);
        pacer.compaction_due(100 * SECOND);
        pacer.compaction_gave(101 * SECOND, 10 * MIB, false);
        pacer.compaction_gave(200 * SECOND, 10 * MIB, false);
        pacer.press(0, Pressure { flush: 0.0, compaction: 0.5, ..Pressure::default() });
        assert_eq!(pacer.ns_per_mib.load(Ordering::Relaxed), SECOND / 10);
    }

    #[test]
    fn writers_take_turns_in_one_schedule_and_sleep_only_where_it_pays() {
        let pacer = flushing(1);
        pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        // 100 bytes are about 95 µs.
        assert_eq!(pacer.delay_ns(100, 0), None);
        assert_eq!(pacer.delay_ns(100, 0), None);
        let third = pacer.delay_ns(100, 0).unwrap();
        assert!((280_000..290_000).contains(&third), "{third}");
        assert_eq!(pacer.delay_ns(100, third), None, "the schedule is not ahead of the clock any more");
        // 50 000 bytes are about 48 ms: slept by who writes them.
        let large = pacer.delay_ns(50_000, third).unwrap();
        assert!((47_000_000..48_000_000).contains(&large), "{large}");
        assert_eq!(pacer.delay_ns(1, third), Some(SLEEP_MAX_NS), "a place after it");
    }

    #[test]
    fn the_schedule_is_never_far_ahead_and_forgotten_when_nothing_presses() {
        let pacer = flushing(1);
        pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        for _ in 0..100 {
            assert!(pacer.delay_ns(10 << 20, 0).unwrap() <= LEAD_MAX_NS);
        }
        assert_eq!(pacer.delay_ns(1, LEAD_MAX_NS), None, "a second later it is used up");
        pacer.delay_ns(10 << 20, 0);
        pacer.press(0, Pressure::default());
        pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        assert_eq!(pacer.delay_ns(1, 0), None);
    }

    #[test]
    fn small_gifts_tell_little() {
        let pacer = flushing(100);
        // Four flushes of next to nothing, each in a millisecond.
        for number in 0..4 {
            let since = 10 * SECOND + number * SECOND;
            pacer.flush_due(since);
            pacer.flushed(since + SECOND / 1000, 100, 100, false);
        }
        pacer.press(0, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        let ns = pacer.ns_per_mib.load(Ordering::Relaxed);
        assert!((SECOND / 100..SECOND / 95).contains(&ns), "{ns}");
    }

    #[test]
    fn what_slows_writers_down_is_looked_at_again() {
        let pacer = flushing(1);
        pacer.press(SECOND, Pressure { flush: 0.5, compaction: 0.0, ..Pressure::default() });
        assert!(pacer.is_pressed() && !pacer.is_stale(SECOND + STALE_NS - 1) && pacer.is_stale(SECOND + STALE_NS));
        pacer.press(2 * SECOND, Pressure::default());
        assert!(!pacer.is_pressed() && !pacer.is_stale(2 * SECOND));
    }

    #[test]
    fn pressure_goes_from_0_to_1() {
        assert_eq!((pressure(3, 4, 8), pressure(4, 4, 8), pressure(9, 4, 8)), (0.0, 0.0, 1.0));
        assert_eq!(pressure(6, 4, 8), 0.5);
        assert_eq!((pressure(0, 5, 5), pressure(6, 5, 5)), (0.0, 1.0));
    }
}
