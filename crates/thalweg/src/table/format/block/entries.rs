//! [`BlockEntries`]: one data block from its first entry to its last, for scans.
//!
//! It is simpler than a [`super::BlockCursor`]: it does not seek, and does not check the order of entries. A merge
//! compares each entry of its output with the one before, and so finds an input that is out of order.
//!
//! Invariant: the first `key_bytes` of `key`, `seq`, `kind` and the value range are those of one entry; `next` is the
//! offset of the next one.

use super::content::Block;
use super::entry::RawEntry;
use crate::format::key::{self, TRAILER_BYTES};
use crate::format::{EntryKind, SeqNo};
use crate::table::format::damage::Damage;

/// Suffixes up to this many bytes are copied as exactly this many.
const SHORT: usize = 16;

/// See the module.
pub(in crate::table) struct BlockEntries {
    block: Block,
    next: usize,
    /// The user key, followed by bytes that a copy of [`SHORT`] bytes left there.
    key: Vec<u8>,
    key_bytes: usize,
    seq: SeqNo,
    kind: EntryKind,
    value_start: usize,
    value_bytes: usize,
}

impl BlockEntries {
    /// Begins at the first entry.
    pub(in crate::table) fn first(block: Block) -> Result<Self, Damage> {
        let next = block.restart(0)?;
        let (kind, seq) = (EntryKind::Remove, SeqNo(0));
        let mut entries =
            BlockEntries { block, next, key: Vec::new(), key_bytes: 0, seq, kind, value_start: 0, value_bytes: 0 };
        // A block has at least one byte of entries.
        entries.advance()?;
        Ok(entries)
    }

    /// Moves to the next entry. Returns `false` after the last entry, and stays there. Must not be called after an
    /// error.
    #[inline]
    pub(in crate::table) fn advance(&mut self) -> Result<bool, Damage> {
        let entry = match short_entry(self.block.entries_from(self.next), self.next) {
            Some(entry) if entry.shared <= self.key_bytes => entry,
            _ => return self.advance_carefully(),
        };
        self.key_bytes = entry.shared + entry.suffix.len();
        let suffix_start = entry.value_start - TRAILER_BYTES - entry.suffix.len();
        let more = self.block.entries_from(suffix_start).first_chunk::<SHORT>();
        let room = self.key.get_mut(entry.shared..).and_then(|rest| rest.first_chunk_mut::<SHORT>());
        match (more, room) {
            // A copy of constant length is a few instructions without a branch to mispredict.
            (Some(more), Some(room)) if entry.suffix.len() <= SHORT => *room = *more,
            _ => {
                self.key.truncate(entry.shared);
                self.key.extend_from_slice(entry.suffix);
                self.key.resize(self.key_bytes + SHORT, 0);
            }
        }
        (self.seq, self.kind) = (entry.seq, entry.kind);
        (self.value_start, self.value_bytes) = (entry.value_start, entry.value_bytes);
        self.next = entry.end;
        Ok(true)
    }

    /// As [`BlockEntries::advance`], for entries of any length and for damaged ones.
    #[inline(never)]
    fn advance_carefully(&mut self) -> Result<bool, Damage> {
        let offset = self.next;
        if offset >= self.block.entries_end() {
            return Ok(false);
        }
        let entry = self.block.entry(offset)?;
        if entry.shared > self.key_bytes {
            let found = format!("{} bytes of {} shared", entry.shared, self.key_bytes);
            return Err(Damage::new(offset, "a key that shares bytes with the one before", found));
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.key_bytes = self.key.len();
        (self.seq, self.kind) = (entry.seq, entry.kind);
        (self.value_start, self.value_bytes) = (entry.value_start, entry.value_bytes);
        self.next = entry.end;
        Ok(true)
    }

    pub(in crate::table) fn key(&self) -> &[u8] {
        self.key.get(..self.key_bytes).unwrap_or_default()
    }

    pub(in crate::table) fn seq(&self) -> SeqNo {
        self.seq
    }

    pub(in crate::table) fn kind(&self) -> EntryKind {
        self.kind
    }

    pub(in crate::table) fn value(&self) -> &[u8] {
        self.block.bytes(self.value_start, self.value_bytes)
    }
}

/// Decodes the entry at the beginning of `rest`, which is at `offset` of the block, if it is short: with a key below
/// 128 bytes and a value below 16 KiB, as nearly all are. Returns `None` for other entries and for damaged ones.
#[inline]
fn short_entry(rest: &[u8], offset: usize) -> Option<RawEntry<'_>> {
    let &[shared, unshared, low, high, ..] = rest else { return None };
    let (value_bytes, header_bytes) = match (low, high) {
        (..0x80, _) => (usize::from(low), 3),
        (_, 1..0x80) => (usize::from(low & 0x7f) | usize::from(high) << 7, 4),
        _ => return None,
    };
    if shared | unshared >= 0x80 {
        return None;
    }
    let (suffix, rest) = rest.get(header_bytes..)?.split_at_checked(usize::from(unshared))?;
    let (trailer, rest) = rest.split_first_chunk()?;
    let (seq, kind) = key::unpack_trailer(u64::from_le_bytes(*trailer))?;
    if rest.len() < value_bytes || kind == EntryKind::Remove && value_bytes > 0 {
        return None;
    }
    let value_start = offset + header_bytes + suffix.len() + TRAILER_BYTES;
    let shared = usize::from(shared);
    Some(RawEntry { shared, suffix, seq, kind, value_start, value_bytes, end: value_start + value_bytes })
}
