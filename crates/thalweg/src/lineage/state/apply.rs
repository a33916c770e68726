//! [`State::apply`]: what an edit means.
//!
//! An edit takes effect as a whole or not at all. It first removes its inputs and then adds its outputs, so outputs may
//! take the key ranges of inputs whatever the order of its changes is.

use crate::format::{EditId, KeyspaceId, PartitionId, SeqNo, TableId};
use crate::lineage::state::edit::{Change, Edit};
use crate::lineage::state::live::{LevelPlace, State};
use crate::lineage::state::undo::{TakeBack, Undo};
use crate::table::TableMeta;
use std::collections::{BTreeMap, BTreeSet};

/// The tables that the first half of an edit has removed, as far as the second half needs them.
#[derive(Default)]
struct TakenOut {
    /// Tables that come back at another level.
    moved: Vec<(LevelPlace, TableMeta)>,
    /// For each partition: how many of the remaining fast tables stand below the place of the newest removed one.
    fast: BTreeMap<(KeyspaceId, PartitionId), usize>,
}

impl TakenOut {
    /// Notes the removal of a fast table that stood at `index` of those left.
    fn removed_fast(&mut self, partition: (KeyspaceId, PartitionId), index: usize) {
        let below = self.fast.entry(partition).or_insert(index);
        *below = if index < *below { *below - 1 } else { index };
    }
}

impl State {
    /// Applies `edit`, which has number `id`. An error says why the edit does not fit; then nothing is changed.
    pub(crate) fn apply(&mut self, edit: &Edit, id: EditId) -> Result<(), String> {
        self.apply_tentatively(edit, id).map(drop)
    }

    /// Does what [`State::apply`] does, and returns what [`State::take_back`] needs.
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
        let mut before = TakeBack::new(self);
        if let Err(refusal) = self.change(&edit.changes, before.steps()) {
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

    /// Makes the changes. After an error `undo` has the changes made before the refused one.
    fn change(&mut self, changes: &[Change], undo: &mut Vec<Undo>) -> Result<(), String> {
        let taken = self.take_out(changes, undo)?;
        self.put_in(changes, taken, undo)
    }

    /// Makes the changes that remove something, and the changes of keyspaces and partitions. Returns the removed tables
    /// that the second half of the edit needs.
    fn take_out(&mut self, changes: &[Change], undo: &mut Vec<Undo>) -> Result<TakenOut, String> {
        let mut taken = TakenOut::default();
        for change in changes {
            match change {
                Change::CreateKeyspace { keyspace, name, splits, kind } => {
                    self.create_keyspace(*keyspace, name, splits, *kind)?;
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
                    let at = LevelPlace { keyspace: *keyspace, partition: *partition, level: *level };
                    self.remove(at, *table, undo)?;
                }
                Change::Move { keyspace, partition, from, to, table } => {
                    if from == to || *to == 0 {
                        return Err(format!("table {table} cannot move from level {from} to level {to}"));
                    }
                    let at = LevelPlace { keyspace: *keyspace, partition: *partition, level: *from };
                    taken.moved.push((LevelPlace { level: *to, ..at }, self.remove(at, *table, undo)?));
                }
                Change::Split { keyspace, partition, at, into } => {
                    self.split(*keyspace, *partition, at, *into, undo)?
                }
                Change::Merge { keyspace, partition, next } => self.merge(*keyspace, *partition, *next, undo)?,
                Change::RemoveFast { keyspace, partition, table } => {
                    let index = self.remove_fast((*keyspace, *partition), *table, undo)?;
                    taken.removed_fast((*keyspace, *partition), index);
                }
                Change::Add { .. } | Change::AddFast { .. } | Change::Flushed { .. } => {}
            }
        }
        Ok(taken)
    }

    /// Adds the outputs and the moved tables, and notes how far partitions are flushed.
    fn put_in(&mut self, changes: &[Change], taken: TakenOut, undo: &mut Vec<Undo>) -> Result<(), String> {
        for (at, meta) in taken.moved {
            let index = self.add(at, meta)?;
            undo.push(Undo::Unadd { at, index });
        }
        for change in changes {
            match change {
                Change::Add { keyspace, partition, level, meta } => {
                    let at = LevelPlace { keyspace: *keyspace, partition: *partition, level: *level };
                    if self.sticks_out(*keyspace, *partition, meta) {
                        return Err(format!("table {} has keys outside of partition {partition}", meta.id));
                    }
                    let index = self.add(at, meta.clone())?;
                    undo.push(Undo::Unadd { at, index });
                }
                Change::AddFast { keyspace, partition, place, meta } => {
                    if self.sticks_out(*keyspace, *partition, meta) {
                        return Err(format!("fast table {} has keys outside of partition {partition}", meta.id));
                    }
                    let before = self.partition(*keyspace, *partition)?.fast.clone();
                    let inputs = taken.fast.get(&(*keyspace, *partition)).copied().unwrap_or(before.len());
                    self.add_fast((*keyspace, *partition), (*place, inputs), meta.clone())?;
                    undo.push(Undo::Fast { keyspace: *keyspace, partition: *partition, before, removed: None });
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

    fn remove(&mut self, at: LevelPlace, table: TableId, undo: &mut Vec<Undo>) -> Result<TableMeta, String> {
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

    fn remove_fast(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        table: TableId,
        undo: &mut Vec<Undo>,
    ) -> Result<usize, String> {
        let fast = &mut self.partition(keyspace, partition)?.fast;
        let before = fast.clone();
        let index = fast.iter().position(|meta| meta.id == table);
        let index = index.ok_or_else(|| format!("no fast table {table} in partition {partition}"))?;
        let removed = Some(fast.remove(index));
        undo.push(Undo::Fast { keyspace, partition, before, removed });
        Ok(index)
    }

    fn refuse_known_tables(&self, edit: &Edit) -> Result<(), String> {
        let mut added = BTreeSet::new();
        for (_, meta) in edit.outputs() {
            if !added.insert(meta.id) {
                return Err(format!("table {} twice in one edit", meta.id));
            }
        }
        // Most tables are older than all added ones, and there may be thousands of tables.
        let Some(least) = added.first().copied() else { return Ok(()) };
        let is_added = |meta: &&TableMeta| meta.id >= least && added.contains(&meta.id);
        match self.tables().chain(self.fast_tables()).find(is_added) {
            Some(meta) => Err(format!("table {} is live already", meta.id)),
            None => Ok(()),
        }
    }
}

/// Returns the first table id above those of the edit.
fn next_table(edit: &Edit) -> Result<TableId, String> {
    let largest = edit.outputs().map(|(_, meta)| meta.id.0).max();
    largest.map_or(Ok(TableId(0)), |id| id.checked_add(1).map(TableId).ok_or_else(|| "table ids are used up".into()))
}

/// Returns the first keyspace id above those of the edit.
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
    use crate::lineage::state::edit::FastPlace;
    use crate::lineage::state::live::LEVELS_MAX;
    use crate::lineage::tests::{
        add, add_fast, create, edit, flushed, mark, merge, remove, remove_fast, sample_state, shift, split, table,
    };

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
        assert_eq!((state.next_table, state.next_keyspace), (TableId(200), KeyspaceId(5)));
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
        assert_eq!((state.tables().count(), state.next_keyspace), (0, KeyspaceId(5)));
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

    fn fast_ids(state: &State, partition: usize) -> Vec<u64> {
        state.keyspaces[&KeyspaceId(1)].partitions[partition].fast.iter().map(|meta| meta.id.0).collect()
    }

    #[test]
    fn fast_tables_lie_in_the_order_of_their_age_and_merged_ones_below_the_others() {
        let mut state = sample_state();
        let newest = |id, from, to| add_fast(0, FastPlace::Newest, table(id, from, to));
        apply(&mut state, &edit(vec![newest(900, "a", "d"), flushed(0, 40)])).unwrap();
        apply(&mut state, &edit(vec![newest(901, "b", "l"), flushed(0, 50)])).unwrap();
        apply(&mut state, &edit(vec![newest(902, "c", "e"), flushed(0, 60)])).unwrap();
        assert_eq!((fast_ids(&state, 0), state.next_table), (vec![900, 901, 902], TableId(903)));
        let oldest = |id, from, to| add_fast(0, FastPlace::Oldest, table(id, from, to));
        let merged = vec![oldest(904, "d", "l"), oldest(903, "a", "c"), remove_fast(0, 900), remove_fast(0, 901)];
        let merged = edit(merged);
        let before = state.clone();
        let undo = state.apply_tentatively(&merged, EditId(state.edit.0 + 1)).unwrap();
        assert_eq!(fast_ids(&state, 0), [903, 904, 902]);
        state.take_back(undo);
        assert_eq!(state, before);
        apply(&mut state, &merged).unwrap();
        // A flush has come meanwhile, and lies above.
        apply(&mut state, &edit(vec![newest(905, "a", "l"), newest(906, "a", "l"), newest(907, "a", "l")])).unwrap();
        let in_place = add_fast(0, FastPlace::Inputs, table(908, "a", "l"));
        apply(&mut state, &edit(vec![in_place, remove_fast(0, 906), remove_fast(0, 902), remove_fast(0, 905)]))
            .unwrap();
        assert_eq!(fast_ids(&state, 0), [903, 904, 908, 907]);
        let evicted = [903, 904, 908, 907].map(|id| remove_fast(0, id));
        apply(&mut state, &edit([&evicted[..], &[add(0, 0, table(909, "a", "l"))]].concat())).unwrap();
        assert_eq!((fast_ids(&state, 0).len(), state.fast_tables().count()), (0, 0));
    }

    #[test]
    fn fast_tables_that_make_no_sense_are_refused() {
        let newest = |partition, id, from, to| add_fast(partition, FastPlace::Newest, table(id, from, to));
        refused(vec![newest(0, 900, "a", "m")], "outside of partition");
        refused(vec![newest(0, 8, "a", "b")], "live already");
        refused(vec![newest(0, 900, "a", "b"), add(0, 0, table(900, "a", "b"))], "twice in one edit");
        refused(vec![newest(7, 900, "a", "b")], "no partition 7");
        refused(vec![newest(0, 900, "a", "b"), remove_fast(0, 8)], "no fast table 8");
    }

    #[test]
    fn a_split_shares_fast_tables_and_a_merge_waits_until_none_is_shared() {
        let mut state = sample_state();
        let newest = |id, from, to| add_fast(0, FastPlace::Newest, table(id, from, to));
        apply(&mut state, &edit(vec![newest(900, "a", "b"), newest(901, "a", "l"), newest(902, "f", "g")])).unwrap();
        apply(&mut state, &edit(vec![split(0, "c", 2)])).unwrap();
        assert_eq!((fast_ids(&state, 0), fast_ids(&state, 1)), (vec![900, 901], vec![901, 902]));
        assert_eq!((state.fast_tables().count(), state.distinct_fast_tables().count()), (4, 3));
        let of_levels = [remove(0, 0, 8), remove(0, 0, 7), remove(0, 1, 4)];
        apply(&mut state, &edit(of_levels.to_vec())).unwrap();
        let undo = state.apply_tentatively(&edit(vec![remove_fast(0, 901)]), EditId(state.edit.0 + 1)).unwrap();
        assert_eq!(undo.still_named(&state), BTreeSet::from([TableId(901)]));
        assert!(apply(&mut state, &edit(vec![merge(0, 2)])).unwrap_err().contains("share"));
        let rest = vec![remove_fast(2, 901), remove(2, 0, 8), remove(2, 0, 7), remove(2, 1, 4)];
        apply(&mut state, &edit(rest)).unwrap();
        apply(&mut state, &edit(vec![merge(0, 2)])).unwrap();
        assert_eq!(fast_ids(&state, 0), [900, 902]);
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
