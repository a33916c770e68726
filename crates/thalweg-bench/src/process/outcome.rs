//! [`Outcome`]: the measurements and the usage of a step; it becomes a [`Run`] of the report.

use super::Task;
use crate::driver::Measured;
use crate::plan::{Pace, Step};
use crate::report::{Latency, Run, Sample, Usage};
use std::collections::BTreeMap;

/// The outcome and the cost of a step, or of an attempt at it.
pub struct Outcome<'a> {
    /// The step.
    pub step: &'a Step,
    /// How the operations followed each other; for a percentage, the resulting rate.
    pub pace: Pace,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The measurements of the driver.
    pub measured: Measured,
    /// The cost until the end of the last operation.
    pub usage: Usage,
    /// The cost until the database was drained, if it was.
    pub drained: Option<Usage>,
    /// Seconds that the draining took.
    pub drain_seconds: Option<f64>,
    /// Bytes on disk afterwards, by kind of file.
    pub space_by_kind: BTreeMap<String, u64>,
    /// Those of these bytes that belong to replaced tables.
    pub replaced_bytes: Option<u64>,
    /// Memory and I/O during the run.
    pub samples: Vec<Sample>,
    /// Whether other processes disturbed the run.
    pub noisy: bool,
}

impl Outcome<'_> {
    /// The run for the report.
    pub fn into_run(self, task: &Task) -> Run {
        let Outcome { step, measured, .. } = self;
        let seconds = measured.seconds;
        Run {
            engine: task.engine.clone(),
            round: task.round,
            attempt: self.attempt,
            workload: step.workload.name.to_owned(),
            preparation: step.preparation,
            pace: self.pace,
            limit: step.limit,
            threads: task.parameters.threads,
            records: step.records,
            seconds,
            operations: measured.operations,
            // JSON has no infinity.
            operations_per_second: if seconds > 0.0 { measured.operations as f64 / seconds } else { 0.0 },
            missing: measured.missing,
            background_operations: measured.background_operations,
            user_written_bytes: measured.written_bytes,
            user_read_bytes: measured.read_bytes,
            client_faults: measured.client_faults,
            latency: measured.latency.iter().map(|(class, latency)| (*class, Latency::of(latency))).collect(),
            lateness: measured.lateness.as_ref().map(Latency::of),
            behind_ns: measured.behind_ns,
            abandoned: measured.abandoned,
            series: measured.series,
            intervals: measured.intervals,
            stalls: measured.stalls,
            stall_periods: measured.stall_periods,
            samples: self.samples,
            noisy: self.noisy,
            usage: self.usage,
            drained: self.drained,
            drain_seconds: self.drain_seconds,
            space_bytes: self.space_by_kind.values().sum(),
            space_by_kind: self.space_by_kind,
            replaced_bytes: self.replaced_bytes,
        }
    }
}
