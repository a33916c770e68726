//! [`WorkerRead`]: a read of a file that a worker's ring makes for a future of any executor.
//!
//! The read is a coroutine of its own. It holds the file and the buffer, so the future may be dropped at any time. It
//! wakes the waker of the future on the worker's thread.
//!
//! Locks: `Reading::state`, held for a swap; no waker is woken or dropped under it.

use super::file::BackgroundFile;
use super::gate::Gate;
use super::read_ring::ForegroundRead;
use super::scheduler::{Lane, Scheduler};
use crate::error::Result;
use crate::storage::IoBuffer;
use crate::sync::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A read that a worker makes. Its output is `None` if the workers have ended and the read was not made.
pub(crate) struct WorkerRead {
    reading: Arc<Reading>,
}

#[derive(Default)]
struct Reading {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The outcome, once the coroutine has ended. Inner `None`: the coroutine was dropped before the read ended.
    ended: Option<Option<Result<IoBuffer>>>,
    waker: Option<Waker>,
}

/// Makes a read on a worker of compactions. The length of the buffer is the number of bytes read, which is smaller only
/// at the end of the file.
pub(crate) fn read_on_worker(scheduler: &dyn Scheduler, gate: &Arc<Gate>, read: ForegroundRead) -> WorkerRead {
    let reading = Arc::<Reading>::default();
    let mut end = End { reading: Arc::clone(&reading), outcome: None };
    let gate = Arc::clone(gate);
    let task = async move {
        // The coroutine takes the whole of `end`, so that a worker that drops the coroutine ends the read.
        let end = &mut end;
        end.outcome = Some(BackgroundFile::new(read.file).read(&gate, read.offset, read.buffer).await);
    };
    scheduler.spawn(Lane::Compaction, Box::pin(task));
    WorkerRead { reading }
}

impl Future for WorkerRead {
    type Output = Option<Result<IoBuffer>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.reading.state.lock();
        if let Some(outcome) = state.ended.take() {
            return Poll::Ready(outcome);
        }
        let earlier = match &state.waker {
            Some(waker) if waker.will_wake(context.waker()) => None,
            _ => state.waker.replace(context.waker().clone()),
        };
        drop(state);
        drop(earlier);
        Poll::Pending
    }
}

/// Ends the read when it is dropped, at the latest with its coroutine.
struct End {
    reading: Arc<Reading>,
    outcome: Option<Result<IoBuffer>>,
}

impl Drop for End {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let waker = {
            let mut state = self.reading.state.lock();
            state.ended = Some(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
#[path = "tests/worker_read.rs"]
mod tests;
