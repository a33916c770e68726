//! Decides where a table ends: at its size, where a table of the level below ends ([`Aligned`]), or, in level 1 of
//! vLSM, before it lies over too much of level 2 (VLSM-7, section 4.2; `docs/vlsm.md`).
//!
//! A job into level 1 knows the tables of level 2. Before a key is added to the table in flight, the *overlap* of the
//! table is computed as if it had the key already: the bytes of the tables of level 2 that it would touch. The table is
//! closed before the key
//! - at `size_max` bytes;
//! - at `size_min` bytes or more, if the overlap would be beyond what [`OverlapLimit`] allows.
//!
//! So a table below `size_max` but above `size_min` is *good*: its overlap is within the limit. A table that is beyond
//! the limit before it has `size_min` bytes is *poor*, and ends at that size. The last table of a job may be of any
//! size. Level 2 may change while the job runs, and later, so a table is judged again when one is picked.

use super::aligned::Aligned;
use super::shape::Shape;
use crate::table::TableMeta;
use std::sync::Arc;

/// How the overlap of a table of level 1 with level 2 is measured (VLSM-A1: the paper can be read in two ways).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "`Ratio` is chosen by experiments"))]
pub enum Overlap {
    /// In tables: a table may lie over as many bytes of level 2 as `growth_factor` full tables have. With this reading
    /// nine of ten tables are good with Φ = 32, as in the paper.
    #[default]
    Count,
    /// In bytes: a table may lie over `growth_factor` times its own bytes.
    Ratio,
}

/// Which tables of level 1 are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverlapLimit {
    pub(super) overlap: Overlap,
    /// `f`.
    pub(super) factor: u64,
    /// `S_M`.
    pub(super) size_max: u64,
}

impl OverlapLimit {
    /// Whether a table of `bytes` may lie over `overlap_bytes` of level 2.
    pub(super) fn allows(&self, bytes: u64, overlap_bytes: u64) -> bool {
        let unit = match self.overlap {
            Overlap::Count => self.size_max,
            Overlap::Ratio => bytes,
        };
        overlap_bytes <= unit.saturating_mul(self.factor)
    }

    /// Whether this table of level 1 is good above the level 2 of `shape`.
    pub(super) fn is_good(&self, shape: &Shape<'_>, table: &TableMeta) -> bool {
        let below = shape.overlapping(2, &table.key_min, &table.key_max);
        self.allows(table.bytes, shape.level(2).iter().take(below.end).skip(below.start).map(|t| t.bytes).sum())
    }
}

/// Where the tables of a job end.
#[derive(Clone, Debug)]
pub(crate) enum Cut {
    /// At this many bytes.
    Size(u64),
    /// Where tables of the level below end; see [`Aligned`].
    Aligned(Aligned),
    /// By looking ahead; see the module.
    LookAhead(LookAhead),
}

impl Cut {
    /// Returns how many of the tables are good and how many are poor; `None` if they were not cut by looking ahead.
    pub(crate) fn judge(&self, tables: &[TableMeta]) -> Option<(u64, u64)> {
        match self {
            Cut::Size(_) | Cut::Aligned(_) => None,
            Cut::LookAhead(ahead) => Some(ahead.judge(tables.iter())),
        }
    }

    /// Begins a table. Its first key is added next.
    #[inline]
    pub(super) fn begin(&mut self, key: &[u8]) {
        match self {
            Cut::Size(_) => {}
            Cut::Aligned(aligned) => aligned.begin(key),
            Cut::LookAhead(ahead) => ahead.begin(key),
        }
    }

    /// Whether a key may join the table in flight, which has `bytes` and only smaller keys.
    #[inline]
    pub(super) fn has_room(&mut self, key: &[u8], bytes: u64) -> bool {
        match self {
            Cut::Size(most) => bytes < *most,
            Cut::Aligned(aligned) => aligned.has_room(key, bytes),
            Cut::LookAhead(ahead) => ahead.has_room(key, bytes),
        }
    }
}

/// A table of level 2.
#[derive(Debug)]
struct Below {
    key_min: Box<[u8]>,
    key_max: Box<[u8]>,
    /// The bytes of this table and of all tables before it.
    bytes_to_end: u64,
}

/// See the module. A clone is for another range of the same job's keys.
#[derive(Clone, Debug)]
pub(crate) struct LookAhead {
    limit: OverlapLimit,
    /// `S_m`.
    size_min: u64,
    below: Arc<[Below]>,
    /// The tables of `below` that the one in flight touches.
    start: usize,
    end: usize,
}

impl LookAhead {
    /// Creates the rule for a job whose keys are in `[from, to]`, above the level 2 of `shape`.
    pub(super) fn new(limit: OverlapLimit, size_min: u64, shape: &Shape<'_>, from: &[u8], to: &[u8]) -> Self {
        let range = shape.overlapping(2, from, to);
        let mut bytes_to_end = 0;
        let below = shape.level(2).iter().take(range.end).skip(range.start).map(|table| {
            bytes_to_end += table.bytes;
            Below { key_min: table.key_min.clone(), key_max: table.key_max.clone(), bytes_to_end }
        });
        LookAhead { limit, size_min, below: below.collect(), start: 0, end: 0 }
    }

    /// Returns how many of these tables of level 1 are good, and how many are poor.
    pub(super) fn judge<'m>(&self, tables: impl Iterator<Item = &'m TableMeta>) -> (u64, u64) {
        let (mut good, mut poor) = (0, 0);
        for table in tables {
            let start = self.below.partition_point(|below| *below.key_max < *table.key_min);
            let end = self.below.partition_point(|below| *below.key_min <= *table.key_max);
            let allowed = self.limit.allows(table.bytes, self.bytes(start, end));
            good += u64::from(allowed);
            poor += u64::from(!allowed);
        }
        (good, poor)
    }

    /// `S_m` and `S_M`.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.size_min, self.limit.size_max)
    }

    fn begin(&mut self, key: &[u8]) {
        let rest = self.below.get(self.start..).unwrap_or_default();
        self.start += rest.partition_point(|below| *below.key_max < *key);
        self.end = self.start;
        self.touch(key);
    }

    fn has_room(&mut self, key: &[u8], bytes: u64) -> bool {
        self.touch(key);
        let overlap = self.bytes(self.start, self.end);
        bytes < self.limit.size_max && (bytes < self.size_min || self.limit.allows(bytes, overlap))
    }

    /// Extends the table in flight to `key`.
    #[inline]
    fn touch(&mut self, key: &[u8]) {
        while self.below.get(self.end).is_some_and(|below| *below.key_min <= *key) {
            self.end += 1;
        }
    }

    fn bytes(&self, start: usize, end: usize) -> u64 {
        let before = |index: usize| index.checked_sub(1).and_then(|i| self.below.get(i)).map_or(0, |b| b.bytes_to_end);
        before(end).saturating_sub(before(start))
    }
}
