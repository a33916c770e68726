//! [`Bounds`]: the user keys that a range covers.

use crate::format::Slice;
use crate::planted::{Bug, planted};
use std::ops::Bound;

/// A range of user keys in byte order. Bounds that cross cover nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) from: Bound<Slice>,
    pub(crate) to: Bound<Slice>,
}

impl Bounds {
    /// Every key.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        Bounds { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// The keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        // The smallest key above all of them is the prefix without its last 0xff bytes, its last byte one larger.
        let to = match prefix.iter().rposition(|byte| *byte != 0xff) {
            Some(last) => {
                let mut to = prefix.to_vec();
                to.truncate(last + 1);
                to.iter_mut().skip(last).for_each(|byte| *byte += 1);
                Bound::Excluded(Slice::from(to))
            }
            None => Bound::Unbounded,
        };
        Bounds { from: Bound::Included(Slice::from(prefix)), to }
    }

    /// The lower bound.
    pub(crate) fn lower(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(|key| &**key)
    }

    /// The upper bound.
    pub(crate) fn upper(&self) -> Bound<&[u8]> {
        match self.to.as_ref().map(|key| &**key) {
            Bound::Excluded(key) if planted(Bug::RangeEndOffByOne) => Bound::Included(key),
            bound => bound,
        }
    }

    /// Whether `key` lies below all keys of the range.
    pub(crate) fn is_below(&self, key: &[u8]) -> bool {
        match self.lower() {
            Bound::Included(from) => key < from,
            Bound::Excluded(from) => key <= from,
            Bound::Unbounded => false,
        }
    }

    /// Whether `key` lies above all keys of the range.
    pub(crate) fn is_above(&self, key: &[u8]) -> bool {
        match self.upper() {
            Bound::Included(to) => key > to,
            Bound::Excluded(to) => key >= to,
            Bound::Unbounded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_exactly_the_keys_that_begin_with_it() {
        let bytes = [0, 1, 0x7f, 0xfe, 0xff];
        let mut keys = vec![vec![]];
        for len in 0..3 {
            let shorter: Vec<_> = keys.iter().filter(|key| key.len() == len).cloned().collect();
            keys.extend(shorter.iter().flat_map(|key| bytes.map(|byte| [&**key, &[byte]].concat())));
        }
        for prefix in &keys {
            let bounds = Bounds::prefix(prefix);
            for key in &keys {
                let covered = !bounds.is_below(key) && !bounds.is_above(key);
                assert_eq!(covered, key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn a_prefix_without_a_larger_neighbour_has_no_upper_bound() {
        assert_eq!(Bounds::prefix(b"").to, Bound::Unbounded);
        assert_eq!(Bounds::prefix(b"\xff\xff").to, Bound::Unbounded);
        assert_eq!(Bounds::prefix(b"a\xff").to, Bound::Excluded(Slice::from(&b"b"[..])));
    }
}
