//! [`Block`]: a data block, the entries of one directory in at most 4 KiB (PHAT-7).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | checksum: CRC-32C of the bytes after it, the number of the pack, the offset of the block, the directory |
//! | 4 | 2 | bytes of the block, a multiple of 8 |
//! | 6 | 1 | form: b, d, and whether the items are equal |
//! | 7 | b | base, to which sequence numbers are relative |
//! | 7 + b | | n, the number of items, at least 1: a varint |
//! | | | of equal items: the length of each name and of each value, varints |
//! | f | n | fingerprint of each item |
//! | f + n | nd | sequence number of each item, less the base |
//! | f + n + nd | 2m | offset in the block of items 8, 16, 24 …: m = (n - 1) / 8, rounded down; equal items: m = 0 |
//! | f + n + nd + 2m | | items, then zeros |
//!
//! A block of format 1 has n (two bytes) and the directory (eight) before the form, and its checksum does not cover the
//! directory again.
//!
//! An item is `varint(name bytes << 2 | kind)`, the name, and by kind: 0, a tombstone: nothing; 1: the value with its
//! length as a varint; 2, an extent: the bytes of the value as a varint. The extents of a block follow it in the order
//! of its items ([`super::extent`]). An item of equal ones is the name and the value.
//!
//! Items are in the order of hash, name and falling sequence number. The place of an item of equal ones follows from
//! its number. Any other item is found from the nearest offset before it, so a lookup passes seven items at most. An
//! entry then takes a quarter of a byte for offsets instead of two. The paper's fingerprints have two bytes (PHAT-7).
//! With one byte, a lookup in a block of 28 items compares a name in vain one time in nine.

use super::extent::extent_bytes;
use super::{Format, Place};
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::format::name_hash::NAME_BYTES_MAX;
use crate::format::{Fingerprint, SeqNo};
use crate::planted::{Bug, planted};

/// The most bytes of a block.
pub(crate) const BLOCK_BYTES_MAX: usize = 4 << 10;

/// The bytes before the base.
pub(super) const HEADER_BYTES: usize = 7;

/// Every eighth item has its offset in the block.
pub(super) const STRIDE: usize = 8;

/// The kinds of items.
pub(super) const REMOVE: u64 = 0;
pub(super) const INLINE: u64 = 1;
pub(super) const EXTENT: u64 = 2;

/// The value of an item, or its removal.
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

/// The lengths of all names and of all values of a block, in bytes, if its items are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EqualLengths {
    pub(super) name: usize,
    pub(super) value: usize,
}

impl EqualLengths {
    pub(super) fn item_bytes(self) -> usize {
        self.name + self.value
    }
}

/// The byte of a block's head that says its form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The bytes of the base, 0 to 7.
    pub(super) base_bytes: usize,
    /// The bytes of each sequence number less the base, 0 to 7.
    pub(super) number_bytes: usize,
    pub(super) is_equal: bool,
}

impl Form {
    pub(super) fn encode(self) -> u8 {
        (self.base_bytes | self.number_bytes << 3) as u8 | u8::from(self.is_equal) << 6
    }

    /// Returns the form of `byte`, or `None` if there is none.
    fn decode(byte: u8) -> Option<Form> {
        let (base_bytes, number_bytes) = (usize::from(byte & 7), usize::from(byte >> 3 & 7));
        (byte & 0x80 == 0).then_some(Form { base_bytes, number_bytes, is_equal: byte & 0x40 != 0 })
    }
}

/// The bytes of offsets in a block of `items` items that are not equal.
pub(super) fn offset_bytes(items: usize) -> usize {
    2 * (items.saturating_sub(1) / STRIDE)
}

/// The head of a block, and where its parts begin.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::table) struct Head {
    directory: u64,
    items: usize,
    base: SeqNo,
    number_bytes: usize,
    equal: Option<EqualLengths>,
    fingerprints_at: usize,
    items_at: usize,
}

impl Head {
    /// The directory whose items the block has.
    pub(in crate::table) fn directory(&self) -> u64 {
        self.directory
    }

    /// The number of items.
    pub(in crate::table) fn len(&self) -> usize {
        self.items
    }

    /// Where item 0 begins.
    pub(in crate::table) fn first_offset(&self) -> usize {
        self.items_at
    }

    /// Returns the checksum that a block of `directory` states, the length that it states, and its head.
    #[inline]
    fn decode(bytes: &[u8], format: Format, directory: u64) -> Option<(u32, usize, Head)> {
        let mut decoder = Decoder::new(bytes);
        let (checksum, length) = (decoder.u32()?, usize::from(decoder.u16()?));
        let (directory, items, form, base) = match format {
            Format::One => {
                let (items, directory) = (usize::from(decoder.u16()?), decoder.u64()?);
                let form = Form::decode(decoder.u8()?)?;
                (directory, items, form, decoder.take(form.base_bytes)?)
            }
            Format::Two => {
                let form = Form::decode(decoder.u8()?)?;
                let base = decoder.take(form.base_bytes)?;
                (directory, decoder.varint_usize().filter(|items| (1..=BLOCK_BYTES_MAX).contains(items))?, form, base)
            }
        };
        let base = SeqNo(little_endian(base));
        let equal = if form.is_equal { Some(decode_lengths(&mut decoder)?) } else { None };
        let (fingerprints_at, number_bytes) = (decoder.offset(), form.number_bytes);
        let offsets = if form.is_equal { 0 } else { offset_bytes(items) };
        let items_at = fingerprints_at + items + items * number_bytes + offsets;
        Some((checksum, length, Head { directory, items, base, number_bytes, equal, fingerprints_at, items_at }))
    }

    /// The fewest bytes that the block may have.
    fn bytes_min(&self) -> usize {
        self.items_at + self.equal.map_or(0, |lengths| self.items * lengths.item_bytes())
    }
}

fn decode_lengths(decoder: &mut Decoder<'_>) -> Option<EqualLengths> {
    let (name, value) = (decoder.varint_usize()?, decoder.varint_usize()?);
    let is_possible = (1..=NAME_BYTES_MAX).contains(&name) && value <= BLOCK_BYTES_MAX;
    is_possible.then_some(EqualLengths { name, value })
}

/// The number that at most 8 bytes hold, the lowest byte first.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A data block that was read, with the right checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    place: Place<'a>,
    head: Head,
}

impl<'a> Block<'a> {
    /// Returns the block of `directory` at the beginning of `bytes`, which were read from `place`. Returns
    /// [`Error::Corruption`] if there is none. In format 1 the block may be of another directory.
    pub(crate) fn decode(bytes: &'a [u8], place: Place<'a>, directory: u64) -> Result<Block<'a>> {
        let (stored, block) = Self::parse(bytes, place, directory)?;
        let crc = place.block_checksum(block.bytes, directory);
        if crc != stored && !planted(Bug::ChecksumNotVerified) {
            return Err(block.damaged(format!("block checksum {stored:#010x}"), format!("{crc:#010x}")));
        }
        Ok(block)
    }

    /// As [`Block::decode`], for bytes whose checksum was found right before.
    pub(in crate::table) fn decode_again(bytes: &'a [u8], place: Place<'a>, directory: u64) -> Result<Block<'a>> {
        Ok(Self::parse(bytes, place, directory)?.1)
    }

    /// Returns the checksum that the block states, and the block, which is not verified yet.
    fn parse(bytes: &'a [u8], place: Place<'a>, directory: u64) -> Result<(u32, Block<'a>)> {
        let damaged = |at: u64, expected: String, found: String| {
            Error::corruption(place.path, place.offset + at, expected, found)
        };
        let Some((stored, length, head)) = Head::decode(bytes, place.format, directory) else {
            let found = format!("none in {} bytes", bytes.len());
            return Err(damaged(0, "the head of a block".into(), found));
        };
        let Some(bytes) = bytes.get(..length).filter(|bytes| bytes.len() >= head.bytes_min()) else {
            let expected = format!("a block of {} items in at most {} bytes", head.items, bytes.len());
            return Err(damaged(4, expected, format!("one of {length} bytes")));
        };
        Ok((stored, Block { bytes, place, head }))
    }

    /// Returns a block that was decoded before, from its bytes and its head.
    pub(in crate::table) fn trusted(bytes: &'a [u8], place: Place<'a>, head: Head) -> Block<'a> {
        Block { bytes, place, head }
    }

    /// The head of the block.
    pub(in crate::table) fn head(&self) -> Head {
        self.head
    }

    /// An error of this block.
    pub(in crate::table) fn damaged(&self, expected: String, found: String) -> Error {
        Error::corruption(self.place.path, self.place.offset, expected, found)
    }

    /// The directory whose items it has.
    pub(crate) fn directory(&self) -> u64 {
        self.head.directory
    }

    /// The fingerprints of the items, in their order.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> + 'a {
        let at = self.head.fingerprints_at;
        let array = self.bytes.get(at..at + self.head.items).unwrap_or_default();
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
        let (mut number, mut offset) = (0, self.head.items_at);
        std::iter::from_fn(move || {
            if number == self.head.items {
                return None;
            }
            let item = self.item_at(number, offset);
            (number, offset) = item.as_ref().map_or((self.head.items, 0), |(_, next)| (number + 1, *next));
            Some(item.map(|(item, _)| item))
        })
    }

    /// An item by its number, below [`Head::len`].
    pub(crate) fn item(&self, number: usize) -> Result<Item<'a>> {
        if let Some(lengths) = self.head.equal {
            return Ok(self.item_at(number, self.head.items_at + number * lengths.item_bytes())?.0);
        }
        let mut offset = match (number / STRIDE).checked_sub(1) {
            None => self.head.items_at,
            Some(place) => {
                let offsets_at = self.head.items_at - offset_bytes(self.head.items);
                let offset = self.bytes.get(offsets_at + 2 * place..).and_then(|rest| rest.first_chunk());
                offset.map_or(usize::MAX, |offset| usize::from(u16::from_le_bytes(*offset)))
            }
        };
        for before in number - number % STRIDE..number {
            offset = self.item_at(before, offset)?.1;
        }
        Ok(self.item_at(number, offset)?.0)
    }

    /// Item `number`, which begins at `offset`, and where the next one begins.
    #[inline]
    pub(in crate::table) fn item_at(&self, number: usize, offset: usize) -> Result<(Item<'a>, usize)> {
        match self.decode_item(number, offset) {
            Some(found) => Ok(found),
            None => Err(self.damaged(format!("item {number}"), format!("none at byte {offset} of the block"))),
        }
    }

    #[inline]
    fn decode_item(&self, number: usize, offset: usize) -> Option<(Item<'a>, usize)> {
        let (seq, rest) = (self.seq_of(number)?, self.bytes.get(offset..)?);
        if let Some(lengths) = self.head.equal {
            let (name, rest) = rest.split_at_checked(lengths.name)?;
            let content = Content::Inline(rest.get(..lengths.value)?);
            return Some((Item { name, seq, content }, offset + lengths.item_bytes()));
        }
        let mut decoder = Decoder::new(rest);
        let head = decoder.varint()?;
        let name_bytes = usize::try_from(head >> 2).ok().filter(|bytes| (1..=NAME_BYTES_MAX).contains(bytes))?;
        let name = decoder.take(name_bytes)?;
        let content = match head & 3 {
            REMOVE => Content::Remove,
            INLINE => Content::Inline(decoder.bytes()?),
            EXTENT => Content::Extent(u32::try_from(decoder.varint()?).ok()?),
            _ => return None,
        };
        Some((Item { name, seq, content }, offset + decoder.offset()))
    }

    /// The sequence number of an item.
    #[inline]
    fn seq_of(&self, number: usize) -> Option<SeqNo> {
        let Head { items, base, number_bytes, fingerprints_at, .. } = self.head;
        let at = fingerprints_at + items + number * number_bytes;
        let above = little_endian(self.bytes.get(at..at + number_bytes)?);
        // Both have at most 7 bytes.
        base.0.checked_add(above).map(SeqNo).filter(|seq| *seq <= SeqNo::MAX)
    }
}
