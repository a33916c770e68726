//! Runs a workload on an engine and times it.
//!
//! Latencies are in nanoseconds, with 3 significant digits, from 1 ns to ten minutes; longer ones count as ten minutes.
//!
//! - `phase`: one workload to run once, and its progress
//! - `clock`: the clock, and precise sleep
//! - `thread_team`: the threads of a phase
//! - `closed`, with `claims`: the closed loop, and how its operations are distributed
//! - `open`, with `arrivals`: the open loop, and its schedule
//! - `recorder`: what a thread records, with `series` (each second) and `slots` (stalls)
//! - `measured`: the result, from all recorders
//! - `search`: the rate that an engine sustains
//! - `overhead`: what the instrument costs

mod arrivals;
mod claims;
mod clock;
mod closed;
mod measured;
mod open;
mod overhead;
mod phase;
mod recorder;
mod search;
mod series;
mod slots;
#[cfg(test)]
mod tests;
mod thread_team;

pub use arrivals::RATE_MAX;
pub use measured::Measured;
pub use overhead::overhead;
pub use phase::{Phase, Progress};
pub use search::{Found, search};

use crate::error::{Error, Result};
use crate::plan::Pace;

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
