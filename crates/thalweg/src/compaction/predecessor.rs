//! [`Predecessor`]: the previous entry. A flush or a merge compares each entry with it, once.
//!
//! One comparison finds whether the two are in order, whether the user key changes, and how many bytes the keys share,
//! which the written table does not store twice.

use crate::format::{SeqNo, key};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Predecessor {
    key: Vec<u8>,
    /// `None` before the first entry.
    seq: Option<SeqNo>,
}

/// How an entry relates to the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Relation {
    /// Whether the entry is the first of its user key.
    pub(super) key_changed: bool,
    /// How many first bytes its user key shares with the previous one; 0 for the first entry.
    pub(super) shared: usize,
    /// Whether it repeats the previous entry, from another run.
    pub(super) is_repeated: bool,
}

impl Predecessor {
    /// Compares the next entry with the previous one and remembers it. Returns `None` if it is not after the previous
    /// one.
    #[inline]
    pub(super) fn advance(&mut self, key: &[u8], seq: SeqNo) -> Option<Relation> {
        let shared = key::shared_bytes(&self.key, key);
        // The byte after the shared ones decides.
        let key_changed = match (self.key.get(shared), key.get(shared)) {
            (Some(before), Some(now)) if before < now => true,
            (None, Some(_)) => true,
            (None, None) => match self.seq {
                None => true,
                Some(before) if seq < before => false,
                Some(_) => return None,
            },
            _ => return None,
        };
        if key_changed {
            // Copies the whole key: its length is nearly always that of the last one, so the processor predicts the
            // copy.
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.seq = Some(seq);
        Some(Relation { key_changed, shared, is_repeated: false })
    }

    /// Returns the relation of an entry that repeats the previous one. Called after an `advance` that returned `None`.
    pub(super) fn repeat(&self, key: &[u8], seq: SeqNo) -> Option<Relation> {
        let is_repeated = self.seq == Some(seq) && self.key == key;
        is_repeated.then_some(Relation { key_changed: false, shared: key.len(), is_repeated })
    }

    /// The remembered entry, for messages.
    pub(super) fn describe(&self) -> String {
        format!("\"{}\" @{}", self.key.escape_ascii(), self.seq.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_by_key_and_then_by_number() {
        let mut before = Predecessor::default();
        let mut advance = |key: &[u8], seq| before.advance(key, SeqNo(seq)).map(|n| (n.key_changed, n.shared));
        assert_eq!(advance(b"", 5), Some((true, 0)));
        assert_eq!(advance(b"", 4), Some((false, 0)));
        assert_eq!(advance(b"river/bed", 1), Some((true, 0)));
        assert_eq!(advance(b"river/bed/deep", 9), Some((true, 9)));
        assert_eq!(advance(b"river/bed/deep", 3), Some((false, 14)));
        assert_eq!(advance(b"river/c", 7), Some((true, 6)));
    }

    #[test]
    fn what_is_not_after_the_entry_before_is_refused() {
        for (key, seq) in [(&b"b"[..], 5), (b"b", 6), (b"a", 1), (b"", 1), (b"abc", 1)] {
            let mut before = Predecessor::default();
            assert!(before.advance(b"b", SeqNo(5)).is_some());
            assert_eq!(before.advance(key, SeqNo(seq)), None, "{key:?} {seq}");
            assert_eq!(before.describe(), "\"b\" @5");
        }
    }
}
