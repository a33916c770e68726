//! [`KeyRange`]: a range of user keys, for scans of a part of a table.

/// The user keys at or after `from` and before `to`. `None`: unbounded on that side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Option<Box<[u8]>>,
    pub(crate) to: Option<Box<[u8]>>,
}

impl KeyRange {
    /// Whether the range lies after `key`.
    #[inline]
    pub(crate) fn is_after(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_some_and(|from| *key < **from)
    }

    /// Whether the range lies before `key`.
    #[inline]
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        self.to.as_ref().is_some_and(|to| **to <= *key)
    }

    /// Whether any key of `[first, last]`, both included, may lie in the range.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        !self.is_after(last) && !self.is_before(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_includes_its_first_key_and_not_its_end() {
        let range = KeyRange { from: Some(Box::from(&b"b"[..])), to: Some(Box::from(&b"d"[..])) };
        let inside = |key: &[u8]| !range.is_after(key) && !range.is_before(key);
        assert_eq!([&b"a"[..], b"b", b"c", b"d", b"e"].map(inside), [false, true, true, false, false]);
        assert!(!range.overlaps(b"", b"a") && range.overlaps(b"", b"b") && range.overlaps(b"c", b"z"));
        assert!(!range.overlaps(b"d", b"z") && range.overlaps(b"a", b"z"));
        assert!(KeyRange::default().overlaps(b"", b""));
    }
}
