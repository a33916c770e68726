//! [`IoBuffer`]: aligned memory for direct I/O, which is reused.
//!
//! The first touch of a buffer costs more than writing it to the device (cold pages). So a [`BufferPool`] keeps the
//! buffers that it allocated: in the steady state it allocates nothing, and frees only a surplus beyond [`KEPT_MAX`].
//! A database that becomes quiet calls [`BufferPool::rest`].
//!
//! Invariants: [`IoBuffer::bytes_mut`] is aligned to [`ALIGNMENT`]. While a buffer is filled or with the kernel nothing
//! shares it. Slices of a filled buffer may outlive it, and its memory is reused only after they are dropped.
//!
//! Locks: `BufferPool::free` is held for a search of a short list, and nothing is called under it.

use crate::format::Slice;
use crate::memory::Buffer;
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The alignment of direct I/O, in file offset, length and memory. No device in use has larger logical blocks.
pub(crate) const ALIGNMENT: usize = 4096;

/// The number of free buffers that a pool keeps.
const KEPT_MAX: usize = 64;

/// Buffers of one size.
#[derive(Debug)]
pub(crate) struct BufferPool {
    /// Bytes of each buffer, a multiple of [`ALIGNMENT`].
    capacity: usize,
    free: Mutex<Free>,
    /// Buffers that have memory, free or not.
    allocated: AtomicUsize,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Buffer>,
    /// Whether the pool frees every returned buffer instead of keeping it. Ends when a buffer is taken.
    rests: bool,
}

impl BufferPool {
    /// An empty pool of buffers of `capacity` bytes, which must be a multiple of [`ALIGNMENT`] and not 0.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        assert!(capacity > 0 && capacity.is_multiple_of(ALIGNMENT), "a capacity that is not aligned");
        Arc::new(BufferPool { capacity, free: Mutex::default(), allocated: AtomicUsize::new(0) })
    }

    /// Bytes of each buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// An empty buffer.
    pub(crate) fn take(self: &Arc<Self>) -> IoBuffer {
        let memory = self.reusable().unwrap_or_else(|| {
            self.allocated.fetch_add(1, Ordering::Relaxed);
            Buffer::reusable(self.capacity + ALIGNMENT - 1)
        });
        // The memory never moves, so `start` stays right.
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "memory that cannot be aligned");
        IoBuffer { memory, start, len: 0, pool: Arc::clone(self) }
    }

    /// Returns free memory that no slice shares.
    fn reusable(&self) -> Option<Buffer> {
        let mut free = self.free();
        free.rests = false;
        let index = free.buffers.iter_mut().rposition(|memory| memory.get_mut().is_some())?;
        Some(free.buffers.swap_remove(index))
    }

    fn give_back(&self, memory: Buffer) {
        let mut free = self.free();
        if free.buffers.len() < KEPT_MAX && !free.rests {
            free.buffers.push(memory);
        } else {
            self.allocated.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Bytes of memory that the pool's buffers have, free ones included. The memory of a dropped buffer that is not
    /// kept is not counted, even while slices keep it alive.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.allocated.load(Ordering::Relaxed) * self.capacity) as u64
    }

    /// Frees the kept buffers, and every buffer that is returned before the next one is taken.
    pub(crate) fn rest(&self) {
        let buffers = {
            let mut free = self.free();
            free.rests = true;
            std::mem::take(&mut free.buffers)
        };
        self.allocated.fetch_sub(buffers.len(), Ordering::Relaxed);
        drop(buffers);
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock()
    }
}

/// An aligned buffer of its pool's capacity, filled up to a length.
#[derive(Debug)]
pub(crate) struct IoBuffer {
    memory: Buffer,
    start: usize,
    len: usize,
    pool: Arc<BufferPool>,
}

impl IoBuffer {
    /// Bytes that the buffer can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.pool.capacity
    }

    /// Another buffer of the same pool, with the same length and undefined content.
    pub(crate) fn another(&self) -> IoBuffer {
        let mut another = self.pool.take();
        another.set_len(self.len);
        another
    }

    /// The number of filled bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The filled bytes.
    pub(crate) fn filled(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// The whole buffer, filled or not.
    ///
    /// # Panics
    /// When a slice of the buffer is alive.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.start..self.start + self.pool.capacity;
        match self.memory.get_mut().and_then(|memory| memory.get_mut(range)) {
            Some(bytes) => bytes,
            None => panic!("a buffer was filled while a slice of it was alive"),
        }
    }

    /// Sets the number of filled bytes.
    pub(crate) fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "more bytes than the buffer has");
        self.len = len;
    }

    /// Appends as many of `bytes` as fit behind the filled ones. Returns how many.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let len = self.len;
        let room = self.bytes_mut().get_mut(len..).unwrap_or_default();
        let moved = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..moved), bytes.get(..moved)) {
            to.copy_from_slice(from);
        }
        self.len += moved;
        moved
    }

    /// Fills with zeros up to the next multiple of [`ALIGNMENT`].
    pub(crate) fn pad(&mut self) {
        let (len, padded) = (self.len, self.len.next_multiple_of(ALIGNMENT));
        self.bytes_mut().get_mut(len..padded).unwrap_or_default().fill(0);
        self.len = padded;
    }

    /// A slice that shares a part of the filled bytes; `None` when the part does not lie within them.
    pub(crate) fn share(&self, start: usize, len: usize) -> Option<Slice> {
        let within = start.checked_add(len).is_some_and(|end| end <= self.len);
        within.then(|| Slice::from(self.memory.clone()).get_slice(self.start + start, len))?
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        self.pool.give_back(self.memory.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_aligned_and_has_its_capacity() {
        let pool = BufferPool::new(2 * ALIGNMENT);
        for mut buffer in (0..20).map(|_| pool.take()).collect::<Vec<_>>() {
            assert_eq!(buffer.bytes_mut().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.bytes_mut().len(), 2 * ALIGNMENT);
        }
    }

    #[test]
    fn memory_is_reused_once_no_slice_is_left() {
        let pool = BufferPool::new(ALIGNMENT);
        let address = |buffer: &mut IoBuffer| buffer.bytes_mut().as_ptr() as usize;
        let mut first = pool.take();
        let place = address(&mut first);
        let read = b"still read, and too long to be kept in the slice";
        first.append(read);
        let slice = first.share(0, read.len()).unwrap();
        drop(first);
        let mut second = pool.take();
        assert_ne!(address(&mut second), place, "a slice is left");
        assert_eq!(slice, read);
        drop((slice, second));
        let mut both = [pool.take(), pool.take()];
        assert!(both.iter_mut().any(|buffer| address(buffer) == place));
    }

    #[test]
    fn a_buffer_takes_what_fits_and_pads_with_zeros() {
        let pool = BufferPool::new(2 * ALIGNMENT);
        let mut dirty = pool.take();
        dirty.bytes_mut().fill(9);
        drop(dirty);
        let mut buffer = pool.take();
        assert_eq!(buffer.append(&[1; ALIGNMENT + 1]), ALIGNMENT + 1);
        buffer.pad();
        assert_eq!(buffer.filled()[ALIGNMENT + 1..], [0; ALIGNMENT - 1]);
        assert_eq!(buffer.append(&[1; 5]), 0);
        assert_eq!(buffer.share(ALIGNMENT, 2).unwrap(), [1, 0]);
        assert!(buffer.share(2 * ALIGNMENT - 1, 2).is_none() && buffer.share(usize::MAX, 2).is_none());
    }

    #[test]
    fn a_surplus_is_freed() {
        let pool = BufferPool::new(ALIGNMENT);
        let taken: Vec<_> = (0..2 * KEPT_MAX).map(|_| pool.take()).collect();
        assert_eq!(pool.memory_bytes(), (2 * KEPT_MAX * ALIGNMENT) as u64);
        drop(taken);
        assert_eq!((pool.free().buffers.len(), pool.memory_bytes()), (KEPT_MAX, (KEPT_MAX * ALIGNMENT) as u64));
        pool.rest();
        assert_eq!(pool.memory_bytes(), 0);
    }

    #[test]
    fn a_pool_that_rests_keeps_nothing_until_a_buffer_is_taken() {
        let pool = BufferPool::new(ALIGNMENT);
        let [early, late] = [pool.take(), pool.take()];
        drop(early);
        pool.rest();
        drop(late);
        assert!(pool.free().buffers.is_empty());
        drop(pool.take());
        assert_eq!(pool.free().buffers.len(), 1);
    }
}
