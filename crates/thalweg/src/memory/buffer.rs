//! [`Buffer`]: shared bytes, as an `Arc<[u8]>`, with a choice of where the bytes are.
//!
//! A read fills a buffer of the allocator, and the caller keeps it. A cache keeps *packed* buffers: these are cut from
//! the cache's own pages (`spans.rs`), not from the heap. A pool of buffers keeps *reusable* buffers for the next I/O
//! (`runs.rs`).
//!
//! Why: a cache holds hundreds of MiB in pieces of 4 KiB that one thread allocates and another frees. glibc gives a
//! freed piece back to the arena of the thread that allocated it, so every arena keeps as much memory as it ever had in
//! use. In a mixed load with splits and merges a database had 250 MiB more memory than it counted.
//!
//! Invariants: the memory begins with a [`Header`], which `len` bytes follow, all initialised. It is written only while
//! a single reference to it exists. Locks: the lock of the spans or the runs, when one of their buffers is made or
//! freed.

#![allow(unsafe_code)]

use super::runs::{self, RunPlace};
use super::spans::{self, Place};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// More references than a correct program can make.
const REFERENCES_MAX: usize = isize::MAX as usize;

/// See the module.
pub(crate) struct Buffer {
    header: NonNull<Header>,
    len: usize,
}

#[repr(C)]
struct Header {
    references: AtomicUsize,
    home: Home,
}

/// Where the memory is.
#[derive(Clone, Copy)]
enum Home {
    Allocator,
    Span(Place),
    Run(RunPlace),
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 16 && spans::ALIGNMENT.is_multiple_of(align_of::<Header>()));

// SAFETY: as for `Arc<[u8]>`: bytes are of no thread, the count is atomic, and only a sole owner writes.
unsafe impl Send for Buffer {}
// SAFETY: see above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns `len` bytes of 0, of the allocator.
    pub(crate) fn zeroed(len: usize) -> Buffer {
        let layout = layout(len);
        // SAFETY: the layout has the header's bytes at least.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the memory is new and has room for a header and `len` bytes, which are 0.
        unsafe { Self::begin(memory, len, Home::Allocator) }
    }

    /// Returns `len` bytes that `fill` writes, of the allocator.
    pub(crate) fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Buffer, E> {
        let mut buffer = Self::zeroed(len);
        match buffer.get_mut() {
            Some(bytes) => fill(bytes).map(|()| buffer),
            None => unreachable!("a new buffer has one reference"),
        }
    }

    /// Returns `len` bytes with any content, of the runs if they have buffers of this size, else of the allocator.
    pub(crate) fn reusable(len: usize) -> Buffer {
        let Some((memory, place)) = runs::take(HEADER_BYTES.saturating_add(len)) else { return Self::zeroed(len) };
        // SAFETY: the memory is this buffer's alone, is initialised, and has room for the header and `len` bytes.
        unsafe { Self::begin(memory, len, Home::Run(place)) }
    }

    /// Returns a copy of `bytes`, of the allocator.
    pub(crate) fn copy(bytes: &[u8]) -> Buffer {
        let layout = layout(bytes.len());
        // SAFETY: the layout has the header's bytes at least.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the memory is new and has room for the header and the bytes.
        unsafe { Self::begin_copy(memory, bytes, Home::Allocator) }
    }

    /// Returns a copy of `bytes` for a cache: packed, if it is neither small nor huge ([`Buffer::packed_bytes`]).
    pub(crate) fn packed(bytes: &[u8]) -> Buffer {
        let Some((memory, place)) = spans::take(HEADER_BYTES + bytes.len()) else { return Self::copy(bytes) };
        // SAFETY: the memory is this buffer's alone, and has room for the header and the bytes.
        unsafe { Self::begin_copy(memory, bytes, Home::Span(place)) }
    }

    /// Whether the bytes are packed, or have a size that a cache does not pack.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.header().home, Home::Span(_)) || spans::slot_bytes(HEADER_BYTES + self.len).is_none()
    }

    /// Returns how many bytes of memory [`Buffer::packed`] takes for `len` bytes.
    pub(crate) fn packed_bytes(len: usize) -> usize {
        let bytes = HEADER_BYTES.saturating_add(len);
        spans::slot_bytes(bytes).unwrap_or(bytes)
    }

    /// Returns the bytes for writing, if this is the only reference.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut [u8]> {
        // Acquire: reads through references that are gone happen before the writes that follow.
        let is_sole = self.header().references.load(Ordering::Acquire) == 1;
        // SAFETY: nothing else references the bytes, and `&mut self` keeps it so.
        is_sole.then(|| unsafe { std::slice::from_raw_parts_mut(self.bytes().as_ptr(), self.len) })
    }

    /// # Safety
    /// `memory` must be aligned for a header, owned by the caller, with room for it and for `bytes`.
    unsafe fn begin_copy(memory: NonNull<u8>, bytes: &[u8], home: Home) -> Buffer {
        // SAFETY: the caller says so; new memory overlaps nothing.
        unsafe {
            memory.add(HEADER_BYTES).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Self::begin(memory, bytes.len(), home)
        }
    }

    /// # Safety
    /// `memory` must be aligned for a header, owned by the caller, with room for it and `len` initialised bytes behind.
    unsafe fn begin(memory: NonNull<u8>, len: usize, home: Home) -> Buffer {
        let header = memory.cast::<Header>();
        // SAFETY: the caller says so.
        unsafe { header.write(Header { references: AtomicUsize::new(1), home }) };
        Buffer { header, len }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as this reference to it.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    fn bytes(&self) -> NonNull<u8> {
        // SAFETY: the bytes follow the header in the same memory.
        unsafe { self.header.cast::<u8>().add(HEADER_BYTES) }
    }

    #[cold]
    #[inline(never)]
    fn free(&mut self) {
        let (memory, len) = (self.header.cast::<u8>(), self.len);
        match self.header().home {
            // SAFETY: the last reference is gone, and `take` gave this place for the same number of bytes.
            Home::Span(place) => unsafe { spans::give(memory, place, HEADER_BYTES + len) },
            // SAFETY: as above.
            Home::Run(place) => unsafe { runs::give(memory, place, HEADER_BYTES + len) },
            // SAFETY: the last reference is gone, and `zeroed` or `copy` allocated the memory with this layout.
            Home::Allocator => unsafe { dealloc(memory.as_ptr(), layout(len)) },
        }
    }
}

/// The layout of a header and `len` bytes.
fn layout(len: usize) -> Layout {
    let bytes = HEADER_BYTES.checked_add(len);
    match bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<Header>()).ok()) {
        Some(layout) => layout,
        None => panic!("a buffer of {len} bytes, more than memory can have"),
    }
}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the caller of `clone` has a reference already, so nothing can free the buffer meanwhile.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        Buffer { header: self.header, len: self.len }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // Release, and the fence: every use through any reference comes before the memory is used for something else.
        if self.header().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            self.free();
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, and nobody writes them while there is a second reference.
        unsafe { std::slice::from_raw_parts(self.bytes().as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer of {} bytes", self.len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes_of(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn bytes_are_the_same_wherever_they_are() {
        for len in [0, 1, 24, 992, 993, 1008, 1009, 4096, 5000, 65_519, 65_520, 65_521, 300_000] {
            let bytes = bytes_of(len);
            let (copied, packed) = (Buffer::copy(&bytes), Buffer::packed(&bytes));
            assert_eq!((&*copied, &*packed), (&*bytes, &*bytes));
            assert!(packed.is_packed(), "{len}");
            assert_eq!(copied.is_packed(), !(993..=65_520).contains(&len), "{len}");
            assert!(Buffer::packed_bytes(len) >= len + HEADER_BYTES);
            assert_eq!(Buffer::zeroed(len).iter().map(|byte| u64::from(*byte)).sum::<u64>(), 0);
        }
    }

    #[test]
    fn a_buffer_is_written_through_its_only_reference_alone() {
        for mut buffer in [Buffer::zeroed(2000), Buffer::packed(&[0; 2000]), Buffer::reusable(100_000)] {
            let other = buffer.clone();
            assert!(buffer.get_mut().is_none());
            drop(other);
            buffer.get_mut().unwrap()[7] = 7;
            assert_eq!(buffer.clone()[7], 7);
        }
    }

    #[test]
    fn buffers_are_freed_by_whichever_thread_has_the_last_reference() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let (sender, receiver) = std::sync::mpsc::channel::<(usize, Buffer)>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut kept = Vec::new();
                for (round, buffer) in receiver {
                    assert_eq!(*buffer, *bytes_of(1000 + round % 6000), "round {round}");
                    kept.push(buffer);
                    if kept.len() > 30 {
                        kept.swap_remove(round % 30);
                    }
                }
            });
            for first in [0, 1] {
                let sender = sender.clone();
                scope.spawn(move || {
                    for round in (first..rounds).step_by(2) {
                        let buffer = Buffer::packed(&bytes_of(1000 + round % 6000));
                        sender.send((round, buffer.clone())).unwrap();
                    }
                });
            }
            drop(sender);
        });
    }
}
