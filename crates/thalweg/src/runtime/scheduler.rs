//! [`Scheduler`]: the scheduling seam.

use super::event::{Event, Ticket};
use std::future::Future;
use std::pin::Pin;

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
