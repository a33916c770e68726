//! A group of entries of a fast table: the parts of the keys that are not shared, and behind them the values, so that a
//! search for a key passes no value.
//!
//! ```text
//! varint        bytes of the keys × 2, + 1 if the first key is also the last of the group before
//! for each entry:
//!   varint      bytes that its key shares with the key before it (of the first entry: with the fence of the group)
//!   varint      the other bytes of the key
//!   varint      bytes of the value
//!   u64         sequence number << 8 | kind
//!   bytes       the other bytes of the key
//! the values, in the same order
//! ```
//!
//! The *fence* of a group is the common bytes of its space and its prefix. Layouts that share nothing have no fence and
//! say 0 shared bytes for every entry.
//!
//! A reader verifies the checksum of a group first. Even so, any bytes give an answer or `None`, which means damage.

use crate::format::codec::{Decoder, Encode};
use crate::format::key::{self, KEY_BYTES_MAX, TRAILER_BYTES, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo};
use std::cmp::Ordering;
use std::ops::Range;

/// One entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub(super) shared: usize,
    pub(super) suffix: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) kind: EntryKind,
    /// Where the value lies in the content of the group.
    pub(super) value: Range<usize>,
}

/// The first entry of a group at or after a key.
pub(super) struct Found<'a> {
    pub(super) item: Item<'a>,
    /// Whether its user key is the one that was looked for.
    pub(super) is_same_key: bool,
    /// Whether it is the first entry of the group.
    pub(super) is_first: bool,
}

/// The entries of a group that are not read yet.
#[derive(Clone, Debug)]
pub(super) struct Items<'a> {
    keys: &'a [u8],
    left: usize,
    value_at: usize,
    content_bytes: usize,
    /// Whether the first key is also that of the entry before the group.
    pub(super) continues: bool,
}

/// The first bytes of a group's first key, which the stored key may leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fence<'a> {
    pub(super) common: &'a [u8],
    pub(super) prefix: &'a [u8],
}

/// Appends the number that precedes the entries of a group.
pub(super) fn put_group_start(out: &mut Vec<u8>, key_part_bytes: usize, continues: bool) {
    out.put_varint((key_part_bytes as u64) << 1 | u64::from(continues));
}

/// Appends an entry without its value.
#[inline]
pub(super) fn put_item(out: &mut Vec<u8>, shared: usize, suffix: &[u8], trailer: u64, value_bytes: usize) {
    if (shared | suffix.len() | value_bytes) < 0x80 {
        out.extend_from_slice(&[shared as u8, suffix.len() as u8, value_bytes as u8]);
    } else {
        out.put_varint(shared as u64);
        out.put_varint(suffix.len() as u64);
        out.put_varint(value_bytes as u64);
    }
    out.put_u64(trailer);
    out.extend_from_slice(suffix);
}

impl<'a> Items<'a> {
    /// Returns the entries of a group that has `entries` of them.
    #[inline]
    pub(super) fn new(content: &'a [u8], entries: usize) -> Option<Items<'a>> {
        let mut decoder = Decoder::new(content);
        let start = decoder.varint()?;
        let keys = decoder.take(usize::try_from(start >> 1).ok()?)?;
        let (value_at, content_bytes) = (decoder.offset(), content.len());
        Some(Items { keys, left: entries, value_at, content_bytes, continues: start & 1 == 1 })
    }

    /// Whether all entries have been read.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Reads the next entry. Requires that there is one.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Item<'a>> {
        let (shared, unshared, value_bytes, at) = lengths(self.keys)?;
        let (trailer, rest) = self.keys.get(at..)?.split_first_chunk::<TRAILER_BYTES>()?;
        let (seq, kind) = key::unpack_trailer(u64::from_le_bytes(*trailer))?;
        let (suffix, rest) = rest.split_at_checked(unshared)?;
        let value = self.value_at..self.value_at.checked_add(value_bytes)?;
        if value.end > self.content_bytes
            || shared.checked_add(unshared)? > KEY_BYTES_MAX
            || value_bytes > VALUE_BYTES_MAX
            || (kind == EntryKind::Remove && value_bytes > 0)
        {
            return None;
        }
        self.keys = rest;
        self.left = self.left.checked_sub(1)?;
        self.value_at = value.end;
        Some(Item { shared, suffix, seq, kind, value })
    }
}

/// Reads three varints, which nearly always have a byte each. Returns them, and where they end.
#[inline(always)]
fn lengths(keys: &[u8]) -> Option<(usize, usize, usize, usize)> {
    if let &[shared, unshared, value_bytes, ..] = keys
        && shared | unshared | value_bytes < 0x80
    {
        return Some((shared.into(), unshared.into(), value_bytes.into(), 3));
    }
    let mut decoder = Decoder::new(keys);
    let (shared, unshared) = (decoder.varint_usize()?, decoder.varint_usize()?);
    Some((shared, unshared, decoder.varint_usize()?, decoder.offset()))
}

impl<'a> Fence<'a> {
    /// Returns the first `shared` bytes of the fence, in two parts, or `None` if the fence is shorter.
    pub(super) fn first_bytes(&self, shared: usize) -> Option<(&'a [u8], &'a [u8])> {
        match shared.checked_sub(self.common.len()) {
            Some(of_prefix) => Some((self.common, self.prefix.get(..of_prefix)?)),
            None => Some((self.common.get(..shared)?, &[])),
        }
    }

    /// Compares the first key of a group with `key`, and returns how many bytes they share.
    #[inline]
    fn compare(&self, first: &Item<'_>, key: &[u8]) -> Option<(Ordering, usize)> {
        let (common, prefix) = self.first_bytes(first.shared)?;
        let mut at = 0;
        for part in [common, prefix, first.suffix] {
            let rest = key.get(at..)?;
            let shared = key::shared_bytes(part, rest);
            at += shared;
            if shared < part.len() {
                let order = part.get(shared).cmp(&rest.get(shared));
                return Some((order, at));
            }
        }
        Some((if at < key.len() { Ordering::Less } else { Ordering::Equal }, at))
    }

    /// Compares the first entry of a group with `(key, seq)`, in internal order.
    pub(super) fn compare_first(&self, items: &Items<'_>, key: &[u8], seq: SeqNo) -> Option<Ordering> {
        let first = items.clone().next()?;
        let (order, _) = self.compare(&first, key)?;
        Some(order.then_with(|| seq.cmp(&first.seq)))
    }

    /// Returns the first entry of a group at or after `(key, seq)`. The inner `None` means that all entries are before
    /// it. `shares_keys`: as [`super::layout::FastLayout::shares_keys`].
    #[inline]
    pub(super) fn find<'i>(
        &self,
        mut items: Items<'i>,
        key: &[u8],
        seq: SeqNo,
        shares_keys: bool,
    ) -> Option<Option<Found<'i>>> {
        // `matched`: how many bytes `key` shares with the previous key. The previous key is less than `key`, or equal
        // to it and newer than `seq`.
        let mut matched = 0;
        let mut is_first = true;
        while !items.is_empty() {
            let item = items.next()?;
            let order = if is_first || !shares_keys {
                let fence = if shares_keys { *self } else { Fence::default() };
                let (order, shared) = fence.compare(&item, key)?;
                matched = shared;
                order
            } else {
                match item.shared.cmp(&matched) {
                    // This key and the previous one differ from `key` at the same byte.
                    Ordering::Greater => Ordering::Less,
                    // This key is greater than the previous one at a byte where the previous one still agrees with
                    // `key`.
                    Ordering::Less => Ordering::Greater,
                    Ordering::Equal => {
                        let rest = key.get(matched..)?;
                        let shared = key::shared_bytes(item.suffix, rest);
                        matched += shared;
                        item.suffix.get(shared).cmp(&rest.get(shared))
                    }
                }
            };
            match order {
                Ordering::Less => {}
                Ordering::Equal if item.seq > seq => {}
                _ => return Some(Some(Found { item, is_same_key: order == Ordering::Equal, is_first })),
            }
            is_first = false;
        }
        Some(None)
    }
}
