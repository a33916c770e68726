//! [`Callbacks`]: the callbacks that wait for a position of the log to be durable.
//!
//! A callback is called once: by [`Callbacks::when_durable`] itself if its position is durable already, otherwise by
//! the coroutine in `answer.rs`. Once that coroutine has ended, `when_durable` calls every callback itself. Until then
//! a callback that waits has notified `wanted`, so the coroutine issues a sync for it.
//!
//! This is all that a ticket shares with the log: it is small, and may outlive the log. Locks: `queue`, held for a few
//! instructions; no callback is called or dropped under it.

use crate::error::{Error, Result};
use crate::format::LogPosition;
use crate::runtime::{Event, Health};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gets `Ok` when its position is durable.
pub(crate) type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// See the module.
pub(crate) struct Callbacks {
    /// The durable frontier, as a raw position. The log moves it.
    durable: Arc<AtomicU64>,
    health: Arc<Health>,
    /// Notified when a callback begins to wait, and when the coroutines of the log are to end.
    pub(super) wanted: Arc<Event>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// In the order of positions.
    waiting: BTreeMap<CallbackId, Callback>,
    next_number: u64,
    /// Whether the coroutine has ended.
    is_ended: bool,
}

/// The place of a callback that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallbackId {
    position: LogPosition,
    number: u64,
}

impl Queue {
    /// Adds a callback, or gives it back if nothing would call it.
    fn push(&mut self, position: LogPosition, callback: Callback) -> std::result::Result<CallbackId, Callback> {
        if self.is_ended {
            return Err(callback);
        }
        let id = CallbackId { position, number: self.next_number };
        self.next_number += 1;
        self.waiting.insert(id, callback);
        Ok(id)
    }
}

impl Callbacks {
    pub(super) fn new(durable: &Arc<AtomicU64>, health: &Arc<Health>) -> Arc<Callbacks> {
        Arc::new(Callbacks {
            durable: Arc::clone(durable),
            health: Arc::clone(health),
            wanted: health.watched_event(),
            queue: Mutex::default(),
        })
    }

    /// Returns whether everything before `position` is durable.
    pub(crate) fn is_durable(&self, position: LogPosition) -> bool {
        self.durable.load(Ordering::Acquire) >= position.raw()
    }

    /// Returns what a caller gets that will wait no longer for `position`.
    pub(crate) fn outcome(&self, position: LogPosition) -> Result<()> {
        if self.is_durable(position) {
            return Ok(());
        }
        Err(self.health.check().err().unwrap_or(Error::Closed))
    }

    /// Has `callback` called once everything before `position` is durable, or never will be. `None`: it was called.
    pub(crate) fn when_durable(&self, position: LogPosition, callback: Callback) -> Option<CallbackId> {
        if self.is_durable(position) {
            callback(Ok(()));
            return None;
        }
        let pushed = self.lock_queue().push(position, callback);
        match pushed {
            Ok(id) => {
                self.wanted.notify_all();
                Some(id)
            }
            Err(callback) => {
                callback(self.outcome(position));
                None
            }
        }
    }

    /// Drops a callback, unless it has been called or is about to be.
    pub(crate) fn forget(&self, id: CallbackId) {
        let forgotten = self.lock_queue().waiting.remove(&id);
        drop(forgotten);
    }

    /// Returns the first position that a callback waits for.
    pub(super) fn first_wanted(&self) -> Option<LogPosition> {
        self.lock_queue().waiting.first_key_value().map(|(id, _)| id.position)
    }

    /// Calls the callbacks whose positions are not behind `frontier`.
    pub(super) fn call_up_to(&self, frontier: LogPosition) {
        let due = {
            let queue = &mut *self.lock_queue();
            let later = queue.waiting.split_off(&CallbackId { position: frontier, number: u64::MAX });
            std::mem::replace(&mut queue.waiting, later)
        };
        call(due.into_values(), &Ok(()));
    }

    /// Calls all callbacks, because the coroutine ends: each with what its position has come to.
    pub(super) fn end(&self) {
        let left = {
            let queue = &mut *self.lock_queue();
            queue.is_ended = true;
            std::mem::take(&mut queue.waiting)
        };
        for (id, callback) in left {
            call([callback], &self.outcome(id.position));
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

/// Calls callbacks. One that panics keeps the others from nothing; its panic was reported by the hook for panics.
fn call(callbacks: impl IntoIterator<Item = Callback>, outcome: &Result<()>) {
    for callback in callbacks {
        let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome.clone())));
    }
}
