//! [`Event`]: a condition that threads and coroutines wait for, and that is notified again and again.
//!
//! Usage: take a [`Ticket`], check the state, and if it is not as wanted, wait with the ticket. A notification after
//! the ticket was taken is not missed.
//!
//! Threads wait on a separate word (a futex): one system call wakes all of them, and no thread takes a lock afterwards,
//! so a large group does not queue up again. Invariant: a thread counts itself before it reads the epoch. A notifier
//! moves the epoch before it reads the count, and moves the word if there are threads. So a thread that saw the old
//! epoch sleeps only on a word that the notifier has yet to move.
//!
//! A scheduler without threads waits with `Event::listen_as_thread`. There a waiter that [`Event::notify_one`] does not
//! choose stays asleep, as a thread does: a wake-up that is lost in production must also be lost in simulation.
//!
//! Locks: a mutex for the wakers, held for a few instructions; only wakers are cloned and dropped under it.

use crate::sync::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::thread::futex;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A moment in the life of an event: the number of notifications before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// An event: the code that changes a state notifies it, and waiters for a change of that state wait for it.
#[derive(Debug, Default)]
pub struct Event {
    epoch: AtomicU64,
    /// The number of threads that wait. While there are none, a notification makes no system call.
    threads: AtomicUsize,
    /// The futex that threads sleep on; a value other than the one they saw ends their sleep.
    word: AtomicU32,
    /// The number of `listeners`. While there are none, a notification takes no lock.
    listening: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
}

/// A waiter with a waker.
#[derive(Debug)]
struct Listener {
    waker: Waker,
    /// The rank of a waiter that waits as a thread: the least is woken first. A coroutine has none, and every
    /// notification wakes it.
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

    /// Wakes all waiters. Call it after the state was changed.
    pub fn notify_all(&self) {
        self.notify(u32::MAX >> 1);
    }

    /// Wakes one waiting thread and all coroutines; other threads may wake too. For events where one waiter is enough,
    /// and where waiters check the state again.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    fn notify(&self, threads: u32) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // A waiter registers (SeqCst) before it reads the epoch, so either it sees the new epoch or this sees the
        // waiter.
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

    /// As [`Event::listen`], but woken as a thread in [`Event::block`] is: [`Event::notify_one`] wakes, of all such
    /// waiters, only the one with the least `rank`. Two waiters at the same time must not have the same rank.
    #[cfg(feature = "simulation")]
    pub fn listen_as_thread(&self, ticket: Ticket, rank: u64) -> Listen<'_> {
        Listen { event: self, ticket, rank: Some(rank) }
    }

    /// Blocks this thread until the event was notified after `ticket`, or about `timeout` has passed. For schedulers.
    pub fn block(&self, ticket: Ticket, timeout: Option<Duration>) {
        // A timeout that is too large for the kernel means no timeout.
        let timeout = timeout.and_then(|timeout| futex::Timespec::try_from(timeout).ok());
        self.threads.fetch_add(1, Ordering::SeqCst);
        loop {
            // The word is read before the epoch; see the module.
            let word = self.word.load(Ordering::SeqCst);
            if self.passed(ticket) {
                break;
            }
            // Ends early when the word has moved, or for a signal; the loop then reads the epoch again.
            if let Err(Errno::TIMEDOUT) = futex::wait(&self.word, futex::Flags::PRIVATE, word, timeout.as_ref()) {
                break;
            }
        }
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes out the listeners that a notification of `threads` threads wakes: all coroutines, and the threads of the least
/// ranks.
fn take_woken(listeners: &mut Vec<Listener>, threads: usize) -> Vec<Listener> {
    let mut ranks: Vec<u64> = listeners.iter().filter_map(|listener| listener.rank).collect();
    if ranks.len() <= threads {
        return std::mem::take(listeners);
    }
    ranks.sort_unstable();
    let first_asleep = ranks[threads];
    listeners.extract_if(.., |listener| listener.rank.is_none_or(|rank| rank < first_asleep)).collect()
}

/// The future of [`Event::listen`].
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
    /// Removes a waiter that waits as a thread, so that it takes no wake-up from the others.
    fn drop(&mut self) {
        if self.rank.is_some() {
            let mut listeners = self.event.listeners();
            let gone: Vec<_> = listeners.extract_if(.., |listener| listener.rank == self.rank).collect();
            self.event.listening.fetch_sub(gone.len(), Ordering::SeqCst);
        }
    }
}
