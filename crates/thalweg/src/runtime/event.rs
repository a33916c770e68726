//! [`Event`]: something that happens again and again, and that threads and coroutines wait for.
//!
//! Usage: take a [`Ticket`], look at the state, and if it is not what you want wait with the ticket. A notification
//! between the two is not missed.
//!
//! Threads wait on a word of their own (a futex): one system call wakes all of them, and none takes a lock on its way
//! out, so those of a large group do not queue up once more behind each other. Invariant: a thread counts itself before
//! it looks at the epoch, and whoever moves the epoch looks for threads after that, and moves the word if there are
//! any: so a thread that saw the old epoch sleeps only on a word that is still to move.
//!
//! A scheduler that has no threads waits with `Event::listen_as_thread`. Whom [`Event::notify_one`] passes over there
//! sleeps on, as a thread does: a wake-up that is lost in production must be lost in simulation, too.
//!
//! Locks: a mutex for the wakers, held for a few instructions; nothing is called under it.

use crate::sync::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::thread::futex;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What [`Event::ticket`] gives: the number of notifications so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Notified by whoever changes a state; waited for by whoever wants it changed.
#[derive(Debug, Default)]
pub struct Event {
    epoch: AtomicU64,
    /// Threads that wait, so that a notification for which none waits costs no system call.
    threads: AtomicUsize,
    /// What they sleep on; any other value than the one they saw ends their sleep.
    word: AtomicU32,
    /// Those who wait with a waker, so that a notification for which none waits costs no lock.
    listening: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
}

/// One who waits with a waker.
#[derive(Debug)]
struct Listener {
    waker: Waker,
    /// Of one who waits as a thread: those of the least rank are woken first. A coroutine has none and is always
    /// woken.
    rank: Option<u64>,
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
        self.notify(u32::MAX >> 1);
    }

    /// Wakes one thread that waits, and all coroutines; others may wake, too. For waiters who look at the state again
    /// and of whom one is enough.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    fn notify(&self, threads: u32) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // A waiter registers (SeqCst) before it looks at the epoch, so either it sees the new epoch or we see it.
        if self.threads.load(Ordering::SeqCst) > 0 {
            self.word.fetch_add(1, Ordering::SeqCst);
            let woken = futex::wake(&self.word, futex::Flags::PRIVATE, threads);
            debug_assert!(woken.is_ok(), "a word of this process can be woken");
        }
        if self.listening.load(Ordering::SeqCst) == 0 {
            return;
        }
        let woken = {
            let mut listeners = self.listeners();
            let woken = take_woken(&mut listeners, threads as usize);
            self.listening.fetch_sub(woken.len(), Ordering::SeqCst);
            woken
        };
        for listener in woken {
            listener.waker.wake();
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock()
    }

    /// A future that ends once the event was notified after `ticket`.
    pub fn listen(&self, ticket: Ticket) -> Listen<'_> {
        Listen { event: self, ticket, rank: None }
    }

    /// As [`Event::listen`], but woken as a thread in [`Event::block`] would be: by [`Event::notify_one`] only if
    /// of all that wait so this one has the least `rank`. No two that wait at once may have the same.
    #[cfg(feature = "simulation")]
    pub fn listen_as_thread(&self, ticket: Ticket, rank: u64) -> Listen<'_> {
        Listen { event: self, ticket, rank: Some(rank) }
    }

    /// Blocks this thread until the event was notified after `ticket`, or about `timeout` has passed. For schedulers.
    pub fn block(&self, ticket: Ticket, timeout: Option<Duration>) {
        // A timeout beyond what the kernel can count is none.
        let timeout = timeout.and_then(|timeout| futex::Timespec::try_from(timeout).ok());
        self.threads.fetch_add(1, Ordering::SeqCst);
        loop {
            // Before the epoch: see the module.
            let word = self.word.load(Ordering::SeqCst);
            if self.passed(ticket) {
                break;
            }
            // Ends early when the word has moved, or for a signal: then the epoch is looked at again.
            if let Err(Errno::TIMEDOUT) = futex::wait(&self.word, futex::Flags::PRIVATE, word, timeout.as_ref()) {
                break;
            }
        }
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes out whom a notification of so many threads wakes: all coroutines, and of the others those of the least ranks.
fn take_woken(listeners: &mut Vec<Listener>, threads: usize) -> Vec<Listener> {
    let mut ranks: Vec<u64> = listeners.iter().filter_map(|listener| listener.rank).collect();
    if ranks.len() <= threads {
        return std::mem::take(listeners);
    }
    ranks.sort_unstable();
    let spared = ranks[threads];
    listeners.extract_if(.., |listener| listener.rank.is_none_or(|rank| rank < spared)).collect()
}

/// See [`Event::listen`].
#[derive(Debug)]
pub struct Listen<'a> {
    event: &'a Event,
    ticket: Ticket,
    rank: Option<u64>,
}

impl Future for Listen<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (event, rank) = (self.event, self.rank);
        if event.passed(self.ticket) {
            return Poll::Ready(());
        }
        let mut listeners = event.listeners();
        // The counter must be visible before the epoch is read again; see `notify`.
        let waits = |other: &Listener| other.rank == rank && other.waker.will_wake(context.waker());
        if !listeners.iter().any(waits) {
            event.listening.fetch_add(1, Ordering::SeqCst);
            listeners.push(Listener { waker: context.waker().clone(), rank });
        }
        if event.passed(self.ticket) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Listen<'_> {
    /// A thread that waits no longer takes no wake-up from those that do.
    fn drop(&mut self) {
        if self.rank.is_some() {
            let mut listeners = self.event.listeners();
            let gone: Vec<_> = listeners.extract_if(.., |listener| listener.rank == self.rank).collect();
            self.event.listening.fetch_sub(gone.len(), Ordering::SeqCst);
        }
    }
}
