//! [`Region`]: the addresses from which the tables of a fast tier in memory are cut.
//!
//! Why not the heap: tables of all sizes are made by one thread and freed by another, some hundred MiB a second. glibc
//! kept up to 70 % more memory than the tables had. A mapping for each table would be exact, but the faults of new
//! pages halved the rate of writes.
//!
//! A piece is a row of adjoining units, cut from the lowest free row that is long enough. So used memory gathers at low
//! addresses, where it is reused again and again. Blocks have 2 MiB, and are huge pages where the system has any. The
//! region gives its highest unused blocks back to the system. It keeps up to a sixteenth of the tier unused, because
//! the next merge takes what one merge frees. Where no free row is long enough, or there are no mappings, the caller
//! takes the heap.
//!
//! Invariants: each unit is free or belongs to one piece. A block counts as idle if it has memory and none of its units
//! is used. A piece is written before anyone else sees it, and never after that. Locks: `free` is held for a search,
//! and while a block is given back.

#![allow(unsafe_code)]

use super::pages::{PAGES_BYTES, reserve, unmap, unuse};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a unit.
const UNIT_BYTES: usize = 64 << 10;

/// Units of a block.
const BLOCK_UNITS: usize = PAGES_BYTES / UNIT_BYTES;

/// The region has this many times the addresses that the tier's capacity needs. Tables that a merge replaces stay until
/// the merge has ended, readers keep some of them longer, and there are gaps between pieces.
const ADDRESSES: usize = 2;

/// At most 1/`IDLE_PART` of the tier may be idle. With a 64th, faults of new pages took 6 % of all processor time.
const IDLE_PART: usize = 16;

/// See the module.
pub(crate) struct Region {
    /// The mapping.
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// Its first block.
    blocks: NonNull<u8>,
    free: Mutex<Free>,
}

// SAFETY: the memory is owned, and of no thread.
unsafe impl Send for Region {}
// SAFETY: units are handed out under the lock, each to one piece.
unsafe impl Sync for Region {}

/// Bytes in a region, until they are dropped.
pub(crate) struct Piece {
    region: Arc<Region>,
    unit: usize,
    units: usize,
    len: usize,
}

/// A piece that is being written.
pub(crate) struct NewPiece(Piece);

impl Region {
    /// A region for tables of `bytes` in all. `None` where there are no mappings.
    pub(crate) fn new(bytes: u64) -> Option<Arc<Region>> {
        let bytes = usize::try_from(bytes).ok()?.checked_mul(ADDRESSES)?.checked_next_multiple_of(PAGES_BYTES)?;
        let mapped_bytes = bytes.checked_add(PAGES_BYTES)?;
        let mapped = reserve(mapped_bytes)?;
        let before = mapped.addr().get().next_multiple_of(PAGES_BYTES) - mapped.addr().get();
        // SAFETY: less than a block, of which the mapping has one more than it needs.
        let blocks = unsafe { mapped.add(before) };
        let idle_max = (bytes / ADDRESSES / IDLE_PART / PAGES_BYTES).max(2);
        let free = Mutex::new(Free::new(bytes / PAGES_BYTES, idle_max));
        Some(Arc::new(Region { mapped, mapped_bytes, blocks, free }))
    }

    /// Begins a piece with room for `bytes`; `None` if there is no place for them.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize) -> Option<NewPiece> {
        let units = units_of(bytes);
        let unit = self.free().take(units)?;
        Some(NewPiece(Piece { region: Arc::clone(self), unit, units, len: 0 }))
    }

    /// Bytes of memory that its blocks have.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.free().memory * PAGES_BYTES) as u64
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back `count` units from `unit` on, and gives back the memory of blocks beyond those that may be idle.
    fn give(&self, unit: usize, count: usize) {
        self.free().give(unit, count);
        loop {
            let mut free = self.free();
            let Some(block) = free.take_idle() else { break };
            // Under the lock, because another thread could write there meanwhile. One block at a time, because others
            // wait.
            unuse(self.at(block * BLOCK_UNITS), PAGES_BYTES);
        }
    }

    fn at(&self, unit: usize) -> NonNull<u8> {
        // SAFETY: the mapping has all the units that `free` knows.
        unsafe { self.blocks.add(unit * UNIT_BYTES) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.mapped, self.mapped_bytes);
    }
}

impl NewPiece {
    /// Appends `bytes`. The piece must have room for them.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let NewPiece(piece) = self;
        assert!(bytes.len() <= piece.units * UNIT_BYTES - piece.len, "a piece of {} units is too small", piece.units);
        // SAFETY: the piece has these units alone, and they have room for the bytes behind those it has.
        unsafe {
            let end = piece.region.at(piece.unit).add(piece.len);
            end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        piece.len += bytes.len();
    }

    /// Overwrites the beginning of the piece with `first`. The piece must have at least as many bytes.
    pub(crate) fn overwrite(&mut self, first: &[u8]) {
        let NewPiece(piece) = self;
        assert!(first.len() <= piece.len, "{} bytes are not there yet", first.len());
        // SAFETY: the piece has these bytes, and nobody else sees it yet.
        unsafe { piece.region.at(piece.unit).copy_from_nonoverlapping(NonNull::from(first).cast(), first.len()) };
    }

    /// Ends the piece. Units that it does not need are free again.
    pub(crate) fn done(self) -> Piece {
        let NewPiece(mut piece) = self;
        let (needed, had) = (units_of(piece.len), piece.units);
        if needed < had {
            piece.units = needed;
            piece.region.give(piece.unit + needed, had - needed);
        }
        piece
    }
}

impl AsRef<[u8]> for Piece {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the piece has these bytes until it is dropped; they were written before there was a piece.
        unsafe { std::slice::from_raw_parts(self.region.at(self.unit).as_ptr(), self.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.region.give(self.unit, self.units);
    }
}

fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES).max(1)
}

/// Which units are free, and which blocks have memory.
struct Free {
    /// The free rows: the first unit of each, and the number of its units. No two rows adjoin.
    units: BTreeMap<usize, usize>,
    blocks: Vec<Block>,
    /// Blocks that have memory.
    memory: usize,
    /// Blocks that have memory and no used unit.
    idle: usize,
    idle_max: usize,
}

#[derive(Clone, Copy, Default)]
struct Block {
    units_used: usize,
    has_memory: bool,
}

impl Free {
    fn new(blocks: usize, idle_max: usize) -> Free {
        let units = BTreeMap::from([(0, blocks * BLOCK_UNITS)]);
        Free { units, blocks: vec![Block::default(); blocks], memory: 0, idle: 0, idle_max }
    }

    /// Takes the lowest `count` units that adjoin, and returns the first.
    fn take(&mut self, count: usize) -> Option<usize> {
        let (&first, &there) = self.units.iter().find(|(_, there)| **there >= count)?;
        self.units.remove(&first);
        if there > count {
            self.units.insert(first + count, there - count);
        }
        for (block, units) in blocks_of(first, count) {
            let Some(block) = self.blocks.get_mut(block) else { unreachable!("units are in blocks") };
            self.idle -= usize::from(block.has_memory && block.units_used == 0);
            self.memory += usize::from(!block.has_memory);
            block.units_used += units;
            block.has_memory = true;
        }
        Some(first)
    }

    /// Takes back `count` units from `first` on.
    fn give(&mut self, first: usize, count: usize) {
        for (block, units) in blocks_of(first, count) {
            let Some(block) = self.blocks.get_mut(block) else { unreachable!("units are in blocks") };
            block.units_used -= units;
            self.idle += usize::from(block.units_used == 0);
        }
        let (mut first, mut count) = (first, count);
        if let Some(after) = self.units.remove(&(first + count)) {
            count += after;
        }
        let before = self.units.range(..first).next_back().map(|(first, count)| (*first, *count));
        if let Some((start, before)) = before.filter(|(start, before)| start + before == first) {
            self.units.remove(&start);
            (first, count) = (start, before + count);
        }
        self.units.insert(first, count);
    }

    /// Returns the highest idle block if more blocks are idle than may be. The block counts as one without memory from
    /// then on.
    fn take_idle(&mut self) -> Option<usize> {
        if self.idle <= self.idle_max {
            return None;
        }
        let highest = self.blocks.iter().rposition(|block| block.has_memory && block.units_used == 0)?;
        self.blocks.get_mut(highest)?.has_memory = false;
        self.memory -= 1;
        self.idle -= 1;
        Some(highest)
    }
}

/// The blocks that have the `count` units from `first` on, each with its number of these units.
fn blocks_of(first: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = first + count;
    (first / BLOCK_UNITS..end.div_ceil(BLOCK_UNITS)).map(move |block| {
        let (from, to) = (block * BLOCK_UNITS, (block + 1) * BLOCK_UNITS);
        (block, end.min(to) - first.max(from))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_units_are_taken_first_and_neighbours_become_one() {
        let mut free = Free::new(2, 2);
        assert_eq!([3, 2, 4].map(|count| free.take(count).unwrap()), [0, 3, 5]);
        free.give(0, 3);
        free.give(5, 4);
        assert_eq!(free.take(4), Some(5), "three are too few");
        assert_eq!(free.take(2), Some(0));
        free.give(5, 4);
        free.give(0, 2);
        free.give(3, 2);
        assert_eq!(free.units, BTreeMap::from([(0, 64)]));
        assert_eq!((free.take(65), free.take(64), free.take(1)), (None, Some(0), None));
    }

    #[test]
    fn the_highest_idle_blocks_are_given_back_but_some() {
        let mut free = Free::new(8, 2);
        let pieces: Vec<usize> = (0..8).map(|_| free.take(BLOCK_UNITS).unwrap()).collect();
        for piece in pieces.iter().skip(1) {
            free.give(*piece, BLOCK_UNITS);
        }
        let back: Vec<usize> = std::iter::from_fn(|| free.take_idle()).collect();
        assert_eq!((back, free.idle, free.memory), (vec![7, 6, 5, 4, 3], 2, 3));
        free.take(3 * BLOCK_UNITS);
        assert_eq!((free.idle, free.memory, free.take_idle()), (0, 4, None));
    }

    #[test]
    fn pieces_keep_their_bytes_while_others_come_and_go() {
        let Some(region) = Region::new(8 << 20) else { return };
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut kept: Vec<(u8, Piece)> = Vec::new();
        let (turns, bytes_max) = if cfg!(miri) { (10, 80 << 10) } else { (2000, 1 << 20) };
        for turn in 0..turns {
            let bytes = vec![turn as u8; random(bytes_max)];
            match region.begin(bytes.len() + random(bytes_max)) {
                Some(mut piece) => {
                    let (head, rest) = bytes.split_at(bytes.len() / 3);
                    piece.append(&vec![!(turn as u8); head.len()]);
                    piece.append(rest);
                    piece.overwrite(head);
                    let piece = piece.done();
                    assert_eq!((piece.as_ref().len(), piece.units), (bytes.len(), units_of(bytes.len())));
                    kept.push((turn as u8, piece));
                }
                None => assert!(kept.len() > 8, "there is room"),
            }
            if kept.len() > 12 {
                kept.swap_remove(random(kept.len()));
            }
            let (byte, piece) = &kept[random(kept.len())];
            assert!(piece.as_ref().iter().all(|found| found == byte));
        }
        kept.clear();
        let free = region.free();
        assert_eq!(free.units, BTreeMap::from([(0, 8 * BLOCK_UNITS)]));
        assert!(free.blocks.iter().all(|block| block.units_used == 0) && free.idle == free.memory);
        assert!((1..=free.idle_max).contains(&free.idle));
    }
}
