//! [`State`]: the set of live files after some edit.
//!
//! Invariants, which only [`State::apply`] and recovery's snapshot establish:
//! - The tables of level 1 and of each deeper level are disjoint and in key order. Level 0 is in flush order.
//! - A table id is live at most once, or once in each partition that a split left it in ([`super::keyspace`]).
//! - Every other table lies within the key range of its partition.
//! - The last level of a partition is not empty.
//! - Of two fast tables of a partition that have some key in common, the later one in the list is newer.
//!
//! Pure: no locks, no I/O.

use crate::format::{EditId, KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableId};
use crate::lineage::state::edit::FastPlace;
use crate::lineage::state::keyspace::{KeyspaceState, PartitionState};
use crate::table::TableMeta;
use std::collections::{BTreeMap, BTreeSet};

/// The most levels a partition may have.
pub(crate) const LEVELS_MAX: u8 = 64;

/// The set of live files after some edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceState>,
    /// The first keyspace id that was never used.
    pub(crate) next_keyspace: KeyspaceId,
    /// The first table id that was never used.
    pub(crate) next_table: TableId,
    /// The log is needed from here on.
    pub(crate) log_start: LogMark,
    /// The last edit in this state.
    pub(crate) edit: EditId,
    /// The highest `Edit::seq` so far. The log reaches at least this far.
    pub(crate) seq: SeqNo,
}

/// A level of a partition of a keyspace.
#[derive(Clone, Copy, Debug)]
pub(in crate::lineage) struct LevelPlace {
    pub(in crate::lineage) keyspace: KeyspaceId,
    pub(in crate::lineage) partition: PartitionId,
    pub(in crate::lineage) level: u8,
}

impl State {
    fn partitions(&self) -> impl Iterator<Item = &PartitionState> {
        self.keyspaces.values().flat_map(|keyspace| &keyspace.partitions)
    }

    /// Returns all live tables of the levels by keyspace, partition, level, and order in the level. A table that
    /// partitions share comes once for each of them.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.partitions().flat_map(|partition| partition.levels.iter().flatten())
    }

    /// Returns all live tables of the fast tier, as [`State::tables`] does.
    pub(crate) fn fast_tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.partitions().flat_map(|partition| &partition.fast)
    }

    /// Returns all live tables of the levels, each once.
    pub(crate) fn distinct_tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.distinct(|partition| partition.levels.iter().flatten())
    }

    /// Returns all live tables of the fast tier, each once.
    pub(crate) fn distinct_fast_tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.distinct(|partition| partition.fast.iter())
    }

    fn distinct<'s, T: Iterator<Item = &'s TableMeta> + 's>(
        &'s self,
        tables: impl Fn(&'s PartitionState) -> T + Copy + 's,
    ) -> impl Iterator<Item = &'s TableMeta> {
        let mut shared = BTreeSet::new();
        let tables = self.keyspaces.values().flat_map(move |keyspace| {
            (0..).zip(&keyspace.partitions).flat_map(move |(index, partition)| {
                let bounds = keyspace.bounds(index);
                tables(partition).map(move |meta| (meta, sticks_out(bounds, meta)))
            })
        });
        tables.filter(move |(meta, is_shared)| !is_shared || shared.insert(meta.id)).map(|(meta, _)| meta)
    }

    /// Returns whether the table has keys outside of the partition.
    pub(in crate::lineage) fn sticks_out(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        meta: &TableMeta,
    ) -> bool {
        let state = self.keyspaces.get(&keyspace);
        state.and_then(|state| Some(sticks_out(state.bounds(state.index_of(partition)?), meta))).unwrap_or(false)
    }

    /// Adds an empty keyspace.
    pub(in crate::lineage) fn create_keyspace(
        &mut self,
        id: KeyspaceId,
        name: &str,
        splits: &[Box<[u8]>],
        kind: KeyspaceKind,
    ) -> Result<(), String> {
        if self.keyspaces.contains_key(&id) {
            return Err(format!("keyspace {id} exists"));
        }
        if !splits.is_sorted_by(|a, b| a < b) {
            return Err(format!("the splits of keyspace {id} do not ascend"));
        }
        self.keyspaces.insert(id, KeyspaceState { kind, ..KeyspaceState::new(name, splits) });
        Ok(())
    }

    /// Returns a partition, or an error text if there is none.
    pub(in crate::lineage) fn partition(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> Result<&mut PartitionState, String> {
        let state = self.keyspaces.get_mut(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
        let state = state.index_of(partition).and_then(|index| state.partitions.get_mut(index));
        state.ok_or_else(|| format!("no partition {partition} in keyspace {keyspace}"))
    }

    /// Adds a table to the fast tier. `inputs`: where the newest input of the edit stood.
    pub(in crate::lineage) fn add_fast(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        (place, inputs): (FastPlace, usize),
        meta: TableMeta,
    ) -> Result<(), String> {
        self.check_range(keyspace, partition, &meta)?;
        let fast = &mut self.partition(keyspace, partition)?.fast;
        let index = match place {
            FastPlace::Newest => fast.len(),
            FastPlace::Oldest => 0,
            FastPlace::Inputs => inputs.min(fast.len()),
        };
        fast.insert(index, meta);
        Ok(())
    }

    /// Inserts a table into its level and returns its index there.
    pub(in crate::lineage) fn add(&mut self, at: LevelPlace, meta: TableMeta) -> Result<usize, String> {
        self.check_range(at.keyspace, at.partition, &meta)?;
        if at.level >= LEVELS_MAX {
            return Err(format!("level {} of table {}", at.level, meta.id));
        }
        let levels = &mut self.partition(at.keyspace, at.partition)?.levels;
        let number = usize::from(at.level);
        if levels.len() <= number {
            levels.resize_with(number + 1, Vec::new);
        }
        let Some(level) = levels.get_mut(number) else { return Err(format!("no level {number}")) };
        if at.level == 0 {
            level.push(meta);
            return Ok(level.len() - 1);
        }
        let index = level.partition_point(|other| other.key_min < meta.key_min);
        let before = index.checked_sub(1).and_then(|before| level.get(before));
        let overlapping = before.into_iter().chain(level.get(index));
        if let Some(other) = overlapping.into_iter().find(|other| other.overlaps(&meta.key_min, &meta.key_max)) {
            return Err(format!("table {} overlaps table {} in level {number}", meta.id, other.id));
        }
        level.insert(index, meta);
        Ok(index)
    }

    /// Checks that the table's keys and sequence numbers ascend, and that its key range overlaps the partition.
    fn check_range(&self, keyspace: KeyspaceId, partition: PartitionId, meta: &TableMeta) -> Result<(), String> {
        if meta.key_min > meta.key_max || meta.seq_min > meta.seq_max || meta.seq_max > SeqNo::MAX {
            return Err(format!("table {} with keys or sequence numbers that descend", meta.id));
        }
        let state = self.keyspaces.get(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
        let Some(index) = state.index_of(partition) else {
            return Err(format!("no partition {partition} in keyspace {keyspace}"));
        };
        let (from, to) = state.bounds(index);
        if from.is_some_and(|from| *meta.key_max < *from) || to.is_some_and(|to| *meta.key_min >= *to) {
            return Err(format!("table {} has keys outside of partition {partition}", meta.id));
        }
        Ok(())
    }

    /// Returns the tables of a level.
    pub(in crate::lineage) fn level(&mut self, at: LevelPlace) -> Option<&mut Vec<TableMeta>> {
        self.partition(at.keyspace, at.partition).ok()?.levels.get_mut(usize::from(at.level))
    }
    /// Removes the empty levels at the end of each partition.
    pub(in crate::lineage) fn trim(&mut self) {
        for keyspace in self.keyspaces.values_mut() {
            keyspace.partitions.iter_mut().for_each(PartitionState::trim);
        }
    }
}

/// Returns whether `meta` has keys outside of a partition with these bounds.
fn sticks_out((from, to): (Option<&[u8]>, Option<&[u8]>), meta: &TableMeta) -> bool {
    from.is_some_and(|from| *meta.key_min < *from) || to.is_some_and(|to| *meta.key_max >= *to)
}
