//! [`Spaces`]: the meta layer of a fast table (PMB-4). A space is a run of groups whose keys all begin with the same
//! bytes; the *common* bytes are stored once, here.
//!
//! The paper extracts the numbers of the database's tables from the keys. This engine does not know what is in its
//! keys, so the writer cuts spaces where the bytes that neighbours share collapse ([`super::cuts`]).
//!
//! Invariant of decoded spaces: there is at least one; the first begins with group 0; their first groups ascend.

use super::header::Header;
use crate::format::SeqNo;
use crate::format::codec::{Decoder, Encode};
use crate::format::key::{self, KEY_BYTES_MAX, compare};
use std::ops::Range;

/// One space: groups from `first_group` on up to the next space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) first_group: usize,
    /// The length of the common beginning of all keys of the space, which are the first bytes of `key`.
    pub(super) common_bytes: usize,
    /// The place of its first user key, in the bytes of the meta layer; and the sequence number of its first entry.
    key: Range<usize>,
    seq: SeqNo,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Spaces {
    spaces: Vec<Space>,
    /// For each space, the eight bytes of its first key that follow the common beginning of all keys of the table.
    fences: Vec<u64>,
    /// The length of the common beginning of all keys of the table.
    shared: usize,
    key_max: Range<usize>,
}

/// Appends a space to the meta layer.
pub(super) fn put_space(out: &mut Vec<u8>, first_group: usize, common_bytes: usize, key: &[u8], seq: SeqNo) {
    out.put_varint(first_group as u64);
    out.put_varint(common_bytes as u64);
    out.put_varint(seq.0);
    out.put_bytes(key);
}

impl Spaces {
    /// Decodes the meta layer of a table with this header. Returns `None` if it is damaged.
    pub(super) fn decode(meta: &[u8], header: &Header) -> Option<Spaces> {
        let mut decoder = Decoder::new(meta);
        let mut spaces: Vec<Space> = Vec::new();
        for _ in 0..header.spaces {
            let space = Space {
                first_group: decoder.varint_usize()?,
                common_bytes: decoder.varint_usize()?,
                seq: SeqNo(decoder.varint()?),
                key: take_key(&mut decoder)?,
            };
            let follows = match spaces.last() {
                Some(last) => last.first_group < space.first_group,
                None => space.first_group == 0,
            };
            if !follows || space.first_group >= header.groups as usize || space.common_bytes > space.key.len() {
                return None;
            }
            spaces.push(space);
        }
        let key_max = take_key(&mut decoder)?;
        if !decoder.is_empty() {
            return None;
        }
        let key_min = meta.get(spaces.first()?.key.clone())?;
        let shared = key::shared_bytes(key_min, meta.get(key_max.clone())?);
        let fences = spaces.iter().map(|space| fence(meta, &space.key, shared)).collect();
        Some(Spaces { spaces, fences, shared, key_max })
    }

    pub(super) fn key_max<'a>(&self, meta: &'a [u8]) -> &'a [u8] {
        meta.get(self.key_max.clone()).unwrap_or_default()
    }

    /// The first user key of the table.
    pub(super) fn key_min<'a>(&self, meta: &'a [u8]) -> &'a [u8] {
        self.spaces.first().map_or(&[], |space| space.key(meta))
    }

    pub(super) fn get(&self, at: usize) -> Option<&Space> {
        self.spaces.get(at)
    }

    /// Returns the number of the space that a group is in.
    pub(super) fn of_group(&self, group: usize) -> usize {
        self.spaces.partition_point(|space| space.first_group <= group).saturating_sub(1)
    }

    /// Returns the groups of a space, in a table that has `groups` of them.
    pub(super) fn groups(&self, at: usize, groups: usize) -> Range<usize> {
        let first_of = |at: usize| self.spaces.get(at).map_or(groups, |space| space.first_group);
        first_of(at)..first_of(at + 1)
    }

    /// Returns the last space whose first entry is at or before `(key, seq)`, or `None` if all are behind it.
    pub(super) fn find(&self, meta: &[u8], key: &[u8], seq: SeqNo) -> Option<usize> {
        let is_before = |space: &Space| compare((space.key(meta), space.seq), (key, seq)).is_le();
        let key_min = self.key_min(meta);
        let found = if self.spaces.len() == 1 || key::shared_bytes(key_min, key) < self.shared {
            // The key is before all keys of the table or behind them.
            if self.spaces.first().is_some_and(is_before) { self.spaces.len() } else { 0 }
        } else {
            let fence = key::prefix(key.get(self.shared..).unwrap_or_default());
            let end = self.fences.partition_point(|other| *other <= fence);
            let start = self.fences.get(..end).unwrap_or_default().partition_point(|other| *other < fence);
            start + self.spaces.get(start..end).unwrap_or_default().partition_point(is_before)
        };
        found.checked_sub(1)
    }
}

impl Space {
    pub(super) fn key<'a>(&self, meta: &'a [u8]) -> &'a [u8] {
        meta.get(self.key.clone()).unwrap_or_default()
    }

    /// The common beginning of all keys of the space.
    pub(super) fn common<'a>(&self, meta: &'a [u8]) -> &'a [u8] {
        meta.get(self.key.start..self.key.start + self.common_bytes).unwrap_or_default()
    }
}

fn take_key(decoder: &mut Decoder<'_>) -> Option<Range<usize>> {
    let bytes = decoder.bytes()?.len();
    (bytes <= KEY_BYTES_MAX).then(|| decoder.offset() - bytes..decoder.offset())
}

fn fence(meta: &[u8], key: &Range<usize>, shared: usize) -> u64 {
    key::prefix(meta.get(key.start + shared.min(key.len())..key.end).unwrap_or_default())
}
