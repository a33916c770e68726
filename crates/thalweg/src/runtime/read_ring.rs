//! [`ReadRings`]: how a foreground call has several reads at the device at once (io_uring).
//!
//! A call takes a ring of the pool, gives the kernel all its reads in one call, waits there for all of them, and gives
//! the ring back: no thread, no spinning, and at most [`KEPT_RINGS`] that lie idle. A file that the
//! kernel does not know (simulation), or a kernel without io_uring, gets its reads one after the other, in their order.
//!
//! Invariant: a read's file and buffer belong to the ring from before its entry is pushed until its completion is seen.
//! Where the kernel refuses to tell of completions they are leaked, and the ring is not used again.
//!
//! Locks: `free`, held for a push or a pop.
#![allow(unsafe_code)]

use super::file::is_passing;
use super::gate::ClientRead;
use super::gate::Gate;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::storage::{ALIGNMENT, File, IoBuffer};
use crate::sync::Mutex;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Reads that one ring has at the device at once; what is more waits for the first to end.
const ENTRIES: u32 = 64;

/// Rings that are kept for the next calls; each has a descriptor.
const KEPT_RINGS: usize = 16;

/// A read of as many bytes as the buffer's length says.
pub(crate) struct ForegroundRead {
    pub(crate) file: Arc<dyn File>,
    pub(crate) offset: u64,
    pub(crate) buffer: IoBuffer,
}

impl ForegroundRead {
    /// Carries it out by itself. The buffer's length says how much there was: less only at the end of the file.
    pub(crate) fn carry_out(self) -> Result<IoBuffer> {
        self.go_on(0)
    }

    /// Reads what is missing after the first `done` bytes.
    fn go_on(self, mut done: usize) -> Result<IoBuffer> {
        let ForegroundRead { file, offset, mut buffer } = self;
        let wanted = buffer.len();
        while let Some(rest) = buffer.bytes_mut().get_mut(done..wanted).filter(|rest| !rest.is_empty()) {
            match file.read_at(offset + done as u64, rest)? {
                0 => break,
                count => done += count,
            }
            // What ends off the alignment ended with the file.
            if file.is_direct() && !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        buffer.set_len(done.min(wanted));
        Ok(buffer)
    }
}

/// See the module.
pub(crate) struct ReadRings {
    free: Mutex<Vec<ReadRing>>,
    new: fn() -> io::Result<ReadRing>,
    metrics: Arc<Metrics>,
}

impl ReadRings {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        ReadRings::with(ReadRing::new, metrics)
    }

    fn with(new: fn() -> io::Result<ReadRing>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(ReadRings { free: Mutex::default(), new, metrics })
    }

    /// Whether the kernel gives rings. Why not is told once, in the counters.
    pub(crate) fn are_to_be_had(&self) -> bool {
        let ring = self.take();
        let is_there = ring.is_some();
        self.give_back(ring);
        is_there
    }

    fn take(&self) -> Option<ReadRing> {
        if let Some(ring) = self.free.lock().pop() {
            return Some(ring);
        }
        if self.metrics.read_ring_refused.get().is_some() {
            return None;
        }
        match (self.new)() {
            Ok(ring) => Some(ring),
            Err(error) => {
                if !is_shortage(&error) {
                    self.metrics.read_ring_refused.get_or_init(|| error.to_string());
                }
                None
            }
        }
    }

    fn give_back(&self, ring: Option<ReadRing>) {
        let mut free = self.free.lock();
        if free.len() < KEPT_RINGS {
            free.extend(ring.filter(|ring| ring.in_flight.is_empty()));
        }
    }

    /// Carries out all of `reads`. A buffer's length says how much there was: less only at the end of a file. `gate`
    /// knows of each for as long as it is at the device.
    pub(crate) fn read(&self, gate: &Gate, reads: Vec<ForegroundRead>) -> Vec<Result<IoBuffer>> {
        let known = reads.len() > 1 && reads.iter().all(|read| read.file.descriptor().is_some());
        let Some(mut ring) = known.then(|| self.take()).flatten() else {
            return reads.into_iter().map(|read| finish(gate, read, Ok(0))).collect();
        };
        self.metrics.reads().overlapped_reads.add(reads.len() as u64);
        let ended = ring.read(gate, reads);
        self.give_back(Some(ring));
        ended.into_iter().map(|(read, done)| finish(gate, read, done)).collect()
    }
}

/// What the kernel left to be done of a read, with calls of its own.
fn finish(gate: &Gate, read: ForegroundRead, done: io::Result<usize>) -> Result<IoBuffer> {
    let done = match done {
        Ok(done) if done >= read.buffer.len() => return Ok(read.buffer),
        Ok(done) => done,
        Err(error) if is_passing(&error) => 0,
        Err(error) => return Err(Error::io("read", read.file.path(), error)),
    };
    let _at_the_device = gate.client_read();
    read.go_on(done)
}

/// Of errors that tell how things are now, not how they will be.
fn is_shortage(error: &io::Error) -> bool {
    is_passing(error) || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// One ring, used by one call at a time.
struct ReadRing {
    uring: IoUring,
    /// By the number that their entries carry.
    in_flight: Vec<Option<ForegroundRead>>,
}

impl ReadRing {
    /// A ring, or why the kernel refuses one.
    fn new() -> io::Result<ReadRing> {
        let uring = IoUring::new(ENTRIES)?;
        if !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's io_uring may lose completions"));
        }
        Ok(ReadRing { uring, in_flight: Vec::new() })
    }

    /// All reads with what became of each, in their order.
    fn read(&mut self, gate: &Gate, reads: Vec<ForegroundRead>) -> Vec<(ForegroundRead, io::Result<usize>)> {
        let count = reads.len();
        self.in_flight = reads.into_iter().map(Some).collect();
        let mut ended: Vec<Option<(ForegroundRead, io::Result<usize>)>> = (0..count).map(|_| None).collect();
        let mut admitted: Vec<Option<ClientRead<'_>>> = (0..count).map(|_| None).collect();
        let (mut pushed, mut left) = (0, count);
        while left > 0 {
            pushed = self.push(gate, pushed, &mut admitted, count - left);
            match self.uring.submit_and_wait(1) {
                Ok(_) => {}
                // Interrupted, or busy until completions are taken.
                Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(_) => return self.give_up(ended),
            }
            for completion in self.uring.completion() {
                let number = completion.user_data() as usize;
                let read = self.in_flight.get_mut(number).and_then(Option::take);
                let (Some(read), Some(end)) = (read, ended.get_mut(number)) else {
                    unreachable!("a completion of nothing that was submitted");
                };
                admitted[number] = None;
                *end = Some((read, outcome(completion.result())));
                left -= 1;
            }
        }
        self.in_flight.clear();
        ended.into_iter().flatten().collect()
    }

    /// Queues reads from number `next` on, so that no more than [`ENTRIES`] are with the kernel. Gives the next number.
    fn push<'g>(
        &mut self,
        gate: &'g Gate,
        mut next: usize,
        admitted: &mut [Option<ClientRead<'g>>],
        ended: usize,
    ) -> usize {
        let mut queue = self.uring.submission();
        while next - ended < ENTRIES as usize {
            let Some(Some(read)) = self.in_flight.get_mut(next) else { break };
            let Some(fd) = read.file.descriptor().map(|fd| Fd(fd.as_raw_fd())) else { break };
            let wanted = read.buffer.len();
            let Some(bytes) = read.buffer.bytes_mut().get_mut(..wanted) else { break };
            // No buffer has 4 GiB; what is short is read on by the caller.
            let len = u32::try_from(bytes.len()).unwrap_or(!0xfff);
            let entry = opcode::Read::new(fd, bytes.as_mut_ptr(), len).offset(read.offset).build();
            // SAFETY: the file and the memory belong to `in_flight`, which gives a read away only with its completion,
            // and leaks it where there is none.
            if unsafe { queue.push(&entry.user_data(next as u64)) }.is_err() {
                break;
            }
            admitted[next] = Some(gate.client_read());
            next += 1;
        }
        next
    }

    /// The kernel does not answer for this ring any more: what it has stays its own for ever, and those reads are to be
    /// made anew.
    fn give_up(
        &self,
        ended: Vec<Option<(ForegroundRead, io::Result<usize>)>>,
    ) -> Vec<(ForegroundRead, io::Result<usize>)> {
        let anew = |number: usize| {
            let lost = self.in_flight.get(number)?.as_ref()?;
            let (file, buffer) = (Arc::clone(&lost.file), lost.buffer.another());
            Some((ForegroundRead { file, offset: lost.offset, buffer }, Ok(0)))
        };
        ended.into_iter().enumerate().filter_map(|(number, end)| end.or_else(|| anew(number))).collect()
    }
}

impl Drop for ReadRing {
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_flight));
    }
}

fn outcome(result: i32) -> io::Result<usize> {
    match result {
        error if error < 0 => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        count => Ok(count.unsigned_abs() as usize),
    }
}

#[cfg(test)]
#[path = "tests/read_ring.rs"]
mod tests;
