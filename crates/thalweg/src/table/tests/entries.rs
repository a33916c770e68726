//! [`Entry`]: entries of test tables, and a small random generator of them.

use crate::format::{Cursor, EntryKind};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) seq: u64,
    pub(super) kind: EntryKind,
    pub(super) value: Vec<u8>,
}

pub(in crate::table) fn put(key: &[u8], seq: u64, value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), seq, kind: EntryKind::Put, value: value.to_vec() }
}

pub(super) fn tombstone(key: &[u8], seq: u64) -> Entry {
    Entry { key: key.to_vec(), seq, kind: EntryKind::Remove, value: Vec::new() }
}

/// A xorshift64* generator: the same seed gives the same numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
    /// Returns a key, now and then with a long shared prefix, sometimes empty.
    pub(super) fn key(&mut self) -> Vec<u8> {
        let prefix = [&b""[..], b"a", b"river/", b"river/bed/deep/"][self.below(4) as usize];
        let mut key = prefix.to_vec();
        key.extend((0..self.below(5)).map(|_| b"ab\x00\xff"[self.below(4) as usize]));
        key
    }
    /// Returns entries in order, each once, with many versions of few keys.
    pub(super) fn entries(&mut self, count: u64) -> Vec<Entry> {
        let mut sorted = BTreeMap::new();
        for _ in 0..count {
            let (key, seq) = (self.key(), self.below(1000) + 1);
            let bytes = if self.below(50) == 0 { 3000 } else { 40 };
            let len = self.below(bytes) as usize;
            let byte = self.below(256) as u8;
            let entry = if self.below(5) == 0 { tombstone(&key, seq) } else { put(&key, seq, &vec![byte; len]) };
            sorted.insert((key, std::cmp::Reverse(seq)), entry);
        }
        sorted.into_values().collect()
    }
}

/// Returns the entry that the cursor stands at.
pub(super) fn here(cursor: &dyn Cursor) -> Option<Entry> {
    cursor.valid().then(|| Entry {
        key: cursor.key().to_vec(),
        seq: cursor.seq().0,
        kind: cursor.kind(),
        value: cursor.value().to_vec(),
    })
}
