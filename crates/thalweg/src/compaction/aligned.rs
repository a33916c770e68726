//! [`Aligned`]: ends the tables of a job where tables of the level below end.
//!
//! If a table ends in the middle of a table of the level below, two jobs rewrite the lower table. If the tables of a
//! level end at the same keys as some tables of the next level, each lower table is rewritten once for each pass over
//! the level (`docs/leveled.md`).
//!
//! The lower tables that the job's range overlaps give a row of *marks*: the first key of each, and the end of each. A
//! table in flight ends when it has `size` bytes. It ends sooner, before a key, in two cases:
//! - at the end of a lower table, if the next such end is likely to lie beyond `size`: with `n` ends since the table in
//!   flight began, at `size × n / (n + 1)` bytes;
//! - if the key lies behind a lower table of which the job has no key: the table in flight would lie over that table
//!   for nothing. So, too, if the table in flight lies over nothing yet, and would lie over a table with this key. Both
//!   hold only from one [`APART`]th of `size` on.
//!
//! The last rule keeps apart keys that are appended to several sequences of keys. So their tables lie between the lower
//! tables, and go down without a rewrite ([`super::plan`]).
//!
//! The level below may change while the job runs, and later. Then some tables end where they need not end.

use super::shape::Shape;
use std::sync::Arc;

/// A table that ends because of a lower table that it skips, or would begin to overlap, is at least this part of a full
/// one.
const APART: u64 = 4;

/// See the module. A clone is for another range of the same job's keys.
#[derive(Clone, Debug)]
pub(crate) struct Aligned {
    size: u64,
    /// First key and last key of each table below, in key order.
    marks: Arc<[Box<[u8]>]>,
    /// The number of marks that the table in flight has passed, or that lie before it. Odd: its last key is in a lower
    /// table, or is the first key of one.
    passed: usize,
    /// The number of marks that its first key had passed.
    passed_first: usize,
    /// The ends of lower tables that the table in flight has passed since its first key. Ends that it passed between
    /// two keys at which it could not end do not count.
    ends: u64,
}

impl Aligned {
    /// Returns the rule for tables of at most `size` bytes with keys in `[from, to]`, above the level `below` of
    /// `shape`; `None` if that level has no table there.
    pub(super) fn new(size: u64, shape: &Shape<'_>, below: usize, from: &[u8], to: &[u8]) -> Option<Self> {
        let range = shape.overlapping(below, from, to);
        let tables = shape.level(below).get(range).filter(|tables| !tables.is_empty())?;
        let marks = tables.iter().flat_map(|table| [table.key_min.clone(), table.key_max.clone()]).collect();
        Some(Aligned { size, marks, passed: 0, passed_first: 0, ends: 0 })
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The keys at which, or right behind which, a table may end before it is full.
    #[cfg(test)]
    pub(super) fn marks(&self) -> &[Box<[u8]>] {
        &self.marks
    }

    pub(super) fn begin(&mut self, key: &[u8]) {
        self.pass(key);
        (self.passed_first, self.ends) = (self.passed, 0);
    }

    #[inline]
    pub(super) fn has_room(&mut self, key: &[u8], bytes: u64) -> bool {
        bytes < self.size && (!self.is_next_passed(key) || self.has_room_behind(key, bytes))
    }

    /// Does what [`Aligned::has_room`] does, for a key that passes a mark.
    fn has_room_behind(&mut self, key: &[u8], bytes: u64) -> bool {
        let before = self.passed;
        self.pass(key);
        let ended = (self.passed / 2 - before / 2) as u64;
        self.ends += ended;
        let is_likely_last = ended > 0 && bytes >= self.size / (self.ends + 1) * self.ends;
        // A lower table is skipped if neither of its marks had been passed before, and both are now.
        let has_skipped = self.passed / 2 > before.div_ceil(2);
        let lies_over_nothing = before == self.passed_first && before.is_multiple_of(2);
        !is_likely_last && !((has_skipped || lies_over_nothing) && bytes >= self.size / APART)
    }

    /// Whether the key, not below any before, has passed the next mark. The last key of a lower table belongs to that
    /// table.
    #[inline]
    fn is_next_passed(&self, key: &[u8]) -> bool {
        let Some(mark) = self.marks.get(self.passed) else { return false };
        if self.passed.is_multiple_of(2) { **mark <= *key } else { **mark < *key }
    }

    fn pass(&mut self, key: &[u8]) {
        while self.is_next_passed(key) {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::tests::golden_cuts::table;
    use crate::table::TableMeta;

    /// Level 2 has tables with these first and last keys.
    fn aligned(size: u64, below: &[(&str, &str)]) -> Aligned {
        let tables: Vec<TableMeta> = below.iter().map(|(from, to)| table(from, to, 1)).collect();
        let levels = vec![Vec::new(), Vec::new(), tables];
        Aligned::new(size, &Shape::of_metas(&levels), 2, b"a", b"zz").unwrap()
    }

    /// Puts keys of ten bytes each; returns the first keys of the tables.
    fn cut(mut aligned: Aligned, keys: &str) -> String {
        let (mut begins, mut bytes) = (String::new(), None);
        for key in keys.chars() {
            let bytes_of_key = key.to_string().into_bytes();
            if !bytes.is_some_and(|bytes| aligned.has_room(&bytes_of_key, bytes)) {
                begins.push(key);
                bytes = Some(0);
                aligned.begin(&bytes_of_key);
            }
            bytes = bytes.map(|bytes| bytes + 10);
        }
        begins
    }

    const ALL: &str = "abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn a_table_ends_at_its_size_where_nothing_below_ends() {
        assert_eq!(cut(aligned(100, &[("a", "zz")]), ALL), "aku");
    }

    #[test]
    fn a_table_ends_where_one_below_ends_if_the_next_end_is_likely_to_be_beyond_its_size() {
        let below = [("a", "d"), ("e", "h"), ("i", "l"), ("m", "p"), ("q", "t"), ("u", "x"), ("y", "z")];
        // At `d` it has 40 of 100 bytes, less than a half; at `h` 80, more than two thirds.
        assert_eq!(cut(aligned(100, &below), ALL), "aiqy");
        // At `d` more than a half.
        assert_eq!(cut(aligned(79, &below), ALL), "aeimquy");
        assert_eq!(cut(aligned(1000, &below), ALL), "a");
    }

    #[test]
    fn a_table_does_not_reach_over_one_below_of_which_the_job_has_no_key() {
        let below = [("a", "c"), ("f", "i"), ("k", "m"), ("x", "z")];
        assert_eq!(cut(aligned(80, &below), "abno"), "an", "two tables between");
        assert_eq!(cut(aligned(80, &below), "denop"), "dn", "the same from a gap to a gap");
        assert_eq!(cut(aligned(80, &below), "abgn"), "an", "one table between; of the other it has a key");
        assert_eq!(cut(aligned(1000, &below), "abno"), "a", "not for small tables");
    }

    #[test]
    fn what_lies_over_nothing_is_kept_apart() {
        let below = [("a", "c"), ("h", "k")];
        assert_eq!(cut(aligned(80, &below), "defhij"), "dh");
        assert_eq!(cut(aligned(100, &below), "lmnopq"), "l", "behind all");
        assert_eq!(cut(aligned(1000, &below), "defhij"), "d");
    }

    #[test]
    fn a_level_without_tables_in_the_range_gives_no_marks() {
        let levels = vec![Vec::new(), Vec::new(), vec![table("m", "p", 1)]];
        let shape = Shape::of_metas(&levels);
        assert!(Aligned::new(10, &shape, 2, b"a", b"l").is_none() && Aligned::new(10, &shape, 3, b"a", b"z").is_none());
        assert_eq!(Aligned::new(10, &shape, 2, b"a", b"m").unwrap().marks().len(), 2);
    }
}
