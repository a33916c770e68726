//! [`Tenant`]: one database's part of a scheduler that several databases share.
//!
//! The workers belong to the shared scheduler; the tenant counts its coroutines. [`Tenant::shutdown`] ends the
//! coroutines of this database, waits until all of them are dropped, and affects no other database. The workers stop
//! when the last handle of the shared scheduler is gone.
//!
//! Invariant: a coroutine enters its waker in `wakers` before it reads `ended` for the first time, and
//! [`Tenant::shutdown`] sets `ended` before it wakes the entered wakers. So each coroutine sees `ended`, or is woken
//! and then sees it.
//!
//! Locks: `wakers`, for an insertion or a removal. Nothing is woken or dropped under it.

use super::event::{Event, Ticket};
use super::scheduler::{Lane, Point, Scheduler, Task};
use super::threads::on_a_worker;
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A scheduler for one database, on the workers of a shared one.
pub(crate) struct Tenant {
    shared: Arc<dyn Scheduler>,
    /// Added to the numbers of compaction workers, so that the first compactors of the databases are on different
    /// workers.
    first_worker: usize,
    coroutines: Arc<Coroutines>,
}

/// The coroutines of a tenant.
#[derive(Default)]
struct Coroutines {
    ended: AtomicBool,
    running: AtomicUsize,
    /// Notified when a coroutine has ended.
    coroutine_ended: Event,
    /// The wakers of coroutines that were polled, by number.
    wakers: Mutex<BTreeMap<u64, Waker>>,
    next: AtomicU64,
}

impl Tenant {
    /// A tenant of `shared`. Its compaction worker 0 is worker `first_worker` of the shared scheduler.
    pub(super) fn new(shared: Arc<dyn Scheduler>, first_worker: usize) -> Self {
        Tenant { shared, first_worker, coroutines: Arc::default() }
    }
}

impl Scheduler for Tenant {
    fn spawn(&self, lane: Lane, task: Task) {
        let lane = match lane {
            Lane::CompactionWorker(number) => Lane::CompactionWorker(number.wrapping_add(self.first_worker)),
            other => other,
        };
        let coroutine = Coroutine::new(&self.coroutines, task);
        self.shared.spawn(lane, Box::pin(coroutine));
    }

    fn sleep_until(&self, deadline_ns: u64) -> Task {
        self.shared.sleep_until(deadline_ns)
    }

    fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>) {
        self.shared.wait(event, ticket, deadline_ns);
    }

    fn point(&self, point: Point) {
        self.shared.point(point);
    }

    fn has_waiting_compactor(&self) -> bool {
        self.shared.has_waiting_compactor()
    }

    fn ring_refused(&self) -> Option<&str> {
        self.shared.ring_refused()
    }

    /// Ends the coroutines of this database, each on its worker, and waits for that. A call on a worker does not wait,
    /// because that worker itself may have to end a coroutine.
    fn shutdown(&self) {
        let coroutines = &self.coroutines;
        coroutines.ended.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *coroutines.wakers());
        wakers.into_values().for_each(Waker::wake);
        if on_a_worker() {
            return;
        }
        loop {
            let ticket = coroutines.coroutine_ended.ticket();
            if coroutines.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.shared.wait(&coroutines.coroutine_ended, ticket, None);
        }
    }
}

impl Coroutines {
    fn wakers(&self) -> MutexGuard<'_, BTreeMap<u64, Waker>> {
        self.wakers.lock()
    }
}

/// One coroutine of a tenant, until the coroutine or the tenant ends.
struct Coroutine {
    number: u64,
    of: Arc<Coroutines>,
    /// `None` after it has ended.
    task: Option<Task>,
    entered: bool,
}

impl Coroutine {
    fn new(of: &Arc<Coroutines>, task: Task) -> Self {
        of.running.fetch_add(1, Ordering::SeqCst);
        let number = of.next.fetch_add(1, Ordering::Relaxed);
        Coroutine { number, of: Arc::clone(of), task: Some(task), entered: false }
    }
}

impl Future for Coroutine {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A worker gives one task the same waker at each poll.
        if !std::mem::replace(&mut self.entered, true) {
            self.of.wakers().insert(self.number, context.waker().clone());
        }
        if self.of.ended.load(Ordering::SeqCst) {
            self.task = None;
        }
        let Some(task) = self.task.as_mut() else { return Poll::Ready(()) };
        task.as_mut().poll(context)
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        // `task` may hold the tenant's last handles, so it is dropped before the coroutine is counted out.
        let counted = CountedOut { number: self.number, of: Arc::clone(&self.of) };
        self.task = None;
        drop(counted);
    }
}

/// Counts a coroutine out when it is dropped, even where the drop of its task panics.
struct CountedOut {
    number: u64,
    of: Arc<Coroutines>,
}

impl Drop for CountedOut {
    fn drop(&mut self) {
        let waker = self.of.wakers().remove(&self.number);
        drop(waker);
        self.of.running.fetch_sub(1, Ordering::SeqCst);
        self.of.coroutine_ended.notify_all();
    }
}

#[cfg(test)]
#[path = "tests/tenant.rs"]
mod tests;
