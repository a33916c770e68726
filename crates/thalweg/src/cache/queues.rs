//! [`Queues`]: which blocks of a shard stay, by recency and by frequency.
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). A new block enters the *small*
//! queue, which has a tenth of the room. If it is not hit again before its turn, it is evicted. So a scan evicts few
//! blocks besides its own. If it was hit, it enters the *main* queue, where each hit keeps it for another round. A
//! block that is read again soon after its eviction from the small queue enters the main queue at once: its slot
//! remembers the eviction.
//!
//! Invariants: `bytes` of a queue is the sum over the full slots that its entries name. After an insertion the bytes of
//! both queues are at most the room. Entries of dropped tables are skipped, and removed once they are the majority.

use super::slot::{Slots, TakenBlock, Turn};
use super::warmth::Warmth;
use crate::format::Slice;
use crate::memory::Buffer;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The cost of an entry besides its buffer: its slot and its place in a queue.
const ENTRY_OVERHEAD_BYTES: u64 = 48;
/// The small queue has one in this many parts of the room.
const SMALL_PART: u64 = 10;
/// The hits in the small queue that move a block to the main queue.
const HITS_TO_STAY: u8 = 1;

/// See the module.
pub(super) struct Queues {
    room_bytes: u64,
    small: Queue,
    main: Queue,
    /// The number of evictions from the small queue so far, which is also the number of the latest eviction.
    evictions: u32,
    /// Entries of tables that were dropped.
    dead: usize,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: u64,
}

/// A reference to a slot, which ends when its table is closed.
struct Entry {
    slots: Weak<Slots>,
    at: usize,
}

impl Queues {
    pub(super) fn new(room_bytes: u64) -> Self {
        Queues { room_bytes, small: Queue::default(), main: Queue::default(), evictions: 0, dead: 0 }
    }

    /// Changes the room. Returns the evicted blocks, to be dropped after the lock.
    pub(super) fn set_room(&mut self, room_bytes: u64) -> Vec<TakenBlock> {
        self.room_bytes = room_bytes;
        let mut evicted = Vec::new();
        while self.bytes() > self.room_bytes && self.evict(&mut evicted) {}
        evicted
    }

    pub(super) fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// Puts the block into slot `at`, if that is empty. Returns the evicted blocks, to be dropped after the lock.
    pub(super) fn insert(&mut self, slots: &Arc<Slots>, at: usize, block: Slice, warmth: Warmth) -> Vec<TakenBlock> {
        let mut evicted = Vec::new();
        let weight = weight(block.len());
        let (now, remembered) = (self.evictions, self.main.entries.len());
        let is_remembered = |number: u32| number != 0 && (now.wrapping_sub(number) as usize) < remembered;
        let to_main = |number: u32| warmth == Warmth::Hot || is_remembered(number);
        let Some(in_main) = slots.get(at).and_then(|slot| slot.fill(block, to_main)) else { return evicted };
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.push(Entry { slots: Arc::downgrade(slots), at }, weight);
        while self.bytes() > self.room_bytes && self.evict(&mut evicted) {}
        if self.dead > 64 && self.dead > (self.small.entries.len() + self.main.entries.len()) / 2 {
            self.sweep();
        }
        evicted
    }

    /// Subtracts blocks that were taken out of their slots.
    pub(super) fn forget(&mut self, taken: &[TakenBlock]) {
        for block in taken {
            let queue = if block.in_main { &mut self.main } else { &mut self.small };
            queue.bytes = queue.bytes.saturating_sub(weight(block.bytes));
        }
        self.dead += taken.len();
    }

    /// Makes one turn of a queue. Returns `false` if both are empty.
    fn evict(&mut self, evicted: &mut Vec<TakenBlock>) -> bool {
        if self.small.bytes > self.room_bytes / SMALL_PART || self.main.entries.is_empty() {
            self.turn_small(evicted)
        } else {
            self.turn_main(evicted)
        }
    }

    fn turn_small(&mut self, evicted: &mut Vec<TakenBlock>) -> bool {
        let Some(entry) = self.small.entries.pop_front() else { return false };
        let eviction = self.evictions.wrapping_add(1).max(1);
        match entry.take_turn(|slots, at| slots.get(at).map(|slot| slot.turn_in_small(HITS_TO_STAY, eviction))) {
            Turn::Empty => self.dead = self.dead.saturating_sub(1),
            Turn::Stays { bytes } => {
                self.small.bytes -= weight(bytes);
                self.main.push(entry, weight(bytes));
            }
            Turn::Evicted(taken) => {
                self.evictions = eviction;
                self.small.bytes -= weight(taken.bytes);
                evicted.push(taken);
            }
        }
        true
    }

    fn turn_main(&mut self, evicted: &mut Vec<TakenBlock>) -> bool {
        let Some(entry) = self.main.entries.pop_front() else { return false };
        match entry.take_turn(|slots, at| slots.get(at).map(|slot| slot.turn_in_main())) {
            Turn::Empty => self.dead = self.dead.saturating_sub(1),
            Turn::Stays { .. } => self.main.entries.push_back(entry),
            Turn::Evicted(taken) => {
                self.main.bytes -= weight(taken.bytes);
                evicted.push(taken);
            }
        }
        true
    }

    /// Removes the entries of dropped tables.
    fn sweep(&mut self) {
        for queue in [&mut self.small, &mut self.main] {
            queue.entries.retain(|entry| entry.slots.strong_count() > 0);
        }
        self.dead = 0;
    }
}

impl Queue {
    fn push(&mut self, entry: Entry, weight: u64) {
        self.entries.push_back(entry);
        self.bytes += weight;
    }
}

impl Entry {
    fn take_turn(&self, turn: impl FnOnce(&Slots, usize) -> Option<Turn>) -> Turn {
        self.slots.upgrade().and_then(|slots| turn(&slots, self.at)).unwrap_or(Turn::Empty)
    }
}

/// Returns the bytes of the cache that a block of `bytes` takes.
pub(super) fn weight(bytes: usize) -> u64 {
    Buffer::packed_bytes(bytes) as u64 + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
impl Queues {
    /// The entries, those of dropped tables included.
    pub(super) fn entries(&self) -> usize {
        self.small.entries.len() + self.main.entries.len()
    }
}
