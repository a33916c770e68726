//! [`ReadRings`]: lets a foreground call have several reads at the device at once (io_uring).
//!
//! A call takes a ring from the pool, submits all its reads in one system call, waits for all of them there, and
//! returns the ring. That needs no thread and no spinning, and at most [`KEPT_RINGS`] idle rings. Files without a
//! descriptor (in simulation) are read one after the other, in order; so are all files on a kernel without io_uring.
//! [`super::ReadQueue`] has a ring for longer than a call.
//!
//! Invariant: a [`ReadRing`] owns a read's file and buffer from before its entry is pushed until its completion is
//! seen. If the kernel stops reporting completions, the ring leaks files and buffers, and is not used again.
//!
//! Locks: `free`, held for a push or a pop.
#![allow(unsafe_code)]

use super::file::is_passing;
use super::gate::{AdmittedRead, Gate};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::storage::{ALIGNMENT, File, IoBuffer};
use crate::sync::Mutex;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The most reads that a ring of the pool has at the device at once. Further reads wait for the first completion.
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
    pub(super) fn read_rest(self, mut done: usize) -> Result<IoBuffer> {
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
    /// Makes a ring of this many entries.
    new: fn(u32) -> io::Result<ReadRing>,
    pub(super) metrics: Arc<Metrics>,
}

impl ReadRings {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        ReadRings::with(ReadRing::new, metrics)
    }

    pub(super) fn with(new: fn(u32) -> io::Result<ReadRing>, metrics: Arc<Metrics>) -> Arc<Self> {
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
        let free = self.free.lock().pop();
        free.or_else(|| self.make(ENTRIES))
    }

    /// Makes a ring outside of the pool, if the kernel gives one.
    pub(super) fn make(&self, entries: u32) -> Option<ReadRing> {
        if self.metrics.read_ring_refused.get().is_some() {
            return None;
        }
        match (self.new)(entries) {
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
            free.extend(ring.filter(|ring| !ring.is_lost));
        }
    }

    /// Makes all of `reads`. The length of a returned buffer is the number of bytes read, which is smaller only at the
    /// end of a file. `gate` counts each read while it is at the device.
    pub(crate) fn read(&self, gate: &Arc<Gate>, reads: Vec<ForegroundRead>) -> Vec<Result<IoBuffer>> {
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
pub(super) fn finish(gate: &Gate, read: ForegroundRead, done: io::Result<usize>) -> Result<IoBuffer> {
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

/// One ring, which one thread uses at a time.
pub(super) struct ReadRing {
    uring: IoUring,
    /// The most reads in flight.
    entries: usize,
    /// Reads in flight, by the number in their user data.
    in_flight: Vec<Option<InFlight>>,
    /// The numbers of the reads that the kernel does not know of yet.
    pushed: Vec<usize>,
    count: usize,
    /// Whether the kernel has stopped reporting completions.
    is_lost: bool,
}

/// A read that the ring owns.
struct InFlight {
    read: ForegroundRead,
    gate: Arc<Gate>,
    /// Counts the read from its submission on.
    at_the_device: Option<AdmittedRead>,
}

/// A read with its number, and the bytes that it brought.
pub(super) type Ended = (usize, ForegroundRead, io::Result<usize>);

impl ReadRing {
    /// A ring, or why the kernel refuses one.
    fn new(entries: u32) -> io::Result<ReadRing> {
        let uring = IoUring::new(entries)?;
        if !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's io_uring may lose completions"));
        }
        Ok(ReadRing {
            uring,
            entries: entries as usize,
            in_flight: Vec::new(),
            pushed: Vec::new(),
            count: 0,
            is_lost: false,
        })
    }

    /// The number of reads that are in flight or pushed.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The number of reads that the kernel does not know of yet.
    pub(super) fn pushed(&mut self) -> usize {
        self.uring.submission().len()
    }

    /// Queues a read for the next [`ReadRing::enter`]. Returns it if the ring has no room, or the file no descriptor.
    /// No other read in flight has its number.
    pub(super) fn push(
        &mut self,
        number: usize,
        mut read: ForegroundRead,
        gate: &Arc<Gate>,
    ) -> std::result::Result<(), ForegroundRead> {
        let wanted = read.buffer.len();
        let fd = read.file.descriptor().map(|fd| Fd(fd.as_raw_fd()));
        let bytes = read.buffer.bytes_mut().get_mut(..wanted);
        let (Some(fd), Some(bytes), true) = (fd, bytes, self.count < self.entries) else { return Err(read) };
        // A longer read stops at a multiple of 4096, and the caller completes it.
        let len = u32::try_from(bytes.len()).unwrap_or(!0xfff);
        let entry = opcode::Read::new(fd, bytes.as_mut_ptr(), len).offset(read.offset).build();
        if self.in_flight.len() <= number {
            self.in_flight.resize_with(number + 1, || None);
        }
        let in_flight = InFlight { read, gate: Arc::clone(gate), at_the_device: None };
        let free = self.in_flight[number].replace(in_flight);
        assert!(free.is_none(), "two reads of one number");
        // SAFETY: the file and the memory belong to `in_flight`, which releases a read only at its completion, and
        // leaks it if there is none. Moving a read moves neither.
        if unsafe { self.uring.submission().push(&entry.user_data(number as u64)) }.is_err() {
            let Some(back) = self.in_flight[number].take() else { unreachable!("it was just put there") };
            return Err(back.read);
        }
        self.count += 1;
        self.pushed.push(number);
        Ok(())
    }

    /// Submits the pushed reads, and waits until `wanted` completions are there. If it returns with fewer, the caller
    /// tries again. `false`: the kernel reports no more completions; see [`ReadRing::give_up`].
    pub(super) fn enter(&mut self, wanted: usize) -> bool {
        // The gate counts reads only from here on: reads that wait to be submitted must not delay the database's
        // writes.
        for number in self.pushed.drain(..) {
            if let Some(Some(submitted)) = self.in_flight.get_mut(number) {
                submitted.at_the_device = Some(submitted.gate.owned_client_read());
            }
        }
        match self.uring.submit_and_wait(wanted) {
            Ok(_) => true,
            // Interrupted, or busy until completions are reaped.
            Err(error) => is_passing(&error) || error.raw_os_error() == Some(libc::EBUSY),
        }
    }

    /// The next read that has ended. Makes no system call.
    pub(super) fn next(&mut self) -> Option<Ended> {
        let completion = self.uring.completion().next()?;
        let number = completion.user_data() as usize;
        let Some(InFlight { read, .. }) = self.in_flight.get_mut(number).and_then(Option::take) else {
            unreachable!("a completion of nothing that was submitted");
        };
        self.count -= 1;
        Some((number, read, outcome(completion.result())))
    }

    /// Makes all reads. Returns each with its outcome, in order.
    fn read(&mut self, gate: &Arc<Gate>, reads: Vec<ForegroundRead>) -> Vec<(ForegroundRead, io::Result<usize>)> {
        let mut left = reads.len();
        let mut ended: Vec<Option<(ForegroundRead, io::Result<usize>)>> = (0..left).map(|_| None).collect();
        let mut waiting = reads.into_iter().enumerate();
        let mut refused = None;
        while left > 0 {
            while let Some((number, read)) = refused.take().or_else(|| waiting.next()) {
                if let Err(read) = self.push(number, read, gate) {
                    refused = Some((number, read));
                    break;
                }
            }
            if self.count == 0 || !self.enter(1) {
                let again = self.give_up().into_iter().chain(refused.take()).chain(waiting);
                again.for_each(|(number, read)| ended[number] = Some((read, Ok(0))));
                break;
            }
            while let Some((number, read, outcome)) = self.next() {
                ended[number] = Some((read, outcome));
                left -= 1;
            }
        }
        ended.into_iter().flatten().collect()
    }

    /// Abandons the reads in flight, because the kernel reports no more completions. Their memory is leaked, and copies
    /// of them are returned, to be made again.
    pub(super) fn give_up(&mut self) -> Vec<(usize, ForegroundRead)> {
        self.is_lost = true;
        self.count = 0;
        let mut again = Vec::new();
        for (number, lost) in self.in_flight.drain(..).enumerate() {
            let Some(InFlight { read, .. }) = lost else { continue };
            let (file, buffer) = (Arc::clone(&read.file), read.buffer.another());
            again.push((number, ForegroundRead { file, offset: read.offset, buffer }));
            std::mem::forget(read);
        }
        again
    }
}

impl Drop for ReadRing {
    fn drop(&mut self) {
        for InFlight { read, .. } in self.in_flight.drain(..).flatten() {
            std::mem::forget(read);
        }
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
