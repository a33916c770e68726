//! [`Signals`]: the events by which foreground and background wake each other.

use crate::error::{Error, Result};
use crate::runtime::{Environment, Event, Health};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module.
pub(crate) struct Signals {
    environment: Environment,
    health: Arc<Health>,
    /// A buffer was sealed, a definition queued, the log grew beyond its cap, or it is time to stop.
    pub(crate) flush_wanted: Arc<Event>,
    /// A flush that failed is to be tried again before its time.
    pub(crate) flush_retry: Arc<Event>,
    /// Tables changed, subtasks wait, or it is time to stop.
    pub(crate) compaction_wanted: Arc<Event>,
    /// Something changed that waiting writers, or callers who wait for background work, look at.
    pub(crate) progress: Arc<Event>,
    /// It is time to stop, and nothing else.
    pub(crate) stopped: Arc<Event>,
    stopping: AtomicBool,
    /// Callers that wait for background work.
    waiting: AtomicUsize,
}

/// A guard: a caller waits for background work while it lives.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Signals {
    pub(crate) fn new(environment: &Environment, health: &Arc<Health>) -> Arc<Self> {
        Arc::new(Signals {
            flush_wanted: health.watched_event(),
            flush_retry: health.room_event(),
            compaction_wanted: health.room_event(),
            progress: health.watched_event(),
            stopped: health.watched_event(),
            stopping: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            environment: environment.clone(),
            health: Arc::clone(health),
        })
    }

    /// Wakes the coroutine that tells the manifest, and those that wait with a job of a keyspace that is gone. Called
    /// after a definition was queued.
    pub(crate) fn definition_queued(&self) {
        self.flush_wanted.notify_all();
        self.compaction_wanted.notify_all();
    }

    /// Blocks a foreground caller until `done`, or until the background work that leads to it fails.
    pub(crate) fn wait_for_progress(&self, done: impl Fn() -> bool, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let _waiting = self.waiting();
        self.environment.wait_until(&self.progress, || {
            if done() {
                return Some(Ok(()));
            }
            self.health.check().err().or_else(&failure).map(Err)
        })
    }

    /// Tells the background that a caller waits for it.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    /// Whether a caller waits for background work.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Lets the background coroutines end at the next opportunity.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stopped.notify_all();
        self.flush_retry.notify_all();
        self.flush_wanted.notify_all();
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
    }

    /// Whether background work should end: closing, or poisoned (nothing it makes could be installed).
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.health.check().is_err()
    }
}
