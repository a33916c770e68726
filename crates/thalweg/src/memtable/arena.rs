//! [`Arena`]: memory that is handed out piece by piece and given back all at once.
//!
//! Pieces come from *chunks*. The first chunk is small, because many partitions have almost empty memtables. Each later
//! chunk is as large as everything before it, until there is 1 MiB; from then on chunks are blocks of the pool, on huge
//! pages. Smaller chunks are of the allocator, or from 64 KiB on of the runs (`memory/runs.rs`). An arena that is
//! expected to become large takes blocks of the pool from its second chunk on. A piece larger than a quarter of the
//! next chunk gets an exact chunk of its own, so that it wastes neither the rest of the current chunk nor the most of a
//! new one.
//!
//! Invariants: a piece belongs to one caller alone and stays where it is until the arena drops; `Chunk::used` never
//! exceeds the chunk's capacity; chunks are freed, or given back to the pool, by `drop` only.
//!
//! Locks: `grow` is held while a chunk is allocated and listed, never while a piece is taken from the current chunk.

#![allow(unsafe_code)]

use super::pool::MemtablePool;
use super::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::format::prefetch_next;
use crate::memory::{PAGES_BYTES, Pages, RunPlace, give_run, take_run};
use crate::sync::{Mutex, MutexGuard};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of every piece; all pieces are multiples of it.
pub(super) const ALIGNMENT: usize = 8;

/// Every address in an arena is below 2^`ADDRESS_BITS`. Kernels give a process larger addresses only if it asks for
/// them (x86-64: `Documentation/arch/x86/x86_64/5level-paging.rst`; arm64: `Documentation/arch/arm64/memory.rst`).
pub(super) const ADDRESS_BITS: u32 = 48;

const CHUNK_BYTES_MIN: usize = 4 << 10;
/// An arena of this many bytes is large: its chunks are blocks of the pool from then on.
pub(super) const LARGE_BYTES: usize = 1 << 20;

/// A bump allocator for many threads.
pub(super) struct Arena {
    /// The chunk that pieces are taken from. Never null; points at one of `chunks`.
    current: AtomicPtr<Chunk>,
    /// Bytes of the chunks that hold one large piece each.
    large_bytes: AtomicUsize,
    /// All chunks, the current one included.
    chunks: Mutex<Vec<NonNull<Chunk>>>,
    pool: MemtablePool,
    /// Whether it is expected to become large.
    expect_large: bool,
    /// The bytes that the arena has reported to the pool as held by readers only.
    retired_bytes: AtomicUsize,
    /// The bytes that the arena has reported to the pool as bytes that a flush will put into a fast tier.
    sealed_bytes: AtomicUsize,
}

/// See the module.
struct Chunk {
    memory: NonNull<u8>,
    home: Home,
    capacity: usize,
    used: AtomicUsize,
    /// Bytes of all chunks that were current before this one.
    bytes_before: usize,
}

/// Where the memory of a chunk is.
enum Home {
    Allocator,
    Run(RunPlace),
    /// A block of the pool.
    Pages(Pages),
}

// SAFETY: the raw pointers are to memory that the arena owns and frees in `drop`, which has `&mut self`. Shared access
// to a chunk is to fields that never change after it is published, and to an atomic.
unsafe impl Send for Arena {}
// SAFETY: as above; every method that takes `&self` may run on any number of threads.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena that takes its blocks from `pool`. `bytes_expected` is a guess at what it will hold.
    pub(super) fn new(pool: &MemtablePool, bytes_expected: usize) -> Self {
        let first = Chunk::allocate(CHUNK_BYTES_MIN, 0, 0);
        pool.count(0, CHUNK_BYTES_MIN);
        pool.count_least(0, CHUNK_BYTES_MIN);
        Arena {
            current: AtomicPtr::new(first.as_ptr()),
            large_bytes: AtomicUsize::new(0),
            chunks: Mutex::new(vec![first]),
            pool: pool.clone(),
            expect_large: bytes_expected >= 2 * LARGE_BYTES,
            retired_bytes: AtomicUsize::new(0),
            sealed_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes handed out, and those lost at the ends of chunks. Never decreases.
    pub(super) fn bytes(&self) -> usize {
        let chunk = self.current();
        chunk.bytes_before + chunk.used.load(Ordering::Relaxed) + self.large_bytes.load(Ordering::Relaxed)
    }

    /// Allocates a piece of at least `bytes` uninitialised bytes, aligned to [`ALIGNMENT`], for the caller alone. The
    /// pointer is valid for reads and writes until the arena drops, and has the provenance of its chunk.
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        assert!(bytes > 0, "a piece has bytes");
        loop {
            let chunk = self.current();
            if let Some(piece) = chunk.take(bytes) {
                return piece;
            }
            let next_bytes = self.next_chunk_bytes();
            if bytes > next_bytes / 4 {
                return self.allocate_large(bytes);
            }
            self.grow(chunk, next_bytes);
        }
    }

    fn next_chunk_bytes(&self) -> usize {
        let bytes = self.bytes();
        if self.expect_large || bytes >= LARGE_BYTES {
            PAGES_BYTES
        } else {
            bytes.next_power_of_two().max(CHUNK_BYTES_MIN)
        }
    }

    fn current(&self) -> &Chunk {
        // Acquire: pairs with the Release in `grow`, so that the fields of a chunk made by another thread are seen.
        let chunk = self.current.load(Ordering::Acquire);
        // SAFETY: `current` always points at a chunk of `Chunk::listed`, which lives until `drop`; nobody has
        // a `&mut` to a chunk before that.
        unsafe { &*chunk }
    }

    /// Replaces `full` as the current chunk, unless another thread has.
    fn grow(&self, full: &Chunk, capacity: usize) {
        let mut chunks = self.chunks();
        // Relaxed: `current` changes under the lock only.
        if !std::ptr::eq(self.current.load(Ordering::Relaxed), full) {
            return;
        }
        let bytes_before = full.bytes_before + full.capacity;
        let chunk = match capacity {
            PAGES_BYTES => Chunk::of_pages(self.pool.take(), bytes_before),
            _ => Chunk::allocate(capacity, bytes_before, 0),
        };
        self.pool.count(0, capacity);
        chunks.push(chunk);
        // Release: pairs with the Acquire in `current`.
        self.current.store(chunk.as_ptr(), Ordering::Release);
    }

    fn allocate_large(&self, bytes: usize) -> NonNull<u8> {
        let chunk = Chunk::allocate(bytes, 0, bytes);
        self.pool.count(0, bytes);
        // SAFETY: the chunk was made just above and is not shared yet.
        let memory = unsafe { chunk.as_ref() }.memory;
        self.chunks().push(chunk);
        // Relaxed: a statistic, it publishes nothing.
        self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
        memory
    }

    /// Tells the pool that a flush will put the bytes that were handed out so far into a fast tier.
    pub(super) fn seal(&self) {
        let is_retired = self.retired_bytes.load(Ordering::Relaxed) > 0;
        let bytes = if is_retired { 0 } else { self.bytes() };
        // Relaxed: a statistic, it publishes nothing.
        let before = self.sealed_bytes.swap(bytes, Ordering::Relaxed);
        self.pool.count_sealed(before, bytes);
    }

    /// Tells the pool that no bytes of the arena wait for a flush any more.
    fn unseal(&self) {
        // Relaxed: a statistic, it publishes nothing.
        self.pool.count_sealed(self.sealed_bytes.swap(0, Ordering::Relaxed), 0);
    }

    /// Tells the pool that only readers hold the memory that was allocated so far.
    pub(super) fn retire(&self) {
        // SAFETY: the chunks live until `drop`, and their capacities never change.
        let bytes = self.chunks().iter().map(|chunk| unsafe { chunk.as_ref() }.capacity).sum();
        // Relaxed: a statistic, it publishes nothing.
        let before = self.retired_bytes.swap(bytes, Ordering::Relaxed);
        self.pool.count_retired(before, bytes);
        if before == 0 {
            self.pool.count_least(CHUNK_BYTES_MIN, 0);
        }
        self.unseal();
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<NonNull<Chunk>>> {
        self.chunks.lock()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let retired = self.retired_bytes.load(Ordering::Relaxed);
        self.pool.count_retired(retired, 0);
        if retired == 0 {
            self.pool.count_least(CHUNK_BYTES_MIN, 0);
        }
        self.unseal();
        let chunks = std::mem::take(&mut *self.chunks());
        for chunk in chunks {
            // SAFETY: each chunk was leaked from a box by `Chunk::listed`, is listed once, and is reached by
            // nobody now that the arena is dropped.
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            self.pool.count(chunk.capacity, 0);
            match chunk.home {
                Home::Pages(pages) => self.pool.give(pages),
                // SAFETY: `take_run(capacity)` returned `memory` and `place`, and only this line gives them back.
                Home::Run(place) => unsafe { give_run(chunk.memory, place, chunk.capacity) },
                // SAFETY: `memory` was allocated with this very layout and is freed once, here.
                Home::Allocator => unsafe { dealloc(chunk.memory.as_ptr(), Chunk::layout(chunk.capacity)) },
            }
        }
    }
}

impl Chunk {
    fn layout(capacity: usize) -> Layout {
        match Layout::from_size_align(capacity, ALIGNMENT) {
            Ok(layout) => layout,
            Err(_) => panic!("a chunk of {capacity} bytes is larger than an address space"),
        }
    }

    /// A chunk of the runs, or of the system allocator.
    fn allocate(capacity: usize, bytes_before: usize, used: usize) -> NonNull<Chunk> {
        assert!(capacity > 0 && used <= capacity);
        let (memory, home) = match take_run(capacity) {
            Some((memory, place)) => (memory, Home::Run(place)),
            None => {
                let layout = Self::layout(capacity);
                // SAFETY: the layout has a size above zero.
                let memory = unsafe { alloc(layout) };
                (NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout)), Home::Allocator)
            }
        };
        Self::listed(Chunk { memory, home, capacity, used: AtomicUsize::new(used), bytes_before })
    }

    /// A chunk of the pool.
    fn of_pages(pages: Pages, bytes_before: usize) -> NonNull<Chunk> {
        let (memory, capacity) = (pages.memory(), PAGES_BYTES);
        Self::listed(Chunk { memory, home: Home::Pages(pages), capacity, used: AtomicUsize::new(0), bytes_before })
    }

    /// Puts the chunk on the heap; `Arena::drop` frees it.
    fn listed(self) -> NonNull<Chunk> {
        let end = self.memory.addr().get() + self.capacity;
        assert!(end >> ADDRESS_BITS == 0, "an address that the process did not ask for");
        NonNull::from(Box::leak(Box::new(self)))
    }

    /// The next `bytes` bytes, if the chunk has them.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        // Relaxed throughout: the counter only shares out the memory. The content of a piece is published by the thread
        // that links the piece; the chunk itself was published by `current`.
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let end = used.checked_add(bytes).filter(|end| *end <= self.capacity)?;
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    prefetch_next(self.memory.as_ptr().wrapping_add(end), bytes, self.capacity - end);
                    // SAFETY: `used < end <= capacity`, so the result lies within the chunk's allocation.
                    return Some(unsafe { self.memory.add(used) });
                }
                Err(found) => used = found,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Fills a piece, so that Miri or a sanitizer sees any that is too short or freed.
    fn fill(piece: NonNull<u8>, bytes: usize, with: u8) {
        // SAFETY: the piece has `bytes` bytes and belongs to the caller.
        unsafe { piece.as_ptr().write_bytes(with, bytes) };
    }

    fn holds(piece: NonNull<u8>, bytes: usize, with: u8) -> bool {
        // SAFETY: as in `fill`, which initialised it.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), bytes) == vec![with; bytes] }
    }

    #[test]
    fn pieces_are_aligned_and_do_not_overlap() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        let sizes = [1, 7, 8, 9, 100, 1000, 3000, 5000, 4096, 1 << 17, 64, 1 << 19, 3];
        let pieces: Vec<_> = (0..if cfg!(miri) { 40 } else { 2000 })
            .map(|i| {
                let bytes = sizes[i % sizes.len()];
                let piece = arena.allocate(bytes);
                fill(piece, bytes, i as u8);
                (piece, bytes, i as u8)
            })
            .collect();
        for (piece, bytes, with) in pieces {
            assert_eq!(piece.as_ptr() as usize % ALIGNMENT, 0);
            assert!(holds(piece, bytes, with));
        }
    }

    #[test]
    fn an_empty_arena_has_one_small_chunk_and_no_bytes() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        assert_eq!(arena.bytes(), 0);
        assert_eq!(arena.current().capacity, CHUNK_BYTES_MIN);
    }

    #[test]
    fn bytes_cover_every_piece_and_waste_is_bounded() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        let mut handed_out = 0;
        let mut before = 0;
        for i in 0..if cfg!(miri) { 200 } else { 20_000 } {
            let bytes = 24 + i % 700;
            arena.allocate(bytes);
            handed_out += bytes;
            assert!(arena.bytes() >= handed_out.max(before));
            before = arena.bytes();
        }
        assert!(before < handed_out + handed_out / 10 + CHUNK_BYTES_MIN, "{before} for {handed_out}");
    }

    #[test]
    fn a_large_piece_leaves_the_current_chunk_in_use() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        arena.allocate(64);
        let chunk: *const Chunk = arena.current();
        arena.allocate(2 << 20);
        arena.allocate(64);
        assert!(std::ptr::eq(arena.current(), chunk));
        assert_eq!(arena.bytes(), 128 + (2 << 20));
    }

    #[test]
    fn a_large_arena_takes_blocks_of_the_pool_and_gives_them_back() {
        let pool = MemtablePool::new(4 * PAGES_BYTES);
        let addresses = |bytes_expected| {
            let arena = Arena::new(&pool, bytes_expected);
            let mut blocks = Vec::new();
            while arena.bytes() < LARGE_BYTES + 3 * PAGES_BYTES {
                arena.allocate(5000);
                if let Home::Pages(pages) = &arena.current().home {
                    blocks.push(pages.memory());
                }
            }
            blocks.sort();
            blocks.dedup();
            blocks
        };
        let first = addresses(0);
        assert!(first.len() >= 3);
        assert_eq!(addresses(0), first);
        let expected = addresses(2 * LARGE_BYTES);
        assert!(expected.len() >= first.len() && first.iter().all(|block| expected.contains(block)));
    }

    #[test]
    fn threads_get_pieces_of_their_own() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let arena = &arena;
                scope.spawn(move || {
                    let pieces: Vec<_> = (0..if cfg!(miri) { 30 } else { 3000 })
                        .map(|i| {
                            let bytes = 8 + i % 400;
                            let piece = arena.allocate(bytes);
                            fill(piece, bytes, thread);
                            (piece, bytes)
                        })
                        .collect();
                    assert!(pieces.iter().all(|(piece, bytes)| holds(*piece, *bytes, thread)));
                });
            }
        });
    }
}

/// Every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p thalweg --lib loom_`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn loom_two_threads_that_fill_a_chunk_get_pieces_of_their_own_from_one_new_chunk() {
        loom::model(|| {
            let arena = Arc::new(Arena::new(&MemtablePool::new(0), 0));
            arena.allocate(1024);
            arena.allocate(1024);
            arena.allocate(1024);
            let other = Arc::clone(&arena);
            let thread = loom::thread::spawn(move || {
                other.allocate(1000);
                other.allocate(1000).as_ptr() as usize
            });
            let piece = arena.allocate(1000).as_ptr() as usize;
            assert!(thread.join().unwrap().abs_diff(piece) >= 1000);
            assert_eq!(arena.chunks().len(), 2);
            assert_eq!(arena.bytes(), 4096 + 2000);
        });
    }
}
