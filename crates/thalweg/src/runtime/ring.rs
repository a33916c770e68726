//! [`Ring`]: one worker's io_uring: hands operations to the kernel and reports their completions.
//!
//! A [`Request`] owns its file and its buffer. From [`submit`] to the completion the ring owns both: dropping the
//! future that waits frees nothing, and dropping the ring first waits for every operation. The futures are plain cells
//! with a waker, and may be dropped at any time on any thread.
//!
//! The worker calls [`submit_and_reap`] between two rounds of its ready tasks: one `io_uring_enter` for all queued
//! operations, or none when nothing is queued. It calls [`park`] when it has nothing to do. Parking ends with a
//! completion, with the [`Bell`] that other threads ring, or at a deadline. The bell is an eventfd with a read armed in
//! the ring. It is rung only for a parked worker, so waking a busy worker makes no system call.
//!
//! Invariant: an entry is pushed to the kernel only together with the slot that keeps its memory and its file alive,
//! and only its completion empties a slot.
//!
//! Locks: a cell's, held for a swap. The ring belongs to one thread.
#![allow(unsafe_code)]

use super::gate::AdmittedRead;
use crate::clock::Clock;
use crate::storage::{File, IoBuffer};
use crate::sync::Mutex;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Entries of the submission queue; more wait in [`Ring::backlog`].
const ENTRIES: u32 = 64;

/// `SYNC_FILE_RANGE_WRITE` of `linux/fs.h`.
const SYNC_FILE_RANGE_WRITE: u32 = 2;

/// [`SYNC_FILE_RANGE_WRITE`] with `SYNC_FILE_RANGE_WAIT_BEFORE` and `SYNC_FILE_RANGE_WAIT_AFTER`.
const SYNC_FILE_RANGE_ALL: u32 = 7;

/// The user data of the bell's read.
const BELL: u64 = u64::MAX;

/// An operation of the kernel on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Fills the buffer up to its length.
    Read,
    /// Writes the filled bytes of the buffer.
    Write,
    /// Begins the write-back of this many bytes of the page cache, from the offset on.
    WriteBack(u32),
    /// Writes out the dirty pages of this many bytes from the offset on (0: of all that follow), and waits for that.
    WriteOut(u32),
    /// `fdatasync`.
    Sync,
    /// `fsync`, for a directory, whose new names `fdatasync` may leave out.
    SyncAll,
    /// `fdatasync` of this many bytes from the offset on, as `msync` of them does.
    SyncRange(u32),
    /// `fallocate` of this many bytes, from the start.
    Reserve(u64),
    /// `ftruncate` to this many bytes. Kernels before Linux 6.9 answer `EINVAL`.
    SetBytes(u64),
    /// Ends after this time, with `ETIME`; does nothing with the file.
    Delay(Duration),
}

impl Operation {
    pub(super) fn is_sync(self) -> bool {
        matches!(self, Operation::WriteOut(_) | Operation::Sync | Operation::SyncAll | Operation::SyncRange(_))
    }
}

/// An operation with its file and buffer.
pub(super) struct Request {
    pub(super) file: Arc<dyn File>,
    pub(super) operation: Operation,
    /// The offset in the file of the buffer's first byte.
    pub(super) offset: u64,
    pub(super) buffer: Option<IoBuffer>,
    /// Bytes of the buffer that an earlier request moved.
    pub(super) from: usize,
    /// Dropped at the completion.
    pub(super) admitted: Option<AdmittedRead>,
}

/// A completed request.
pub(super) struct Done {
    pub(super) request: Request,
    /// The number of bytes moved, or the error.
    pub(super) result: io::Result<usize>,
    /// The time that it took, in nanoseconds.
    pub(super) ns: u64,
}

/// A request in flight; a future that is ready at its completion.
pub(super) struct InFlight {
    cell: Arc<Cell>,
}

#[derive(Default)]
struct Cell {
    state: Mutex<CellState>,
}

#[derive(Default)]
struct CellState {
    done: Option<Done>,
    waker: Option<Waker>,
}

impl Future for InFlight {
    type Output = Done;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let mut state = self.cell.state.lock();
        match state.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A bell with which other threads wake a parked worker.
pub(super) struct Bell(OwnedFd);

impl Bell {
    /// Wakes the worker.
    pub(super) fn ring(&self) {
        // The counter cannot overflow: the bell is rung once for each time that the worker parks.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// One worker's io_uring.
pub(super) struct Ring {
    uring: IoUring,
    clock: Arc<dyn Clock>,
    bell: Arc<Bell>,
    /// The buffer of the bell's read, which is in flight while `bell_armed`.
    bell_value: Box<[u8; 8]>,
    bell_armed: bool,
    /// Operations in flight, by the number in their user data.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Entries that did not fit in the submission queue yet.
    backlog: VecDeque<squeue::Entry>,
}

struct Slot {
    request: Request,
    cell: Arc<Cell>,
    started_ns: u64,
    /// The memory that the kernel reads for an [`Operation::Delay`].
    _delay: Option<Box<Timespec>>,
}

thread_local! {
    /// The ring of the worker on this thread.
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// Makes `ring` the ring of this thread.
pub(super) fn install(ring: Ring) {
    RING.with(|current| *current.borrow_mut() = Some(ring));
}

/// Waits for all operations in flight, and drops this thread's ring.
pub(super) fn uninstall() {
    drop(RING.with(|current| current.borrow_mut().take()));
}

/// Queues a request on this thread's ring. Without a ring it returns the request.
pub(super) fn submit(request: Request) -> Result<InFlight, Request> {
    RING.with(|current| match current.borrow_mut().as_mut() {
        Some(ring) => ring.submit(request),
        None => Err(request),
    })
}

/// Submits the queued entries to the kernel, and wakes the waiters of completed requests. Does not wait.
pub(super) fn submit_and_reap() {
    let ended = RING.with(|current| current.borrow_mut().as_mut().map(Ring::submit_and_reap));
    wake(ended.unwrap_or_default());
}

/// Submits the queued entries to the kernel and waits for a completion, the bell, or the end of `timeout`. The caller
/// wakes the waiters of completed requests when its worker is no longer parked, so that this rings no bell.
pub(super) fn park(timeout: Option<Duration>) -> Ended {
    let ended = RING.with(|current| current.borrow_mut().as_mut().map(|ring| ring.park(timeout)));
    Ended(ended.unwrap_or_default())
}

/// The requests that completed while their worker was parked.
#[must_use]
pub(super) struct Ended(Vec<(Arc<Cell>, Done)>);

impl Ended {
    pub(super) fn wake(self) {
        wake(self.0);
    }
}

/// Wakes the waiters of completed requests. Must be called without a borrow of the ring: a waker is foreign code, and a
/// request without a waiter is dropped here.
fn wake(ended: Vec<(Arc<Cell>, Done)>) {
    for (cell, mut done) in ended {
        done.request.admitted = None;
        let waker = {
            let mut state = cell.state.lock();
            state.done = Some(done);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ring {
    /// A ring, or why the kernel refuses one.
    pub(super) fn new(clock: Arc<dyn Clock>) -> io::Result<Ring> {
        let uring = IoUring::new(ENTRIES)?;
        // Waiting with a deadline needs Linux 5.11. All operations but `SetBytes` are older.
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring cannot wait with a deadline",
            ));
        }
        let bell = Arc::new(Bell(eventfd(0, EventfdFlags::CLOEXEC)?));
        let bell_value = Box::new([0; 8]);
        let (slots, free, backlog) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Ring { uring, clock, bell, bell_value, bell_armed: false, slots, free, backlog })
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The number of operations in flight, without the bell's read.
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn submit(&mut self, mut request: Request) -> Result<InFlight, Request> {
        let delay = delay(request.operation);
        let delayed = |timespec: &Timespec| opcode::Timeout::new(timespec).build();
        let Some(entry) = delay.as_deref().map(delayed).or_else(|| entry(&mut request)) else { return Err(request) };
        let cell = Arc::<Cell>::default();
        let slot = Slot { request, cell: Arc::clone(&cell), started_ns: self.clock.now_ns(), _delay: delay };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number] = Some(slot);
                number
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        };
        self.backlog.push_back(entry.user_data(number as u64));
        Ok(InFlight { cell })
    }

    /// Moves as many entries as fit to the submission queue. Returns whether the queue has any.
    fn queue(&mut self) -> bool {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the entry's memory and file belong to its slot (or to the bell, a field of this ring), which
            // stays until the completion is seen; `drop` waits for all completions.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
        !queue.is_empty()
    }

    fn submit_and_reap(&mut self) -> Vec<(Arc<Cell>, Done)> {
        while self.queue() {
            let submitted = self.uring.submit();
            // Busy or interrupted: retried at the next call, after completions were reaped.
            if submitted.is_err() || self.backlog.is_empty() {
                break;
            }
        }
        self.reap()
    }

    fn park(&mut self, timeout: Option<Duration>) -> Vec<(Arc<Cell>, Done)> {
        self.arm_bell();
        self.queue();
        // The worker checks for work whatever the outcome: an interruption, the deadline, a full completion queue.
        let _ = match timeout {
            None => self.uring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        self.reap()
    }

    fn arm_bell(&mut self) {
        if !std::mem::replace(&mut self.bell_armed, true) {
            let (bytes, len) = (self.bell_value.as_mut_ptr(), self.bell_value.len() as u32);
            let entry = opcode::Read::new(Fd(self.bell.0.as_raw_fd()), bytes, len).build();
            self.backlog.push_back(entry.user_data(BELL));
        }
    }

    fn reap(&mut self) -> Vec<(Arc<Cell>, Done)> {
        let mut ended = Vec::new();
        let now_ns = if self.uring.completion().is_empty() { return ended } else { self.clock.now_ns() };
        for completion in self.uring.completion() {
            if completion.user_data() == BELL {
                self.bell_armed = false;
                continue;
            }
            let number = completion.user_data() as usize;
            let Some(Slot { request, cell, started_ns, .. }) = self.slots.get_mut(number).and_then(Option::take) else {
                unreachable!("a completion of nothing that was submitted");
            };
            self.free.push(number);
            let result = match completion.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(error.saturating_neg())),
                count => Ok(count.unsigned_abs() as usize),
            };
            ended.push((cell, Done { request, result, ns: now_ns.saturating_sub(started_ns) }));
        }
        ended
    }
}

/// The memory that the kernel reads for a delay, at an address that stays.
fn delay(operation: Operation) -> Option<Box<Timespec>> {
    match operation {
        Operation::Delay(delay) => Some(Box::new(Timespec::from(delay))),
        _ => None,
    }
}

/// The entry for a request, whose buffer and file must stay in place until the completion. `None` for a file without a
/// descriptor, and for a delay, whose entry is made elsewhere.
fn entry(request: &mut Request) -> Option<squeue::Entry> {
    let fd = Fd(request.file.descriptor()?.as_raw_fd());
    let (at, from) = (request.offset + request.from as u64, request.from);
    // A longer request continues where it stopped, so it stops at a multiple of 4096.
    let len = |bytes: usize| u32::try_from(bytes).unwrap_or(!0xfff);
    Some(match (request.operation, &mut request.buffer) {
        (Operation::Read, Some(buffer)) => {
            let wanted = buffer.len();
            let rest = buffer.bytes_mut().get_mut(from..wanted)?;
            opcode::Read::new(fd, rest.as_mut_ptr(), len(rest.len())).offset(at).build()
        }
        (Operation::Write, Some(buffer)) => {
            let rest = buffer.filled().get(from..)?;
            opcode::Write::new(fd, rest.as_ptr(), len(rest.len())).offset(at).build()
        }
        (Operation::WriteBack(bytes), _) => {
            // Only begins the write-back, so an earlier error stays for the sync to report.
            opcode::SyncFileRange::new(fd, bytes).offset(at).flags(SYNC_FILE_RANGE_WRITE).build()
        }
        (Operation::WriteOut(bytes), _) => {
            opcode::SyncFileRange::new(fd, bytes).offset(at).flags(SYNC_FILE_RANGE_ALL).build()
        }
        (Operation::Sync, _) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        (Operation::SyncAll, _) => opcode::Fsync::new(fd).build(),
        (Operation::SyncRange(bytes), _) => {
            // The kernel takes offset + length for the last byte: with the whole length it would write the next page
            // too.
            opcode::Fsync::new(fd).offset(at).len(bytes.max(2) - 1).flags(FsyncFlags::DATASYNC).build()
        }
        (Operation::Reserve(bytes), _) => opcode::Fallocate::new(fd, bytes).build(),
        (Operation::SetBytes(bytes), _) => opcode::Ftruncate::new(fd, bytes).build(),
        (Operation::Read | Operation::Write, None) | (Operation::Delay(_), _) => return None,
    })
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            wake(self.park(None));
        }
        if self.bell_armed {
            self.bell.ring();
        }
        while self.bell_armed {
            self.queue();
            let _ = self.uring.submit_and_wait(1);
            wake(self.reap());
        }
    }
}

#[cfg(test)]
#[path = "tests/ring.rs"]
mod tests;
