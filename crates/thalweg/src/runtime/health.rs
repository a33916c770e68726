//! [`Health`]: whether the database still takes writes, and why not; and what of the background fails.
//!
//! The first failure of a log or manifest write, or of any sync, poisons it for good (until the next open). Closing
//! sets it too. What fails and is tried again is a [`Trouble`]; compactions keep theirs with their partition, all else
//! is here. Locks: each held for a clone.

use super::{BackgroundWork, Event, Trouble, TroubleCell};
use crate::error::{Error, ErrorKind, Result};
use crate::trace;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by log, lineage and the database.
#[derive(Debug)]
pub(crate) struct Health {
    sick: AtomicBool,
    cause: Mutex<Option<Error>>,
    /// Events whose waiters look at the health: all notified when it changes.
    watchers: Mutex<Vec<Arc<Event>>>,
    /// Events of those who try again when files have gone: of what found the disk full.
    room_watchers: Mutex<Vec<Arc<Event>>>,
    /// How often room came: bumped before these are notified.
    room: AtomicU64,
    /// Something found the disk full since they were notified last.
    wants_room: AtomicBool,
    pub(crate) flushes: TroubleCell,
    pub(crate) rounds: TroubleCell,
    pub(crate) segments: TroubleCell,
    pub(crate) removals: TroubleCell,
    /// The last failure of any background work, whether or not it has ended.
    last_failure: Mutex<Option<Trouble>>,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            sick: AtomicBool::new(false),
            cause: Mutex::default(),
            watchers: Mutex::default(),
            room_watchers: Mutex::default(),
            room: AtomicU64::new(0),
            wants_room: AtomicBool::new(false),
            flushes: TroubleCell::new(BackgroundWork::Flush),
            rounds: TroubleCell::new(BackgroundWork::SettleRound),
            segments: TroubleCell::new(BackgroundWork::LogSegment),
            removals: TroubleCell::new(BackgroundWork::Removal),
            last_failure: Mutex::default(),
        }
    }
}

impl Health {
    /// `Ok` while writes are taken.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.sick.load(Ordering::Acquire) {
            return Ok(());
        }
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        Err(cause.clone().unwrap_or(Error::Closed))
    }

    /// Refuses writes from now on, because of `cause`. The first cause stays, but that a database closes is none beside
    /// a failure: those who wait for a sync must hear of it. Returns the error that writers get.
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
            let mut cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
            if cause.as_ref().is_none_or(|cause| matches!(cause, Error::Closed)) {
                *cause = Some(error.clone());
            }
            let first = cause.clone().unwrap_or(error);
            self.sick.store(true, Ordering::Release);
            first
        };
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for event in watchers {
            event.notify_all();
        }
        first
    }

    /// An event that is also notified when the health changes. Every wait that must end when the database is
    /// poisoned or closed is a wait for such an event, with a condition that looks at [`Health::check`].
    pub(crate) fn watched_event(&self) -> Arc<Event> {
        let event = Arc::new(Event::default());
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&event));
        event
    }

    /// As [`Health::watched_event`], and notified too when files have gone, so that there may be room again.
    pub(crate) fn room_event(&self) -> Arc<Event> {
        let event = self.watched_event();
        self.room_watchers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&event));
        event
    }

    /// Files have gone: what found the disk full is tried again at once.
    pub(crate) fn room_came(&self) {
        self.room.fetch_add(1, Ordering::SeqCst);
        if !self.wants_room.load(Ordering::SeqCst) || !self.wants_room.swap(false, Ordering::SeqCst) {
            return;
        }
        let watchers = self.room_watchers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for event in watchers {
            event.notify_all();
        }
    }

    /// How often room came. What failed for want of it is due again once this has changed since before it began.
    pub(crate) fn room(&self) -> u64 {
        self.room.load(Ordering::SeqCst)
    }

    /// Takes note of a failure of background work, for [`Health::last_failure`]. After it [`Health::room`] is to be
    /// compared with what it was before the work began: room that came in between has told nobody.
    pub(crate) fn hear(&self, trouble: Trouble) {
        trace::event!(
            WARN,
            "thalweg::error",
            "background work failed",
            work = trouble.work.to_string().as_str(),
            error = trouble.error.to_string().as_str(),
            times = trouble.times,
            retry_ms = trouble.retry_ns.map_or(0, |retry_ns| retry_ns.saturating_sub(trouble.last_ns) / 1_000_000),
        );
        if trouble.error.kind() == ErrorKind::NoSpace {
            self.wants_room.store(true, Ordering::SeqCst);
        }
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
    }

    /// The last failure of any background work.
    pub(crate) fn last_failure(&self) -> Option<Trouble> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What fails at present, but for compactions.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> + use<> {
        [&self.flushes, &self.rounds, &self.segments, &self.removals].map(TroubleCell::get).into_iter().flatten()
    }
}
