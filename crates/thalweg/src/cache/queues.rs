//! [`Queues`]: which blocks of a shard stay: by recency and by frequency.
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). A new block enters the *small*
//! queue, a tenth of the room; if it is not hit again before its turn, it goes, so that a scan pushes out little else
//! than itself. Else it enters the *main* queue, where each hit is good for another round. A block that was evicted
//! from the small queue not long ago and is read again enters the main queue at once: its slot remembers the eviction.
//!
//! Invariants: `bytes` of a queue are those of the full slots that its entries name, and no more than the room once an
//! insertion is over. Entries whose table was dropped are passed over, and swept once they are the greater part.

use super::slot::{Look, Slots, Taken};
use super::{Warmth, weight};
use crate::format::Slice;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The small queue has this part of the room.
const SMALL_PART: u64 = 10;
/// Hits in the small queue that move a block to the main one.
const HITS_TO_STAY: u8 = 1;

/// See the module.
pub(super) struct Queues {
    room_bytes: u64,
    small: Queue,
    main: Queue,
    /// Evictions from the small queue so far; it numbers them.
    evictions: u32,
    /// Entries of tables that were dropped.
    dead: usize,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: u64,
}

/// A slot, as long as its table is open.
struct Entry {
    slots: Weak<Slots>,
    at: usize,
}

impl Queues {
    pub(super) fn new(room_bytes: u64) -> Self {
        Queues { room_bytes, small: Queue::default(), main: Queue::default(), evictions: 0, dead: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// Puts the block into slot `at`, if it is empty. Gives what had to go, to be dropped without the lock.
    pub(super) fn insert(&mut self, slots: &Arc<Slots>, at: usize, block: Slice, warmth: Warmth) -> Vec<Taken> {
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

    /// These were taken out of their slots.
    pub(super) fn forget(&mut self, taken: &[Taken]) {
        for block in taken {
            let queue = if block.in_main { &mut self.main } else { &mut self.small };
            queue.bytes = queue.bytes.saturating_sub(weight(block.bytes));
        }
        self.dead += taken.len();
    }

    /// One turn of a queue. `false`: both are empty.
    fn evict(&mut self, evicted: &mut Vec<Taken>) -> bool {
        if self.small.bytes > self.room_bytes / SMALL_PART || self.main.entries.is_empty() {
            self.turn_small(evicted)
        } else {
            self.turn_main(evicted)
        }
    }

    fn turn_small(&mut self, evicted: &mut Vec<Taken>) -> bool {
        let Some(entry) = self.small.entries.pop_front() else { return false };
        let eviction = self.evictions.wrapping_add(1).max(1);
        match entry.look(|slots, at| slots.get(at).map(|slot| slot.look_in_small(HITS_TO_STAY, eviction))) {
            Look::Empty => self.dead = self.dead.saturating_sub(1),
            Look::Stays { bytes } => {
                self.small.bytes -= weight(bytes);
                self.main.push(entry, weight(bytes));
            }
            Look::Evicted(taken) => {
                self.evictions = eviction;
                self.small.bytes -= weight(taken.bytes);
                evicted.push(taken);
            }
        }
        true
    }

    fn turn_main(&mut self, evicted: &mut Vec<Taken>) -> bool {
        let Some(entry) = self.main.entries.pop_front() else { return false };
        match entry.look(|slots, at| slots.get(at).map(|slot| slot.look_in_main())) {
            Look::Empty => self.dead = self.dead.saturating_sub(1),
            Look::Stays { .. } => self.main.entries.push_back(entry),
            Look::Evicted(taken) => {
                self.main.bytes -= weight(taken.bytes);
                evicted.push(taken);
            }
        }
        true
    }

    /// Takes out the entries of dropped tables.
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
    fn look(&self, look: impl FnOnce(&Slots, usize) -> Option<Look>) -> Look {
        self.slots.upgrade().and_then(|slots| look(&slots, self.at)).unwrap_or(Look::Empty)
    }
}

#[cfg(test)]
impl Queues {
    /// Entries, those of dropped tables included.
    pub(super) fn entries(&self) -> usize {
        self.small.entries.len() + self.main.entries.len()
    }
}
