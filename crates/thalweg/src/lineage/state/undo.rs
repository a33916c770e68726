//! [`TakeBack`]: how to return from an edit to the state before it.

use crate::format::{EditId, KeyspaceId, LogMark, PartitionId, SeqNo, TableId};
use crate::lineage::state::keyspace::{KeyspaceState, PartitionState};
use crate::lineage::state::live::{LevelPlace, State};
use crate::table::TableMeta;
use std::collections::BTreeSet;

/// The steps and values that return a state to what it was before an edit.
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
pub(in crate::lineage) enum Undo {
    Uncreate(KeyspaceId),
    /// Takes back a drop or a clear.
    Undrop(KeyspaceId, KeyspaceState),
    Unadd {
        at: LevelPlace,
        index: usize,
    },
    Unremove {
        at: LevelPlace,
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
    /// Takes back what an edit did to the fast tables of a partition. `removed`: the table that it removed.
    Fast {
        keyspace: KeyspaceId,
        partition: PartitionId,
        before: Vec<TableMeta>,
        removed: Option<TableMeta>,
    },
}

impl State {
    /// Returns to the state before the last edit, which gave `before`.
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

    /// Takes back one step.
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
            Undo::Fast { keyspace, partition, before, .. } => {
                if let Ok(state) = self.partition(keyspace, partition) {
                    state.fast = before;
                }
            }
            Undo::Unadd { at, index } => {
                if let Some(level) = self.level(at) {
                    level.remove(index);
                }
            }
            Undo::Unremove { at, index, meta } => {
                if let Ok(partition) = self.partition(at.keyspace, at.partition) {
                    // A trim may have removed the emptied level.
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
}

impl TakeBack {
    /// Remembers the numbers of `state`; there are no steps yet.
    pub(in crate::lineage) fn new(state: &State) -> Self {
        let State { next_keyspace, next_table, log_start, edit, seq, .. } = *state;
        TakeBack { steps: Vec::new(), next_keyspace, next_table, log_start, edit, seq }
    }

    /// Returns the list to which each step of the edit appends its undo step.
    pub(in crate::lineage) fn steps(&mut self) -> &mut Vec<Undo> {
        &mut self.steps
    }

    /// Returns the tables that the edit removed from one partition while another partition still names them.
    pub(in crate::lineage) fn still_named(&self, state: &State) -> BTreeSet<TableId> {
        let mut named = BTreeSet::new();
        for step in &self.steps {
            let (keyspace, meta) = match step {
                Undo::Unremove { at, meta, .. } => (&at.keyspace, meta),
                Undo::Fast { keyspace, removed: Some(meta), .. } => (keyspace, meta),
                _ => continue,
            };
            if state.keyspaces.get(keyspace).is_some_and(|keyspace| keyspace.still_names(meta)) {
                named.insert(meta.id);
            }
        }
        named
    }
}
