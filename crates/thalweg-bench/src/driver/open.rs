//! The open loop (VLSM-11): operations arrive at a rate, whether the engine is ready or not.
//!
//! The workers are the clients that the engine sees. The queue between the arrivals and the workers is the schedule
//! itself: a free worker takes the next arrival from it. If the time of the arrival has passed, the worker begins at
//! once. Otherwise it sleeps until then, at least for [`SLEEP_MIN_NS`]; it never spins. The latency always counts from
//! the intended start, so that it includes the time in which the engine made an operation wait (coordinated omission).
//!
//! An arrival is one call of the client. If a call does many operations at once, correspondingly fewer calls arrive,
//! and each of the operations has waited from the arrival to the end.
//!
//! Arrivals end with the phase's limit. Operations that are behind then are still executed, but only for a limited
//! time: see [`Patience`].

use super::arrivals::Arrivals;
use super::clock::{Wait, nanoseconds, now_ns, sharpen, sleep_until};
use super::closed;
use super::measured::{self, Measured};
use super::phase::Phase;
use super::thread_team::{self, Post};
use crate::error::Result;
use crate::parameters::Arrival;

/// The time from the last thread's readiness to the first arrival: all workers are asleep by then.
const LEAD_NS: u64 = 2_000_000;

/// The shortest sleep of a worker, after which it executes the arrivals of the meantime. At 300 thousand arrivals a
/// second a sleep for each of them would take half of a processor from the engine, mostly for the timer. The latency
/// includes the delay of an operation's start by the sleep; the report calls this delay lateness.
const SLEEP_MIN_NS: u64 = 20_000;

/// When a backlog is given up: `times` × the seconds of the arrivals + `seconds` after the start.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The factor of the seconds in which operations arrive.
    pub(super) times: f64,
    /// Seconds added to this product.
    pub(super) seconds: f64,
}

/// Twice the requested time, and some more for short runs.
pub(super) const PATIENCE: Patience = Patience { times: 2.0, seconds: 5.0 };

/// Runs an open loop.
pub(super) fn run(phase: &Phase<'_>, rate: f64, arrival: Arrival, patience: Patience) -> Result<Measured> {
    let limit = &phase.limit;
    let each = phase.workload.operations_each().max(1);
    let arrivals = Arrivals::new(
        arrival,
        rate / each as f64,
        phase.seed,
        limit.seconds.map_or(u64::MAX, nanoseconds),
        limit.operations.map_or(u64::MAX, |operations| operations.div_ceil(each)),
    )?;
    let last = limit.operations.map_or(f64::INFINITY, |operations| operations as f64 / rate);
    let seconds = limit.seconds.unwrap_or(f64::INFINITY).min(last);
    let patience_ns = nanoseconds(seconds * patience.times + patience.seconds);
    let background_rate = phase.workload.background_rate();
    let logs = thread_team::run(phase, LEAD_NS, &|post| foreground(post, &arrivals, patience_ns), &|post| {
        closed::background(post, background_rate)
    })?;
    let gave_up = logs.foreground.iter().any(|log| log.timed_out);
    let abandoned = if gave_up { arrivals.abandon().saturating_mul(each) } else { 0 };
    let lateness = measured::lateness(&logs);
    let behind_ns = measured::behind_ns(&logs);
    let overdue = measured::completed_after(&logs, nanoseconds(seconds));
    let measured = measured::of(logs);
    // From the first arrival to the end of the last one's interval: n arrivals fill n intervals, for any n.
    let seconds = if seconds.is_finite() { measured.seconds.max(seconds) } else { measured.seconds };
    Ok(Measured { seconds, lateness: Some(lateness), behind_ns, abandoned, overdue, ..measured })
}

fn foreground(post: &mut Post<'_>, arrivals: &Arrivals, patience_ns: u64) -> Result<()> {
    sharpen()?;
    let give_up_ns = post.start_ns.saturating_add(patience_ns);
    let mut free_ns = now_ns();
    while !post.stopped() {
        if free_ns >= give_up_ns {
            post.recorder.time_out();
            break;
        }
        let Some(offset_ns) = arrivals.take() else { break };
        let intended_ns = post.start_ns + offset_ns;
        // Prepared before the wait, so that the client's own time is not latency.
        let Some(class) = post.client.prepare() else { break };
        let begin_ns = if intended_ns > free_ns {
            match sleep_until(intended_ns.max(free_ns + SLEEP_MIN_NS), post.stop)? {
                Wait::Stopped => break,
                Wait::Past(now_ns) => now_ns,
                Wait::Slept(now_ns) => {
                    post.recorder.late(now_ns - intended_ns);
                    now_ns
                }
            }
        } else {
            free_ns
        };
        let outcome = post.client.execute(&mut *post.session)?;
        free_ns = now_ns();
        post.recorder.record(class, outcome, free_ns - intended_ns, free_ns);
        post.recorder.behind(intended_ns, begin_ns - intended_ns);
    }
    Ok(())
}
