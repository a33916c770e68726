//! [`Phase`]: one run of one workload; and [`Progress`], how far it is.

use crate::engine::Engine;
use crate::plan::{Limit, Pace};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// One run of one workload, in a closed or open loop.
pub struct Phase<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// The workload of the phase.
    pub workload: &'a dyn Workload,
    /// Threads of a closed loop, workers of an open one.
    pub threads: usize,
    /// Closed, or open at a rate; `search` and the caller reduce the other paces to these.
    pub pace: Pace,
    /// When the phase ends.
    pub limit: Limit,
    /// Seed of all that is random.
    pub seed: u64,
    /// Called about ten times a second with the progress.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// How far a phase is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Seconds since its start.
    pub seconds: f64,
    /// Operations done.
    pub operations: u64,
    /// Operations a second, over the last second or so.
    pub rate: f64,
    /// P99 of the last full second, in nanoseconds, all classes together.
    pub p99_ns: u64,
    /// The completed share of the phase, 0 to 1.
    pub share: f64,
}
