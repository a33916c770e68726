//! [`Block`]: the content of a data block, from bytes that may be damaged.
//!
//! Entries and restarts are decoded when they are needed. Every decode is checked and strictly advances, so no content
//! can make a reader panic or loop.

use super::entry::{Lengths, RawEntry};
use crate::format::codec::Decoder;
use crate::format::{SeqNo, Slice, ValueAt, Version, key, prefetch};
use crate::memory::Buffer;
use crate::table::format::damage::Damage;
use std::cmp::Ordering;

/// A block of usual size with small entries has at most this many restarts.
const RESTARTS_FEW: usize = 8;

/// A data block.
#[derive(Clone, Debug)]
pub(in crate::table) struct Block {
    buffer: Buffer,
    /// The offsets in the buffer of the beginning and the end of the block.
    start: usize,
    end: usize,
    /// The offset in the block at which the entries end and the restarts begin.
    entries_end: usize,
    /// The number of restarts; at least 1.
    restarts: usize,
}

/// The result of a point read in a block.
#[derive(Debug)]
pub(in crate::table) enum Found {
    Version(Version),
    /// The block has a greater key, and not this one.
    Nothing,
    /// Every entry of the block is less.
    PastEnd,
}

impl Block {
    /// Checks that the restarts fit in the block. Entries are checked when they are decoded.
    pub(in crate::table) fn parse(content: Slice) -> Result<Block, Damage> {
        let count = content.len().checked_sub(4).and_then(|at| Decoder::new(content.get(at..)?).u32());
        let restarts = count.unwrap_or(0) as usize;
        let entries_end = restarts.checked_mul(4).and_then(|bytes| content.len().checked_sub(bytes.checked_add(4)?));
        match entries_end {
            Some(entries_end) if restarts > 0 && entries_end > 0 => {
                let (buffer, start, end) = content.into_parts();
                Ok(Block { buffer, start, end, entries_end, restarts })
            }
            _ => Err(Damage::new(
                content.len().saturating_sub(4),
                "a restart count that fits the block",
                format!("{restarts} restarts in {} bytes", content.len()),
            )),
        }
    }

    #[inline]
    fn content(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    #[inline]
    fn entries(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.entries_end).unwrap_or_default()
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    pub(super) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// Returns the bytes of the entries from `offset` on; empty past their end.
    #[inline]
    pub(super) fn entries_from(&self, offset: usize) -> &[u8] {
        self.content().get(offset..self.entries_end).unwrap_or_default()
    }

    /// Returns the offset of the entry of restart `index`.
    pub(super) fn restart(&self, index: usize) -> Result<usize, Damage> {
        let at = self.entries_end.saturating_add(index.saturating_mul(4));
        let offset = self.content().get(at..).and_then(|bytes| Decoder::new(bytes).u32()).map(|offset| offset as usize);
        match offset {
            Some(offset) if offset < self.entries_end && index < self.restarts && (index > 0 || offset == 0) => {
                Ok(offset)
            }
            found => Err(Damage::new(at, format!("restart {index} at an entry"), format!("{found:?}"))),
        }
    }

    /// Returns the newest version of `user_key` at or below `seq`.
    ///
    /// The search assembles no key. All keys so far are less than `user_key`, and share their first `matched` bytes
    /// with it. An entry that shares more bytes than that with its predecessor is less, too, and is skipped by its
    /// lengths alone.
    pub(in crate::table) fn find(self, user_key: &[u8], seq: SeqNo) -> Result<Found, Damage> {
        let before = self.restarts_before(|entry| key::compare(entry, (user_key, seq)) == Ordering::Less)?;
        let mut offset = self.restart(before.saturating_sub(1))?;
        let (mut matched, mut key_bytes) = (0, 0);
        let entries = self.entries();
        while offset < self.entries_end {
            let bytes = entries.get(offset..).unwrap_or_default();
            let Some((lengths, end)) = Lengths::read(bytes).and_then(|lengths| Some((lengths, lengths.entry_bytes()?)))
            else {
                return Err(Damage::new(offset, "an entry", "malformed bytes"));
            };
            if lengths.shared > key_bytes {
                let found = format!("{} bytes of {key_bytes} shared", lengths.shared);
                return Err(Damage::new(offset, "a key that shares bytes with the one before", found));
            }
            key_bytes = lengths.shared + lengths.unshared;
            if lengths.shared <= matched {
                let suffix = bytes.get(lengths.bytes..lengths.bytes + lengths.unshared).unwrap_or_default();
                let wanted = user_key.get(lengths.shared..).unwrap_or_default();
                let same = key::shared_bytes(suffix, wanted);
                match (suffix.get(same), wanted.get(same)) {
                    (None, None) => {
                        let entry = self.entry(offset)?;
                        if entry.seq <= seq {
                            let (seq, kind) = (entry.seq, entry.kind);
                            let start = self.start + entry.value_start;
                            let end = start + entry.value_bytes;
                            let value = Slice::of_owned(self.buffer, start, end);
                            return Ok(Found::Version(Version { seq, kind, value }));
                        }
                    }
                    (Some(found), Some(wanted)) if found > wanted => return Ok(Found::Nothing),
                    (Some(_), None) => return Ok(Found::Nothing),
                    _ => {}
                }
                matched = lengths.shared + same;
            }
            offset += end;
        }
        Ok(Found::PastEnd)
    }

    /// Returns the entry at `offset`, or `None` if it is damaged; [`Block::entry`] tells how.
    #[inline(always)]
    pub(super) fn sound_entry(&self, offset: usize) -> Option<RawEntry<'_>> {
        RawEntry::decode_sound(self.entries().get(offset..)?, offset)
    }

    /// Returns the entry at `offset`.
    pub(super) fn entry(&self, offset: usize) -> Result<RawEntry<'_>, Damage> {
        match self.sound_entry(offset) {
            Some(entry) => Ok(entry),
            None => RawEntry::decode(self.entries().get(offset..).unwrap_or_default(), offset),
        }
    }

    /// Returns the user key and the sequence number of the entry at restart `index`.
    pub(super) fn restart_key(&self, index: usize) -> Result<(&[u8], SeqNo), Damage> {
        let offset = self.restart(index)?;
        let entry = self.entry(offset)?;
        if entry.shared != 0 {
            return Err(Damage::new(offset, "a whole key at a restart", format!("{} bytes shared", entry.shared)));
        }
        Ok((entry.suffix, entry.seq))
    }

    /// Returns how many restarts, from the first on, have entries for which `before` holds. `before` must be monotonic:
    /// true up to some entry, and false from there on.
    pub(super) fn restarts_before(&self, mut before: impl FnMut((&[u8], SeqNo)) -> bool) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.restarts);
        if high <= RESTARTS_FEW {
            // Without a prefetch, each step of the search would wait for its entry. The prefetches wait for all entries
            // at once.
            for index in 0..high {
                prefetch(self.entries_from(self.restart(index)?).as_ptr());
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.restart_key(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the last restart at or before `offset`.
    pub(super) fn restart_covering(&self, offset: usize) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.restart(middle)? <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    #[inline]
    pub(super) fn value_at(&self, start: usize, len: usize) -> ValueAt<'_> {
        let start = self.start + start;
        ValueAt::In(&self.buffer, start, start + len)
    }

    pub(super) fn bytes(&self, start: usize, len: usize) -> &[u8] {
        self.content().get(start..start.saturating_add(len)).unwrap_or_default()
    }

    /// Checks that every restart is an entry with a whole key, in order, for `thalweg check`.
    pub(in crate::table) fn check_restarts(&self) -> Result<(), Damage> {
        let mut offset = 0;
        for index in 0..self.restarts {
            let restart = self.restart(index)?;
            while offset < restart {
                offset = self.entry(offset)?.end;
            }
            if offset != restart || index > 0 && restart <= self.restart(index - 1)? {
                let found = format!("byte {restart}");
                return Err(Damage::new(self.entries_end, format!("restart {index} at an entry"), found));
            }
            self.restart_key(index)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::Encode;

    /// A block of one entry with these fields.
    fn block(shared: u64, unshared: u64, value_bytes: u64, trailer: u64) -> Block {
        let mut bytes = Vec::new();
        bytes.put_varint(shared);
        bytes.put_varint(unshared);
        bytes.put_varint(value_bytes);
        bytes.extend_from_slice(b"key");
        bytes.put_u64(trailer);
        bytes.extend_from_slice(b"value");
        bytes.put_u32(0);
        bytes.put_u32(1);
        Block::parse(Slice::from(bytes)).unwrap()
    }

    #[test]
    fn reserved_kinds_are_refused_by_name() {
        assert!(block(0, 3, 5, 9 << 8 | 1).entry(0).is_ok());
        for kind in 2..=255 {
            let damage = block(0, 3, 5, 9 << 8 | kind).entry(0).unwrap_err();
            let expected = Damage::new(6, "entry kind 0 (remove) or 1 (put)", format!("kind {kind}"));
            assert_eq!(damage, expected);
        }
    }

    #[test]
    fn lengths_beyond_the_limits_or_the_block_are_refused() {
        let put = 9 << 8 | 1;
        for (shared, unshared, value_bytes) in [
            (0, 4, 5),
            (0, 3, 6),
            (0, u64::MAX, 5),
            (u64::MAX, 3, 5),
            (0, 3, u64::MAX),
            (65_534, 3, 5),
            (0, 3, 1 << 27),
        ] {
            assert!(block(shared, unshared, value_bytes, put).entry(0).is_err(), "{shared} {unshared} {value_bytes}");
        }
        assert!(block(0, 3, 5, 9 << 8).entry(0).is_err(), "a tombstone with a value");
        assert!(block(1, 3, 5, put).restart_key(0).is_err(), "a restart that shares bytes");
    }

    #[test]
    fn restart_counts_that_do_not_fit_are_refused() {
        for (bytes, count) in [(0, 0u32), (3, 0), (100, 0), (100, 25), (100, u32::MAX)] {
            let mut content = vec![0; bytes];
            content.put_u32(count);
            assert!(Block::parse(Slice::from(content)).is_err(), "{count} in {bytes}");
        }
        assert!(Block::parse(Slice::from(&[1, 0][..])).is_err());
    }
}
