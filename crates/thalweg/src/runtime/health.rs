//! [`Health`]: whether the database still takes writes, and why not.
//!
//! The first failure of a log or manifest write, or of any sync, poisons it for good (until the next open). Closing
//! sets it too. One lock, held for a clone.

use super::Event;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by log, lineage and the database.
#[derive(Debug, Default)]
pub(crate) struct Health {
    sick: AtomicBool,
    cause: Mutex<Option<Error>>,
    /// Events whose waiters look at the health: all notified when it changes.
    watchers: Mutex<Vec<Arc<Event>>>,
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
}
