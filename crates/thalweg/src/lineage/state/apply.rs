//! [`State`]: the set of live files after some edit, and what an edit means ([`State::apply`]).
//!
//! Invariants, kept by `apply` and by nothing else: tables of levels 1 and below are disjoint and in key order; level 0
//! is in flush order; a table id is live at most once, or once in each of the partitions that a split left it in
//! ([`super::partitions`]); all other tables lie within the key range of their partition; no level that is empty stands
//! at the end. Pure: no locks, no I/O.

use crate::format::{EditId, KeyspaceId, LogMark, PartitionId, SeqNo, TableId};
use crate::lineage::state::keyspace::{KeyspaceState, PartitionState};
use crate::lineage::{Change, Edit};
use crate::table::TableMeta;
use std::collections::{BTreeMap, BTreeSet};

/// Levels a partition may have.
pub(crate) const LEVELS_MAX: u8 = 64;

/// The set of live files after some edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceState>,
    /// First ids never used.
    pub(crate) next_keyspace: KeyspaceId,
    pub(crate) next_table: TableId,
    pub(crate) log_start: LogMark,
    /// The last edit in this state.
    pub(crate) edit: EditId,
    /// The highest `Edit::seq` so far: the log reaches at least to here.
    pub(crate) seq: SeqNo,
}

/// How to return from an edit to the state before it.
#[derive(Clone, Debug)]
pub(in crate::lineage) struct TakeBack {
    steps: Vec<Undo>,
    next_keyspace: KeyspaceId,
    next_table: TableId,
    log_start: LogMark,
    edit: EditId,
    seq: SeqNo,
}

/// How to take back one step of an edit.
#[derive(Clone, Debug)]
enum Undo {
    Uncreate(KeyspaceId),
    /// A drop or a clear.
    Undrop(KeyspaceId, KeyspaceState),
    Unadd {
        at: Place,
        index: usize,
    },
    Unremove {
        at: Place,
        index: usize,
        meta: TableMeta,
    },
    Unsplit {
        keyspace: KeyspaceId,
        index: usize,
        before: PartitionState,
        next_partition: PartitionId,
    },
    Unmerge {
        keyspace: KeyspaceId,
        index: usize,
        at: Box<[u8]>,
        before: Box<[PartitionState; 2]>,
    },
    Flushed(KeyspaceId, PartitionId, SeqNo),
}

/// A level of a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::lineage) struct Place {
    pub(in crate::lineage) keyspace: KeyspaceId,
    pub(in crate::lineage) partition: PartitionId,
    pub(in crate::lineage) level: u8,
}

impl State {
    /// All live tables, by keyspace, partition, level, and order in the level; one that partitions share as often.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        let partitions = self.keyspaces.values().flat_map(|keyspace| &keyspace.partitions);
        partitions.flat_map(|partition| partition.levels.iter().flatten())
    }

    /// All live tables, each once.
    pub(crate) fn distinct_tables(&self) -> impl Iterator<Item = &TableMeta> {
        let mut shared = BTreeSet::new();
        let tables = self.keyspaces.values().flat_map(|keyspace| {
            (0..).zip(&keyspace.partitions).flat_map(move |(index, partition)| {
                let bounds = keyspace.bounds(index);
                partition.levels.iter().flatten().map(move |meta| (meta, sticks_out(bounds, meta)))
            })
        });
        tables.filter(move |(meta, is_shared)| !is_shared || shared.insert(meta.id)).map(|(meta, _)| meta)
    }

    /// Whether the table has keys that are not the partition's.
    pub(in crate::lineage) fn sticks_out(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        meta: &TableMeta,
    ) -> bool {
        let state = self.keyspaces.get(&keyspace);
        state.and_then(|state| Some(sticks_out(state.bounds(state.index_of(partition)?), meta))).unwrap_or(false)
    }

    /// Goes on to the state after `edit`, which is number `id`; or says why that cannot be, and changes nothing.
    pub(crate) fn apply(&mut self, edit: &Edit, id: EditId) -> Result<(), String> {
        self.apply_tentatively(edit, id).map(drop)
    }

    /// As [`State::apply`], with what [`State::take_back`] needs to return to the state before.
    pub(in crate::lineage) fn apply_tentatively(&mut self, edit: &Edit, id: EditId) -> Result<TakeBack, String> {
        let expected = self.edit.0.checked_add(1).ok_or("edit numbers are used up")?;
        if id.0 != expected {
            return Err(format!("edit {id} after edit {}", self.edit));
        }
        let seq = edit.seq.max(edit.flushed());
        if seq > SeqNo::MAX {
            return Err(format!("sequence number {seq} is too large"));
        }
        if edit.seq < seq {
            return Err(format!("edit {id} reaches only to {}, but flushes to {seq}", edit.seq));
        }
        if let Some(mark) = edit.log_start.filter(|mark| mark.position < self.log_start.position) {
            return Err(format!("the log's start goes back from {} to {}", self.log_start.position, mark.position));
        }
        let (next_table, next_keyspace) = (next_table(edit)?, next_keyspace(edit)?);
        self.refuse_known_tables(edit)?;
        let mut before = TakeBack {
            steps: Vec::new(),
            next_keyspace: self.next_keyspace,
            next_table: self.next_table,
            log_start: self.log_start,
            edit: self.edit,
            seq: self.seq,
        };
        if let Err(refusal) = self.change(&edit.changes, &mut before.steps) {
            self.take_back(before);
            return Err(refusal);
        }

        self.next_table = self.next_table.max(next_table);
        self.next_keyspace = self.next_keyspace.max(next_keyspace);
        self.log_start = edit.log_start.unwrap_or(self.log_start);
        self.edit = id;
        self.seq = self.seq.max(seq);
        self.trim();
        Ok(before)
    }

    /// Returns to the state before the edit that gave `before`, which must be the last one.
    pub(in crate::lineage) fn take_back(&mut self, before: TakeBack) {
        for step in before.steps.into_iter().rev() {
            self.undo(step);
        }
        self.trim();
        self.next_keyspace = before.next_keyspace;
        self.next_table = before.next_table;
        self.log_start = before.log_start;
        self.edit = before.edit;
        self.seq = before.seq;
    }

    /// The changes in turn; those before a refused one are in `undo`.
    fn change(&mut self, changes: &[Change], undo: &mut Vec<Undo>) -> Result<(), String> {
        let moved = self.take_out(changes, undo)?;
        self.put_in(changes, moved, undo)
    }

    fn trim(&mut self) {
        for keyspace in self.keyspaces.values_mut() {
            keyspace.partitions.iter_mut().for_each(PartitionState::trim);
        }
    }

    /// First what goes, so that outputs may take the key ranges of inputs whatever the order of the changes. Gives the
    /// tables that are to come back at another level.
    fn take_out(&mut self, changes: &[Change], undo: &mut Vec<Undo>) -> Result<Vec<(Place, TableMeta)>, String> {
        let mut moved = Vec::new();
        for change in changes {
            match change {
                Change::CreateKeyspace { keyspace, name, splits } => {
                    self.create_keyspace(*keyspace, name, splits)?;
                    undo.push(Undo::Uncreate(*keyspace));
                }
                Change::DropKeyspace { keyspace } => {
                    let dropped =
                        self.keyspaces.remove(keyspace).ok_or_else(|| format!("no keyspace {keyspace} to drop"))?;
                    undo.push(Undo::Undrop(*keyspace, dropped));
                }
                Change::ClearKeyspace { keyspace, seq } => {
                    let state = self.keyspaces.get_mut(keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
                    let before = state.clone();
                    let cleared = state.clear(*seq);
                    undo.push(Undo::Undrop(*keyspace, before));
                    cleared?;
                }
                Change::Remove { keyspace, partition, level, table } => {
                    let at = Place { keyspace: *keyspace, partition: *partition, level: *level };
                    self.remove(at, *table, undo)?;
                }
                Change::Move { keyspace, partition, from, to, table } => {
                    if from == to || *to == 0 {
                        return Err(format!("table {table} cannot move from level {from} to level {to}"));
                    }
                    let at = Place { keyspace: *keyspace, partition: *partition, level: *from };
                    moved.push((Place { level: *to, ..at }, self.remove(at, *table, undo)?));
                }
                Change::Split { keyspace, partition, at, into } => {
                    self.split(*keyspace, *partition, at, *into, undo)?
                }
                Change::Merge { keyspace, partition, next } => self.merge(*keyspace, *partition, *next, undo)?,
                Change::Add { .. } | Change::Flushed { .. } => {}
            }
        }
        Ok(moved)
    }

    fn put_in(
        &mut self,
        changes: &[Change],
        moved: Vec<(Place, TableMeta)>,
        undo: &mut Vec<Undo>,
    ) -> Result<(), String> {
        for (at, meta) in moved {
            let index = self.add(at, meta)?;
            undo.push(Undo::Unadd { at, index });
        }
        for change in changes {
            match change {
                Change::Add { keyspace, partition, level, meta } => {
                    let at = Place { keyspace: *keyspace, partition: *partition, level: *level };
                    if self.sticks_out(*keyspace, *partition, meta) {
                        return Err(format!("table {} has keys outside of partition {partition}", meta.id));
                    }
                    let index = self.add(at, meta.clone())?;
                    undo.push(Undo::Unadd { at, index });
                }
                Change::Flushed { keyspace, partition, seq } => {
                    let state = self.partition(*keyspace, *partition)?;
                    if *seq < state.flushed {
                        return Err(format!("flushed goes back from {} to {seq}", state.flushed));
                    }
                    undo.push(Undo::Flushed(*keyspace, *partition, state.flushed));
                    state.flushed = *seq;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(in crate::lineage) fn create_keyspace(
        &mut self,
        id: KeyspaceId,
        name: &str,
        splits: &[Box<[u8]>],
    ) -> Result<(), String> {
        if self.keyspaces.contains_key(&id) {
            return Err(format!("keyspace {id} exists"));
        }
        if !splits.is_sorted_by(|a, b| a < b) {
            return Err(format!("the splits of keyspace {id} do not ascend"));
        }
        self.keyspaces.insert(id, KeyspaceState::new(name, splits));
        Ok(())
    }

    fn split(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        at: &[u8],
        into: PartitionId,
        undo: &mut Vec<Undo>,
    ) -> Result<(), String> {
        let state = self.keyspaces.get_mut(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
        let next_partition = state.next_partition;
        let before = state.index_of(partition).and_then(|index| state.partitions.get(index)).cloned();
        let index = state.split(partition, at, into)?;
        undo.push(Undo::Unsplit { keyspace, index, before: before.unwrap_or_default(), next_partition });
        Ok(())
    }

    fn merge(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        next: PartitionId,
        undo: &mut Vec<Undo>,
    ) -> Result<(), String> {
        let state = self.keyspaces.get_mut(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
        let before = |id| state.index_of(id).and_then(|index| state.partitions.get(index)).cloned().unwrap_or_default();
        let before = Box::new([before(partition), before(next)]);
        let (index, at) = state.merge(partition, next)?;
        undo.push(Undo::Unmerge { keyspace, index, at, before });
        Ok(())
    }

    pub(in crate::lineage) fn partition(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> Result<&mut PartitionState, String> {
        let state = self.keyspaces.get_mut(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
        let state = state.index_of(partition).and_then(|index| state.partitions.get_mut(index));
        state.ok_or_else(|| format!("no partition {partition} in keyspace {keyspace}"))
    }

    fn remove(&mut self, at: Place, table: TableId, undo: &mut Vec<Undo>) -> Result<TableMeta, String> {
        let partition = self.partition(at.keyspace, at.partition)?;
        let level = partition.levels.get_mut(usize::from(at.level));
        let found = level.and_then(|level| {
            let index = level.iter().position(|meta| meta.id == table)?;
            Some((index, level.remove(index)))
        });
        let (index, meta) = found.ok_or_else(|| format!("no table {table} at {at:?}"))?;
        undo.push(Undo::Unremove { at, index, meta: meta.clone() });
        Ok(meta)
    }

    /// Puts a table in its place in its level; gives its index there.
    pub(in crate::lineage) fn add(&mut self, at: Place, meta: TableMeta) -> Result<usize, String> {
        self.check_range(at, &meta)?;
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

    /// The table's own numbers make sense, and it has keys that may be the partition's.
    fn check_range(&self, at: Place, meta: &TableMeta) -> Result<(), String> {
        if meta.key_min > meta.key_max || meta.seq_min > meta.seq_max || meta.seq_max > SeqNo::MAX {
            return Err(format!("table {} with keys or sequence numbers that descend", meta.id));
        }
        let keyspace = self.keyspaces.get(&at.keyspace).ok_or_else(|| format!("no keyspace {}", at.keyspace))?;
        let Some(index) = keyspace.index_of(at.partition) else {
            return Err(format!("no partition {} in keyspace {}", at.partition, at.keyspace));
        };
        let (from, to) = keyspace.bounds(index);
        if from.is_some_and(|from| *meta.key_max < *from) || to.is_some_and(|to| *meta.key_min >= *to) {
            return Err(format!("table {} has keys outside of partition {}", meta.id, at.partition));
        }
        Ok(())
    }

    fn refuse_known_tables(&self, edit: &Edit) -> Result<(), String> {
        let mut added = BTreeSet::new();
        for meta in edit.outputs() {
            if !added.insert(meta.id) {
                return Err(format!("table {} twice in one edit", meta.id));
            }
        }
        if added.is_empty() {
            return Ok(());
        }
        match self.tables().find(|meta| added.contains(&meta.id)) {
            Some(meta) => Err(format!("table {} is live already", meta.id)),
            None => Ok(()),
        }
    }

    fn undo(&mut self, step: Undo) {
        match step {
            Undo::Uncreate(keyspace) => drop(self.keyspaces.remove(&keyspace)),
            Undo::Undrop(keyspace, state) => drop(self.keyspaces.insert(keyspace, state)),
            Undo::Unsplit { keyspace, index, before, next_partition } => {
                if let Some(state) = self.keyspaces.get_mut(&keyspace) {
                    state.unsplit(index, before, next_partition);
                }
            }
            Undo::Unmerge { keyspace, index, at, before } => {
                if let Some(state) = self.keyspaces.get_mut(&keyspace) {
                    state.unmerge(index, at, *before);
                }
            }
            Undo::Flushed(keyspace, partition, seq) => {
                if let Ok(state) = self.partition(keyspace, partition) {
                    state.flushed = seq;
                }
            }
            Undo::Unadd { at, index } => {
                if let Some(level) = self.level(at) {
                    level.remove(index);
                }
            }
            Undo::Unremove { at, index, meta } => {
                if let Ok(partition) = self.partition(at.keyspace, at.partition) {
                    // A trim since may have taken the emptied level away.
                    let number = usize::from(at.level);
                    if partition.levels.len() <= number {
                        partition.levels.resize_with(number + 1, Vec::new);
                    }
                }
                if let Some(level) = self.level(at) {
                    level.insert(index, meta);
                }
            }
        }
    }

    fn level(&mut self, at: Place) -> Option<&mut Vec<TableMeta>> {
        self.partition(at.keyspace, at.partition).ok()?.levels.get_mut(usize::from(at.level))
    }
}

impl TakeBack {
    /// The tables that the edit took out of a partition and that another one still names.
    pub(in crate::lineage) fn still_named(&self, state: &State) -> BTreeSet<TableId> {
        let mut named = BTreeSet::new();
        for step in &self.steps {
            let Undo::Unremove { at, meta, .. } = step else { continue };
            if state.keyspaces.get(&at.keyspace).is_some_and(|keyspace| keyspace.still_names(meta)) {
                named.insert(meta.id);
            }
        }
        named
    }
}

/// Whether `meta` has keys outside of a partition with these bounds.
fn sticks_out((from, to): (Option<&[u8]>, Option<&[u8]>), meta: &TableMeta) -> bool {
    from.is_some_and(|from| *meta.key_min < *from) || to.is_some_and(|to| *meta.key_max >= *to)
}

fn next_table(edit: &Edit) -> Result<TableId, String> {
    let largest = edit.outputs().map(|meta| meta.id.0).max();
    largest.map_or(Ok(TableId(0)), |id| id.checked_add(1).map(TableId).ok_or_else(|| "table ids are used up".into()))
}

fn next_keyspace(edit: &Edit) -> Result<KeyspaceId, String> {
    let created = edit.changes.iter().filter_map(|change| match change {
        Change::CreateKeyspace { keyspace, .. } => Some(keyspace.0),
        _ => None,
    });
    let Some(largest) = created.max() else { return Ok(KeyspaceId(0)) };
    largest.checked_add(1).map(KeyspaceId).ok_or_else(|| "keyspace ids are used up".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::{add, create, edit, flushed, mark, merge, remove, sample_state, shift, split, table};

    fn apply(state: &mut State, edit: &Edit) -> Result<(), String> {
        state.apply(edit, EditId(state.edit.0 + 1))
    }

    fn refused(changes: Vec<Change>, reason: &str) {
        let mut state = sample_state();
        let error = apply(&mut state, &edit(changes)).unwrap_err();
        assert!(error.contains(reason), "{error}");
        assert_eq!(state, sample_state(), "a refused edit changes nothing");
    }

    #[test]
    fn level_0_is_in_flush_order_and_the_others_in_key_order() {
        let state = sample_state();
        let levels = &state.keyspaces[&KeyspaceId(1)].partitions[0].levels;
        let ids: Vec<Vec<u64>> = levels.iter().map(|level| level.iter().map(|meta| meta.id.0).collect()).collect();
        assert_eq!(ids, [vec![8, 7], vec![4, 3]]);
        assert_eq!((state.next_table, state.next_keyspace), (TableId(200), KeyspaceId(4)));
    }

    #[test]
    fn inputs_make_room_for_outputs_whatever_the_order_of_the_changes() {
        let mut state = sample_state();
        let changes = vec![add(0, 1, table(500, "a", "k")), remove(0, 1, 3), remove(0, 1, 4), remove(0, 0, 7)];
        apply(&mut state, &edit(changes)).unwrap();
        let levels = &state.keyspaces[&KeyspaceId(1)].partitions[0].levels;
        assert_eq!((levels[0].len(), levels[1].len()), (1, 1));
    }

    #[test]
    fn a_moved_table_keeps_what_is_known_of_it() {
        let mut state = sample_state();
        apply(&mut state, &edit(vec![shift(0, 0, 2, 8)])).unwrap();
        let levels = &state.keyspaces[&KeyspaceId(1)].partitions[0].levels;
        assert_eq!(levels[2], [table(8, "a", "c")]);
    }

    #[test]
    fn the_last_table_of_the_last_level_takes_the_level_with_it() {
        let mut state = sample_state();
        apply(&mut state, &edit(vec![remove(0, 1, 3), remove(0, 1, 4)])).unwrap();
        assert_eq!(state.keyspaces[&KeyspaceId(1)].partitions[0].levels.len(), 1);
    }

    #[test]
    fn a_dropped_keyspace_is_gone_with_its_tables() {
        let mut state = sample_state();
        apply(&mut state, &edit(vec![Change::DropKeyspace { keyspace: KeyspaceId(1) }])).unwrap();
        assert_eq!((state.tables().count(), state.next_keyspace), (0, KeyspaceId(4)));
    }

    #[test]
    fn edits_that_make_no_sense_are_refused_whole() {
        let good = add(0, 0, table(900, "a", "b"));
        let with = |change| vec![good.clone(), flushed(0, 50), remove(0, 0, 7), change];
        refused(with(remove(0, 0, 3)), "no table 3");
        refused(with(remove(0, 9, 3)), "no table 3");
        refused(with(remove(2, 0, 8)), "no partition 2");
        refused(with(add(0, 0, table(8, "a", "b"))), "live already");
        refused(with(add(0, 1, table(900, "f", "g"))), "twice in one edit");
        refused(with(add(0, 1, table(901, "c", "cc"))), "overlaps");
        refused(with(add(0, 1, table(901, "", "a"))), "overlaps");
        refused(with(add(0, 0, table(901, "b", "a"))), "descend");
        refused(with(add(0, 0, table(901, "a", "m"))), "outside of partition");
        refused(with(add(1, 0, table(901, "l", "n"))), "outside of partition");
        refused(with(add(1, 0, table(901, "a", "b"))), "outside of partition");
        refused(with(split(0, "m", 2)), "both sides");
        refused(with(split(9, "c", 2)), "no partition 9");
        refused(with(split(0, "c", 1)), "not new");
        refused(with(merge(0, 1)), "created");
        refused(with(merge(9, 1)), "no partition 9");
        refused(with(add(0, LEVELS_MAX, table(901, "f", "g"))), "level 64");
        refused(with(add(0, 0, table(u64::MAX, "f", "g"))), "used up");
        refused(with(shift(0, 1, 0, 3)), "cannot move");
        refused(with(shift(0, 1, 1, 3)), "cannot move");
        refused(with(shift(0, 0, 1, 8)), "overlaps");
        refused(with(flushed(0, 29)), "goes back");
        refused(with(flushed(0, u64::MAX)), "too large");
        refused(with(create(1, &[])), "exists");
        refused(with(create(9, &["b", "b"])), "do not ascend");
        refused(with(create(u64::MAX, &[])), "used up");
        refused(with(Change::DropKeyspace { keyspace: KeyspaceId(2) }), "no keyspace 2");
        let dropped = Change::DropKeyspace { keyspace: KeyspaceId(1) };
        refused(with(dropped), "no keyspace 1");
    }

    #[test]
    fn a_table_that_partitions_share_is_theirs_until_each_has_replaced_it() {
        let mut state = sample_state();
        apply(&mut state, &edit(vec![split(0, "c", 2)])).unwrap();
        let counts = |state: &State| (state.tables().count(), state.distinct_tables().count());
        // Tables 8, 7 and 4 have keys on both sides; table 3 has none on the lower.
        assert_eq!(counts(&state), (104 + 3, 104));
        let replaced = edit(vec![remove(0, 1, 4), remove(2, 0, 7), add(0, 1, table(900, "a", "b"))]);
        let before = state.apply_tentatively(&replaced, EditId(state.edit.0 + 1)).unwrap();
        assert_eq!(before.still_named(&state), BTreeSet::from([TableId(4), TableId(7)]));
        let replaced = edit(vec![remove(2, 1, 4), remove(2, 1, 3)]);
        let before = state.apply_tentatively(&replaced, EditId(state.edit.0 + 1)).unwrap();
        assert_eq!(before.still_named(&state), BTreeSet::new());
        // A shared table may go down in one partition and stay where it is in the other.
        apply(&mut state, &edit(vec![shift(0, 0, 1, 8)])).unwrap_err();
        apply(&mut state, &edit(vec![shift(2, 0, 1, 8)])).unwrap();
        assert_eq!(counts(&state), (104, 103), "4 and 3 are gone, 900 is new, 8 is still in both");
    }

    #[test]
    fn an_edit_out_of_turn_or_with_an_earlier_log_start_is_refused() {
        let mut state = sample_state();
        for id in [0, 2, 4, u64::MAX] {
            assert!(state.apply(&Edit::default(), EditId(id)).is_err());
        }
        let back = Edit { log_start: Some(mark(39)), ..Edit::default() };
        assert!(apply(&mut state, &back).is_err());
        let short = Edit { seq: SeqNo(98), ..edit(vec![flushed(0, 99)]) };
        assert!(apply(&mut state, &short).is_err());
        assert_eq!(state, sample_state());
    }

    #[test]
    fn taking_an_edit_back_leaves_no_trace() {
        let changes = vec![
            create(9, &["q"]),
            remove(0, 1, 3),
            remove(0, 1, 4),
            shift(0, 0, 1, 8),
            add(0, 5, table(900, "a", "b")),
            flushed(0, 31),
            split(0, "c", 6),
            split(1, "m040a", 9),
            split(1, "m040", 10),
            merge(1, 10),
            Change::DropKeyspace { keyspace: KeyspaceId(3) },
        ];
        let edit = Edit { log_start: Some(mark(41)), ..edit(changes) };
        let mut state = sample_state();
        let before = state.apply_tentatively(&edit, EditId(3)).unwrap();
        assert_ne!(state, sample_state());
        state.take_back(before);
        assert_eq!(state, sample_state());
    }
}
