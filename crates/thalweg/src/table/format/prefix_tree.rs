//! [`PrefixTree`]: finds a key's place among sorted keys, by their first bytes alone.
//!
//! The common beginning of all keys is left out. The eight bytes after it are kept as a number. The numbers lie in
//! nodes of [`NODE`], one line of the processor's cache each. Above every [`NODE`] nodes lies a node with the largest
//! number of each. So a search reads one line a level: five for a table of 64 MiB. A binary search over whole keys
//! would follow a pointer and miss the cache at each of its fourteen steps.
//!
//! Invariant: every level is sorted; `levels[i + 1][j]` is the largest number of node `j` of `levels[i]`.

use crate::format::key::{prefix, shared_bytes};
use std::cmp::Ordering;
use std::ops::Range;

/// The numbers in a node, which fill a cache line.
const NODE: usize = 8;

/// See the module.
#[derive(Debug)]
pub(in crate::table) struct PrefixTree {
    /// The common beginning of all keys.
    common: Box<[u8]>,
    /// The numbers of all keys, then those of the nodes above them. Never empty.
    levels: Vec<Vec<u64>>,
}

impl PrefixTree {
    /// Makes the tree of `keys`, which must ascend.
    pub(in crate::table) fn new<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        let first = keys.clone().next().unwrap_or_default();
        let last = keys.clone().next_back().unwrap_or_default();
        let common = first.get(..shared_bytes(first, last)).unwrap_or_default();
        let numbers: Vec<u64> = keys.map(|key| prefix(key.get(common.len()..).unwrap_or_default())).collect();
        let mut levels = vec![numbers];
        while let Some(below) = levels.last().filter(|below| below.len() > NODE) {
            let above = below.chunks(NODE).filter_map(|node| node.last().copied()).collect();
            levels.push(above);
        }
        PrefixTree { common: Box::from(common), levels }
    }

    /// The bytes of memory that it takes.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|numbers| numbers.len() * size_of::<u64>()).sum()
    }

    /// Returns the range of keys that may be equal to `key`, or that `key` may lie between. Every key before the range
    /// is less, every key after it is greater.
    #[inline]
    pub(in crate::table) fn around(&self, key: &[u8]) -> Range<usize> {
        let keys = self.levels.first().map_or(0, Vec::len);
        let (start, rest) = key.split_at(key.len().min(self.common.len()));
        match start.cmp(&self.common) {
            Ordering::Less => return 0..0,
            Ordering::Greater => return keys..keys,
            Ordering::Equal => {}
        }
        let number = prefix(rest);
        let first = self.first_at_or_after(number);
        let is_equal = |at: usize| self.levels.first().and_then(|numbers| numbers.get(at)) == Some(&number);
        if !is_equal(first) {
            return first..first;
        }
        if !is_equal(first + 1) {
            return first..first + 1;
        }
        first..number.checked_add(1).map_or(keys, |next| self.first_at_or_after(next))
    }

    /// Returns the place of the first number that is not less than `number`.
    #[inline]
    fn first_at_or_after(&self, number: u64) -> usize {
        let mut node = 0;
        for level in self.levels.iter().rev() {
            let start = node * NODE;
            let numbers = level.get(start..level.len().min(start + NODE)).unwrap_or_default();
            node = start + numbers.iter().filter(|other| **other < number).count();
        }
        // Past the last node there is no node to count in.
        self.levels.first().map_or(0, |numbers| node.min(numbers.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_outside_of_the_range_are_less_before_and_greater_after() {
        for (count, step, common) in
            [(0u64, 1, &b""[..]), (1, 1, b""), (8, 3, b"c"), (9, 2, b""), (500, 7, b"common/"), (5000, 1, b"\0")]
        {
            let key = |n: u64| [common, (n * step).to_string().as_bytes()].concat();
            let mut keys: Vec<Vec<u8>> = (0..count).map(key).collect();
            keys.sort();
            let tree = PrefixTree::new(keys.iter().map(Vec::as_slice));
            let mut probes = keys.clone();
            probes.extend((0..count * step + 20).map(|n| [common, n.to_string().as_bytes(), b"x"].concat()));
            probes.extend([vec![], vec![0], common.to_vec(), b"\xff".repeat(20), b"comm".to_vec(), b"d".to_vec()]);
            for probe in &probes {
                let around = tree.around(probe);
                assert!(keys[..around.start].iter().all(|key| key < probe), "{probe:?} {around:?}");
                assert!(keys[around.end..].iter().all(|key| key > probe), "{probe:?} {around:?}");
            }
        }
    }

    #[test]
    fn keys_that_differ_late_stay_together() {
        let keys = [&b"aaaaaaaaaaaaaaaaaaaa1"[..], b"baaaaaaaaaaaa1", b"baaaaaaaaaaaa2", b"baaaaaaaaaaaa3", b"c"];
        let tree = PrefixTree::new(keys.iter().copied());
        assert_eq!(tree.around(b"baaaaaaaaaaaa2"), 1..4);
        assert_eq!(tree.around(b"bb"), 4..4);
        assert_eq!(tree.around(b"a"), 0..0);
        assert_eq!(tree.around(b"c"), 4..5);
        assert_eq!(tree.around(b"d"), 5..5);
    }
}
