//! [`Health`]: whether the database accepts writes, and which background work fails.
//!
//! The first failure of a log or manifest write, or of any sync, *poisons* the database: it refuses writes until the
//! next open. Closing refuses writes too. Work that fails and is retried has a [`BackgroundError`]. Each partition
//! keeps the error of its compactions; all others are here. Locks: each held for a clone.

use super::background_error::{BackgroundError, BackgroundWork, LastError};
use super::event::Event;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::trace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The health of one database, shared by log, lineage and the database.
#[derive(Debug)]
pub(crate) struct Health {
    /// Whether writes are refused, because of `cause`.
    is_refusing: AtomicBool,
    cause: Mutex<Option<Error>>,
    /// Events whose waiters check the health: all are notified when it changes.
    watchers: Mutex<Vec<Arc<Event>>>,
    /// Events of work that found the disk full and is retried when files were removed.
    room_watchers: Mutex<Vec<Arc<Event>>>,
    /// The number of calls of [`Health::room_came`]: incremented before `room_watchers` are notified.
    room: AtomicU64,
    /// Whether some work found the disk full since `room_watchers` were last notified.
    wants_room: AtomicBool,
    pub(crate) flushes: LastError,
    pub(crate) evictions: LastError,
    pub(crate) rounds: LastError,
    pub(crate) segments: LastError,
    pub(crate) removals: LastError,
    /// The last failure of any background work, also after the work has succeeded.
    last_failure: Mutex<Option<BackgroundError>>,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            is_refusing: AtomicBool::new(false),
            cause: Mutex::default(),
            watchers: Mutex::default(),
            room_watchers: Mutex::default(),
            room: AtomicU64::new(0),
            wants_room: AtomicBool::new(false),
            flushes: LastError::new(BackgroundWork::Flush),
            evictions: LastError::new(BackgroundWork::Eviction),
            rounds: LastError::new(BackgroundWork::SettleRound),
            segments: LastError::new(BackgroundWork::LogSegment),
            removals: LastError::new(BackgroundWork::Removal),
            last_failure: Mutex::default(),
        }
    }
}

impl Health {
    /// `Ok` while writes are accepted.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_refusing.load(Ordering::Acquire) {
            return Ok(());
        }
        let cause = self.cause.lock();
        Err(cause.clone().unwrap_or(Error::Closed))
    }

    /// Refuses writes from now on, because of `cause`. The first cause stays; but a failure replaces a close, because
    /// callers that wait for a sync must get the failure. Returns the error that writers get.
    pub(crate) fn poison(&self, cause: Error) -> Error {
        trace::event!(ERROR, "thalweg::error", "writes are refused from now on", error = cause.to_string().as_str());
        self.set(cause.poisoned())
    }

    /// Refuses writes from now on because the database is closing.
    pub(crate) fn close(&self) {
        self.set(Error::Closed);
    }

    fn set(&self, error: Error) -> Error {
        let first = {
            let mut cause = self.cause.lock();
            if cause.as_ref().is_none_or(|cause| matches!(cause, Error::Closed)) {
                *cause = Some(error.clone());
            }
            let first = cause.clone().unwrap_or(error);
            self.is_refusing.store(true, Ordering::Release);
            first
        };
        let watchers = self.watchers.lock().clone();
        for event in watchers {
            event.notify_all();
        }
        first
    }

    /// An event that is also notified when the health changes. A wait that must end when the database is poisoned or
    /// closed waits for such an event, with a condition that calls [`Health::check`].
    pub(crate) fn watched_event(&self) -> Arc<Event> {
        let event = Arc::new(Event::default());
        self.watchers.lock().push(Arc::clone(&event));
        event
    }

    /// As [`Health::watched_event`]; the event is also notified when files were removed, so that there may be space.
    pub(crate) fn room_event(&self) -> Arc<Event> {
        let event = self.watched_event();
        self.room_watchers.lock().push(Arc::clone(&event));
        event
    }

    /// Notes that files were removed: work that found the disk full is retried at once.
    pub(crate) fn room_came(&self) {
        self.room.fetch_add(1, Ordering::SeqCst);
        if !self.wants_room.load(Ordering::SeqCst) || !self.wants_room.swap(false, Ordering::SeqCst) {
            return;
        }
        let watchers = self.room_watchers.lock().clone();
        for event in watchers {
            event.notify_all();
        }
    }

    /// The number of calls of [`Health::room_came`]. Work that failed on a full disk is due again once this number
    /// differs from the one before the work began.
    pub(crate) fn room(&self) -> u64 {
        self.room.load(Ordering::SeqCst)
    }

    /// Reports a failure of background work, for [`Health::last_failure`]. The caller then compares [`Health::room`]
    /// with the number from before the work began: files that were removed in between notified nobody.
    pub(crate) fn report(&self, error: BackgroundError) {
        trace::event!(
            WARN,
            "thalweg::error",
            "background work failed",
            work = error.work.to_string().as_str(),
            error = error.error.to_string().as_str(),
            times = error.times,
            retry_ms = error.retry_at_ns.map_or(0, |at_ns| at_ns.saturating_sub(error.last_ns) / 1_000_000),
        );
        if error.error.kind() == ErrorKind::NoSpace {
            self.wants_room.store(true, Ordering::SeqCst);
        }
        *self.last_failure.lock() = Some(error);
    }

    /// The last failure of any background work.
    pub(crate) fn last_failure(&self) -> Option<BackgroundError> {
        self.last_failure.lock().clone()
    }

    /// The background work that fails at present, except compactions.
    pub(crate) fn background_errors(&self) -> impl Iterator<Item = BackgroundError> + use<> {
        let errors = [&self.flushes, &self.evictions, &self.rounds, &self.segments, &self.removals];
        errors.map(LastError::get).into_iter().flatten()
    }
}
