//! Background coroutines, and how foreground calls wait: the scheduling seam.
//!
//! Background work is `async fn`, spawned on a [`Scheduler`]. Foreground calls are plain functions; where one must wait
//! it does so on an [`Event`] through [`Environment::wait_until`], and nowhere else. In production a [`Scheduler`] is
//! worker threads ([`threads::ThreadScheduler`]) and a wait is a condition variable; in simulation it is one thread
//! with a seeded choice of what runs next, and a wait runs other clients and background steps until it may go on.
//!
//! No lock may be held across an `.await`, a [`Environment::wait_until`] or a [`Environment::point`].

mod descriptors;
mod event;
mod file;
mod gate;
mod health;
mod metered;
mod read_ring;
mod reserve;
mod ring;
mod several;
mod shared;
mod space;
mod tenant;
pub mod threads;
mod trouble;
mod turn;
mod write_queue;

pub(crate) use descriptors::frugal;
pub use event::{Event, Ticket};
pub(crate) use file::{BackgroundDirectory, BackgroundFile};
pub(crate) use gate::Gate;
pub(crate) use health::Health;
pub(crate) use metered::metered;
pub(crate) use read_ring::{ForegroundRead, ReadRings};
pub(crate) use several::several;
pub use shared::Runtime;
pub(crate) use space::{Room, Space};
pub use trouble::BackgroundWork;
pub(crate) use trouble::{Trouble, TroubleCell};
pub(crate) use turn::Turn;
pub(crate) use write_queue::{WriteQueue, WrittenFile, write_queue};

use crate::clock::{Clock, Entropy};
use crate::storage::Storage;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A background coroutine.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// Which worker a coroutine belongs to. Log work has one of its own: where there is no io_uring a sync holds up its
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Log syncs: short, and a promise hangs on their time.
    Log,
    /// Preparation of log segments, where a ring takes its syncs. On the worker of `Log` where a database has workers
    /// of its own; where several share them, on another, so that no log's syncs wait for the segments of others.
    LogSegments,
    /// Flushes of memtables.
    Flush,
    /// Compactions and cleanup; dealt to the compaction workers in turn.
    Compaction,
    /// As `Compaction`, on the worker of this number (modulo how many there are).
    CompactionWorker(usize),
}

/// A moment in a foreground call at which the simulator may run somebody else, or cut the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Log space was reserved; nothing is copied yet.
    Reserved,
    /// A part of the record was copied to the log.
    Copying,
    /// The record was copied to the log; nothing is in a memtable yet.
    Copied,
    /// The entries are in their memtables; the record is not published.
    Inserted,
    /// The record is published.
    Published,
    /// A memtable was sealed.
    Sealed,
    /// A read took its view.
    Viewed,
    /// A foreground sync is about to be issued, or has returned and is not yet recorded.
    Syncing,
}

/// Runs coroutines and makes foreground callers wait.
pub trait Scheduler: Send + Sync + 'static {
    /// Starts a coroutine.
    fn spawn(&self, lane: Lane, task: Task);
    /// A future that is ready at `deadline_ns` of the environment's clock.
    fn sleep_until(&self, deadline_ns: u64) -> Task;
    /// Blocks a foreground caller until `event` was notified after `ticket` was taken, or the deadline has passed.
    fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>);
    /// A moment at which the simulator may do something else; nothing in production.
    fn point(&self, point: Point);
    /// Why background operations are not handed to the kernel (io_uring) but block; `None` where they are.
    fn ring_refused(&self) -> Option<&str> {
        Some("the scheduler is not the operating system's")
    }
    /// Called once the last coroutine of a database has ended: stops and joins the workers. Called from a foreground
    /// thread, never from a coroutine.
    fn shutdown(&self);
}

/// Everything an engine reaches the world through.
#[derive(Clone)]
pub struct Environment {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Coroutines and waiting.
    pub scheduler: Arc<dyn Scheduler>,
}

impl Environment {
    /// Blocks a foreground caller until `condition` gives a value. The condition is evaluated again after each
    /// notification of `event`; whoever makes it true must notify after doing so.
    pub(crate) fn wait_until<T>(&self, event: &Event, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            let ticket = event.ticket();
            if let Some(value) = condition() {
                return value;
            }
            self.scheduler.wait(event, ticket, None);
        }
    }

    /// As [`Environment::wait_until`], for a coroutine.
    pub(crate) async fn until<T>(&self, event: &Event, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            let ticket = event.ticket();
            if let Some(value) = condition() {
                return value;
            }
            event.listen(ticket).await;
        }
    }

    /// Ends when `duration_ns` have passed or `event` was notified after `ticket`, whichever is first.
    pub(crate) async fn sleep_or(&self, duration_ns: u64, event: &Event, ticket: Ticket) {
        let deadline = self.clock.now_ns().saturating_add(duration_ns);
        let mut sleep = self.scheduler.sleep_until(deadline);
        let mut listen = std::pin::pin!(event.listen(ticket));
        std::future::poll_fn(move |context| {
            if listen.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// See [`Scheduler::point`].
    pub(crate) fn point(&self, point: Point) {
        self.scheduler.point(point);
    }
}

/// Lets other coroutines of the same worker run.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
