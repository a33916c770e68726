//! Runs a workload on an engine and times it.
//!
//! `crew` starts and ends the threads; `closed` and `open` are what they do; each writes down what it sees in a
//! `recorder`; `measured` puts these together. `search` finds the rate that an engine sustains, `overhead` what all
//! this costs.
//!
//! Latencies are in nanoseconds, with 3 significant digits, from 1 ns to ten minutes; what took longer counts as that.

mod arrivals;
mod claims;
mod clock;
mod closed;
mod crew;
mod measured;
mod open;
mod overhead;
mod recorder;
mod search;
mod series;
mod slots;
#[cfg(test)]
mod tests;

pub use overhead::overhead;
pub use search::{Found, search};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::plan::{Limit, Pace};
use crate::report::{Second, StallPeriod, Stalls};
use crate::workload::{Class, Workload};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One workload to be run once, closed or open loop.
pub struct Phase<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// What is done.
    pub workload: &'a dyn Workload,
    /// Threads of a closed loop, workers of an open one.
    pub threads: usize,
    /// Closed, or open at a rate; the other paces are made of these by `search` and the caller.
    pub pace: Pace,
    /// When it ends.
    pub limit: Limit,
    /// Seed of all that is random.
    pub seed: u64,
    /// Told about ten times a second how far it is.
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
    /// 0 to 1.
    pub share: f64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Seconds from the first start to the last end.
    pub seconds: f64,
    /// Operations of the asked-for clients.
    pub operations: u64,
    /// Reads that found nothing.
    pub missing: u64,
    /// Operations of background clients.
    pub background_operations: u64,
    /// Bytes given to the engine by all clients.
    pub written_bytes: u64,
    /// Bytes it gave.
    pub read_bytes: u64,
    /// Page faults of the threads of all clients.
    pub client_faults: u64,
    /// Latencies in nanoseconds, of all clients; in an open loop those of the asked-for clients count from the intended
    /// start. Operations done at once in a closed loop have each their part of the time.
    pub latency: BTreeMap<Class, Histogram<u64>>,
    /// Open loop: how late a waiting worker began an operation, in nanoseconds: what the instrument adds.
    pub lateness: Option<Histogram<u64>>,
    /// Open loop: how far behind the last operation's start was, in nanoseconds.
    pub behind_ns: u64,
    /// Open loop: arrivals that were never executed, because the backlog was given up: twice the seconds of the
    /// arrivals and 5 more after the start.
    pub abandoned: u64,
    /// Open loop: operations that were completed after the end of the arrivals (to 10 ms).
    pub overdue: u64,
    /// Each second of the run.
    pub series: Vec<Second>,
    /// Each 100 ms of it; empty when it took more than 30 s.
    pub intervals: Vec<Second>,
    /// Periods in which nothing was completed.
    pub stalls: Stalls,
    /// When these were: the longest of them, in order of time.
    pub stall_periods: Vec<StallPeriod>,
}

/// Runs the phase to its end.
///
/// # Errors
/// The first error of an engine; the other clients then stop. `Usage` for a pace other than closed and open, a rate
/// that cannot be offered, or no threads.
///
/// # Panics
/// With the panic of a client.
pub fn run(phase: &Phase<'_>) -> Result<Measured> {
    if phase.threads == 0 {
        return Err(Error::Usage("a workload needs a thread".into()));
    }
    match phase.pace {
        Pace::Closed => closed::run(phase),
        Pace::Open { rate, arrival, percent: _ } => open::run(phase, rate, arrival, open::PATIENCE),
        pace @ (Pace::Search { .. } | Pace::OfSustained { .. }) => {
            Err(Error::Usage(format!("{pace:?} is no pace of a single run")))
        }
    }
}
