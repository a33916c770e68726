//! [`RawEntry`]: one entry as it is stored in a data block, from bytes that may be damaged.

use crate::format::codec::Decoder;
use crate::format::key::{self, KEY_BYTES_MAX, TRAILER_BYTES, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo};
use crate::table::format::damage::Damage;

/// The three lengths at the beginning of an entry.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    /// Bytes of the user key that are taken from the previous entry.
    pub(super) shared: usize,
    pub(super) unshared: usize,
    pub(super) value_bytes: usize,
    /// The bytes of the three lengths themselves.
    pub(super) bytes: usize,
}

/// One entry as it is stored in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'a> {
    /// Bytes of the user key that are taken from the previous entry.
    pub(super) shared: usize,
    pub(super) suffix: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) kind: EntryKind,
    /// The offset of the value in the block, and its length.
    pub(super) value_start: usize,
    pub(super) value_bytes: usize,
    /// The offset of the next entry.
    pub(super) end: usize,
}

impl Lengths {
    /// Decodes the lengths. Nearly always they have a byte each, or two for the value.
    #[inline(always)]
    pub(super) fn read(entry: &[u8]) -> Option<Lengths> {
        if let &[shared, unshared, low, high, ..] = entry
            && shared | unshared < 0x80
        {
            let (shared, unshared) = (shared.into(), unshared.into());
            if low < 0x80 {
                return Some(Lengths { shared, unshared, value_bytes: low.into(), bytes: 3 });
            }
            if high < 0x80 && high > 0 {
                let value_bytes = usize::from(low & 0x7f) | usize::from(high) << 7;
                return Some(Lengths { shared, unshared, value_bytes, bytes: 4 });
            }
        }
        let mut decoder = Decoder::new(entry);
        let (shared, unshared) = (decoder.varint_usize()?, decoder.varint_usize()?);
        let value_bytes = decoder.varint_usize()?;
        Some(Lengths { shared, unshared, value_bytes, bytes: decoder.offset() })
    }

    /// Returns the bytes of the whole entry, or `None` if its key or value is too long.
    #[inline]
    pub(super) fn entry_bytes(&self) -> Option<usize> {
        let key_bytes = self.shared.checked_add(self.unshared)?;
        let fits = key_bytes <= KEY_BYTES_MAX && self.value_bytes <= VALUE_BYTES_MAX;
        fits.then(|| self.bytes + self.unshared + TRAILER_BYTES + self.value_bytes)
    }
}

impl<'a> RawEntry<'a> {
    /// Decodes the entry at the beginning of `bytes`, which are at `offset` of the block. Returns `None` if it is
    /// damaged; [`RawEntry::decode`] tells how.
    #[inline(always)]
    pub(super) fn decode_sound(bytes: &'a [u8], offset: usize) -> Option<RawEntry<'a>> {
        let lengths = Lengths::read(bytes)?;
        let end = lengths.entry_bytes()?;
        let (suffix, rest) = bytes.get(lengths.bytes..end)?.split_at_checked(lengths.unshared)?;
        let (seq, kind) = key::unpack_trailer(u64::from_le_bytes(*rest.first_chunk()?))?;
        if kind == EntryKind::Remove && lengths.value_bytes > 0 {
            return None;
        }
        let (shared, value_bytes) = (lengths.shared, lengths.value_bytes);
        let (value_start, end) = (offset + end - value_bytes, offset + end);
        Some(RawEntry { shared, suffix, seq, kind, value_start, value_bytes, end })
    }

    /// As [`RawEntry::decode_sound`], step by step, to name the damage.
    #[cold]
    pub(super) fn decode(bytes: &'a [u8], offset: usize) -> Result<RawEntry<'a>, Damage> {
        let malformed = || Damage::new(offset, "an entry", "malformed bytes");
        let lengths = Lengths::read(bytes).ok_or_else(malformed)?;
        let Lengths { shared, unshared, value_bytes, bytes: lengths_bytes } = lengths;
        let mut decoder = Decoder::new(bytes);
        decoder.take(lengths_bytes).ok_or_else(malformed)?;
        if lengths.entry_bytes().is_none() {
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
}
