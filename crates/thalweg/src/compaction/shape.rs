//! [`Shape`]: the levels of a partition as the policy and the drawing see them, without the tables' files.

use crate::table::{Table, TableMeta};
use std::ops::Range;
use std::sync::Arc;

/// The tables of one partition: level 0 in flush order (oldest first, may overlap), the others sorted and disjoint.
pub(crate) type Levels = Vec<Vec<Arc<Table>>>;

/// The tables of each level; same order as [`Levels`].
pub(super) struct Shape<'a> {
    levels: Vec<Vec<&'a TableMeta>>,
    /// The bytes of each level.
    bytes: Vec<u64>,
    /// The average bytes of an entry below level 0 that is no tombstone.
    put_bytes: u64,
}

impl<'a> Shape<'a> {
    pub(super) fn of(levels: &'a Levels) -> Self {
        Self::new(levels.iter().map(|level| level.iter().map(|table| table.meta()).collect()).collect())
    }

    #[cfg(test)]
    pub(super) fn of_metas(levels: &'a [Vec<TableMeta>]) -> Self {
        Self::new(levels.iter().map(|level| level.iter().collect()).collect())
    }

    fn new(levels: Vec<Vec<&'a TableMeta>>) -> Self {
        let bytes: Vec<u64> = levels.iter().map(|level| level.iter().map(|table| table.bytes).sum()).collect();
        let below0 = levels.iter().skip(1).flatten();
        let puts: u64 = below0.map(|table| table.entries.saturating_sub(table.tombstones)).sum();
        let put_bytes = bytes.iter().skip(1).sum::<u64>() / puts.max(1);
        Shape { levels, bytes, put_bytes }
    }

    /// Returns the number of levels, including empty ones.
    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    /// The tables of a level; none beyond the last.
    pub(super) fn level(&self, level: usize) -> &[&'a TableMeta] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// The tables of `level` (not 0) that overlap `[from, to]`: neighbours, since the level is sorted and disjoint.
    pub(super) fn overlapping(&self, level: usize, from: &[u8], to: &[u8]) -> Range<usize> {
        assert!(level > 0, "level 0 is not sorted by key");
        let tables = self.level(level);
        let start = tables.partition_point(|table| *table.key_max < *from);
        let end = tables.partition_point(|table| *table.key_min <= *to);
        start..end.max(start)
    }

    /// [`Shape::overlapping`] of the level below, for each table of `level` (not 0), in one pass over both.
    pub(super) fn overlaps(&self, level: usize) -> Vec<Range<usize>> {
        assert!(level > 0, "level 0 is not sorted by key");
        let below = self.level(level + 1);
        let (mut start, mut end) = (0, 0);
        let of = |table: &&TableMeta| {
            while below.get(start).is_some_and(|lower| lower.key_max < table.key_min) {
                start += 1;
            }
            end = end.max(start);
            while below.get(end).is_some_and(|lower| lower.key_min <= table.key_max) {
                end += 1;
            }
            start..end
        };
        self.level(level).iter().map(of).collect()
    }

    pub(super) fn bytes(&self, level: usize) -> u64 {
        self.bytes.get(level).copied().unwrap_or(0)
    }

    /// Returns the deepest level that has tables; 0 if no level has any.
    pub(super) fn deepest(&self) -> usize {
        (0..self.len()).rev().find(|level| !self.level(*level).is_empty()).unwrap_or(0)
    }

    /// Returns the weight of a table of `level`: its bytes, and for each tombstone the average bytes of an entry, which
    /// it hides below. Otherwise removed entries would stay for as long as their tombstones fit into a level above.
    pub(super) fn weights(&self, level: usize) -> impl Fn(&TableMeta) -> u64 + use<> {
        let hidden = if level < self.deepest() { self.put_bytes } else { 0 };
        move |table| table.bytes.saturating_add(table.tombstones.saturating_mul(hidden))
    }

    /// The sum of the weights of a level's tables.
    pub(super) fn weight(&self, level: usize) -> u64 {
        let weights = self.weights(level);
        self.level(level).iter().fold(0, |sum: u64, table| sum.saturating_add(weights(table)))
    }

    /// Whether the tombstones of tables of `level`, with these bytes and this weight in all, hide half of everything in
    /// them and in the levels below. Then merging them down frees as much as it writes, however small the level is.
    pub(super) fn hide_half(&self, level: usize, (bytes, weight): (u64, u64)) -> bool {
        let below: u64 = self.bytes.iter().skip(level + 1).sum();
        let hidden = weight.saturating_sub(bytes);
        hidden > 0 && hidden.saturating_mul(2) >= bytes.saturating_add(below)
    }

    /// The bytes and the weight of tables of `level`, in all.
    pub(super) fn sums<'t>(&self, level: usize, tables: impl Iterator<Item = &'t TableMeta>) -> (u64, u64) {
        let weights = self.weights(level);
        tables.fold((0, 0), |(bytes, weight): (u64, u64), table| {
            (bytes.saturating_add(table.bytes), weight.saturating_add(weights(table)))
        })
    }
}

/// Returns the smallest range that holds the ranges of all `tables`; `None` if there are none.
pub(super) fn hull<'m>(tables: impl IntoIterator<Item = &'m TableMeta>) -> Option<(&'m [u8], &'m [u8])> {
    tables.into_iter().fold(None, |hull, table| {
        let (from, to) = (&*table.key_min, &*table.key_max);
        Some(hull.map_or((from, to), |(lowest, highest)| (from.min(lowest), to.max(highest))))
    })
}
