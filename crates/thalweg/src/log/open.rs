//! [`Log`]: the log of an open database, and its locks.
//!
//! Three locks, which nest in this order: `syncs`, `published`, `tail`. Each is held for a few instructions, never over
//! I/O, a wait or a callback, except the callback of [`Log::at_seal_point`].

use super::callbacks::Callbacks;
use super::options::LogOptions;
use super::published::Published;
use super::syncs::Syncs;
use super::tail::Tail;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Event, Health};
use crate::sync::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The log of an open database.
pub(crate) struct Log {
    pub(super) environment: Environment,
    /// How many segments that are not durable to their ends may be open. Each has two descriptors.
    pub(super) segments_open_max: usize,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) directory: Arc<Path>,
    pub(super) options: LogOptions,
    pub(super) tail: Mutex<Tail>,
    pub(super) published: Mutex<Published>,
    pub(super) syncs: Mutex<Syncs>,
    /// The sequence number of the published mark.
    pub(super) visible: AtomicU64,
    /// The durable frontier, as a raw position.
    pub(super) durable: Arc<AtomicU64>,
    pub(super) callbacks: Arc<Callbacks>,
    /// The last settled edit.
    pub(super) settled: AtomicU64,
    /// The bytes of the segments in use.
    pub(super) backlog: AtomicU64,
    pub(super) is_stopped: AtomicBool,
    /// Notified when the published mark moves.
    pub(super) advanced: Arc<Event>,
    /// Notified when a spare is ready or could not be made.
    pub(super) supplied: Arc<Event>,
    /// Notified when the preparer or the populater may have work.
    pub(super) wanted: Arc<Event>,
    /// Notified when the coroutines are to end.
    pub(super) ended: Arc<Event>,
    /// The index of the last segment in which a thread or a callback asked for a sync; 0 at first.
    pub(super) callers_in: AtomicU32,
    /// Whether callers often waited for syncs at the latest look ([`super::demand`]).
    pub(super) callers_are_frequent: AtomicBool,
    /// The published position when the log last became quiet, as a raw position.
    pub(super) quiet_at: AtomicU64,
    /// Notified when the log becomes quiet.
    pub(super) when_quiet: OnceLock<Arc<Event>>,
}

impl Log {
    /// Returns the published position and the durable frontier, as raw positions. `None` once no more syncs happen.
    #[cfg(feature = "simulation")]
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        (!self.is_ended()).then(|| (self.published().position.raw(), self.durable().raw()))
    }

    /// Returns the callbacks that wait for positions of this log.
    pub(crate) fn callbacks(&self) -> &Arc<Callbacks> {
        &self.callbacks
    }

    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        for event in [&self.advanced, &self.supplied, &self.wanted, &self.ended, &self.callbacks.wanted] {
            event.notify_all();
        }
    }

    /// Returns whether the coroutines are to end: the database is being closed, or writes are refused.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire) || self.health.check().is_err()
    }
}
