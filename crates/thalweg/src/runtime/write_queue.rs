//! [`WriteQueue`]: the table writes of one worker, and its *flush coroutine*, which alone makes them (PMB-14).
//!
//! Coroutines that merge hand over full buffers and continue; a full buffer never interrupts a merge (PMB-13).
//! Deferring a write is safe: a table becomes visible only after [`WrittenFile::finish`], which waits for all of its
//! writes and returns the first error. The queue is bounded in bytes; a coroutine waits, and is counted, only beyond
//! the bound.
//!
//! The flush coroutine starts writes in their order, as many at a time as the [`Gate`] admits. It ends when the last
//! [`WriteQueue`] is dropped and nothing is left to write. If it is lost, all writes that were not made fail with
//! [`Error::Closed`], and so do later ones.
//!
//! Locks: `Shared::state` and `Progress::state` are held for a push, a pop or a read, never together.

use super::event::Event;
use super::file::BackgroundFile;
use super::gate::Gate;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::storage::{BufferPool, IoBuffer};
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Bytes that may wait in a queue, without those at the device.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// A coroutine's handle of its worker's queue.
pub(crate) struct WriteQueue {
    shared: Arc<Shared>,
    /// Whether the flush coroutine makes the writes.
    is_deferred: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a write is queued, or the last producer is gone.
    queued: Event,
    /// Notified when the queue has room again, or is closed.
    taken: Event,
    buffers: Arc<BufferPool>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    writes: VecDeque<Write>,
    bytes: usize,
    producers: usize,
    /// Whether the flush coroutine is gone.
    closed: bool,
}

/// A write that is not made yet. Its drop reports its outcome.
struct Write {
    file: BackgroundFile,
    progress: Arc<Progress>,
    offset: u64,
    buffer: Option<IoBuffer>,
    outcome: Option<Result<()>>,
}

/// The state of a file's writes.
#[derive(Default)]
struct Progress {
    state: Mutex<ProgressState>,
    /// Notified when a write has ended.
    ended: Event,
}

#[derive(Default)]
struct ProgressState {
    outstanding: usize,
    /// The first error.
    error: Option<Error>,
    /// Whether the file is abandoned: queued writes are not made.
    abandoned: bool,
}

/// A file written through a queue, piece after piece.
pub(crate) struct WrittenFile {
    file: BackgroundFile,
    queue: WriteQueue,
    progress: Arc<Progress>,
}

/// The writes at the device.
type InFlight<'a> = Vec<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>;

/// Makes a queue, and the flush coroutine that serves it.
pub(crate) fn write_queue(
    buffers: Arc<BufferPool>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
) -> (WriteQueue, impl Future<Output = ()> + Send + 'static) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State { producers: 1, ..State::default() }),
        queued: Event::default(),
        taken: Event::default(),
        buffers,
        gate,
        metrics,
    });
    let closing = CloseAtEnd(Arc::clone(&shared));
    (WriteQueue { shared, is_deferred: true }, async move { closing.0.serve().await })
}

impl Clone for WriteQueue {
    fn clone(&self) -> Self {
        self.shared.state().producers += 1;
        WriteQueue { shared: Arc::clone(&self.shared), is_deferred: self.is_deferred }
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.shared.state().producers -= 1;
        self.shared.queued.notify_all();
    }
}

impl WriteQueue {
    /// The writer of `file` through this queue.
    pub(crate) fn file(&self, file: BackgroundFile) -> WrittenFile {
        WrittenFile { file, queue: self.clone(), progress: Arc::default() }
    }

    /// Returns a handle without a queue and a gate: the coroutine that hands a write over makes it and waits for it.
    /// For comparison ([`super::CompactionScheduling`]).
    pub(crate) fn undeferred(mut self) -> Self {
        self.is_deferred = false;
        self
    }

    /// The pool of buffers for this queue.
    pub(crate) fn buffers(&self) -> &Arc<BufferPool> {
        &self.shared.buffers
    }

    async fn push(&self, write: Write) -> Result<()> {
        let mut write = Some(write);
        let mut waited = false;
        loop {
            let ticket = self.shared.taken.ticket();
            {
                let mut state = self.shared.state();
                if state.closed {
                    return Err(Error::Closed);
                }
                if state.bytes < QUEUE_BYTES_MAX
                    && let Some(write) = write.take()
                {
                    state.bytes += write.bytes();
                    state.writes.push_back(write);
                    break;
                }
            }
            if !std::mem::replace(&mut waited, true) {
                self.shared.metrics.write_queue_waits.increment();
            }
            self.shared.taken.listen(ticket).await;
        }
        self.shared.queued.notify_all();
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes the queued writes, until the last producer is gone.
    async fn serve(&self) {
        let mut in_flight: InFlight<'_> = Vec::new();
        loop {
            let ticket = self.queued.ticket();
            while let Some(write) = self.take() {
                let mut admission = Box::pin(self.gate.write());
                let admitted = besides(&mut in_flight, admission.as_mut()).await;
                in_flight.push(Box::pin(async move {
                    write.make(&self.gate).await;
                    drop(admitted);
                }));
            }
            if in_flight.is_empty() && self.is_over() {
                return;
            }
            // Waits for a new write, or for the end of the last write at the device.
            let mut listen = Box::pin(self.queued.listen(ticket));
            let had = in_flight.len();
            std::future::poll_fn(|context| {
                in_flight.retain_mut(|write| write.as_mut().poll(context).is_pending());
                let over = had > 0 && in_flight.is_empty();
                if over { Poll::Ready(()) } else { listen.as_mut().poll(context) }
            })
            .await;
        }
    }

    fn take(&self) -> Option<Write> {
        let write = {
            let mut state = self.state();
            let write = state.writes.pop_front()?;
            state.bytes -= write.bytes();
            write
        };
        self.taken.notify_all();
        Some(write)
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.producers == 0 && state.writes.is_empty()
    }
}

/// Awaits `future`, and polls the writes in flight meanwhile.
async fn besides<T>(in_flight: &mut InFlight<'_>, mut future: Pin<&mut (impl Future<Output = T> + Send)>) -> T {
    std::future::poll_fn(|context| {
        in_flight.retain_mut(|write| write.as_mut().poll(context).is_pending());
        future.as_mut().poll(context)
    })
    .await
}

impl WrittenFile {
    /// Queues a write of `buffer` at `offset`. Waits only while the queue is full. An error is that of an earlier
    /// write. Without a queue, makes the write; an error may then be that of this write.
    pub(crate) async fn write(&self, offset: u64, buffer: IoBuffer) -> Result<()> {
        self.write_to(self.file.clone(), offset, buffer).await
    }

    /// As [`WrittenFile::write`], but leaves the write-back of the page cache to the sync.
    pub(crate) async fn write_late(&self, offset: u64, buffer: IoBuffer) -> Result<()> {
        self.write_to(self.file.clone().written_late(), offset, buffer).await
    }

    async fn write_to(&self, file: BackgroundFile, offset: u64, buffer: IoBuffer) -> Result<()> {
        {
            let mut progress = self.progress.state();
            if let Some(error) = &progress.error {
                return Err(error.clone());
            }
            progress.outstanding += 1;
        }
        let progress = Arc::clone(&self.progress);
        let write = Write { file, progress, offset, buffer: Some(buffer), outcome: None };
        if !self.queue.is_deferred {
            write.make(&self.queue.shared.gate).await;
            return self.progress.state().error.clone().map_or(Ok(()), Err);
        }
        self.queue.push(write).await
    }

    /// Waits until all queued writes are made. Returns the first error.
    pub(crate) async fn finish(&self) -> Result<()> {
        loop {
            let ticket = self.progress.ended.ticket();
            {
                let progress = self.progress.state();
                if progress.outstanding == 0 {
                    return progress.error.clone().map_or(Ok(()), Err);
                }
            }
            self.progress.ended.listen(ticket).await;
        }
    }

    /// Abandons the file: queued writes are not made. Waits for writes at the device.
    pub(crate) async fn abandon(&self) {
        self.progress.state().abandoned = true;
        let _ = self.finish().await;
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &BackgroundFile {
        &self.file
    }
}

impl Drop for WrittenFile {
    fn drop(&mut self) {
        self.progress.state().abandoned = true;
    }
}

impl Write {
    fn bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, IoBuffer::len)
    }

    async fn make(mut self, gate: &Gate) {
        let Some(buffer) = self.buffer.take() else { return };
        let wanted = !self.progress.state().abandoned;
        let written = if wanted { self.file.write(gate, self.offset, buffer).await } else { Ok(()) };
        self.outcome = Some(written);
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // Without an outcome the write was not made, or not waited for: the file may lack it.
        let outcome = self.outcome.take().unwrap_or(Err(Error::Closed));
        {
            let mut progress = self.progress.state();
            progress.outstanding -= 1;
            if let Err(error) = outcome {
                progress.error.get_or_insert(error);
            }
        }
        self.progress.ended.notify_all();
    }
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock()
    }
}

/// Closes the queue when the flush coroutine ends, however it ends, so that no coroutine waits for it.
struct CloseAtEnd(Arc<Shared>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state();
            state.closed = true;
            state.bytes = 0;
            std::mem::take(&mut state.writes)
        };
        drop(left);
        self.0.taken.notify_all();
    }
}

#[cfg(test)]
#[path = "tests/write_queue.rs"]
mod tests;
