//! [`Scheduler`]: runs background coroutines and makes foreground callers wait.

use super::event::{Event, Ticket};
use std::future::Future;
use std::pin::Pin;

/// A background coroutine.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// The worker of a coroutine. Log work has a worker of its own, because without io_uring a sync blocks its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Log syncs. They are short, and the promise of [`crate::Builder::log_sync_interval`] depends on their latency.
    Log,
    /// Preparation of log segments, whose syncs go to a ring where there is one. If a database has its own workers, it
    /// runs on the worker of `Log`. If several databases share workers, it runs on another worker, so that no log's
    /// syncs wait for the segments of other databases.
    LogSegments,
    /// Flushes of memtables.
    Flush,
    /// Compactions and cleanup, given to the compaction workers in turn.
    Compaction,
    /// As `Compaction`, on the worker of this number modulo their count.
    CompactionWorker(usize),
}

/// A moment in a foreground call at which the simulator may run another client or coroutine, or cut the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Log space was reserved; nothing is copied yet.
    Reserved,
    /// A part of the record is copied to the log.
    Copying,
    /// The record is copied to the log; nothing is in a memtable yet.
    Copied,
    /// The entries are in their memtables; the record is not published.
    Inserted,
    /// The record is published.
    Published,
    /// A memtable was sealed.
    Sealed,
    /// A read has loaded its view.
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
    /// Blocks a foreground caller until `event` is notified after `ticket`, or the deadline has passed.
    fn wait(&self, event: &Event, ticket: Ticket, deadline_ns: Option<u64>);
    /// Lets the simulator do something else at this moment; does nothing in production.
    fn point(&self, point: Point);
    /// Whether a worker of compactions has nothing to run at this moment: it waits for the device, or for work.
    fn has_waiting_compactor(&self) -> bool {
        false
    }
    /// Why background operations block instead of being handed to the kernel (io_uring); `None` where they are handed
    /// over.
    fn ring_refused(&self) -> Option<&str> {
        Some("the scheduler is not the operating system's")
    }
    /// Stops and joins the workers. Called when the last coroutine of a database has ended, from a foreground thread
    /// and never from a coroutine.
    fn shutdown(&self);
}

/// Yields, so that other coroutines of the same worker run.
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
