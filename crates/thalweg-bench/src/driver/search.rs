//! [`search`]: the highest rate that an engine sustains.
//!
//! VLSM-11 profiles each engine before it measures at up to 95 % of the rate that the engine sustains. Here a closed
//! loop gives the upper bound: no open loop with as many workers can do more. Open-loop probes then close in on the
//! sustained rate. The first probe is a little below the bound, where most engines end up. Later ones are halfway
//! between the highest rate that was sustained and the lowest that was not.

use super::Measured;
use super::arrivals::RATE_MAX;
use crate::error::{Error, Result};
use crate::parameters::Arrival;
use crate::plan::{Limit, Pace};

/// The first probe, as a share of the closed loop's rate.
const FIRST: f64 = 0.9;
/// The factor to the next probe while the engine keeps up.
const RAISE: f64 = 1.2;
/// The search ends when the lowest rate that was not sustained is within this share of the highest that was.
const RESOLUTION: f64 = 0.03;
const PROBES_MAX: usize = 10;
/// The greatest share of the arrivals that may be completed after the end of the probe.
const OVERDUE_MAX: f64 = 0.01;
/// The last operation may start late by less than this many nanoseconds, however long the probe is: an engine that
/// falls behind by 1 % of the time does not sustain the rate.
const BEHIND_NS: u64 = 100_000_000;

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Operations a second that the engine kept up with.
    pub rate: f64,
    /// Operations a second of the closed loop.
    pub closed: f64,
    /// Each probe: operations a second, and whether it kept up.
    pub probes: Vec<(f64, bool)>,
}

/// Finds the highest rate at which the engine keeps up with operations of this `arrival`, to about 3 %, in at most ten
/// probes of `probe_seconds` and a closed loop as long. `measure` runs the workload at a pace up to a limit. It should
/// not let the engine settle before: the rate of an engine while it defers work is not a rate that it sustains.
///
/// An engine keeps up with a probe when no arrival is abandoned, at least 99 % of the arrivals are completed within
/// the probe, and the last operation began less than 100 ms late. So a probe should be a hundred times longer than an
/// ordinary operation.
///
/// # Errors
/// Those of `measure`; `Said` when nothing was done in the closed loop, or the engine kept up with no rate.
pub fn search(
    arrival: Arrival,
    probe_seconds: f64,
    mut measure: impl FnMut(Pace, Limit) -> Result<Measured>,
) -> Result<Found> {
    let limit = Limit { operations: None, seconds: Some(probe_seconds) };
    let measured = measure(Pace::Closed, limit)?;
    if measured.operations == 0 || measured.seconds <= 0.0 {
        return Err(Error::Said("the search for the sustained rate: nothing was done in the closed loop".into()));
    }
    let closed = measured.operations as f64 / measured.seconds;
    let (mut kept, mut missed, mut rate) = (0.0, f64::INFINITY, (closed * FIRST).min(RATE_MAX));
    let mut probes = Vec::new();
    // An engine that keeps up with the greatest rate sustains at least this rate; the search then ends.
    let searching =
        |kept: f64, missed: f64| kept < RATE_MAX && (missed.is_infinite() || missed - kept > RESOLUTION * missed);
    while probes.len() < PROBES_MAX && searching(kept, missed) {
        let measured = measure(Pace::Open { rate, arrival, percent: None }, limit)?;
        let keeps_up = keeps_up(&measured);
        *(if keeps_up { &mut kept } else { &mut missed }) = rate;
        probes.push((rate, keeps_up));
        // The rate of the closed loop is a first guess and no bound: other processes may have disturbed it.
        rate = if missed.is_infinite() { (kept * RAISE).min(RATE_MAX) } else { (kept + missed) / 2.0 };
    }
    if kept == 0.0 {
        let lowest = missed.round();
        return Err(Error::Said(format!("the search for the sustained rate: not even {lowest} operations a second")));
    }
    Ok(Found { rate: kept, closed, probes })
}

fn keeps_up(measured: &Measured) -> bool {
    let arrivals = measured.operations + measured.abandoned;
    measured.abandoned == 0
        && measured.overdue as f64 <= arrivals as f64 * OVERDUE_MAX
        && measured.behind_ns < BEHIND_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that does `capacity` operations a second and no more; `closed` in a closed loop.
    fn simulate(capacity: f64, closed: f64) -> impl FnMut(Pace, Limit) -> Result<Measured> {
        move |pace, limit| {
            let seconds = limit.seconds.unwrap();
            let (operations, took) = match pace {
                Pace::Open { rate, .. } => (rate * seconds, seconds.max(rate * seconds / capacity)),
                _ => (closed * seconds, seconds),
            };
            Ok(Measured {
                seconds: took,
                operations: operations as u64,
                overdue: (operations * (1.0 - seconds / took)) as u64,
                behind_ns: ((took - seconds) * 1e9) as u64,
                ..Measured::default()
            })
        }
    }

    #[test]
    fn finds_what_an_engine_can_do() {
        for (capacity, closed) in
            [(50_000.0, 50_000.0), (50_000.0, 54_000.0), (50_000.0, 60_000.0), (50_000.0, 100_000.0), (700.0, 5_000.0)]
        {
            let found = search(Arrival::Uniform, 10.0, simulate(capacity, closed)).unwrap();
            assert!((found.rate / capacity - 1.0).abs() < 0.05, "{capacity}: {found:?}");
            assert!(found.probes.len() <= PROBES_MAX);
            assert!(found.probes.contains(&(found.rate, true)));
            assert_eq!(found.closed, closed);
        }
    }

    #[test]
    fn no_more_is_asked_than_can_be_offered() {
        let found = search(Arrival::Uniform, 10.0, simulate(1e9, 2e7)).unwrap();
        assert_eq!((found.rate, found.probes), (RATE_MAX, vec![(RATE_MAX, true)]));
    }

    #[test]
    fn one_that_gives_up_arrivals_or_falls_behind_does_not_keep_up() {
        let kept_up = Measured { operations: 100_000, overdue: 900, behind_ns: 90_000_000, ..Measured::default() };
        assert!(keeps_up(&kept_up));
        assert!(!keeps_up(&Measured { abandoned: 1, ..kept_up.clone() }));
        assert!(!keeps_up(&Measured { overdue: 1_100, ..kept_up.clone() }));
        assert!(!keeps_up(&Measured { behind_ns: 110_000_000, ..kept_up }));
    }

    #[test]
    fn an_engine_that_keeps_up_with_nothing_is_an_error() {
        let error = search(Arrival::Uniform, 10.0, simulate(1.0, 100_000.0)).unwrap_err();
        assert!(matches!(error, Error::Said(_)));
    }

    #[test]
    fn an_error_of_a_probe_ends_the_search() {
        let mut probes = 0;
        let result = search(Arrival::Poisson, 1.0, |pace, limit| {
            probes += 1;
            match pace {
                Pace::Closed => simulate(1000.0, 1000.0)(pace, limit),
                _ => Err(Error::engine("fake", "get", "gone")),
            }
        });
        assert!(matches!(result, Err(Error::Engine { .. })));
        assert_eq!(probes, 2);
    }
}
