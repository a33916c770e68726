//! [`FastLevel`]: the tables of a partition in the fast tier, above level 0.
//!
//! Invariants. Of two versions of a key the newer one is never below the older one. Memtables lie above the unsorted
//! tables, each unsorted table above the older ones, all of them above the sorted tables, and these above level 0.
//! Sorted tables are disjoint. After a split two partitions have the same tables, and each reads only its own keys of
//! them.
//!
//! **A fast table in memory is to the lineage what a sealed memtable is**: no edit names it, and its records are in the
//! log. So it pins the log from the oldest of them ([`FastTableHandle::first`]), and an eviction states up to which
//! number all records of the partition are in tables ([`FastTableHandle::last_seq`]).
//!
//! **A fast table in a file is to the lineage what a table is**: an edit adds it, and an edit removes it. So it pins no
//! log.

use super::cursor::Source;
use super::tier::TierReads;
use crate::compaction::FastInputs;
use crate::error::Result;
use crate::fast_table::{Distinct, FastCursor, FastTable};
use crate::fast_tier::Estimate;
use crate::format::{LogMark, SeqNo, Version};
use crate::keyspaces::{TierCharge, TierRoom};
use crate::lineage::Handle;
use crate::table::{KeyRange, PointKey, TableMeta};
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A fast table that a partition has, and the records of the log that it stands for.
pub(crate) struct FastTableHandle {
    pub(super) table: Arc<FastTable>,
    /// About how many of its bytes are the partition's: after splits several partitions have the table.
    bytes: u64,
    /// Where the oldest record begins that it stands for and that the log must keep. Records that an internal
    /// compaction has dropped count, too. `None`: the table is in a file, and an edit names it.
    pub(super) first: Option<LogMark>,
    /// The largest number of a record that it stands for.
    pub(super) last_seq: SeqNo,
    /// Its memory, until the last reader is gone.
    _charge: Arc<TierCharge>,
}

impl FastTableHandle {
    pub(super) fn new(
        table: Arc<FastTable>,
        first: Option<LogMark>,
        last_seq: SeqNo,
        room: &Arc<TierRoom>,
    ) -> Arc<Self> {
        let (bytes, _charge) = (table.bytes(), Arc::new(TierCharge::new(room, table.bytes())));
        Arc::new(FastTableHandle { table, bytes, first, last_seq, _charge })
    }

    /// The same table for a partition that has only the keys in `range`.
    fn in_range(&self, range: &KeyRange) -> Arc<Self> {
        let _charge = Arc::clone(&self._charge);
        let (table, bytes) = (Arc::clone(&self.table), bytes_in(&self.table, range));
        Arc::new(FastTableHandle { table, bytes, first: self.first, last_seq: self.last_seq, _charge })
    }

    /// About how many of its bytes are the partition's.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// About how many of its entries are the partition's.
    pub(super) fn entries(&self) -> u64 {
        let (entries, all) = (u128::from(self.meta().entries), u128::from(self.table.bytes()));
        (entries * u128::from(self.bytes) / all.max(1)) as u64
    }

    /// Whether it has a record before `mark`.
    fn has_before(&self, mark: LogMark) -> bool {
        match self.first {
            Some(first) => first.position < mark.position,
            None => self.meta().seq_min <= mark.seq,
        }
    }

    fn is_of_the_table_of(&self, other: &FastTableHandle) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// The handle of a table that an edit names.
    pub(super) fn named(table: Arc<FastTable>, room: &Arc<TierRoom>) -> Arc<Self> {
        let last_seq = table.meta().seq_max;
        Self::new(table, None, last_seq, room)
    }

    pub(super) fn meta(&self) -> &TableMeta {
        self.table.meta()
    }
}

impl Source for Arc<FastTableHandle> {
    type Cursor = FastCursor;
    fn key_min(&self) -> &[u8] {
        &self.meta().key_min
    }
    fn key_max(&self) -> &[u8] {
        &self.meta().key_max
    }
    fn cursor(&self) -> FastCursor {
        self.table.cursor()
    }
}

/// Bytes of an empty fast table: its header, and its estimate of distinct keys.
const FIXED_BYTES: u64 = 4 << 10;

/// The standard error of an estimate of distinct keys, as a part of it.
const DISTINCT_SIGMA: f64 = 0.016;

/// A merge of unsorted tables among each other takes at least this number of them.
const NEWEST_MIN: u64 = 8;

/// Such a merge leaves out an older table that is this many times as large as the average of the tables it takes.
const NEWEST_TIMES: u64 = 8;

/// How many keys are sampled in a table that several partitions have.
const SAMPLES: usize = 32;

/// About the bytes that a table has in `range`. Reads some of its keys.
fn bytes_in(table: &FastTable, range: &KeyRange) -> u64 {
    let meta = table.meta();
    if !range.is_after(&meta.key_min) && !range.is_before(&meta.key_max) {
        return table.bytes();
    }
    let Ok(samples) = table.samples(SAMPLES) else { return table.bytes() };
    let is_in = |key: &[u8]| !range.is_after(key) && !range.is_before(key);
    let all: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let within: u64 = samples.iter().filter(|(key, _)| is_in(key)).map(|(_, bytes)| bytes).sum();
    // At least 1: a partition that has a table has bytes in the tier, else it would never be evicted.
    ((u128::from(table.bytes()) * u128::from(within) / u128::from(all.max(1))) as u64).max(1)
}

/// See the module. It has at least one table: a partition without any has no fast level.
pub(crate) struct FastLevel {
    /// They overlap; oldest first.
    pub(super) unsorted: Vec<Arc<FastTableHandle>>,
    /// In key order, disjoint.
    pub(super) sorted: Vec<Arc<FastTableHandle>>,
    /// Counts the reads that look into it.
    reads: Arc<TierReads>,
    /// Distinct keys of the tables that an internal compaction would merge, once they were asked for.
    distinct: OnceLock<Estimate>,
}

/// Whether one of the levels `before` has a table that none of those `after` has.
pub(crate) fn have_lost_tables<'l>(
    before: impl Iterator<Item = &'l FastLevel>,
    after: impl Iterator<Item = &'l FastLevel>,
) -> bool {
    let tables = |level: &'l FastLevel| level.tables().map(|handle| Arc::as_ptr(&handle.table));
    let there: HashSet<_> = after.flat_map(tables).collect();
    before.flat_map(tables).any(|table| !there.contains(&table))
}

/// The sorted tables of a fast level, which keeps them alive.
pub(crate) struct SortedTables(pub(super) Arc<FastLevel>);

impl Deref for SortedTables {
    type Target = [Arc<FastTableHandle>];
    fn deref(&self) -> &[Arc<FastTableHandle>] {
        &self.0.sorted
    }
}

impl FastLevel {
    /// A fast level of these tables; [`FastLevel::filled`] refuses one without any.
    pub(super) fn new(
        unsorted: Vec<Arc<FastTableHandle>>,
        sorted: Vec<Arc<FastTableHandle>>,
        reads: &Arc<TierReads>,
    ) -> Self {
        FastLevel { unsorted, sorted, reads: Arc::clone(reads), distinct: OnceLock::new() }
    }

    /// A fast level as the manifest has it: of two tables that have a key in common the later one is newer.
    pub(super) fn recovered(
        mut handles: Vec<Arc<FastTableHandle>>,
        range: &KeyRange,
        reads: &Arc<TierReads>,
    ) -> Option<Arc<Self>> {
        handles.iter_mut().for_each(|handle| *handle = handle.in_range(range));
        let overlaps_earlier = |(index, handle): (usize, &Arc<FastTableHandle>)| {
            let TableMeta { key_min, key_max, .. } = handle.meta();
            handles.iter().take(index).any(|earlier| earlier.meta().overlaps(key_min, key_max))
        };
        let sorted = handles.iter().enumerate().position(overlaps_earlier).unwrap_or(handles.len());
        let unsorted = handles.split_off(sorted);
        let mut fast = FastLevel::new(unsorted, Vec::new(), reads);
        fast.add_sorted(handles);
        fast.filled()
    }

    /// A copy with the same tables, to be changed.
    pub(super) fn changeable(&self) -> Self {
        FastLevel::new(self.unsorted.clone(), self.sorted.clone(), &self.reads)
    }

    /// Its tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<FastTableHandle>> {
        self.unsorted.iter().chain(&self.sorted)
    }

    /// The level, or `None` if it has no table.
    pub(super) fn filled(self) -> Option<Arc<Self>> {
        if self.unsorted.is_empty() && self.sorted.is_empty() { None } else { Some(Arc::new(self)) }
    }

    /// The newest version of the key at or below its sequence number.
    pub(super) fn find(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        self.reads.count_get();
        // Most tables do not have the key. Loading their filters side by side saves one wait for memory for each table.
        self.unsorted.iter().for_each(|handle| handle.table.approach(point));
        for handle in self.unsorted.iter().rev() {
            if let Some(found) = handle.table.find(point)? {
                return Ok(Some(found));
            }
        }
        let index = self.sorted.partition_point(|handle| *handle.meta().key_max < *point.key);
        self.sorted.get(index).map_or(Ok(None), |handle| handle.table.find(point))
    }

    /// Where the oldest record begins that it stands for and that the log must keep.
    pub(super) fn first(&self) -> Option<LogMark> {
        self.tables().filter_map(|handle| handle.first).min_by_key(|mark| mark.position)
    }

    /// The largest number of a record that it stands for.
    pub(super) fn last_seq(&self) -> SeqNo {
        self.tables().map(|handle| handle.last_seq).max().unwrap_or_default()
    }

    /// The smallest number of an entry that it has.
    pub(super) fn first_seq(&self) -> SeqNo {
        self.tables().map(|handle| handle.meta().seq_min).min().unwrap_or_default()
    }

    /// Whether it has a record before `mark`.
    pub(super) fn has_before(&self, mark: LogMark) -> bool {
        self.tables().any(|handle| handle.has_before(mark))
    }

    /// The description of each table.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &TableMeta> {
        self.tables().map(|handle| handle.meta())
    }

    /// Whether an unsorted table has a record before `mark`.
    pub(super) fn has_unsorted_before(&self, mark: LogMark) -> bool {
        self.unsorted.iter().any(|handle| handle.has_before(mark))
    }

    /// Entries of its tables.
    pub(super) fn entries(&self) -> u64 {
        self.tables().map(|handle| handle.meta().entries).sum()
    }

    /// About the bytes that the partition has in its tables.
    pub(super) fn bytes(&self) -> u64 {
        self.tables().map(|handle| handle.bytes()).sum()
    }

    /// About the bytes that an eviction writes: those of the tables without the fixed part of each.
    pub(super) fn bytes_evicted(&self) -> u64 {
        self.tables().map(|handle| handle.table.bytes().saturating_sub(FIXED_BYTES)).sum()
    }

    /// Its tables without those of `gone`.
    pub(super) fn without(&self, gone: &FastLevel) -> FastLevel {
        let stays = |handle: &&Arc<FastTableHandle>| !gone.tables().any(|other| other.is_of_the_table_of(handle));
        let kept = |handles: &[Arc<FastTableHandle>]| handles.iter().filter(stays).cloned().collect();
        FastLevel::new(kept(&self.unsorted), kept(&self.sorted), &self.reads)
    }

    /// The tables with keys in `range`, for a partition with that range, whose reads `reads` counts.
    pub(super) fn clipped(&self, range: &KeyRange, reads: &Arc<TierReads>) -> FastLevel {
        let is_in = |handle: &&Arc<FastTableHandle>| range.overlaps(&handle.meta().key_min, &handle.meta().key_max);
        let kept = |handles: &[Arc<FastTableHandle>]| -> Vec<Arc<FastTableHandle>> {
            handles.iter().filter(is_in).map(|handle| handle.in_range(range)).collect()
        };
        FastLevel::new(kept(&self.unsorted), kept(&self.sorted), reads)
    }

    /// Counts a range that looks into it.
    pub(super) fn count_seek(&self) {
        self.reads.count_seek();
    }

    /// Distinct keys of the tables that an internal compaction would merge. The first call takes a few microseconds a
    /// table.
    pub(super) fn distinct(&self) -> Estimate {
        *self.distinct.get_or_init(|| {
            let merged = self.unsorted_and_overlapped();
            let mut union = Distinct::new();
            merged.tables().for_each(|handle| union.union(&handle.table.distinct()));
            let value = if merged.unsorted.is_empty() { 0.0 } else { union.estimate() };
            Estimate { value, sigma: value * DISTINCT_SIGMA }
        })
    }

    /// Adds a table that is newer than the others. It is one of the sorted tables if it overlaps none.
    pub(super) fn add(&mut self, handle: Arc<FastTableHandle>) {
        let TableMeta { key_min, key_max, .. } = handle.meta();
        if self.tables().any(|other| other.meta().overlaps(key_min, key_max)) {
            self.unsorted.push(handle);
        } else {
            self.add_sorted(vec![handle]);
        }
    }

    /// The unsorted tables, and the sorted ones that an internal compaction merges them with: those that overlap the
    /// hull of the unsorted ones (PMB-A5), so that the outputs lie between the other sorted tables.
    pub(super) fn unsorted_and_overlapped(&self) -> FastLevel {
        let key_min = self.unsorted.iter().map(|handle| &handle.meta().key_min).min();
        let key_max = self.unsorted.iter().map(|handle| &handle.meta().key_max).max();
        let hull = key_min.zip(key_max);
        let is_in = |handle: &&Arc<FastTableHandle>| hull.is_some_and(|(from, to)| handle.meta().overlaps(from, to));
        let overlapped = self.sorted.iter().filter(is_in).cloned().collect();
        FastLevel::new(self.unsorted.clone(), overlapped, &self.reads)
    }

    /// All its tables, for a merge of all of them (PMB-7).
    pub(super) fn whole(&self) -> FastLevel {
        FastLevel::new(self.unsorted.clone(), self.sorted.clone(), &self.reads)
    }

    /// Handles of its tables, for an edit that removes them.
    pub(super) fn handles(&self) -> Vec<Handle> {
        self.tables().map(|handle| Handle::from(Arc::clone(&handle.table))).collect()
    }

    /// The newest unsorted tables, up to one that is much larger than they are: that one is the output of such a merge.
    pub(super) fn newest_unsorted(&self) -> FastLevel {
        let (mut tables, mut bytes) = (0, 0);
        for handle in self.unsorted.iter().rev() {
            if tables >= NEWEST_MIN && handle.table.bytes() * tables > bytes * NEWEST_TIMES {
                break;
            }
            (tables, bytes) = (tables + 1, bytes + handle.table.bytes());
        }
        let from = self.unsorted.len() - tables as usize;
        FastLevel::new(self.unsorted[from..].to_vec(), Vec::new(), &self.reads)
    }

    /// How many of its unsorted tables are older than those of `newest`.
    pub(super) fn older_than(&self, newest: &FastLevel) -> usize {
        let first = newest.unsorted.first();
        let is_first = |handle: &Arc<FastTableHandle>| first.is_some_and(|first| first.is_of_the_table_of(handle));
        self.unsorted.iter().position(is_first).unwrap_or(self.unsorted.len())
    }

    /// The inputs of a merge of its tables.
    pub(super) fn inputs(&self) -> FastInputs {
        let tables =
            |handles: &[Arc<FastTableHandle>]| handles.iter().map(|handle| Arc::clone(&handle.table)).collect();
        FastInputs { unsorted: tables(&self.unsorted), sorted: tables(&self.sorted) }
    }

    /// Adds the outputs of a merge of unsorted tables alone, in the place of its inputs: after the `older` tables,
    /// before those that a flush has added since.
    pub(super) fn add_merged_unsorted(&mut self, outputs: Vec<Arc<FastTableHandle>>, older: usize) {
        self.unsorted.splice(older..older, outputs);
    }

    /// Adds the outputs of an internal compaction. A sorted table that was added meanwhile may lie where the inputs had
    /// a gap and an output has none. Such a table is newer than the outputs, and becomes an unsorted table.
    pub(super) fn add_merged(&mut self, outputs: Vec<Arc<FastTableHandle>>) {
        let is_within = |handle: &mut Arc<FastTableHandle>| {
            outputs.iter().any(|output| output.meta().overlaps(&handle.meta().key_min, &handle.meta().key_max))
        };
        let within: Vec<_> = self.sorted.extract_if(.., is_within).collect();
        // Such a table overlapped nothing when it was added, so it is older than the unsorted tables that it overlaps.
        self.unsorted.splice(0..0, within);
        self.add_sorted(outputs);
    }

    /// Adds sorted tables, which lie between the others.
    fn add_sorted(&mut self, handles: Vec<Arc<FastTableHandle>>) {
        self.sorted.extend(handles);
        self.sorted.sort_by(|a, b| a.meta().key_min.cmp(&b.meta().key_min));
        let disjoint = self.sorted.is_sorted_by(|a, b| a.meta().key_max < b.meta().key_min);
        assert!(disjoint, "sorted fast tables are disjoint");
    }
}
