//! Internal keys: a user key with a sequence number and a kind.
//!
//! Order: user key ascending (bytes), then sequence number descending. So the newest version of a key comes first. In a
//! table an internal key is the user key followed by the 8-byte little-endian *trailer* `seq << 8 | kind`. Format 1
//! reserves kinds for range deletion and merge (`docs/format/table.md`).

use super::SeqNo;
use std::cmp::Ordering;

/// The bytes of the trailer of an internal key.
pub(crate) const TRAILER_BYTES: usize = 8;

/// The longest user key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 20;

/// The effect of an entry on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// Removes the key: a tombstone.
    Remove = 0,
    /// Sets the value of the key.
    Put = 1,
    // 2: range deletion, 3: merge operand. Reserved by format 1; a reader that meets one refuses the file.
}

impl EntryKind {
    /// Returns the kind with this code, if this version knows it.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(EntryKind::Remove),
            1 => Some(EntryKind::Put),
            _ => None,
        }
    }
}

/// Returns the trailer of an entry.
pub(crate) fn pack_trailer(seq: SeqNo, kind: EntryKind) -> u64 {
    debug_assert!(seq <= SeqNo::MAX);
    seq.0 << 8 | kind as u64
}

/// Returns the sequence number and the kind of a trailer, or `None` if the kind is unknown.
pub(crate) fn unpack_trailer(trailer: u64) -> Option<(SeqNo, EntryKind)> {
    Some((SeqNo(trailer >> 8), EntryKind::from_code(trailer as u8)?))
}

/// Returns how many bytes two keys share at their beginning.
#[inline]
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let ((a_words, _), (b_words, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut shared = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return shared + difference.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let rests = a.iter().skip(shared).zip(b.iter().skip(shared));
    shared + rests.take_while(|(a, b)| a == b).count()
}

/// Returns the first eight bytes of a key as a number, padded with zeros. Of two keys with different prefixes, the one
/// with the smaller prefix is smaller. Equal prefixes decide nothing, because keys may be shorter or longer.
#[inline]
pub(crate) fn prefix(user_key: &[u8]) -> u64 {
    if let Some(first) = user_key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(user_key) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// Compares internal keys: user key ascending, sequence number descending.
pub(crate) fn compare(a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_and_prefixes_agree_with_the_order_of_keys() {
        let mut keys = vec![vec![]];
        for len in 0..20usize {
            for last in [0, 1, 0x7f, 0xff] {
                let mut key: Vec<u8> = (0..len).map(|at| (at as u8 / 5) * 0x55).collect();
                key.push(last);
                keys.push(key);
            }
        }
        for a in &keys {
            for b in &keys {
                let shared = shared_bytes(a, b);
                assert_eq!(shared, a.iter().zip(b).take_while(|(a, b)| a == b).count());
                if prefix(a) != prefix(b) {
                    assert_eq!(prefix(a).cmp(&prefix(b)), a.cmp(b), "{a:?} {b:?}");
                }
            }
        }
    }
}
