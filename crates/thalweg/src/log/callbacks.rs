//! [`Callbacks`]: the callbacks that wait for a position of the log to be durable.
//!
//! A callback is called once: by [`Callbacks::when_durable`] itself if its position is durable already, otherwise by
//! the coroutines in `answer.rs`, in the order of positions. Once these have ended, `when_durable` calls every callback
//! itself.
//!
//! **Groups.** If an issued sync covers a waiting callback, the end of that sync answers the callback. Otherwise the
//! callback counts as a caller of the next sync (`frontier.rs`). It notifies `wanted`, and a coroutine issues a sync as
//! soon as it may.
//!
//! A ticket shares only [`Callbacks`] with the log. The struct is small, and may outlive the log. Locks: `queue`, held
//! for a few instructions, also under the lock of the syncs; no callback is called or dropped under it.

use crate::error::{Error, Result};
use crate::format::LogPosition;
use crate::runtime::{Event, Health};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that gets `Ok` when its position is durable.
pub(crate) type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The callbacks that wait for positions of one log.
pub(crate) struct Callbacks {
    /// The durable frontier, as a raw position. The log moves it.
    durable: Arc<AtomicU64>,
    health: Arc<Health>,
    /// Notified when a callback begins to wait, when the frontier moves while one waits, and when the coroutines of the
    /// log are to end.
    pub(super) wanted: Arc<Event>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The waiting callbacks, in the order of positions.
    waiting: BTreeMap<CallbackId, Callback>,
    next_number: u64,
    /// The position up to which syncs were issued, as far as this queue was told.
    covered: LogPosition,
    /// How many callbacks wait for positions after `covered`.
    uncovered: usize,
    /// Whether a coroutine calls callbacks.
    is_calling: bool,
    coroutines: Coroutines,
}

/// The life of the coroutines that call callbacks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Coroutines {
    #[default]
    NotBegun,
    Running,
    Ended,
}

/// The place of a waiting callback in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallbackId {
    position: LogPosition,
    number: u64,
}

impl Queue {
    /// Adds a callback, or gives it back if nothing would call it.
    fn push(&mut self, position: LogPosition, callback: Callback) -> std::result::Result<CallbackId, Callback> {
        if self.coroutines == Coroutines::Ended {
            return Err(callback);
        }
        let id = CallbackId { position, number: self.next_number };
        self.next_number += 1;
        self.waiting.insert(id, callback);
        self.uncovered += usize::from(position > self.covered);
        Ok(id)
    }

    /// Removes and returns the callbacks whose positions are not after `frontier`.
    fn take_up_to(&mut self, frontier: LogPosition) -> BTreeMap<CallbackId, Callback> {
        let later = self.waiting.split_off(&CallbackId { position: frontier, number: u64::MAX });
        if frontier > self.covered {
            (self.covered, self.uncovered) = (frontier, later.len());
        }
        std::mem::replace(&mut self.waiting, later)
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

    /// Returns the result for a caller that stops waiting for `position`.
    pub(crate) fn outcome(&self, position: LogPosition) -> Result<()> {
        if self.is_durable(position) {
            return Ok(());
        }
        Err(self.health.check().err().unwrap_or(Error::Closed))
    }

    /// Registers `callback`, to be called once everything before `position` is durable or never will be. Returns `None`
    /// if it was called at once.
    pub(crate) fn when_durable(&self, position: LogPosition, callback: Callback) -> Option<CallbackId> {
        if self.is_durable(position) {
            callback(Ok(()));
            return None;
        }
        let (pushed, is_covered) = {
            let queue = &mut *self.lock_queue();
            (queue.push(position, callback), position <= queue.covered)
        };
        match pushed {
            Ok(id) => {
                // A sync in flight that covers the position notifies at its end. It may have ended just now.
                if !is_covered || self.is_durable(position) {
                    self.wanted.notify_all();
                }
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
        let forgotten = {
            let queue = &mut *self.lock_queue();
            let forgotten = queue.waiting.remove(&id);
            queue.uncovered -= usize::from(forgotten.is_some() && id.position > queue.covered);
            forgotten
        };
        drop(forgotten);
    }

    /// Returns how many callbacks have begun to wait since the log began.
    pub(super) fn begun(&self) -> u64 {
        self.lock_queue().next_number
    }

    /// Returns how many waiting callbacks no sync covers.
    pub(super) fn uncovered(&self) -> usize {
        self.lock_queue().uncovered
    }

    /// Notes that a sync up to `to` is issued. Returns how many callbacks this sync covers that no earlier one does.
    pub(super) fn cover(&self, to: LogPosition) -> usize {
        let queue = &mut *self.lock_queue();
        if to <= queue.covered {
            return 0;
        }
        // There are few: their records were published after `to` was read.
        let later = queue.waiting.range(CallbackId { position: to, number: u64::MAX }..).count();
        queue.covered = to;
        std::mem::replace(&mut queue.uncovered, later) - later
    }

    /// Wakes the coroutines if callbacks wait, because the frontier has moved.
    pub(super) fn look_again(&self) {
        let is_idle = self.lock_queue().waiting.is_empty();
        if !is_idle {
            self.wanted.notify_all();
        }
    }

    /// Returns whether a waiting callback has a position not after `frontier`, and no coroutine is calling callbacks.
    pub(super) fn is_due(&self, frontier: LogPosition) -> bool {
        let queue = &*self.lock_queue();
        !queue.is_calling && queue.waiting.first_key_value().is_some_and(|(id, _)| id.position <= frontier)
    }

    /// Calls the callbacks whose positions are not after the `frontier`, until there are none. Does nothing if another
    /// coroutine is calling callbacks, so that they are called in order.
    pub(super) fn call_up_to(&self, frontier: impl Fn() -> LogPosition) {
        let is_at_it = std::mem::replace(&mut self.lock_queue().is_calling, true);
        if is_at_it {
            return;
        }
        loop {
            let due = {
                let queue = &mut *self.lock_queue();
                let due = queue.take_up_to(frontier());
                queue.is_calling = !due.is_empty();
                due
            };
            if due.is_empty() {
                return;
            }
            call(due.into_values(), &Ok(()));
        }
    }

    /// Notes that the coroutines begin.
    pub(super) fn begin(&self) {
        self.lock_queue().coroutines = Coroutines::Running;
    }

    /// Returns whether coroutines issue syncs for callbacks.
    pub(super) fn are_answered(&self) -> bool {
        self.lock_queue().coroutines == Coroutines::Running
    }

    /// Calls all waiting callbacks, because the coroutines end. Each gets the outcome of its position.
    pub(super) fn end(&self) {
        let left = {
            let queue = &mut *self.lock_queue();
            queue.coroutines = Coroutines::Ended;
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

/// Calls callbacks. If one panics, the others are still called. The panic hook has reported the panic.
fn call(callbacks: impl IntoIterator<Item = Callback>, outcome: &Result<()>) {
    for callback in callbacks {
        let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome.clone())));
    }
}
