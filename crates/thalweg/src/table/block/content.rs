//! [`Block`]: the content of a data block, from bytes that may be damaged.
//!
//! Entries and restarts are decoded where they are needed; every decode is checked and strictly moves on, so that no
//! content can make a reader panic or loop.

use crate::format::codec::Decoder;
use crate::format::key::{KEY_BYTES_MAX, TRAILER_BYTES, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo, Slice, key};
use crate::table::damage::Damage;

/// A data block.
#[derive(Clone, Debug)]
pub(in crate::table) struct Block {
    content: Slice,
    /// Where the entries end and the restarts begin.
    entries_end: usize,
    /// At least 1.
    restarts: usize,
}

/// One entry as it lies in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'a> {
    /// Bytes of the user key taken from the entry before.
    pub(super) shared: usize,
    pub(super) suffix: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) kind: EntryKind,
    /// Where the value begins in the block, and its length.
    pub(super) value_start: usize,
    pub(super) value_bytes: usize,
    /// Where the next entry begins.
    pub(super) end: usize,
}

impl Block {
    pub(in crate::table) fn parse(content: Slice) -> Result<Block, Damage> {
        let count = content.len().checked_sub(4).and_then(|at| Decoder::new(content.get(at..)?).u32());
        let restarts = count.unwrap_or(0) as usize;
        let entries_end = restarts.checked_mul(4).and_then(|bytes| content.len().checked_sub(bytes.checked_add(4)?));
        match entries_end {
            Some(entries_end) if restarts > 0 && entries_end > 0 => Ok(Block { content, entries_end, restarts }),
            _ => Err(Damage::new(
                content.len().saturating_sub(4),
                "a restart count that fits the block",
                format!("{restarts} restarts in {} bytes", content.len()),
            )),
        }
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    pub(super) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// The entries from `offset` on; none past their end.
    #[inline]
    pub(super) fn entries_from(&self, offset: usize) -> &[u8] {
        self.content.get(offset..self.entries_end).unwrap_or_default()
    }

    /// Where the entry of restart `index` begins.
    pub(super) fn restart(&self, index: usize) -> Result<usize, Damage> {
        let at = self.entries_end.saturating_add(index.saturating_mul(4));
        let offset = self.content.get(at..).and_then(|bytes| Decoder::new(bytes).u32()).map(|offset| offset as usize);
        match offset {
            Some(offset) if offset < self.entries_end && index < self.restarts && (index > 0 || offset == 0) => {
                Ok(offset)
            }
            found => Err(Damage::new(at, format!("restart {index} at an entry"), format!("{found:?}"))),
        }
    }

    /// The entry at `offset`.
    pub(super) fn entry(&self, offset: usize) -> Result<RawEntry<'_>, Damage> {
        let entries = self.content.get(offset..self.entries_end).unwrap_or_default();
        let malformed = || Damage::new(offset, "an entry", "malformed bytes");
        let mut decoder = Decoder::new(entries);
        let (shared, unshared, value_bytes) = lengths(&mut decoder).ok_or_else(malformed)?;
        if shared.checked_add(unshared).is_none_or(|bytes| bytes > KEY_BYTES_MAX) || value_bytes > VALUE_BYTES_MAX {
            let found = format!("{shared} + {unshared} and {value_bytes} bytes");
            return Err(Damage::new(offset, "a key of at most 64 KiB and a value of at most 64 MiB", found));
        }
        let suffix = decoder.take(unshared).ok_or_else(malformed)?;
        let trailer_start = offset + decoder.offset();
        let trailer = decoder.u64().ok_or_else(malformed)?;
        let Some((seq, kind)) = key::unpack_trailer(trailer) else {
            let found = format!("kind {}", trailer as u8);
            return Err(Damage::new(trailer_start, "entry kind 0 (remove) or 1 (put)", found));
        };
        let value_start = trailer_start + TRAILER_BYTES;
        decoder.take(value_bytes).ok_or_else(malformed)?;
        if kind == EntryKind::Remove && value_bytes > 0 {
            return Err(Damage::new(offset, "a tombstone without a value", format!("{value_bytes} bytes")));
        }
        Ok(RawEntry { shared, suffix, seq, kind, value_start, value_bytes, end: offset + decoder.offset() })
    }

    /// The entry at restart `index`: where it is, and its whole user key.
    pub(super) fn restart_key(&self, index: usize) -> Result<(&[u8], SeqNo), Damage> {
        let offset = self.restart(index)?;
        let entry = self.entry(offset)?;
        if entry.shared != 0 {
            return Err(Damage::new(offset, "a whole key at a restart", format!("{} bytes shared", entry.shared)));
        }
        Ok((entry.suffix, entry.seq))
    }

    /// How many restarts, from the first, have entries for which `before` holds; it must hold for a first part only.
    pub(super) fn restarts_before(&self, mut before: impl FnMut((&[u8], SeqNo)) -> bool) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.restarts);
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

    /// The last restart at or before `offset`.
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

    pub(super) fn slice(&self, start: usize, len: usize) -> Slice {
        self.content.get_slice(start, len).unwrap_or_else(|| self.content.slice(0..0))
    }

    pub(super) fn bytes(&self, start: usize, len: usize) -> &[u8] {
        self.content.get(start..start.saturating_add(len)).unwrap_or_default()
    }

    /// Checks that every restart is an entry with a whole key, in order (`thalweg check`).
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

/// The three numbers that an entry begins with; nearly always of a byte each.
fn lengths(decoder: &mut Decoder<'_>) -> Option<(usize, usize, usize)> {
    if let Some(&[shared, unshared, value_bytes]) = decoder.clone().take(3)
        && shared | unshared | value_bytes < 0x80
    {
        decoder.take(3)?;
        return Some((shared.into(), unshared.into(), value_bytes.into()));
    }
    Some((decoder.varint_usize()?, decoder.varint_usize()?, decoder.varint_usize()?))
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
