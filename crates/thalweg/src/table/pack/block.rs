//! [`Block`]: a data block, the entries of one directory in at most 4 KiB (PHAT-7).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | checksum: CRC-32C of the bytes after it, the number of the pack and the offset of the block |
//! | 4 | 2 | bytes of the block, a multiple of 8 |
//! | 6 | 2 | n, the number of items, at least 1 |
//! | 8 | 8 | directory |
//! | 16 | 8 | base, to which sequence numbers are relative |
//! | 24 | n | fingerprint of each item |
//! | 24 + n | 2m | offset in the block of items 8, 16, 24 …: m = (n - 1) / 8, rounded down |
//! | 24 + n + 2m | | items, then zeros |
//!
//! An item is `varint(zigzag(seq - base) << 2 | kind)`, the name with its length as a varint, and by kind: 0, a
//! tombstone: nothing; 1: the value with its length as a varint; 2, an extent: the bytes of the value as a varint. The
//! extents of a block follow it in the order of its items ([`super::extent`]).
//!
//! Items are in the order of hash, name and falling sequence number. An item is found from the next offset before it: a
//! lookup passes seven items at most, and an entry takes a quarter of a byte for offsets instead of two. The paper's
//! fingerprints have two bytes (PHAT-7); of one byte a block of 28 items lets one name in nine be compared in vain.

use super::extent::extent_bytes;
use super::{ALIGNMENT, Place};
use crate::error::{Error, Result};
use crate::format::codec::{Decoder, Encode};
use crate::format::name_hash::NAME_BYTES_MAX;
use crate::format::{Fingerprint, NameHash, SeqNo};
use crate::planted::{Bug, planted};

/// The most bytes of a block.
pub(crate) const BLOCK_BYTES_MAX: usize = 4 << 10;

/// The bytes before the fingerprints.
const HEADER_BYTES: usize = 24;

/// Every eighth item has its offset in the block.
const STRIDE: usize = 8;

const REMOVE: u64 = 0;
const INLINE: u64 = 1;
const EXTENT: u64 = 2;

/// What an item says of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// The name was removed.
    Remove,
    /// The value.
    Inline(&'a [u8]),
    /// The value is in an extent; this is its length in bytes.
    Extent(u32),
}

/// One version of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) content: Content<'a>,
}

impl Item<'_> {
    fn encode(&self, base: SeqNo, out: &mut Vec<u8>) {
        let kind = match self.content {
            Content::Remove => REMOVE,
            Content::Inline(_) => INLINE,
            Content::Extent(_) => EXTENT,
        };
        let delta = self.seq.0.cast_signed() - base.0.cast_signed();
        out.put_varint(((delta << 1) ^ (delta >> 63)).cast_unsigned() << 2 | kind);
        out.put_bytes(self.name);
        match self.content {
            Content::Remove => {}
            Content::Inline(value) => out.put_bytes(value),
            Content::Extent(bytes) => out.put_varint(u64::from(bytes)),
        }
    }
}

/// Collects the items of a block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    /// The sequence number of the first item.
    base: SeqNo,
    fingerprints: Vec<Fingerprint>,
    /// The offsets in `items` of those items that have one in the block.
    offsets: Vec<u16>,
    items: Vec<u8>,
}

/// The bytes of fingerprints and offsets in a block of `items` items.
fn array_bytes(items: usize) -> usize {
    items + 2 * (items.saturating_sub(1) / STRIDE)
}

impl BlockBuilder {
    /// The number of items so far.
    pub(crate) fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// The bytes of the items so far.
    pub(in crate::table) fn bytes(&self) -> usize {
        self.items.len() + array_bytes(self.len())
    }

    /// Adds an item if the sealed block then has at most `bytes_max` bytes. Every item that the engine takes fits in an
    /// empty block of [`BLOCK_BYTES_MAX`].
    pub(crate) fn push(&mut self, hash: NameHash, item: &Item<'_>, bytes_max: usize) -> bool {
        if self.len() == 0 {
            self.base = item.seq;
        }
        let offset = self.items.len();
        item.encode(self.base, &mut self.items);
        let bytes = HEADER_BYTES + array_bytes(self.len() + 1) + self.items.len();
        if bytes.next_multiple_of(ALIGNMENT) > bytes_max {
            self.items.truncate(offset);
            return false;
        }
        if self.len() > 0 && self.len().is_multiple_of(STRIDE) {
            self.offsets.push(offset as u16);
        }
        self.fingerprints.push(hash.fingerprint());
        true
    }

    /// The bytes of the block if it were sealed now.
    pub(in crate::table) fn sealed_bytes(&self) -> usize {
        (HEADER_BYTES + self.bytes()).next_multiple_of(ALIGNMENT)
    }

    /// Appends the block of `directory` at `place` to `out`, and begins the next. It has items.
    pub(crate) fn seal(&mut self, directory: u64, place: Place<'_>, out: &mut Vec<u8>) {
        assert!(self.len() > 0, "a block has items");
        let start = out.len();
        let (items_at, bytes) = (HEADER_BYTES + array_bytes(self.len()), self.sealed_bytes());
        out.put_u32(0);
        out.put_u16(bytes as u16);
        out.put_u16(self.len() as u16);
        out.put_u64(directory);
        out.put_u64(self.base.0);
        out.extend(self.fingerprints.iter().map(|fingerprint| fingerprint.0));
        self.offsets.iter().for_each(|offset| out.put_u16(items_at as u16 + offset));
        out.extend_from_slice(&self.items);
        out.resize(start + bytes, 0);
        let crc = place.checksum(&out[start..]); // in bounds: the block begins at `start`
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes()); // in bounds: and has a head
        self.fingerprints.clear();
        self.offsets.clear();
        self.items.clear();
    }
}

/// A data block that was read, with the right checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    place: Place<'a>,
    items: usize,
    directory: u64,
    base: SeqNo,
}

impl<'a> Block<'a> {
    /// The block that `bytes` begins with, read from `place`. [`Error::Corruption`] if there is none.
    pub(crate) fn decode(bytes: &'a [u8], place: Place<'a>) -> Result<Block<'a>> {
        let damaged = |at: u64, expected: String, found: String| {
            Error::corruption(place.path, place.offset + at, expected, found)
        };
        let Some((stored, length, items, directory, base)) = decode_header(bytes) else {
            return Err(damaged(0, format!("the {HEADER_BYTES} bytes of a block's head"), format!("{}", bytes.len())));
        };
        let Some(bytes) = bytes.get(..length).filter(|bytes| bytes.len() >= HEADER_BYTES + array_bytes(items)) else {
            let expected = format!("a block of {items} items in at most {} bytes", bytes.len());
            return Err(damaged(4, expected, format!("one of {length} bytes")));
        };
        let crc = place.checksum(bytes);
        if crc != stored && !planted(Bug::ChecksumNotVerified) {
            return Err(damaged(0, format!("block checksum {stored:#010x}"), format!("{crc:#010x}")));
        }
        Ok(Block { bytes, place, items, directory, base })
    }

    /// A block whose bytes were decoded before.
    pub(in crate::table) fn trusted(bytes: &'a [u8], place: Place<'a>) -> Block<'a> {
        let (_, _, items, directory, base) = decode_header(bytes).unwrap_or_default();
        Block { bytes, place, items, directory, base }
    }

    /// The directory whose items it has.
    pub(crate) fn directory(&self) -> u64 {
        self.directory
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// The fingerprints of the items, in their order.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> + 'a {
        let array = self.bytes.get(HEADER_BYTES..HEADER_BYTES + self.items).unwrap_or_default();
        array.iter().map(|byte| Fingerprint(*byte))
    }

    /// The bytes of the extents of the items before this one.
    pub(in crate::table) fn extents_before(&self, number: usize) -> Result<u64> {
        let mut bytes = 0;
        for before in self.items().take(number) {
            if let Content::Extent(value_bytes) = before?.content {
                bytes += extent_bytes(value_bytes as usize) as u64;
            }
        }
        Ok(bytes)
    }

    /// The items, in their order. Ends after an error.
    pub(crate) fn items(self) -> impl Iterator<Item = Result<Item<'a>>> {
        let (mut number, mut offset) = (0, self.first_offset());
        std::iter::from_fn(move || {
            if number == self.items {
                return None;
            }
            let item = self.item_at(number, offset);
            (number, offset) = item.as_ref().map_or((self.items, 0), |(_, next)| (number + 1, *next));
            Some(item.map(|(item, _)| item))
        })
    }

    /// An item by its number, below [`Block::len`].
    pub(crate) fn item(&self, number: usize) -> Result<Item<'a>> {
        let mut offset = match (number / STRIDE).checked_sub(1) {
            None => self.first_offset(),
            Some(place) => {
                let at = HEADER_BYTES + self.items + 2 * place;
                let offset = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
                offset.map_or(usize::MAX, |offset| usize::from(u16::from_le_bytes(*offset)))
            }
        };
        for before in number - number % STRIDE..number {
            offset = self.item_at(before, offset)?.1;
        }
        Ok(self.item_at(number, offset)?.0)
    }

    /// Where item 0 begins.
    pub(in crate::table) fn first_offset(&self) -> usize {
        HEADER_BYTES + array_bytes(self.items)
    }

    /// Item `number`, which begins at `offset`, and where the next one begins.
    pub(in crate::table) fn item_at(&self, number: usize, offset: usize) -> Result<(Item<'a>, usize)> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let mut decoder = Decoder::new(rest);
        match decode_item(&mut decoder, self.base) {
            Some(item) => Ok((item, offset + decoder.offset())),
            None => {
                let found = format!("none at byte {offset} of the block");
                Err(Error::corruption(self.place.path, self.place.offset, format!("item {number}"), found))
            }
        }
    }
}

/// Checksum, bytes, number of items, directory and base.
fn decode_header(bytes: &[u8]) -> Option<(u32, usize, usize, u64, SeqNo)> {
    let mut decoder = Decoder::new(bytes);
    let checksum = decoder.u32()?;
    let (length, items) = (usize::from(decoder.u16()?), usize::from(decoder.u16()?));
    Some((checksum, length, items, decoder.u64()?, SeqNo(decoder.u64()?)))
}

fn decode_item<'a>(decoder: &mut Decoder<'a>, base: SeqNo) -> Option<Item<'a>> {
    let head = decoder.varint()?;
    let zigzag = head >> 2;
    let delta = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
    let seq = SeqNo(base.0.checked_add_signed(delta).filter(|seq| *seq <= SeqNo::MAX.0)?);
    let name = decoder.bytes().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()))?;
    let content = match head & 3 {
        REMOVE => Content::Remove,
        INLINE => Content::Inline(decoder.bytes()?),
        EXTENT => Content::Extent(u32::try_from(decoder.varint()?).ok()?),
        _ => return None,
    };
    Some(Item { name, seq, content })
}
