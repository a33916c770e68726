//! Internal keys: a user key with a sequence number and a kind.
//!
//! Order: user key ascending (bytes), then sequence number descending, so that the newest version of a key comes
//! first. In a table an internal key is the user key followed by the 8-byte little-endian *trailer*
//! `seq << 8 | kind`. Format 1 reserves kinds for range deletion and merge (DESIGN 7).

use super::SeqNo;
use std::cmp::Ordering;

/// Bytes of the trailer of an internal key.
pub(crate) const TRAILER_BYTES: usize = 8;

/// The longest user key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 20;

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// The key was removed (a tombstone).
    Remove = 0,
    /// The key has the entry's value.
    Put = 1,
    // 2: range deletion, 3: merge operand. Reserved by format 1; a reader that meets one refuses the file.
}

impl EntryKind {
    /// The kind with this code, if this version knows it.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(EntryKind::Remove),
            1 => Some(EntryKind::Put),
            _ => None,
        }
    }
}

/// The trailer of an entry.
pub(crate) fn pack_trailer(seq: SeqNo, kind: EntryKind) -> u64 {
    debug_assert!(seq <= SeqNo::MAX);
    seq.0 << 8 | kind as u64
}

/// Sequence number and kind of a trailer; `None` when the kind is unknown.
pub(crate) fn unpack_trailer(trailer: u64) -> Option<(SeqNo, EntryKind)> {
    Some((SeqNo(trailer >> 8), EntryKind::from_code(trailer as u8)?))
}

/// Order of internal keys: user key ascending, sequence number descending.
pub(crate) fn compare(a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}
