//! [`BlockCursor`]: a position in one data block.
//!
//! Invariant while valid: `offset` is the offset of an entry; `key`, `seq`, `kind` and the value range are those of
//! that entry; `next` is the offset of the next one. Steps forward check that keys ascend. After an error the cursor is
//! not valid.

use super::content::Block;
use crate::format::{CursorEntry, EntryKind, SeqNo, Slice, key, prefetch};
use crate::table::format::damage::Damage;
use std::cmp::Ordering;

/// See the module.
pub(in crate::table) struct BlockCursor {
    block: Block,
    valid: bool,
    offset: usize,
    next: usize,
    key: Vec<u8>,
    seq: SeqNo,
    kind: EntryKind,
    value_start: usize,
    value_bytes: usize,
}

impl BlockCursor {
    pub(in crate::table) fn new(block: Block) -> Self {
        BlockCursor {
            block,
            valid: false,
            offset: 0,
            next: 0,
            key: Vec::new(),
            seq: SeqNo(0),
            kind: EntryKind::Remove,
            value_start: 0,
            value_bytes: 0,
        }
    }

    /// Moves to another block, where the cursor is not valid yet. Keeps the buffer of the key.
    pub(in crate::table) fn enter(&mut self, block: Block) {
        self.block = block;
        self.valid = false;
    }

    /// Makes the cursor invalid.
    pub(in crate::table) fn leave(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub(in crate::table) fn valid(&self) -> bool {
        self.valid
    }

    /// Whether the entry is the last of the block.
    pub(in crate::table) fn at_last(&self) -> bool {
        self.valid && self.next >= self.block.entries_end()
    }

    /// The offset of the entry in the block.
    pub(in crate::table) fn offset(&self) -> usize {
        self.offset
    }

    #[inline]
    pub(in crate::table) fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.key
    }

    #[inline]
    pub(in crate::table) fn seq(&self) -> SeqNo {
        debug_assert!(self.valid);
        self.seq
    }

    #[inline]
    pub(in crate::table) fn kind(&self) -> EntryKind {
        debug_assert!(self.valid);
        self.kind
    }

    /// Returns the value, which shares the block.
    #[inline]
    pub(in crate::table) fn value(&self) -> Slice {
        debug_assert!(self.valid);
        self.block.value_at(self.value_start, self.value_bytes).into_slice()
    }

    /// Returns the whole entry, or `None` while the cursor is not valid.
    #[inline]
    pub(in crate::table) fn entry(&self) -> Option<CursorEntry<'_>> {
        self.valid.then(|| CursorEntry {
            key: &self.key,
            seq: self.seq,
            kind: self.kind,
            value: self.block.value_at(self.value_start, self.value_bytes),
        })
    }

    pub(in crate::table) fn value_bytes(&self) -> &[u8] {
        debug_assert!(self.valid);
        self.block.bytes(self.value_start, self.value_bytes)
    }

    pub(in crate::table) fn seek_to_first(&mut self) -> Result<(), Damage> {
        self.enter_restart(0)
    }

    pub(in crate::table) fn seek_to_last(&mut self) -> Result<(), Damage> {
        self.enter_restart(self.block.restarts() - 1)?;
        while self.next < self.block.entries_end() {
            self.step()?;
        }
        Ok(())
    }

    /// See [`crate::format::Cursor::seek`]. Not valid afterwards if every entry is before.
    pub(in crate::table) fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<(), Damage> {
        self.valid = false;
        let before = self.block.restarts_before(|entry| key::compare(entry, (user_key, seq)) == Ordering::Less)?;
        self.enter_restart(before.saturating_sub(1))?;
        while self.valid && key::compare((&self.key, self.seq), (user_key, seq)) == Ordering::Less {
            self.next()?;
        }
        Ok(())
    }

    /// See [`crate::format::Cursor::seek_before`]. Not valid afterwards if no entry is before.
    pub(in crate::table) fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<(), Damage> {
        self.seek(user_key, seq)?;
        if self.valid { self.prev() } else { self.seek_to_last() }
    }

    /// Moves to the next entry. Not valid after the last.
    #[inline]
    pub(in crate::table) fn next(&mut self) -> Result<(), Damage> {
        if self.next >= self.block.entries_end() {
            self.valid = false;
            return Ok(());
        }
        self.step()
    }

    /// Moves to the previous entry. Not valid before the first.
    pub(in crate::table) fn prev(&mut self) -> Result<(), Damage> {
        let target = self.offset;
        self.valid = false;
        if target == 0 {
            return Ok(());
        }
        let restart = self.block.restart_covering(target - 1)?;
        self.enter_restart(restart)?;
        while self.next < target {
            self.step()?;
        }
        if self.next != target {
            self.valid = false;
            return Err(Damage::new(target, "the start of an entry", format!("an entry that ends at {}", self.next)));
        }
        Ok(())
    }

    fn enter_restart(&mut self, index: usize) -> Result<(), Damage> {
        self.valid = false;
        self.key.clear();
        self.decode(self.block.restart(index)?, false)
    }

    #[inline]
    fn step(&mut self) -> Result<(), Damage> {
        self.valid = false;
        self.decode(self.next, true)
    }

    /// Decodes the entry at `offset`. `key` has the key of the entry before.
    #[inline]
    fn decode(&mut self, offset: usize, ordered: bool) -> Result<(), Damage> {
        let Some(entry) = self.block.sound_entry(offset) else {
            return Err(self.block.entry(offset).err().unwrap_or_else(|| Damage::new(offset, "an entry", "none")));
        };
        let Some(old) = self.key.get(entry.shared..) else {
            let found = format!("{} bytes of {} shared", entry.shared, self.key.len());
            return Err(Damage::new(offset, "a key that shares bytes with the one before", found));
        };
        // The shared bytes are equal, so the order of the rests is the order of the keys (at a restart: of prefixes).
        // A writer shares as many bytes as it can, so the first bytes of the rests nearly always decide.
        if ordered && !is_first_less(old, entry.suffix) {
            let order = key::compare((old, self.seq), (entry.suffix, entry.seq));
            if order != Ordering::Less {
                return Err(Damage::new(offset, "a key after the one before", "one that is not"));
            }
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.seq = entry.seq;
        self.kind = entry.kind;
        self.value_start = entry.value_start;
        self.value_bytes = entry.value_bytes;
        self.offset = offset;
        self.next = entry.end;
        self.valid = true;
        // If the values are large, the processor does not prefetch the next entry by itself.
        prefetch(self.block.entries_from(entry.end).as_ptr());
        Ok(())
    }
}

/// Whether the first byte of `a` is less than that of `b`.
#[inline]
fn is_first_less(a: &[u8], b: &[u8]) -> bool {
    matches!((a.first(), b.first()), (Some(a), Some(b)) if a < b)
}
