//! The closed loop: each thread begins the next operation when the last is done.
//!
//! Each operation takes two clock reads, around the engine's work: the client's own preparation is not latency, but is
//! part of the throughput. A claimed operation is prepared and executed, or not prepared at all: a client that takes
//! the number of a new record never leaves a hole.

use super::claims::Claims;
use super::clock::{Wait, nanoseconds, now_ns, sleep_until};
use super::measured::{self, Measured};
use super::phase::Phase;
use super::thread_team::{self, Post};
use crate::error::Result;

/// Runs a closed loop.
pub(super) fn run(phase: &Phase<'_>) -> Result<Measured> {
    let claims = Claims::new(phase.limit.operations, phase.threads);
    let limit_ns = phase.limit.seconds.map_or(u64::MAX, nanoseconds);
    let rate = phase.workload.background_rate();
    let logs = thread_team::run(phase, 0, &|post| foreground(post, &claims, limit_ns), &|post| background(post, rate))?;
    Ok(measured::of(logs))
}

fn foreground(post: &mut Post<'_>, claims: &Claims, limit_ns: u64) -> Result<()> {
    let deadline_ns = post.start_ns.saturating_add(limit_ns);
    let mut share = claims.share();
    while !post.stopped() && share.any() {
        let Some((operations, end_ns)) = step(post)? else {
            share.give_back();
            break;
        };
        share.done(operations);
        if end_ns >= deadline_ns {
            post.recorder.time_out();
            break;
        }
    }
    Ok(())
}

/// Runs a background client until the foreground has ended, at `rate` if one is given. A client that falls behind its
/// rate runs as fast as it can until it has caught up; its latencies are those of the operations alone.
pub(super) fn background(post: &mut Post<'_>, rate: Option<f64>) -> Result<()> {
    let mut done: u64 = 0;
    while !post.stopped() {
        if let Some(rate) = rate {
            let time_ns = post.start_ns.saturating_add(nanoseconds(done as f64 / rate));
            if sleep_until(time_ns, post.stop)? == Wait::Stopped {
                break;
            }
        }
        match step(post)? {
            Some((operations, _)) => done += operations.max(1),
            None => break,
        }
    }
    Ok(())
}

/// Prepares and executes one operation. Returns the number of operations it counts for, and when it ended; `None`:
/// there is nothing to do.
#[inline]
fn step(post: &mut Post<'_>) -> Result<Option<(u64, u64)>> {
    let Some(class) = post.client.prepare() else { return Ok(None) };
    let begin_ns = now_ns();
    let outcome = post.client.execute(&mut *post.session)?;
    let end_ns = now_ns();
    // Each entry of a batch is recorded with its part of the time.
    let each_ns = if outcome.operations > 1 { (end_ns - begin_ns) / outcome.operations } else { end_ns - begin_ns };
    post.recorder.record(class, outcome, each_ns, end_ns);
    Ok(Some((outcome.operations, end_ns)))
}
