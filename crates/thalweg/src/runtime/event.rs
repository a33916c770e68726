//! [`Event`]: something that happens again and again, and that threads and coroutines wait for.
//!
//! Usage: take a [`Ticket`], look at the state, and if it is not what you want wait with the ticket. A notification
//! between the two is not missed. Locks: its own mutex, held for a few instructions; nothing is called under it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What [`Event::ticket`] gives: the number of notifications so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Notified by whoever changes a state; waited for by whoever wants it changed.
#[derive(Debug, Default)]
pub struct Event {
    epoch: AtomicU64,
    /// Threads and coroutines that wait, so that a notification nobody waits for costs no lock.
    waiters: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
    changed: Condvar,
}

impl Event {
    /// The ticket of this moment.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.epoch.load(Ordering::SeqCst))
    }

    /// Whether the event was notified after `ticket` was taken.
    pub fn passed(&self, ticket: Ticket) -> bool {
        self.epoch.load(Ordering::SeqCst) != ticket.0
    }

    /// Wakes everyone who waits. Call it after the state was changed.
    pub fn notify_all(&self) {
        self.notify(true);
    }

    fn notify(&self, all: bool) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // A waiter registers (SeqCst) before it looks at the epoch, so either it sees the new epoch or we see it.
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wakers = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            if all {
                self.changed.notify_all();
            } else {
                self.changed.notify_one();
            }
            self.waiters.fetch_sub(wakers.len(), Ordering::SeqCst);
            std::mem::take(&mut *wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Wakes one thread that waits, or all coroutines; others may wake, too. For waiters who look at the state again
    /// and of whom one is enough.
    pub fn notify_one(&self) {
        self.notify(false);
    }

    /// A future that ends once the event was notified after `ticket`.
    pub fn listen(&self, ticket: Ticket) -> Listen<'_> {
        Listen { event: self, ticket }
    }

    /// Blocks this thread until the event was notified after `ticket`, or `timeout` has passed. For schedulers.
    pub fn block(&self, ticket: Ticket, timeout: Option<Duration>) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let guard = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        match timeout {
            None => {
                drop(self.changed.wait_while(guard, |_| !self.passed(ticket)).unwrap_or_else(PoisonError::into_inner))
            }
            Some(timeout) => drop(
                self.changed
                    .wait_timeout_while(guard, timeout, |_| !self.passed(ticket))
                    .unwrap_or_else(PoisonError::into_inner),
            ),
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// See [`Event::listen`].
#[derive(Debug)]
pub struct Listen<'a> {
    event: &'a Event,
    ticket: Ticket,
}

impl Future for Listen<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let event = self.event;
        if event.passed(self.ticket) {
            return Poll::Ready(());
        }
        let mut wakers = event.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // The counter must be visible before the epoch is read again; see `notify_all`.
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            event.waiters.fetch_add(1, Ordering::SeqCst);
            wakers.push(context.waker().clone());
        }
        if event.passed(self.ticket) { Poll::Ready(()) } else { Poll::Pending }
    }
}
