//! [`Slots`]: a slot for each block of a table, with or without the block.
//!
//! Invariant: exactly one entry of a queue names a full slot. No entry names an empty slot, except one that the queue
//! will skip. A slot has 32 bytes, so that none lies across two lines of the processor's cache.

use super::warmth::Warmth;
use crate::format::{Slice, prefetch};
use crate::memory::Buffer;
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// A line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Hits are counted up to this. More hits do not predict more reads.
const HITS_MAX: u8 = 3;

/// See the module.
pub(super) struct Slots(Box<[Slot]>);

/// A slot for a block. Its lock is held for a few instructions.
pub(super) struct Slot(Mutex<State>);

// A lock that loom watches is larger.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 32);

struct State {
    /// The block.
    buffer: Option<Buffer>,
    /// In a full slot: the bytes of the block. In an empty slot: the number of the eviction that emptied it; 0 means
    /// none.
    number: u32,
    /// The hits since the slot was filled, less those that turns in a queue used up.
    hits: u8,
    in_main: bool,
    /// A reader's note on the block; 0: none.
    mark: u16,
}

/// A block that was taken out of its slot.
pub(super) struct TakenBlock {
    pub(super) bytes: usize,
    pub(super) in_main: bool,
    /// Keeps the buffer until the caller has released its locks.
    _buffer: Buffer,
}

/// The result of a slot's turn in its queue.
pub(super) enum Turn {
    /// The slot was emptied before.
    Empty,
    /// The block was hit often enough, and stays.
    Stays { bytes: usize },
    /// The block is evicted.
    Evicted(TakenBlock),
}

impl Slots {
    pub(super) fn new(blocks: usize) -> Arc<Self> {
        let empty = || State { buffer: None, number: 0, hits: 0, in_main: false, mark: 0 };
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
        self.0.lock()
    }

    /// Returns the block, and counts a hit.
    #[inline]
    pub(super) fn take_hit(&self) -> Option<Slice> {
        self.take_hit_marked().map(|(block, _)| block)
    }

    /// As [`Slot::take_hit`], with the mark of the block.
    #[inline]
    pub(super) fn take_hit_marked(&self) -> Option<(Slice, u16)> {
        let mut state = self.lock();
        let buffer = state.buffer.clone()?;
        state.hits = (state.hits + 1).min(HITS_MAX);
        Some((Slice::from(buffer), state.mark))
    }

    /// Marks `block`, if the slot still has it.
    pub(super) fn mark(&self, block: &Slice, mark: u16) {
        let mut state = self.lock();
        // The caller holds the block, so that no other buffer is at its address.
        if state.buffer.as_ref().is_some_and(|buffer| std::ptr::eq(buffer.as_ptr(), block.as_ptr())) {
            state.mark = mark;
        }
    }

    /// Prefetches the memory that a reader of the block needs first: its reference count, its first entries, and its
    /// end, which has the restarts. Returns whether there is a block.
    #[inline]
    pub(super) fn prefetch(&self) -> bool {
        let state = self.lock();
        let Some(buffer) = &state.buffer else { return false };
        let start = buffer.as_ptr();
        // The reference count lies before the bytes.
        prefetch(start.wrapping_sub(1));
        prefetch(start.wrapping_add(LINE_BYTES));
        prefetch(start.wrapping_add((state.number as usize).saturating_sub(1)));
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.lock().buffer.is_some()
    }

    /// Returns how often the block is read.
    pub(super) fn warmth(&self) -> Warmth {
        let state = self.lock();
        match &state.buffer {
            Some(_) if state.hits > 0 => Warmth::Hot,
            Some(_) if state.in_main => Warmth::Warm,
            _ => Warmth::Cold,
        }
    }

    /// Fills an empty slot with `block`. The caller has packed the block before it took its locks. Given the number of
    /// the eviction that emptied the slot, `to_main` decides whether the block goes to the main queue. Returns that
    /// decision, or `None` if the slot was full.
    pub(super) fn fill(&self, block: Slice, to_main: impl FnOnce(u32) -> bool) -> Option<bool> {
        let mut state = self.lock();
        if state.buffer.is_some() {
            return None;
        }
        let in_main = to_main(state.number);
        let (buffer, _, bytes) = block.into_packed().into_parts();
        // No block is larger than 128 MiB (`RAW_BYTES_MAX` of `table/format/block/trailer.rs`).
        *state = State { buffer: Some(buffer), number: bytes as u32, hits: 0, in_main, mark: 0 };
        Some(in_main)
    }

    /// Empties the slot.
    pub(super) fn take(&self) -> Option<TakenBlock> {
        self.lock().take(0)
    }

    /// Makes the turn of this slot in the small queue. After `hits_min` hits the block goes to the main queue;
    /// otherwise it is evicted.
    pub(super) fn turn_in_small(&self, hits_min: u8, eviction: u32) -> Turn {
        let mut state = self.lock();
        if state.buffer.is_some() && state.hits >= hits_min {
            (state.hits, state.in_main) = (0, true);
            return Turn::Stays { bytes: state.number as usize };
        }
        state.take(eviction).map_or(Turn::Empty, Turn::Evicted)
    }

    /// Makes the turn of this slot in the main queue. A block with hits uses up one hit and stays for another round. A
    /// block without hits is evicted.
    pub(super) fn turn_in_main(&self) -> Turn {
        let mut state = self.lock();
        if state.buffer.is_some() && state.hits > 0 {
            state.hits -= 1;
            return Turn::Stays { bytes: state.number as usize };
        }
        state.take(0).map_or(Turn::Empty, Turn::Evicted)
    }
}

impl State {
    fn take(&mut self, eviction: u32) -> Option<TakenBlock> {
        let buffer = self.buffer.take()?;
        let bytes = self.number as usize;
        self.number = eviction;
        Some(TakenBlock { bytes, in_main: self.in_main, _buffer: buffer })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_block_and_goes_with_it() {
        let slots = Slots::new(1);
        let slot = slots.get(0).unwrap();
        let block = |byte| Slice::from_long(&[byte; 100]);
        slot.fill(block(1), |_| false);
        let (first, mark) = slot.take_hit_marked().unwrap();
        assert_eq!(mark, 0);
        slot.mark(&first, 2);
        slot.mark(&first, 8);
        assert_eq!(slot.take_hit_marked().unwrap().1, 8);
        slot.take();
        slot.mark(&first, 1);
        slot.fill(block(1), |_| false);
        slot.mark(&first, 1);
        assert_eq!(slot.take_hit_marked().unwrap().1, 0, "another block, with the same bytes");
    }
}
