//! [`Recorder`]: what one thread writes down about its operations.
//!
//! A recorder uses the thread's own memory. The only memory that another thread also reads is a counter on a cache line
//! of its own, which is read ten times a second for the progress.

use super::clock::now_ns;
use super::series::{Series, histogram};
use super::slots::{INTERVAL_SLOTS, SLOT_NS};
use crate::workload::{Class, Outcome};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations that a thread has done so far, on cache lines of its own (two: processors fetch pairs).
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Count(pub(super) AtomicU64);

/// The latencies and outcomes that one thread has seen so far, with the state of its current slot and interval.
pub(super) struct Recorder<'a> {
    log: Log,
    /// `None`: a background client, which has no part in intervals and stalls.
    timeline: Option<Timeline<'a>>,
}

/// The latencies and outcomes of one thread.
#[derive(Default)]
pub(super) struct Log {
    /// Latencies in nanoseconds by class, in the order of [`Class::ALL`].
    pub(super) latency: [Option<Histogram<u64>>; Class::ALL.len()],
    /// Operations.
    pub(super) operations: u64,
    /// Reads that found nothing.
    pub(super) missing: u64,
    /// Bytes given to the engine.
    pub(super) written_bytes: u64,
    /// Bytes that the engine returned.
    pub(super) read_bytes: u64,
    /// Operations completed in each slot.
    pub(super) slots: Vec<u32>,
    /// Page faults of the thread during its work.
    pub(super) faults: u64,
    /// When the thread completed its last operation, or ended without one.
    pub(super) ended_ns: u64,
    /// Whether the thread ended because time was up, and might have completed more.
    pub(super) timed_out: bool,
    /// Open loop: how late the thread began operations that it had slept for.
    pub(super) lateness: Option<Histogram<u64>>,
    /// Open loop: the intended start of the thread's last operation, and how much later it began.
    pub(super) behind: Option<(u64, u64)>,
}

struct Timeline<'a> {
    thread: usize,
    start_ns: u64,
    series: &'a Series,
    count: &'a Count,
    interval: u64,
    histogram: Histogram<u64>,
    slot_end_ns: u64,
    slot: u32,
}

impl<'a> Recorder<'a> {
    /// Of a background client.
    pub(super) fn background() -> Recorder<'a> {
        Recorder { log: Log::default(), timeline: None }
    }

    /// Of foreground thread `thread`, from `start_ns` on.
    pub(super) fn foreground(thread: usize, start_ns: u64, series: &'a Series, count: &'a Count) -> Recorder<'a> {
        let slot_end_ns = start_ns + SLOT_NS;
        let histogram = histogram();
        let timeline = Timeline { thread, start_ns, series, count, interval: 0, histogram, slot_end_ns, slot: 0 };
        Recorder { log: Log::default(), timeline: Some(timeline) }
    }

    /// Records that an operation (or several at once, each of which took `each_ns`) was completed at `end_ns`. An
    /// outcome of 0 operations adds only its bytes.
    #[inline]
    pub(super) fn record(&mut self, class: Class, outcome: Outcome, each_ns: u64, end_ns: u64) {
        let log = &mut self.log;
        log.missing += outcome.missing;
        log.written_bytes += outcome.written_bytes;
        log.read_bytes += outcome.read_bytes;
        log.ended_ns = end_ns;
        if outcome.operations == 0 {
            return;
        }
        log.operations += outcome.operations;
        let latency = log.latency[class as usize].get_or_insert_with(histogram);
        latency.saturating_record_n(each_ns, outcome.operations);
        if let Some(timeline) = &mut self.timeline {
            timeline.record(outcome.operations, each_ns, end_ns, &mut log.slots);
            timeline.count.0.store(log.operations, Ordering::Relaxed);
        }
    }

    /// Open loop: records that a worker slept for the operation that it is about to begin, and woke up `late_ns` late.
    pub(super) fn late(&mut self, late_ns: u64) {
        self.log.lateness.get_or_insert_with(histogram).saturating_record(late_ns);
    }

    /// Open loop: records that the operation of `intended_ns` began `behind_ns` later.
    pub(super) fn behind(&mut self, intended_ns: u64, behind_ns: u64) {
        self.log.behind = Some((intended_ns, behind_ns));
    }

    /// Records that time is up for this thread.
    pub(super) fn time_out(&mut self) {
        self.log.timed_out = true;
    }

    /// Ends the recording, and returns the log.
    pub(super) fn end(mut self) -> Log {
        if self.log.ended_ns == 0 {
            self.log.ended_ns = now_ns();
        }
        if let Some(timeline) = self.timeline {
            self.log.slots.push(timeline.slot);
            timeline.series.end(timeline.thread, timeline.interval, timeline.histogram);
        }
        self.log
    }
}

impl Timeline<'_> {
    #[inline]
    fn record(&mut self, operations: u64, each_ns: u64, end_ns: u64, slots: &mut Vec<u32>) {
        if end_ns >= self.slot_end_ns {
            self.advance(end_ns, slots);
        }
        self.slot = self.slot.saturating_add(u32::try_from(operations).unwrap_or(u32::MAX));
        self.histogram.saturating_record_n(each_ns, operations);
    }

    /// Closes the slot, and the interval if that is over too.
    #[cold]
    fn advance(&mut self, end_ns: u64, slots: &mut Vec<u32>) {
        let index = (end_ns - self.start_ns) / SLOT_NS;
        slots.push(std::mem::take(&mut self.slot));
        slots.resize(index as usize, 0);
        self.slot_end_ns = self.start_ns + (index + 1) * SLOT_NS;
        let interval = index / INTERVAL_SLOTS;
        if interval > self.interval {
            self.series.hand_in(self.thread, self.interval, &mut self.histogram, interval);
            self.interval = interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::series::Collected;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_class_has_the_place_that_reports_give_it() {
        for (place, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
    }

    #[test]
    fn an_operation_belongs_to_the_slot_and_the_second_in_which_it_completed() {
        let (series, count, start) = (Series::new(1), Count::default(), 77 * MS);
        let mut recorder = Recorder::foreground(0, start, &series, &count);
        let one = Outcome { operations: 1, ..Outcome::default() };
        recorder.record(Class::Get, one, 5, start);
        recorder.record(Class::Get, Outcome { operations: 3, ..one }, 6, start + 10 * MS - 1);
        recorder.record(Class::Insert, one, 7, start + 10 * MS);
        // A long one: it began in the first second, and counts in the third.
        recorder.record(Class::Get, one, 2040 * MS, start + 2050 * MS);
        recorder.record(Class::Get, Outcome::default(), 9, start + 2060 * MS);
        let log = recorder.end();
        let mut expected = vec![0; 206];
        (expected[0], expected[1], expected[205]) = (4, 1, 1);
        assert_eq!(log.slots, expected);
        let mut collected = Collected::default();
        collected.collect(&series);
        let operations: Vec<u64> = collected.seconds.iter().map(|second| second.operations).collect();
        assert_eq!(operations, [5, 0, 1]);
        assert_eq!(log.operations, 6);
        assert_eq!(count.0.into_inner(), 6);
        assert_eq!(log.latency[Class::Get as usize].as_ref().map(Histogram::len), Some(5));
        assert_eq!(log.ended_ns, start + 2060 * MS);
    }

    #[test]
    fn background_clients_have_no_part_in_slots() {
        let mut recorder = Recorder::background();
        recorder.record(Class::Update, Outcome { operations: 2, ..Outcome::default() }, 5, 100);
        let log = recorder.end();
        assert_eq!((log.operations, log.slots.len(), log.ended_ns), (2, 0, 100));
    }
}
