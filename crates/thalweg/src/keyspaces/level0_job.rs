//! [`Level0Job`]: what the compaction of level 0 that is under way means for the pressure on writers.
//!
//! Such a compaction takes many tables at once, and frees their room when it ends. If all tables counted until then,
//! writers would be slowed down at the end of each compaction, even if it takes more than they write meanwhile. So
//! tables that the job has had time for count as gone, and the pressure is that of the tables that will be left. But
//! all tables take up room until the job ends. So the room that is left is spread evenly over the time that the job
//! will still take. Pure.

use super::supply::{NS_A_SECOND, Supply};

/// Pressure begins after this part of the way from where level 0 is due to where pressure is full: a quarter.
const PRESS_FROM_PART: f64 = 4.0;

/// All tables count on this last part of that way, also those that count as gone: an eighth.
const NEAR_END_PART: f64 = 8.0;

/// A job is expected to take at least this part more of the time so far, or of its expected time if that is longer: a
/// half.
const LEFT_PART: f64 = 2.0;

/// This part of that way is left free: a fifth, within the two bounds below, which count tables. Writers have begun the
/// memtables of two of these tables. The others let writers go on while a device pauses and the job takes longer.
const LEFT_FREE_PART: f64 = 5.0;
const LEFT_FREE_MIN: f64 = 2.0;
const LEFT_FREE_MAX: f64 = 5.0;

/// Tables that flushes have written and that compactions have not merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionDebt {
    pub(crate) tables: usize,
    /// Compactions merge them from this many on.
    pub(crate) due_at: usize,
    /// Writers are slowed down more and more up to this many.
    pub(crate) press_to: usize,
    /// Writers wait at this many.
    pub(crate) stop_at: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Level0Job {
    /// Bytes of memtables that jobs take, while they run.
    supply: Supply,
    running: Option<Running>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    since_ns: u64,
    tables: usize,
    /// Bytes of the memtables that became its tables.
    bytes: f64,
}

/// See [`super::pacer::Pressure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level0Pressure {
    pub(super) pressure: f64,
    pub(super) rate_max: Option<f64>,
}

impl Level0Job {
    /// Notes that a job has begun. It takes `tables` tables, which flushes made of `bytes` of memtables.
    pub(super) fn begun(&mut self, now_ns: u64, tables: usize, bytes: f64) {
        self.supply.due(now_ns);
        self.running = Some(Running { since_ns: now_ns, tables, bytes });
    }

    /// Notes that the job pauses voluntarily for `ns`.
    pub(super) fn rested(&mut self, ns: u64) {
        if let Some(running) = &mut self.running {
            running.since_ns = running.since_ns.saturating_add(ns);
            self.supply.rested(ns);
        }
    }

    /// Notes that the job has taken its tables.
    pub(super) fn gave(&mut self, now_ns: u64) {
        if let Some(running) = self.running.take() {
            self.supply.gave(now_ns, running.bytes, false);
        }
    }

    /// Notes that the job has ended, successfully or not.
    pub(super) fn ended(&mut self) {
        if self.running.take().is_some() {
            self.supply.pass_over(0, false);
        }
    }

    /// The pressure of a level 0, with `sealed` memtables on their way there.
    pub(super) fn pressure(&self, now_ns: u64, debt: &CompactionDebt, sealed: u64) -> Level0Pressure {
        let (tables, due_at, press_to) = (debt.tables as f64, debt.due_at as f64, debt.press_to as f64);
        let way = (press_to - due_at).max(0.0);
        let from = |amount: f64, from: f64| ((amount - from) / (press_to - from).max(1.0)).clamp(0.0, 1.0);
        let (press_from, near_end) = (due_at + way / PRESS_FROM_PART, press_to - way / NEAR_END_PART);
        let Some((gone, left_ns)) = self.progress(now_ns).filter(|_| tables >= press_from) else {
            return Level0Pressure { pressure: from(tables, press_from), rate_max: None };
        };
        let pressure = from(tables - gone, press_from).max(from(tables + sealed as f64, near_end));
        let left_free = (way / LEFT_FREE_PART).clamp(LEFT_FREE_MIN, LEFT_FREE_MAX);
        let room = (press_to - left_free - tables - sealed as f64).max(0.0);
        let rate_max = self.running.map(|it| room * it.bytes / it.tables.max(1) as f64 / left_ns * NS_A_SECOND);
        Level0Pressure { pressure, rate_max }
    }

    /// How many tables count as gone, and how long the job will still take; `None` if nothing is known.
    fn progress(&self, now_ns: u64) -> Option<(f64, f64)> {
        let Running { since_ns, tables, bytes } = self.running?;
        let expected_ns = (bytes / self.supply.rate()? * NS_A_SECOND).max(1.0);
        let passed_ns = now_ns.saturating_sub(since_ns) as f64;
        let gone = tables as f64 * (passed_ns / expected_ns).min(1.0);
        Some((gone, (expected_ns - passed_ns).max(passed_ns.max(expected_ns) / LEFT_PART)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;
    const SECOND: u64 = 1_000_000_000;

    fn debt(tables: usize) -> CompactionDebt {
        CompactionDebt { tables, due_at: 16, press_to: 48, stop_at: 48 }
    }

    /// One that knows of a job that took 100 MiB in a second.
    fn known() -> Level0Job {
        let mut job = Level0Job::default();
        job.begun(SECOND, 20, 100.0 * MIB);
        job.gave(2 * SECOND);
        job
    }

    #[test]
    fn tables_that_a_compaction_has_had_time_for_do_not_press() {
        let mut job = known();
        let pressure = |job: &Level0Job, tables| job.pressure(2 * SECOND, &debt(tables), 0);
        assert_eq!(pressure(&job, 24), Level0Pressure { pressure: 0.0, rate_max: None });
        assert_eq!(pressure(&job, 36), Level0Pressure { pressure: 0.5, rate_max: None });
        // So many tables, which take a second. Nearly as many come meanwhile.
        job.begun(2 * SECOND, 30, 100.0 * MIB);
        let at = |part: u64| job.pressure((8 + part) * SECOND / 4, &debt(30 + 4 * part as usize), 0).pressure;
        assert_eq!((at(0), at(2), at(3)), (0.25, 0.0, 0.0));
        // The same tables press once it has failed.
        job.ended();
        assert!(pressure(&job, 42).pressure > 0.7);
    }

    #[test]
    fn as_much_may_come_as_there_is_room_for_until_it_ends() {
        let mut job = known();
        job.begun(2 * SECOND, 25, 100.0 * MIB);
        let rate = |now_ns: u64, tables: usize, sealed: u64| {
            job.pressure(now_ns, &debt(tables), sealed).rate_max.map(|rate| (rate / MIB * 1e6).round() / 1e6)
        };
        // A table has 4 MiB; there is room for 18 of them.
        assert_eq!(rate(2 * SECOND, 25, 0), Some(18.0 * 4.0));
        assert_eq!(rate(2 * SECOND, 25, 3), Some(15.0 * 4.0));
        assert_eq!(rate(5 * SECOND / 2, 38, 0), Some(5.0 * 4.0 * 2.0));
        assert_eq!(rate(2 * SECOND, 20, 0), None, "a short level 0 does not press");
        // It takes longer: the more, the slower.
        let late = [3, 4, 6].map(|seconds| rate(seconds * SECOND, 41, 0).unwrap());
        assert_eq!(late, [2.0 * 4.0 / 0.5, 2.0 * 4.0 / 1.0, 2.0 * 4.0 / 2.0]);
        assert_eq!(rate(8 * SECOND, 43, 0), Some(0.0));
        // Where the way is short, little of it is left free.
        let short = CompactionDebt { tables: 6, due_at: 4, press_to: 12, stop_at: 12 };
        assert_eq!(job.pressure(2 * SECOND, &short, 0).rate_max.map(|rate| rate / MIB), Some(4.0 * 4.0));
        assert_eq!(job.pressure(8 * SECOND, &debt(46), 2).pressure, 1.0);
    }
}
