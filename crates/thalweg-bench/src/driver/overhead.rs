//! The cost of the instrument itself: a closed loop on an engine that does nothing.

use super::{Phase, run};
use crate::engine::{Null, Session};
use crate::error::Result;
use crate::plan::{Limit, Pace};
use crate::workload::{Class, Client, Outcome, Workload};

/// The number of runs of a few milliseconds each. A run is short enough that one of them keeps its processor to the end
/// on a busy machine, and long enough that the start of a thread does not count.
const RUNS: u32 = 40;
const OPERATIONS: u64 = 100_000;

/// Reads one key again and again.
struct Trivial;

impl Workload for Trivial {
    fn client(&self, _thread: usize, _threads: usize, _seed: u64) -> Box<dyn Client + '_> {
        Box::new(Trivial)
    }
}

impl Client for Trivial {
    fn prepare(&mut self) -> Option<Class> {
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let found = session.get(b"key", &mut |_| {})?;
        Ok(Outcome { operations: 1, missing: u64::from(!found), ..Outcome::default() })
    }
}

/// Measures the nanoseconds that the closed loop adds to an operation of client and engine: the best of many short runs
/// of one thread, in which client and engine do next to nothing.
///
/// # Errors
/// `Io` when no thread can be started.
pub fn overhead() -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let measured = run(&Phase {
            engine: &Null,
            workload: &Trivial,
            threads: 1,
            pace: Pace::Closed,
            limit: Limit { operations: Some(OPERATIONS), seconds: None },
            seed: 0,
            progress: &|_| {},
        })?;
        best = best.min(measured.seconds * 1e9 / measured.operations as f64);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instrument_costs_little() {
        let overhead = overhead().unwrap();
        // 150 in a release build on an idle machine; tests run in neither.
        assert!(overhead > 1.0 && overhead < 2000.0, "{overhead} ns an operation");
    }
}
