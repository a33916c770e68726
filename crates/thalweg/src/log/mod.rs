//! The write-ahead log: one for the whole database; it carries the promise (DESIGN 5, `docs/format/log.md`).
//!
//! The life of a record: [`RecordBuilder`] encodes it; [`Log::reserve`] gives it a place, [`Log::copy_in`] writes it
//! there, [`Log::publish`] makes it visible, [`Log::sync`] makes it durable; [`Scan`] finds it after a crash;
//! [`Log::let_go`] gives its segment back.
//!
//! Locks, in the order in which they nest: `syncs`, `published`, `tail`; each for a few instructions, never over I/O, a
//! wait or a callback but that of [`Log::at_seal_point`].

mod begin;
mod copy;
mod dump;
mod framing;
mod frontier;
#[cfg(any(test, feature = "simulation"))]
mod fuzz;
mod lost;
mod publish;
mod record;
mod recycle;
mod reserve;
mod scan;
mod segment;
mod sizing;
mod slots;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use fuzz::fuzz_segment;
pub(crate) use record::{Operation, Record, RecordBuilder};
pub(crate) use reserve::Reservation;
pub(crate) use scan::Scan;

use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{Environment, Event, Health, Lane, Space, Task};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How the log is laid out and synced.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// The most bytes of a segment file; a multiple of 32 KiB, at least 64 KiB.
    pub(crate) segment_bytes: u32,
    /// How often published records are made durable without being asked; `None`: never.
    pub(crate) sync_interval: Option<Duration>,
    /// What room there is for segments.
    pub(crate) space: Arc<Space>,
}

/// What to do about damage when a database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagePolicy {
    /// Refuse to open, change nothing (the default).
    #[default]
    Strict,
    /// Open with what was written before the damage; what came after is copied to `lost/` and reported.
    PointInTime,
}

/// The log of an open database.
pub(crate) struct Log {
    environment: Environment,
    /// So many segments that are not durable to their ends are open, with two descriptors each.
    segments_open_max: usize,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    directory: Arc<Path>,
    options: LogOptions,
    tail: Mutex<reserve::Tail>,
    published: Mutex<publish::Published>,
    syncs: Mutex<frontier::Syncs>,
    /// The sequence number of the published mark.
    visible: AtomicU64,
    /// The durable frontier, as a raw position.
    durable: AtomicU64,
    /// The last settled edit.
    settled: AtomicU64,
    /// Bytes of the segments in use.
    backlog: AtomicU64,
    is_stopped: AtomicBool,
    /// The published mark moved.
    advanced: Arc<Event>,
    /// A spare is ready, or could not be made.
    supplied: Arc<Event>,
    /// The preparer may have work.
    wanted: Arc<Event>,
    /// The coroutines are to end.
    ended: Arc<Event>,
    /// The published position at which nobody had written for a while, as a raw position.
    quiet_at: AtomicU64,
    /// Told when that changes.
    when_quiet: OnceLock<Arc<Event>>,
}

impl Log {
    /// The background coroutines (segment preparation, interval sync) and where they are to be spawned; they end
    /// after [`Log::close`] or [`Log::stop`], or when the health is bad.
    ///
    /// Where a sync holds up its worker, the preparer's are kept away from the one that the interval's syncs are made
    /// on: a new segment takes three, one of them of the whole segment.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<(Lane, Task)> {
        let has_ring = self.environment.scheduler.ring_refused().is_none();
        let preparer = match has_ring {
            _ if planted(Bug::IntervalBehindPreparation) => Lane::Log,
            true => Lane::LogSegments,
            false => Lane::Flush,
        };
        vec![
            (preparer, Box::pin(Arc::clone(self).prepare_segments())),
            (Lane::Log, Box::pin(Arc::clone(self).sync_at_intervals())),
        ]
    }

    /// The published position and the durable frontier, as raw positions; `None` once nothing is synced any more.
    #[cfg(feature = "simulation")]
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        (!self.is_ended()).then(|| (self.published().position.raw(), self.durable().raw()))
    }

    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        for event in [&self.advanced, &self.supplied, &self.wanted, &self.ended] {
            event.notify_all();
        }
    }

    /// Whether the coroutines are to end: the database is being closed, or writes are refused.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire) || self.health.check().is_err()
    }
}
