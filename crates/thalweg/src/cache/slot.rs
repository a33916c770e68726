//! [`Slots`]: a place for each block of a table, with or without the block.
//!
//! Invariant: a full slot is named by exactly one entry of a queue; an empty one by none, or by one that is passed
//! over. A slot has 32 bytes, so that none lies across two lines of the CPU's cache.

use super::Warmth;
use crate::format::{Slice, prefetch};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Hits are counted up to here: more say nothing about the time to come.
const HITS_MAX: u8 = 3;

/// See the module.
pub(super) struct Slots(Box<[Slot]>);

/// A place for a block. Its lock is held for a few instructions.
pub(super) struct Slot(Mutex<State>);

const _: () = assert!(size_of::<Slot>() == 32);

struct State {
    /// The block at the beginning of a buffer.
    buffer: Option<Arc<[u8]>>,
    /// Full: bytes of the block. Empty: the number of the eviction that emptied it, 0 for none.
    number: u32,
    /// Since it was filled, or looked at by the queue.
    hits: u8,
    in_main: bool,
}

/// A block that was taken out of its slot.
pub(super) struct Taken {
    pub(super) bytes: usize,
    pub(super) in_main: bool,
    /// Keeps the buffer until the caller has given back its locks.
    _buffer: Arc<[u8]>,
}

/// What became of a slot that a queue looked at.
pub(super) enum Look {
    /// It was emptied meanwhile.
    Empty,
    /// It was hit often enough, and stays.
    Stays {
        bytes: usize,
    },
    Evicted(Taken),
}

impl Slots {
    pub(super) fn new(blocks: usize) -> Arc<Self> {
        let empty = || State { buffer: None, number: 0, hits: 0, in_main: false };
        Arc::new(Slots((0..blocks).map(|_| Slot(Mutex::new(empty()))).collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Slot> {
        self.0.get(at)
    }
}

impl Slot {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block, and a hit counted.
    #[inline]
    pub(super) fn take_hit(&self) -> Option<Slice> {
        let mut state = self.lock();
        let buffer = Arc::clone(state.buffer.as_ref()?);
        state.hits = (state.hits + 1).min(HITS_MAX);
        Some(Slice::start_of(buffer, state.number as usize))
    }

    /// Asks for the memory that a reader of the block needs first: its count of readers, its first entries, and its
    /// end, where it says where its entries are. Gives whether there is a block.
    #[inline]
    pub(super) fn approach(&self) -> bool {
        let state = self.lock();
        let Some(buffer) = &state.buffer else { return false };
        let start = buffer.as_ptr();
        // The count lies before the bytes.
        prefetch(start.wrapping_sub(1));
        prefetch(start.wrapping_add(LINE_BYTES));
        prefetch(start.wrapping_add((state.number as usize).saturating_sub(1)));
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.lock().buffer.is_some()
    }

    /// How much its block is wanted.
    pub(super) fn warmth(&self) -> Warmth {
        let state = self.lock();
        match &state.buffer {
            Some(_) if state.hits > 0 => Warmth::Hot,
            Some(_) if state.in_main => Warmth::Warm,
            _ => Warmth::Cold,
        }
    }

    /// Fills an empty slot; `to_main` tells from the number of the eviction that emptied it whether it goes to the main
    /// queue. Gives that, or `None` when it was full.
    pub(super) fn fill(&self, block: Slice, to_main: impl FnOnce(u32) -> bool) -> Option<bool> {
        let mut state = self.lock();
        if state.buffer.is_some() {
            return None;
        }
        let in_main = to_main(state.number);
        let (buffer, bytes) = block.into_buffer();
        // No block is larger than 128 MiB (`table::block::RAW_BYTES_MAX`).
        *state = State { buffer: Some(buffer), number: bytes as u32, hits: 0, in_main };
        Some(in_main)
    }

    /// Empties it.
    pub(super) fn take(&self) -> Option<Taken> {
        self.lock().take(0)
    }

    /// The turn of this slot in the small queue: it goes to the main queue after `hits_min` hits, else out.
    pub(super) fn look_in_small(&self, hits_min: u8, eviction: u32) -> Look {
        let mut state = self.lock();
        if state.buffer.is_some() && state.hits >= hits_min {
            (state.hits, state.in_main) = (0, true);
            return Look::Stays { bytes: state.number as usize };
        }
        state.take(eviction).map_or(Look::Empty, Look::Evicted)
    }

    /// The turn of this slot in the main queue: a hit is used up for another round, without one it goes out.
    pub(super) fn look_in_main(&self) -> Look {
        let mut state = self.lock();
        if state.buffer.is_some() && state.hits > 0 {
            state.hits -= 1;
            return Look::Stays { bytes: state.number as usize };
        }
        state.take(0).map_or(Look::Empty, Look::Evicted)
    }
}

impl State {
    fn take(&mut self, eviction: u32) -> Option<Taken> {
        let buffer = self.buffer.take()?;
        let bytes = self.number as usize;
        self.number = eviction;
        Some(Taken { bytes, in_main: self.in_main, _buffer: buffer })
    }
}
