//! A model of sorted entries, a seeded generator, and a walk that compares a cursor with the model.

use crate::format::{Cursor, EntryKind, SeqNo};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Internal entries in internal-key order.
pub(crate) type Entries = BTreeMap<(Vec<u8>, Reverse<SeqNo>), (EntryKind, Vec<u8>)>;

/// A seeded generator (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    /// A short key of few letters, so that keys meet.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        (0..self.below(4)).map(|_| [0, 1, 0x7f, 0xff][self.below(4) as usize]).collect()
    }
}

/// Moves `cursor` at random beside the entries it should walk, comparing after each move.
pub(crate) fn walk(random: &mut Random, cursor: &mut dyn Cursor, model: &Entries, seq_end: u64, moves: usize) {
    let mut at = None;
    for _ in 0..moves {
        let place = (random.key(), Reverse(SeqNo(random.below(seq_end))));
        match (random.below(12), at) {
            (0, _) => {
                cursor.seek_to_first().unwrap();
                at = model.iter().next();
            }
            (1, _) => {
                cursor.seek_to_last().unwrap();
                at = model.iter().next_back();
            }
            (2, _) | (3..7, None) => {
                cursor.seek(&place.0, place.1.0).unwrap();
                at = model.range(place..).next();
            }
            (3, _) | (_, None) => {
                cursor.seek_before(&place.0, place.1.0).unwrap();
                at = model.range(..place).next_back();
            }
            (4..8, Some((place, _))) => {
                cursor.next().unwrap();
                at = model.range(place.clone()..).nth(1);
            }
            (_, Some((place, _))) => {
                cursor.prev().unwrap();
                at = model.range(..place.clone()).next_back();
            }
        }
        assert_eq!(cursor.valid(), at.is_some());
        if let Some(((key, seq), (kind, value))) = at {
            assert_eq!((cursor.key(), cursor.seq(), cursor.kind()), (&**key, seq.0, *kind));
            assert_eq!(cursor.value(), value);
        }
    }
}
