//! [`ReadRings`]: lets a foreground call have several reads at the device at once (io_uring).
//!
//! A call takes a ring from the pool, submits all its reads in one system call, waits for all of them there, and
//! returns the ring. That needs no thread and no spinning, and at most [`KEPT_RINGS`] idle rings. Files without a
//! descriptor (in simulation) are read one after the other, in order; so are all files on a kernel without io_uring.
//!
//! Invariant: the ring owns a read's file and buffer from before its entry is pushed until its completion is seen. When
//! the kernel stops reporting completions they are leaked, and the ring is not used again.
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

/// Reads that one ring has at the device at once; more wait for the first completion.
const ENTRIES: u32 = 64;

/// Idle rings that are kept for later calls; each has a descriptor.
const KEPT_RINGS: usize = 16;

/// A read. The length of its buffer is the number of bytes to read.
pub(crate) struct ForegroundRead {
    pub(crate) file: Arc<dyn File>,
    pub(crate) offset: u64,
    pub(crate) buffer: IoBuffer,
}

impl ForegroundRead {
    /// Makes the read by system calls. The length of the returned buffer is the number of bytes read, which is smaller
    /// only at the end of the file.
    pub(crate) fn carry_out(self) -> Result<IoBuffer> {
        self.read_rest(0)
    }

    /// Reads the bytes after the first `done`.
    fn read_rest(self, mut done: usize) -> Result<IoBuffer> {
        let ForegroundRead { file, offset, mut buffer } = self;
        let wanted = buffer.len();
        while let Some(rest) = buffer.bytes_mut().get_mut(done..wanted).filter(|rest| !rest.is_empty()) {
            match file.read_at(offset + done as u64, rest)? {
                0 => break,
                count => done += count,
            }
            // A direct read that ends off the alignment has reached the end of the file.
            if file.is_direct() && !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        buffer.set_len(done.min(wanted));
        Ok(buffer)
    }
}

/// A pool of rings for foreground reads.
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

    /// Whether the kernel gives rings. If not, the counters have the reason.
    pub(crate) fn are_to_be_had(&self) -> bool {
        let ring = self.take();
        let is_available = ring.is_some();
        self.give_back(ring);
        is_available
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

    /// Makes all of `reads`. The length of a returned buffer is the number of bytes read, which is smaller only at the
    /// end of a file. `gate` counts each read while it is at the device.
    pub(crate) fn read(&self, gate: &Gate, reads: Vec<ForegroundRead>) -> Vec<Result<IoBuffer>> {
        let have_descriptors = reads.len() > 1 && reads.iter().all(|read| read.file.descriptor().is_some());
        let Some(mut ring) = have_descriptors.then(|| self.take()).flatten() else {
            return reads.into_iter().map(|read| finish(gate, read, Ok(0))).collect();
        };
        self.metrics.reads().overlapped_reads.add(reads.len() as u64);
        let ended = ring.read(gate, reads);
        self.give_back(Some(ring));
        ended.into_iter().map(|(read, done)| finish(gate, read, done)).collect()
    }
}

/// Makes the part of a read that the kernel left undone, by system calls.
fn finish(gate: &Gate, read: ForegroundRead, done: io::Result<usize>) -> Result<IoBuffer> {
    let done = match done {
        Ok(done) if done >= read.buffer.len() => return Ok(read.buffer),
        Ok(done) => done,
        Err(error) if is_passing(&error) => 0,
        Err(error) => return Err(Error::io("read", read.file.path(), error)),
    };
    let _at_the_device = gate.client_read();
    read.read_rest(done)
}

/// Whether the kernel may give a ring later.
fn is_shortage(error: &io::Error) -> bool {
    is_passing(error) || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// One ring, which one call uses at a time.
struct ReadRing {
    uring: IoUring,
    /// Reads in flight, by the number in their user data.
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

    /// Makes all reads. Returns each with its outcome, in order.
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
                // Interrupted, or busy until completions are reaped.
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

    /// Queues reads from number `next` on, up to [`ENTRIES`] in flight. Returns the next number.
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
            // No buffer has 4 GiB, and the caller completes a short read.
            let len = u32::try_from(bytes.len()).unwrap_or(!0xfff);
            let entry = opcode::Read::new(fd, bytes.as_mut_ptr(), len).offset(read.offset).build();
            // SAFETY: the file and the memory belong to `in_flight`, which releases a read only at its completion, and
            // leaks it if there is none.
            if unsafe { queue.push(&entry.user_data(next as u64)) }.is_err() {
                break;
            }
            admitted[next] = Some(gate.client_read());
            next += 1;
        }
        next
    }

    /// Abandons the reads in flight, because the kernel reports no more completions. Their memory is leaked, and copies
    /// of them are returned, to be made again.
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
