//! [`KeyspaceState`]: the partitions of a keyspace in the set of live files; splits and merges of them.
//!
//! Invariants: partitions are in key order, and each begins where its predecessor ends. An id is never used twice.
//! After a split, a table with keys on both sides is in both partitions; in each it stands for the keys of that
//! partition only. It leaves a partition when that partition replaces it. Every later output has keys of one partition
//! only.

use crate::format::{KeyspaceKind, PartitionId, SeqNo, TableId};
use crate::table::TableMeta;

/// A partition in the set of live files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    pub(crate) id: PartitionId,
    /// Every record at or below this number is in tables.
    pub(crate) flushed: SeqNo,
    /// Level 0 in flush order (oldest first), the others in key order.
    pub(crate) levels: Vec<Vec<TableMeta>>,
    /// Tables of the fast tier, which lie above level 0. If two have a key in common, the later one is newer.
    pub(crate) fast: Vec<TableMeta>,
}

/// A keyspace in the set of live files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: String,
    pub(crate) kind: KeyspaceKind,
    /// Partition i + 1 begins at `splits[i]`.
    pub(crate) splits: Vec<Box<[u8]>>,
    pub(crate) partitions: Vec<PartitionState>,
    /// How many partitions the keyspace was created with.
    pub(crate) created: u64,
    /// The first partition id that was never used.
    pub(crate) next_partition: PartitionId,
}

impl PartitionState {
    /// Removes the empty levels at the end.
    pub(in crate::lineage) fn trim(&mut self) {
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
    }

    /// Returns all its tables.
    fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.levels.iter().flatten().chain(&self.fast)
    }

    /// Returns all its tables by level, those of the fast tier last.
    fn runs_mut(&mut self) -> impl Iterator<Item = &mut Vec<TableMeta>> {
        self.levels.iter_mut().chain([&mut self.fast])
    }

    /// Returns whether it names the table.
    fn names(&self, table: TableId) -> bool {
        self.tables().any(|meta| meta.id == table)
    }
}

impl KeyspaceState {
    /// A keyspace without tables, with one partition more than `splits`.
    pub(in crate::lineage) fn new(name: &str, splits: &[Box<[u8]>]) -> Self {
        let partition = |id| PartitionState { id: PartitionId(id), ..PartitionState::default() };
        let count = splits.len() as u64 + 1;
        KeyspaceState {
            name: name.to_owned(),
            kind: KeyspaceKind::Ordered,
            splits: splits.to_vec(),
            partitions: (0..count).map(partition).collect(),
            created: count,
            next_partition: PartitionId(count),
        }
    }

    /// Returns the index of partition `id`.
    pub(in crate::lineage) fn index_of(&self, id: PartitionId) -> Option<usize> {
        self.partitions.iter().position(|partition| partition.id == id)
    }

    /// Returns the first key of partition number `index`, and the first key after it.
    pub(in crate::lineage) fn bounds(&self, index: usize) -> (Option<&[u8]>, Option<&[u8]>) {
        let split = |index: usize| self.splits.get(index).map(|split| &**split);
        (index.checked_sub(1).and_then(split), split(index))
    }

    /// Returns whether the ids are those of a new keyspace.
    pub(in crate::lineage) fn is_numbered_in_order(&self) -> bool {
        (0..).zip(&self.partitions).all(|(number, partition)| partition.id.0 == number)
            && [self.next_partition.0, self.created] == [self.partitions.len() as u64; 2]
    }

    /// Gives the partitions of a new keyspace their ids.
    pub(in crate::lineage) fn number(
        &mut self,
        created: u64,
        next: PartitionId,
        ids: &[PartitionId],
    ) -> Result<(), String> {
        let mut sorted = ids.to_vec();
        sorted.sort();
        let is_created = (1..=ids.len() as u64).contains(&created);
        if !is_created
            || ids.len() != self.partitions.len()
            || !sorted.is_sorted_by(|a, b| a < b)
            || sorted.last() >= Some(&next)
        {
            return Err(format!("ids {ids:?} below {next} for {} partitions", self.partitions.len()));
        }
        self.partitions.iter_mut().zip(ids).for_each(|(partition, id)| partition.id = *id);
        (self.created, self.next_partition) = (created, next);
        Ok(())
    }

    /// Removes all tables, and the partitions that splits have made. The others count as flushed up to `seq`.
    pub(in crate::lineage) fn clear(&mut self, seq: SeqNo) -> Result<(), String> {
        if let Some(later) = self.partitions.iter().find(|partition| partition.flushed > seq) {
            return Err(format!("partition {} is flushed to {}, but cleared at {seq}", later.id, later.flushed));
        }
        let created = self.created;
        let mut splits = self.splits.iter();
        let begins_with: Vec<_> = self.partitions.iter().skip(1).map(|partition| partition.id.0 < created).collect();
        let kept = begins_with.iter().filter_map(|keep| splits.next().filter(|_| *keep)).cloned().collect();
        self.splits = kept;
        self.partitions.retain(|partition| partition.id.0 < created);
        for partition in &mut self.partitions {
            *partition = PartitionState { id: partition.id, flushed: seq, ..PartitionState::default() };
        }
        Ok(())
    }

    /// Splits a partition at `at` into itself and `into`. Returns its index.
    pub(in crate::lineage) fn split(&mut self, id: PartitionId, at: &[u8], into: PartitionId) -> Result<usize, String> {
        let index = self.index_of(id).ok_or_else(|| format!("no partition {id} to split"))?;
        let (from, to) = self.bounds(index);
        if at.is_empty() || from.is_some_and(|from| at <= from) || to.is_some_and(|to| at >= to) {
            return Err(format!("partition {id} has nothing on both sides of \"{}\"", at.escape_ascii()));
        }
        if into < self.next_partition {
            return Err(format!("partition {into} is not new"));
        }
        let next = into.0.checked_add(1).ok_or("partition ids are used up")?;
        let Some(lower) = self.partitions.get_mut(index) else { return Err(format!("no partition {id}")) };
        let mut upper = PartitionState { id: into, ..lower.clone() };
        lower.runs_mut().for_each(|run| run.retain(|meta| *meta.key_min < *at));
        upper.runs_mut().for_each(|run| run.retain(|meta| *meta.key_max >= *at));
        self.splits.insert(index, Box::from(at));
        self.partitions.insert(index + 1, upper);
        self.next_partition = PartitionId(next);
        Ok(index)
    }

    /// Takes back a split; `before` is the partition that stood at `index`.
    pub(in crate::lineage) fn unsplit(&mut self, index: usize, before: PartitionState, next_partition: PartitionId) {
        self.splits.remove(index);
        self.partitions.remove(index + 1);
        if let Some(partition) = self.partitions.get_mut(index) {
            *partition = before;
        }
        self.next_partition = next_partition;
    }

    /// Merges `next`, the neighbour to the right, into a partition. Returns the index, and the first key of `next`.
    pub(in crate::lineage) fn merge(
        &mut self,
        id: PartitionId,
        next: PartitionId,
    ) -> Result<(usize, Box<[u8]>), String> {
        let index = self.index_of(id).ok_or_else(|| format!("no partition {id} to merge"))?;
        let (Some(lower), Some(upper)) = (self.partitions.get(index), self.partitions.get(index + 1)) else {
            return Err(format!("partition {id} has no neighbour to the right"));
        };
        if upper.id != next {
            return Err(format!("partition {next} is not the next to {id}"));
        }
        if next.0 < self.created {
            return Err(format!("partition {next} is one that the keyspace was created with"));
        }
        let at = self.splits.get(index).cloned().unwrap_or_default();
        let below = lower.tables().all(|meta| *meta.key_max < *at);
        // One side may have replaced its keys of a shared table. A merge would make these old keys visible again.
        if !below || upper.tables().any(|meta| *meta.key_min < *at) {
            return Err(format!("partitions {id} and {next} share a table"));
        }
        self.splits.remove(index);
        let upper = self.partitions.remove(index + 1);
        let Some(lower) = self.partitions.get_mut(index) else { return Err(format!("no partition {id}")) };
        lower.flushed = lower.flushed.max(upper.flushed);
        lower.levels.resize_with(lower.levels.len().max(upper.levels.len()), Vec::new);
        for (level, more) in lower.levels.iter_mut().zip(upper.levels) {
            level.extend(more);
        }
        // Tables of different sides have no key in common, so their order is free.
        lower.fast.extend(upper.fast);
        Ok((index, at))
    }

    /// Takes back a merge: the two partitions of `before` stood at `index`, with the border `at`.
    pub(in crate::lineage) fn unmerge(&mut self, index: usize, at: Box<[u8]>, before: [PartitionState; 2]) {
        let [lower, upper] = before;
        self.splits.insert(index, at);
        if let Some(partition) = self.partitions.get_mut(index) {
            *partition = lower;
        }
        self.partitions.insert(index + 1, upper);
    }

    /// Returns whether a partition still names `meta`, which another partition has removed.
    pub(in crate::lineage) fn still_names(&self, meta: &TableMeta) -> bool {
        let first = self.splits.partition_point(|split| **split <= *meta.key_min);
        let last = self.splits.partition_point(|split| **split <= *meta.key_max);
        // A table that lies within one partition was in no other.
        last > first && self.partitions.iter().take(last + 1).skip(first).any(|partition| partition.names(meta.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::table;

    fn keyspace(splits: &[&str]) -> KeyspaceState {
        let splits: Vec<Box<[u8]>> = splits.iter().map(|split| split.as_bytes().into()).collect();
        let mut keyspace = KeyspaceState::new("k", &splits);
        keyspace.partitions[0].flushed = SeqNo(7);
        keyspace.partitions[0].levels = vec![vec![table(9, "a", "k"), table(8, "b", "d")], vec![table(1, "a", "f")]];
        keyspace
    }

    fn ids(partition: &PartitionState) -> Vec<Vec<u64>> {
        partition.levels.iter().map(|level| level.iter().map(|meta| meta.id.0).collect()).collect()
    }

    #[test]
    fn each_side_of_a_split_has_the_tables_with_keys_of_it_in_their_order() {
        let mut state = keyspace(&["m"]);
        assert_eq!(state.split(PartitionId(0), b"e", PartitionId(2)), Ok(0));
        assert_eq!(state.splits, [Box::from(&b"e"[..]), Box::from(&b"m"[..])]);
        assert_eq!(state.partitions.iter().map(|partition| partition.id.0).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(ids(&state.partitions[0]), [vec![9, 8], vec![1]]);
        assert_eq!(ids(&state.partitions[1]), [vec![9], vec![1]]);
        assert_eq!((state.partitions[1].flushed, state.next_partition), (SeqNo(7), PartitionId(3)));
        assert!(!state.is_numbered_in_order() && keyspace(&["m"]).is_numbered_in_order());
    }

    #[test]
    fn a_table_is_named_until_the_last_partition_with_it_lets_go() {
        let mut state = keyspace(&[]);
        state.split(PartitionId(0), b"c", PartitionId(1)).unwrap();
        state.split(PartitionId(1), b"e", PartitionId(2)).unwrap();
        let shared = table(9, "a", "k");
        for index in [1, 0, 2] {
            assert!(state.still_names(&shared));
            state.partitions[index].levels[0].retain(|meta| meta.id != shared.id);
        }
        assert!(!state.still_names(&shared));
        assert!(!state.still_names(&table(8, "b", "bb")), "nobody looks for what lies in one partition");
    }

    #[test]
    fn neighbours_that_share_no_table_merge() {
        let mut state = keyspace(&[]);
        state.partitions[0].levels = vec![vec![table(9, "f", "k"), table(8, "b", "d")], vec![table(1, "a", "d")]];
        state.split(PartitionId(0), b"e", PartitionId(1)).unwrap();
        state.partitions[1].flushed = SeqNo(9);
        state.partitions[1].levels.push(vec![table(2, "e", "g")]);
        let before = state.clone();
        assert_eq!(state.merge(PartitionId(0), PartitionId(1)), Ok((0, Box::from(&b"e"[..]))));
        assert_eq!(ids(&state.partitions[0]), [vec![8, 9], vec![1], vec![2]]);
        assert_eq!((state.partitions.len(), state.splits.len()), (1, 0));
        assert_eq!((state.partitions[0].flushed, state.next_partition), (SeqNo(9), PartitionId(2)));
        state.unmerge(0, b"e"[..].into(), before.partitions.clone().try_into().unwrap());
        assert_eq!(state, before);
    }

    #[test]
    fn merges_of_strangers_of_the_created_or_of_those_that_share_a_table_are_refused() {
        let merge = |state: &KeyspaceState, id, next| {
            let mut changed = state.clone();
            let refused = changed.merge(PartitionId(id), PartitionId(next)).unwrap_err();
            assert_eq!(changed, *state);
            refused
        };
        let mut state = keyspace(&["m"]);
        assert!(merge(&state, 0, 1).contains("created"));
        state.split(PartitionId(0), b"c", PartitionId(2)).unwrap();
        for (id, next, reason) in
            [(0, 2, "share"), (0, 1, "not the next"), (1, 2, "no neighbour"), (7, 0, "no partition")]
        {
            let refused = merge(&state, id, next);
            assert!(refused.contains(reason), "{refused}");
        }
        state.partitions[0].levels.clear();
        assert!(merge(&state, 0, 2).contains("share"), "the upper one alone has it still");
    }

    #[test]
    fn splits_without_two_sides_or_with_an_id_that_was_used_are_refused() {
        for (id, at, into) in [(3, "e", 2), (0, "", 2), (0, "m", 2), (0, "z", 2), (1, "m", 2), (0, "e", 1)] {
            let mut state = keyspace(&["m"]);
            assert!(state.split(PartitionId(id), at.as_bytes(), PartitionId(into)).is_err(), "{id} {at} {into}");
            assert_eq!(state, keyspace(&["m"]));
        }
        assert!(keyspace(&[]).split(PartitionId(0), b"e", PartitionId(u64::MAX)).is_err());
    }

    #[test]
    fn ids_are_each_their_own_and_below_the_next() {
        let number = |next, ids: &[u64]| {
            let ids: Vec<PartitionId> = ids.iter().copied().map(PartitionId).collect();
            keyspace(&["m"]).number(1, PartitionId(next), &ids)
        };
        assert_eq!(number(10, &[9, 0]), Ok(()));
        for (next, ids) in [(10, &[9, 9][..]), (9, &[9, 0]), (10, &[9]), (10, &[0, 1, 2])] {
            assert!(number(next, ids).is_err());
        }
    }
}
