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

/// How many first bytes two keys have in common.
#[inline]
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let ((a_words, _), (b_words, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut shared = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let different = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if different != 0 {
            return shared + different.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let rests = a.iter().skip(shared).zip(b.iter().skip(shared));
    shared + rests.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::shared_bytes;

    #[test]
    fn keys_share_bytes_up_to_the_first_that_differs_or_the_end_of_the_shorter() {
        for len in 0..40usize {
            let key: Vec<u8> = (0..len as u8).collect();
            for other in 0..40usize {
                let mut longer_or_shorter: Vec<u8> = (0..other as u8).collect();
                assert_eq!(shared_bytes(&key, &longer_or_shorter), len.min(other));
                for at in 0..other {
                    longer_or_shorter[at] ^= 0x80;
                    assert_eq!(shared_bytes(&key, &longer_or_shorter), len.min(at), "{len} {other} {at}");
                    longer_or_shorter[at] ^= 0x80;
                }
            }
        }
    }
}
