//! The prefix layer of a fast table (PMB-4). For each group, it has the bytes of the first key that follow the common
//! bytes of the space. All groups have the same number of these bytes. A shorter key is padded with zeros.
//!
//! Of two groups with different prefixes, the one with the smaller prefix has the smaller first key. Equal prefixes
//! decide nothing: keys may be longer, or may end where another has zeros. So a search finds a *range* of groups with
//! the prefix of the key, and then compares whole first keys.

use std::ops::Range;

/// The lengths that a prefix may have.
pub(super) const PREFIX_BYTES: [usize; 4] = [8, 16, 24, 32];

/// Appends the prefix of a first key whose first `common` bytes are those of its space.
pub(super) fn put_prefix(out: &mut Vec<u8>, key: &[u8], common: usize, prefix_bytes: usize) {
    let end = out.len() + prefix_bytes;
    out.extend_from_slice(key.get(common..key.len().min(common + prefix_bytes)).unwrap_or_default());
    out.resize(end, 0);
}

/// Returns the groups of `prefixes` that have the prefix of `rest`, which is a key without the common bytes. If none
/// has it, the range is empty and lies where the groups with greater prefixes begin.
#[inline]
pub(super) fn equal_range(prefixes: &[u8], prefix_bytes: usize, rest: &[u8]) -> Range<usize> {
    match prefix_bytes {
        8 => search::<8>(prefixes, rest),
        16 => search::<16>(prefixes, rest),
        24 => search::<24>(prefixes, rest),
        _ => search::<32>(prefixes, rest),
    }
}

#[inline]
fn search<const BYTES: usize>(prefixes: &[u8], rest: &[u8]) -> Range<usize> {
    let (prefixes, _) = prefixes.as_chunks::<BYTES>();
    let mut wanted = [0; BYTES];
    for (to, from) in wanted.iter_mut().zip(rest) {
        *to = *from;
    }
    let end = prefixes.partition_point(|prefix| *prefix <= wanted);
    let before = prefixes.get(..end).unwrap_or_default();
    match before.last() {
        Some(last) if *last == wanted => before.partition_point(|prefix| *prefix < wanted)..end,
        _ => end..end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_the_groups_with_the_prefix_of_a_key() {
        for prefix_bytes in PREFIX_BYTES {
            let long = [b"bb".repeat(20), b"x".to_vec()].concat();
            let firsts: [&[u8]; 7] = [b"", b"\0", b"a", b"b", b"b\0\0", &long, b"c"];
            let mut prefixes = Vec::new();
            for first in firsts {
                put_prefix(&mut prefixes, &[b"common/", first].concat(), 7, prefix_bytes);
            }
            assert_eq!(prefixes.len(), 7 * prefix_bytes);
            let cases: [(&[u8], Range<usize>); 8] = [
                (b"", 0..2),
                (b"\0\0\0", 0..2),
                (b"\0\x01", 2..2),
                (b"a", 2..3),
                (b"b", 3..5),
                (&[b'b'; 50], 5..6),
                (b"bz", 6..6),
                (b"d", 7..7),
            ];
            for (rest, expected) in cases {
                assert_eq!(equal_range(&prefixes, prefix_bytes, rest), expected, "{rest:?}, {prefix_bytes} bytes");
            }
        }
    }
}
