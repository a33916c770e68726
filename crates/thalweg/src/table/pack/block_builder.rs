//! [`BlockBuilder`]: collects the items of a [block](super::block) and writes it.
//!
//! The form of a block is chosen when it is sealed. Its items are equal if all values lie in the block and have one
//! length, and all names have one length. Such a block is never longer than one of the other form.

use super::block::{
    BLOCK_BYTES_MAX, Content, EXTENT, EqualLengths, Form, HEADER_BYTES, INLINE, Item, REMOVE, STRIDE, offset_bytes,
};
use super::{ALIGNMENT, Place};
use crate::format::codec::Encode;
use crate::format::{Fingerprint, NameHash, SeqNo};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    size: Size,
    fingerprints: Vec<Fingerprint>,
    numbers: Vec<SeqNo>,
    /// The numbers before the name of each item, and before its value, unless items are equal.
    heads: Vec<(u64, Option<u32>)>,
    /// Where each eighth item begins, unless items are equal.
    offsets: Vec<u16>,
    /// The names, each with the value that lies in the block.
    names_and_values: Vec<u8>,
}

/// The figures that decide the size of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    items: usize,
    seq_min: SeqNo,
    seq_max: SeqNo,
    /// `None`: the items are not equal.
    equal: Option<EqualLengths>,
    /// The bytes of the items if they are not equal.
    item_bytes: usize,
}

impl Size {
    /// The size with one item more.
    #[inline]
    fn with(self, item: &Item<'_>) -> Size {
        let (name, seq) = (item.name.len(), item.seq);
        let (content_bytes, equal) = match item.content {
            Content::Remove => (0, None),
            Content::Inline(value) => {
                let lengths = EqualLengths { name, value: value.len() };
                let is_equal = self.items == 0 || self.equal == Some(lengths);
                (varint_bytes(value.len() as u64) + value.len(), is_equal.then_some(lengths))
            }
            Content::Extent(bytes) => (varint_bytes(u64::from(bytes)), None),
        };
        Size {
            items: self.items + 1,
            seq_min: if self.items == 0 { seq } else { self.seq_min.min(seq) },
            seq_max: self.seq_max.max(seq),
            equal,
            item_bytes: self.item_bytes + varint_bytes((name as u64) << 2) + name + content_bytes,
        }
    }

    fn form(self) -> Form {
        let number_bytes = bytes_of(self.seq_max.0 - self.seq_min.0);
        Form { base_bytes: bytes_of(self.seq_min.0), number_bytes, is_equal: self.equal.is_some() }
    }

    /// The bytes before the items.
    #[inline]
    fn items_at(self) -> usize {
        let Form { base_bytes, number_bytes, .. } = self.form();
        let of_form = match self.equal {
            Some(EqualLengths { name, value }) => varint_bytes(name as u64) + varint_bytes(value as u64),
            None => offset_bytes(self.items),
        };
        let of_count = varint_bytes(self.items as u64);
        HEADER_BYTES + base_bytes + of_count + of_form + self.items * (1 + number_bytes)
    }

    /// The bytes of the block, without zeros at its end.
    #[inline]
    fn bytes(self) -> usize {
        self.items_at() + self.equal.map_or(self.item_bytes, |lengths| self.items * lengths.item_bytes())
    }
}

/// The bytes of a number without its leading zeros.
fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

fn varint_bytes(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

impl BlockBuilder {
    /// The number of items so far.
    pub(crate) fn len(&self) -> usize {
        self.size.items
    }

    /// The bytes of the items so far, with all that they add to the block.
    pub(in crate::table) fn bytes(&self) -> usize {
        if self.len() == 0 { 0 } else { self.size.bytes() - HEADER_BYTES }
    }

    /// Adds an item if the sealed block then has at most `bytes_max` bytes. Every item that the engine takes fits in an
    /// empty block of [`BLOCK_BYTES_MAX`].
    pub(crate) fn push(&mut self, hash: NameHash, item: &Item<'_>, bytes_max: usize) -> bool {
        let size = self.size.with(item);
        if size.bytes().next_multiple_of(ALIGNMENT) > bytes_max.min(BLOCK_BYTES_MAX) {
            return false;
        }
        if self.len() > 0 && self.len().is_multiple_of(STRIDE) {
            self.offsets.push(self.size.item_bytes as u16);
        }
        self.size = size;
        self.fingerprints.push(hash.fingerprint());
        self.numbers.push(item.seq);
        self.names_and_values.extend_from_slice(item.name);
        let (kind, value_bytes) = match item.content {
            Content::Remove => (REMOVE, None),
            Content::Inline(value) => {
                self.names_and_values.extend_from_slice(value);
                (INLINE, Some(value.len() as u32))
            }
            Content::Extent(bytes) => (EXTENT, Some(bytes)),
        };
        self.heads.push(((item.name.len() as u64) << 2 | kind, value_bytes));
        true
    }

    /// The bytes of the block if it were sealed now.
    pub(in crate::table) fn sealed_bytes(&self) -> usize {
        self.size.bytes().next_multiple_of(ALIGNMENT)
    }

    /// Appends the block of `directory` at `place` to `out`, and begins the next block. Requires an item.
    pub(crate) fn seal(&mut self, directory: u64, place: Place<'_>, out: &mut Vec<u8>) {
        assert!(self.len() > 0, "a block has items");
        let (start, bytes, items_at) = (out.len(), self.sealed_bytes(), self.size.items_at());
        let (form, base) = (self.size.form(), self.size.seq_min);
        out.put_u32(0);
        out.put_u16(bytes as u16);
        out.put_u8(form.encode());
        put_number(base.0, form.base_bytes, out);
        out.put_varint(self.len() as u64);
        if let Some(EqualLengths { name, value }) = self.size.equal {
            out.put_varint(name as u64);
            out.put_varint(value as u64);
        }
        out.extend(self.fingerprints.iter().map(|fingerprint| fingerprint.0));
        if form.number_bytes > 0 {
            self.numbers.iter().for_each(|seq| put_number(seq.0 - base.0, form.number_bytes, out));
        }
        if form.is_equal {
            out.extend_from_slice(&self.names_and_values);
        } else {
            self.offsets.iter().for_each(|offset| out.put_u16(items_at as u16 + offset));
            self.put_items(out);
        }
        assert!(out.len() - start <= bytes, "a block is as long as was computed");
        out.resize(start + bytes, 0);
        let crc = place.block_checksum(&out[start..], directory); // in bounds: the block begins at `start`
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes()); // in bounds: and has a head
        self.clear();
    }

    /// Appends items that are not equal.
    fn put_items(&self, out: &mut Vec<u8>) {
        let mut rest = self.names_and_values.as_slice();
        for (head, value_bytes) in &self.heads {
            let (name, after) = rest.split_at((*head >> 2) as usize);
            out.put_varint(*head);
            out.extend_from_slice(name);
            value_bytes.iter().for_each(|bytes| out.put_varint(u64::from(*bytes)));
            let inline = value_bytes.filter(|_| *head & 3 == INLINE).unwrap_or(0) as usize;
            let (value, after) = after.split_at(inline);
            out.extend_from_slice(value);
            rest = after;
        }
    }

    fn clear(&mut self) {
        self.size = Size::default();
        self.fingerprints.clear();
        self.numbers.clear();
        self.heads.clear();
        self.offsets.clear();
        self.names_and_values.clear();
    }
}

/// Appends the lowest `bytes` bytes of a number, at most 8, the lowest first.
fn put_number(number: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend(number.to_le_bytes().iter().take(bytes));
}
