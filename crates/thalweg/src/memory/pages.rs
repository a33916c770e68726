//! [`Pages`]: a block of [`PAGES_BYTES`] of memory, on one huge page where the system has any.
//!
//! The first touch of an ordinary page costs microseconds, and a search through many pages misses the address cache as
//! often. A block has neither cost: it is aligned, has the size of a huge page, and is advised to be on one. Where huge
//! pages are refused, the block is on ordinary pages and works the same; nothing reports that.
//!
//! Addresses are mapped [`CHUNK_BYTES`] at a time. A dropped block gives back its memory, and its addresses stay for
//! the next block. The reason: to map and to advise changes what the kernel knows of the addresses around, and waits
//! until no first touch there is under way. The first touch of a huge page takes milliseconds where a control group is
//! full.
//!
//! Invariants: a block is owned by one `Pages` and goes with it. Its memory may hold anything, but is initialised.
//! Locks: `VACANT` is held for a push or a pop.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a block and its alignment: a huge page of x86-64, and of arm64 with pages of 4 KiB.
pub(crate) const PAGES_BYTES: usize = 2 << 20;

/// Addresses that are mapped at once. They take no memory, unless the process locks all that it maps (`mlockall`).
const CHUNK_BYTES: usize = 256 << 20;

/// See the module.
pub(crate) struct Pages {
    memory: NonNull<u8>,
    origin: Origin,
}

/// Where a block is from.
enum Origin {
    /// A chunk of addresses.
    Chunk,
    /// A mapping of its own, where address space is limited.
    Mapping,
    Allocator,
}

/// The addresses of a block that is not in use. They have no memory.
struct Vacant(NonNull<u8>);

// SAFETY: the addresses are owned, and of no thread.
unsafe impl Send for Vacant {}

static VACANT: Mutex<Vec<Vacant>> = Mutex::new(Vec::new());

fn vacant() -> MutexGuard<'static, Vec<Vacant>> {
    VACANT.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: the memory is owned, and of no thread.
unsafe impl Send for Pages {}

impl Pages {
    /// A block that nobody has touched.
    pub(crate) fn new() -> Self {
        if let Some(memory) = take_vacant() {
            return Pages { memory, origin: Origin::Chunk };
        }
        if let Some(memory) = map() {
            return Pages { memory, origin: Origin::Mapping };
        }
        let layout = Self::layout();
        // SAFETY: the layout has a size above zero.
        match NonNull::new(unsafe { alloc_zeroed(layout) }) {
            Some(memory) => Pages { memory, origin: Origin::Allocator },
            None => handle_alloc_error(layout),
        }
    }

    /// The address of the block, for reads and writes by its owner.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    fn layout() -> Layout {
        match Layout::from_size_align(PAGES_BYTES, PAGES_BYTES) {
            Ok(layout) => layout,
            Err(_) => unreachable!("a power of two"),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        match self.origin {
            Origin::Chunk => {
                unuse(self.memory, PAGES_BYTES);
                vacant().push(Vacant(self.memory));
            }
            Origin::Mapping => unmap(self.memory, PAGES_BYTES),
            // SAFETY: `new` allocated it with this layout, and nobody has it any more.
            Origin::Allocator => unsafe { dealloc(self.memory.as_ptr(), Self::layout()) },
        }
    }
}

/// The addresses of a block; `None` where there are no mappings, or where address space is limited.
#[cfg(not(miri))]
fn take_vacant() -> Option<NonNull<u8>> {
    if let Some(Vacant(memory)) = vacant().pop() {
        return Some(memory);
    }
    // This runs without the lock. If two threads come here at once, one more chunk is mapped.
    let chunk = reserve(CHUNK_BYTES)?;
    let before = chunk.addr().get().next_multiple_of(PAGES_BYTES) - chunk.addr().get();
    let blocks = (CHUNK_BYTES - before) / PAGES_BYTES;
    // SAFETY: all of these lie within the chunk.
    let mut blocks = (0..blocks).map(|block| unsafe { chunk.add(before + block * PAGES_BYTES) });
    let memory = blocks.next()?;
    vacant().extend(blocks.map(Vacant));
    Some(memory)
}

/// Miri has no mappings, and should see each block by itself.
#[cfg(miri)]
fn take_vacant() -> Option<NonNull<u8>> {
    None
}

/// A mapping of a block, aligned; `None` where there are no mappings.
#[cfg(all(target_os = "linux", not(miri)))]
fn map() -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    // A mapping of twice the size has an aligned block in it; the rest is unmapped. If it has two, the upper one is
    // kept: the kernel places mappings from the top down, so that the blocks adjoin and count as one of the mappings
    // that a process may have.
    let bytes = 2 * PAGES_BYTES;
    // SAFETY: a new mapping where the kernel likes overlaps nothing.
    let all =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let all = NonNull::new(all.ok()?.cast::<u8>())?;
    let start = all.addr().get();
    let before = (start + bytes) / PAGES_BYTES * PAGES_BYTES - PAGES_BYTES - start;
    // SAFETY: `before` and what follows are multiples of the page size and lie within the mapping.
    let (memory, end) = unsafe { (all.add(before), all.add(before + PAGES_BYTES)) };
    unmap(all, before);
    unmap(end, bytes - before - PAGES_BYTES);
    // SAFETY: the advice changes nothing that the program could see. If it is refused, the block is on ordinary pages.
    let _ = unsafe { madvise(memory.as_ptr().cast(), PAGES_BYTES, Advice::LinuxHugepage) };
    Some(memory)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map() -> Option<NonNull<u8>> {
    None
}

/// A mapping of `bytes` that has no memory before it is touched; `None` where there are no mappings, or where address
/// space is limited: in 32 bits, and under `ulimit -v`.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let is_limited = rustix::process::getrlimit(rustix::process::Resource::As).current.is_some();
    if usize::BITS < 64 || is_limited {
        return None;
    }
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping where the kernel likes overlaps nothing.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
    let memory = NonNull::new(memory.ok()?.cast::<u8>())?;
    // SAFETY: the advice changes nothing that the program could see. If it is refused, the mapping is on ordinary
    // pages.
    let _ = unsafe { madvise(memory.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    Some(memory)
}

/// Stands in for the mapping under Miri, which has no mappings and must see who writes where.
#[cfg(miri)]
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout has a size above zero.
    NonNull::new(unsafe { alloc_zeroed(Layout::from_size_align(bytes, PAGES_BYTES).ok()?) })
}

#[cfg(not(any(target_os = "linux", miri)))]
pub(super) fn reserve(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Gives the memory of a part of a mapping of [`reserve`] back to the system. The addresses stay mapped.
pub(super) fn unuse(memory: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the callers own this part of a mapping, and nobody looks at what it holds any more. Where the kernel
    // refuses, the memory stays.
    let _ = unsafe { rustix::mm::madvise(memory.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontNeed) };
    #[cfg(miri)]
    // SAFETY: see above.
    unsafe {
        memory.write_bytes(0, bytes);
    }
    #[cfg(not(any(target_os = "linux", miri)))]
    unreachable!("nothing is mapped here: {memory:?}, {bytes} bytes");
}

/// Unmaps an unused part of a mapping of [`map`] or [`reserve`].
pub(super) fn unmap(memory: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes > 0 {
        // SAFETY: the callers own this part of a mapping. It fails only where the kernel has no room for the
        // bookkeeping: then the memory stays.
        let _ = unsafe { rustix::mm::munmap(memory.as_ptr().cast(), bytes) };
    }
    #[cfg(miri)]
    if let Ok(layout) = Layout::from_size_align(bytes, PAGES_BYTES) {
        // SAFETY: `reserve` allocated it with this layout; `map` maps nothing.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
    #[cfg(not(any(target_os = "linux", miri)))]
    unreachable!("nothing is mapped here: {memory:?}, {bytes} bytes");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_their_addresses_are_used_again() {
        let blocks: Vec<_> = (0..300).map(|_| Pages::new()).collect();
        let mut places: Vec<_> = blocks.iter().map(|pages| pages.memory().addr().get()).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0] + PAGES_BYTES <= pair[1]));
        // SAFETY: the block is ours.
        blocks.iter().for_each(|pages| unsafe { pages.memory().write(7) });
        drop(blocks);
        if cfg!(all(target_os = "linux", not(miri))) {
            let pages = Pages::new();
            // SAFETY: as above.
            assert_eq!(unsafe { pages.memory().read() }, 0, "a block that was dropped has kept its memory");
        }
    }

    #[test]
    fn a_block_is_aligned_and_can_be_written_from_end_to_end() {
        for _ in 0..3 {
            let pages = Pages::new();
            assert_eq!(pages.memory().addr().get() % PAGES_BYTES, 0);
            // SAFETY: the block has `PAGES_BYTES` bytes and is ours.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.memory().as_ptr(), PAGES_BYTES) };
            assert_eq!((bytes[0], bytes[PAGES_BYTES - 1]), (0, 0));
            bytes[0] = 1;
            bytes[PAGES_BYTES - 1] = 2;
        }
    }
}
