//! [`Ring`]: how one worker hands operations to the kernel (io_uring) and hears of their ends.
//!
//! A [`Request`] owns its file and its buffer. From [`submit`] to the completion both are the ring's: dropping the
//! future that waits frees nothing, and dropping the ring first waits for every operation. The futures themselves are
//! plain cells with a waker; they may be dropped anywhere, at any time.
//!
//! The worker calls [`turn`] between two rounds of its ready tasks (one `io_uring_enter` for all that was queued, none
//! when nothing was) and [`park`] when it has nothing to do: that ends with a completion, with the [`Bell`] that other
//! threads ring, or at a deadline. The bell is an eventfd with a read armed in the ring; it is rung only for a worker
//! that is parked, so waking a busy one costs no system call.
//!
//! Invariant: an entry is pushed to the kernel only together with the slot that keeps its memory and its file alive,
//! and a slot is emptied by its completion only.
//!
//! Locks: a cell's, held for a swap. The ring itself belongs to one thread.
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

/// Entries of the submission queue; what is more waits in [`Ring::backlog`].
const ENTRIES: u32 = 64;

/// `SYNC_FILE_RANGE_WRITE` of `linux/fs.h`.
const SYNC_FILE_RANGE_WRITE: u32 = 2;

/// The same, with `SYNC_FILE_RANGE_WAIT_BEFORE` and `SYNC_FILE_RANGE_WAIT_AFTER`.
const SYNC_FILE_RANGE_ALL: u32 = 7;

/// The completion of the bell's read.
const BELL: u64 = u64::MAX;

/// What the kernel is to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Fills the buffer up to its length.
    Read,
    /// Writes what is filled of the buffer.
    Write,
    /// Begins the write-back of so many bytes of the page cache, from the offset on.
    WriteBack(u32),
    /// Writes out what the page cache has of the file, and waits for that.
    WriteOut,
    /// `fdatasync`.
    Sync,
    /// `fsync`: of a directory, whose new names `fdatasync` may leave out.
    SyncAll,
    /// The same for so many bytes from the offset on: what `msync` of them does.
    SyncRange(u32),
    /// `fallocate` of so many bytes, from the start.
    Reserve(u64),
    /// Nothing with the file: ends after so long, with `ETIME`.
    Delay(Duration),
}

impl Operation {
    pub(super) fn is_sync(self) -> bool {
        matches!(self, Operation::WriteOut | Operation::Sync | Operation::SyncAll | Operation::SyncRange(_))
    }
}

/// An operation with all that the kernel needs for it.
pub(super) struct Request {
    pub(super) file: Arc<dyn File>,
    pub(super) operation: Operation,
    /// Where in the file the buffer belongs.
    pub(super) offset: u64,
    pub(super) buffer: Option<IoBuffer>,
    /// How much of the buffer was moved before.
    pub(super) from: usize,
    /// Given up at the completion.
    pub(super) admitted: Option<AdmittedRead>,
}

/// A request that has ended.
pub(super) struct Done {
    pub(super) request: Request,
    /// Bytes moved, or what went wrong.
    pub(super) result: io::Result<usize>,
    /// How long it took, in nanoseconds.
    pub(super) ns: u64,
}

/// A request in flight: ready with its end.
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

/// What other threads wake a parked worker with.
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn ring(&self) {
        // The counter cannot overflow: it is rung once for each time the worker parks.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// See the module.
pub(super) struct Ring {
    uring: IoUring,
    clock: Arc<dyn Clock>,
    bell: Arc<Bell>,
    /// Where the read of the bell goes; in flight while `bell_armed`.
    bell_value: Box<[u8; 8]>,
    bell_armed: bool,
    /// Operations in flight, by the number that their entry carries.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Entries for which the queue had no room yet.
    backlog: VecDeque<squeue::Entry>,
}

struct Slot {
    request: Request,
    cell: Arc<Cell>,
    started_ns: u64,
    /// What the kernel reads of a [`Operation::Delay`].
    _delay: Option<Box<Timespec>>,
}

thread_local! {
    /// The ring of the worker that this thread runs.
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// Makes `ring` the ring of this thread.
pub(super) fn install(ring: Ring) {
    RING.with(|current| *current.borrow_mut() = Some(ring));
}

/// Waits for all operations in flight, and takes the ring off this thread.
pub(super) fn uninstall() {
    drop(RING.with(|current| current.borrow_mut().take()));
}

/// Queues a request on this thread's ring. Without a ring it comes back.
pub(super) fn submit(request: Request) -> Result<InFlight, Request> {
    RING.with(|current| match current.borrow_mut().as_mut() {
        Some(ring) => ring.submit(request),
        None => Err(request),
    })
}

/// Gives what is queued to the kernel and wakes who waited for what has ended. Does not wait.
pub(super) fn turn() {
    let ended = RING.with(|current| current.borrow_mut().as_mut().map(Ring::turn));
    wake(ended.unwrap_or_default());
}

/// Gives what is queued to the kernel and waits: for a completion, the bell, or the end of `timeout`. Whoever waited
/// for what has ended is to be woken by the caller, once it is not parked any more: no bell is rung for that.
pub(super) fn park(timeout: Option<Duration>) -> Ended {
    let ended = RING.with(|current| current.borrow_mut().as_mut().map(|ring| ring.park(timeout)));
    Ended(ended.unwrap_or_default())
}

/// What has ended while its worker was parked.
#[must_use]
pub(super) struct Ended(Vec<(Arc<Cell>, Done)>);

impl Ended {
    pub(super) fn wake(self) {
        wake(self.0);
    }
}

/// Outside of the ring: a waker is foreign code, and a request that nobody waits for is dropped here.
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
        // Linux 5.11: waiting with a deadline. All operations used here are older.
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

    /// Operations in flight, the bell's own not counted.
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

    /// Moves entries to the kernel's queue, as far as there is room. Whether any are there.
    fn queue(&mut self) -> bool {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the entry's memory and file belong to its slot (or to the bell, a field of this ring), which
            // stays until the completion is seen; `drop` waits for all of them.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
        !queue.is_empty()
    }

    fn turn(&mut self) -> Vec<(Arc<Cell>, Done)> {
        while self.queue() {
            let submitted = self.uring.submit();
            // Busy or interrupted: tried again at the next turn, after what has ended made room.
            if submitted.is_err() || self.backlog.is_empty() {
                break;
            }
        }
        self.reap()
    }

    fn park(&mut self, timeout: Option<Duration>) -> Vec<(Arc<Cell>, Done)> {
        self.arm_bell();
        self.queue();
        // An interruption, the deadline, or a full completion queue: the worker looks again whatever the reason.
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

/// What the kernel is to read of a delay, at an address that stays.
fn delay(operation: Operation) -> Option<Box<Timespec>> {
    match operation {
        Operation::Delay(delay) => Some(Box::new(Timespec::from(delay))),
        _ => None,
    }
}

/// The entry for a request, which must stay where its buffer and file are until the completion. `None` for a file that
/// the kernel does not know, and for a delay, which has an entry of its own.
fn entry(request: &mut Request) -> Option<squeue::Entry> {
    let fd = Fd(request.file.descriptor()?.as_raw_fd());
    let (at, from) = (request.offset + request.from as u64, request.from);
    // What is longer goes on where it stopped, so it stops at a boundary.
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
            // Only begun, nothing awaited: then it takes no earlier error away from the sync to come either.
            opcode::SyncFileRange::new(fd, bytes).offset(at).flags(SYNC_FILE_RANGE_WRITE).build()
        }
        (Operation::WriteOut, _) => opcode::SyncFileRange::new(fd, 0).flags(SYNC_FILE_RANGE_ALL).build(),
        (Operation::Sync, _) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        (Operation::SyncAll, _) => opcode::Fsync::new(fd).build(),
        (Operation::SyncRange(bytes), _) => {
            // The kernel takes the end for the last byte: with the whole length it would write the page behind, too.
            opcode::Fsync::new(fd).offset(at).len(bytes.max(2) - 1).flags(FsyncFlags::DATASYNC).build()
        }
        (Operation::Reserve(bytes), _) => opcode::Fallocate::new(fd, bytes).build(),
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
