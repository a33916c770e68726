//! [`Measured`]: the measurements of a phase, from the logs of all threads.

use super::clock::SECOND_NS;
use super::recorder::Log;
use super::series::{add, histogram};
use super::slots::{SLOT_NS, merge, periods, stalls};
use super::thread_team::Logs;
use crate::report::{Second, StallPeriod, Stalls};
use crate::workload::Class;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The measurements of a phase.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Seconds from the first start to the last end.
    pub seconds: f64,
    /// Operations of the foreground clients.
    pub operations: u64,
    /// Reads that found nothing.
    pub missing: u64,
    /// Operations of background clients.
    pub background_operations: u64,
    /// Bytes given to the engine by all clients.
    pub written_bytes: u64,
    /// Bytes that the engine returned.
    pub read_bytes: u64,
    /// Page faults of the threads of all clients.
    pub client_faults: u64,
    /// Latencies in nanoseconds, of all clients. Those of foreground clients in an open loop count from the intended
    /// start. Each of several operations done at once in a closed loop has its part of the time.
    pub latency: BTreeMap<Class, Histogram<u64>>,
    /// Open loop: how late waiting workers began operations, in nanoseconds. The instrument adds this time.
    pub lateness: Option<Histogram<u64>>,
    /// Open loop: how late the last operation started, in nanoseconds.
    pub behind_ns: u64,
    /// Open loop: arrivals that were never executed, because the workers gave up the backlog. They give it up when
    /// twice the seconds of the arrivals plus 5 s have passed since the start.
    pub abandoned: u64,
    /// Open loop: operations that were completed after the end of the arrivals (to 10 ms).
    pub overdue: u64,
    /// Each second of the run.
    pub series: Vec<Second>,
    /// Each 100 ms of the run; empty for a run of more than 30 s.
    pub intervals: Vec<Second>,
    /// Periods in which nothing was completed.
    pub stalls: Stalls,
    /// The longest stalls, in order of time.
    pub stall_periods: Vec<StallPeriod>,
}

/// Collects the measurements that every loop makes.
pub(super) fn of(logs: Logs) -> Measured {
    let ended_ns = logs.foreground.iter().map(|log| log.ended_ns).max().unwrap_or(logs.start_ns);
    let ran_ns = ended_ns.saturating_sub(logs.start_ns);
    let watched = watched(&logs, ran_ns);
    let mut measured = Measured {
        seconds: ran_ns as f64 / SECOND_NS as f64,
        stalls: stalls(&watched),
        stall_periods: periods(&watched),
        operations: logs.foreground.iter().map(|log| log.operations).sum(),
        background_operations: logs.background.iter().map(|log| log.operations).sum(),
        series: logs.series,
        intervals: logs.intervals,
        ..Measured::default()
    };
    for log in logs.foreground.into_iter().chain(logs.background) {
        measured.missing += log.missing;
        measured.written_bytes += log.written_bytes;
        measured.read_bytes += log.read_bytes;
        measured.client_faults += log.faults;
        for (class, latency) in Class::ALL.into_iter().zip(log.latency) {
            let Some(latency) = latency else { continue };
            add(measured.latency.entry(class).or_insert_with(histogram), &latency);
        }
    }
    measured
}

/// The slots from the start to the end of the run. If time was up for some threads, the slots end when the first of
/// them ended: while another thread is still in a long operation, no thread is left that could complete anything.
fn watched(logs: &Logs, ran_ns: u64) -> Vec<u64> {
    let mut slots = merge(logs.foreground.iter().map(|log| log.slots.as_slice()));
    let out = logs.foreground.iter().filter(|log| log.timed_out).map(|log| log.ended_ns - logs.start_ns).min();
    slots.resize((out.unwrap_or(ran_ns) / SLOT_NS) as usize + 1, 0);
    slots
}

/// Open loop: how late the workers of all threads began operations that they had slept for.
pub(super) fn lateness(logs: &Logs) -> Histogram<u64> {
    let mut sum = histogram();
    logs.foreground.iter().filter_map(|log| log.lateness.as_ref()).for_each(|lateness| add(&mut sum, lateness));
    sum
}

/// Open loop: how late the last of all operations started.
pub(super) fn behind_ns(logs: &Logs) -> u64 {
    logs.foreground.iter().filter_map(|log: &Log| log.behind).max().map_or(0, |(_, behind_ns)| behind_ns)
}

/// Operations completed later than `nanoseconds` after the start (to 10 ms).
pub(super) fn completed_after(logs: &Logs, nanoseconds: u64) -> u64 {
    let slots = merge(logs.foreground.iter().map(|log| log.slots.as_slice()));
    slots.iter().skip(nanoseconds.div_ceil(SLOT_NS) as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: u64 = SLOT_NS;

    /// A thread that completed one operation in each of these slots.
    fn log(slots: &[usize], timed_out: bool) -> Log {
        let last = slots.iter().max().copied().unwrap_or(0);
        let mut log = Log { slots: vec![0; last + 1], timed_out, operations: slots.len() as u64, ..Log::default() };
        slots.iter().for_each(|&slot| log.slots[slot] = 1);
        log.ended_ns = 1000 + last as u64 * SLOT + 1;
        log
    }

    fn logs(foreground: Vec<Log>) -> Logs {
        Logs { start_ns: 1000, foreground, background: Vec::new(), series: Vec::new(), intervals: Vec::new() }
    }

    #[test]
    fn one_that_is_late_home_when_time_is_up_stalls_nobody() {
        let steady: Vec<usize> = (0..=30).collect();
        let late = |timed_out| logs(vec![log(&steady, timed_out), log(&[2, 60], timed_out)]);
        let measured = of(late(true));
        assert_eq!((measured.stalls.count, measured.stalls.longest_ms), (0, 0));
        assert!((measured.seconds - 0.6).abs() < 1e-6);
        // If the first thread ran out of work, the second is the only one to watch.
        let measured = of(late(false));
        assert_eq!((measured.stalls.count, measured.stalls.longest_ms), (1, 290));
    }

    #[test]
    fn all_that_are_stuck_when_time_is_up_are_a_stall() {
        let measured = of(logs(vec![log(&[0, 60], true), log(&[1, 61], true)]));
        assert_eq!((measured.stalls.count, measured.stalls.longest_ms), (1, 580));
    }

    #[test]
    fn the_last_to_begin_tells_how_far_behind_it_was() {
        let behind = |behind| Log { behind, ..Log::default() };
        let logs = logs(vec![behind(Some((500, 9_000))), behind(Some((900, 40))), behind(None)]);
        assert_eq!(behind_ns(&logs), 40);
    }

    #[test]
    fn what_was_completed_after_a_time_is_counted() {
        let logs = logs(vec![log(&[0, 9, 10, 11], false), log(&[3, 12], false)]);
        assert_eq!(completed_after(&logs, 10 * SLOT), 3);
        assert_eq!(completed_after(&logs, u64::MAX), 0);
    }
}
