//! [`Callbacks`]: the callbacks that wait for a position of the log to be durable.
//!
//! A callback is called once: by [`Callbacks::when_durable`] itself if its position is durable already, otherwise by
//! the coroutines in `answer.rs`, in the order of positions. Once these have ended, `when_durable` calls every callback
//! itself.
//!
//! **Groups.** A callback that waits counts as a caller of the next sync (`frontier.rs`), unless a sync was issued that
//! covers it. Then that sync's end answers it. Otherwise it notifies `wanted`, and a coroutine issues a sync when that
//! may be.
//!
//! This is all that a ticket shares with the log: it is small, and may outlive the log. Locks: `queue`, held for a few
//! instructions, also under the lock of the syncs; no callback is called or dropped under it.

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
    /// Notified when a callback begins to wait, when the frontier moves while one waits, and when the coroutines of the
    /// log are to end.
    pub(super) wanted: Arc<Event>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// In the order of positions.
    waiting: BTreeMap<CallbackId, Callback>,
    next_number: u64,
    /// How far syncs were issued, as far as the callbacks know.
    covered: LogPosition,
    /// How many callbacks wait for positions behind `covered`.
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

/// The place of a callback that waits.
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

    /// Removes and returns the callbacks whose positions are not behind `frontier`.
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

    /// Returns how many callbacks wait that no sync covers.
    pub(super) fn uncovered(&self) -> usize {
        self.lock_queue().uncovered
    }

    /// Notes that a sync up to `to` is issued. Returns how many callbacks it covers that none covered before.
    pub(super) fn cover(&self, to: LogPosition) -> usize {
        let queue = &mut *self.lock_queue();
        if to <= queue.covered {
            return 0;
        }
        // Few: they were published after `to` was read.
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

    /// Returns whether a callback waits whose position is not behind `frontier`, and no coroutine calls any.
    pub(super) fn is_due(&self, frontier: LogPosition) -> bool {
        let queue = &*self.lock_queue();
        !queue.is_calling && queue.waiting.first_key_value().is_some_and(|(id, _)| id.position <= frontier)
    }

    /// Calls the callbacks whose positions are not behind the `frontier`, until there are none. They are called in
    /// order: if another coroutine is at it, this does nothing.
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

    /// Calls all callbacks, because the coroutines end: each with what its position has come to.
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

/// Calls callbacks. One that panics keeps the others from nothing; its panic was reported by the hook for panics.
fn call(callbacks: impl IntoIterator<Item = Callback>, outcome: &Result<()>) {
    for callback in callbacks {
        let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome.clone())));
    }
}
