//! [`Contents`]: what a manifest says, read from its bytes (`docs/format/manifest.md`, Order; Damage and torn tails).
//!
//! Pure; no bytes make it panic.

use crate::error::{Error, Result};
use crate::format::{EditId, KeyspaceId, LogMark, PartitionId, TableId};
use crate::lineage::manifest::fields::Undecodable;
use crate::lineage::manifest::fragments::{Damage, Scanned, scan};
use crate::lineage::manifest::header::{HEADER_BYTES, ManifestHeader, VERSION};
use crate::lineage::manifest::record::Record;
use crate::lineage::state::edit::{Edit, FastPlace};
use crate::lineage::state::live::{LevelPlace, State};
use crate::table::TableMeta;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

/// The contents of the valid part of a manifest.
#[derive(Debug)]
pub(in crate::lineage) struct Contents {
    pub(in crate::lineage) header: ManifestHeader,
    /// The state at the last settled edit.
    pub(in crate::lineage) settled: State,
    /// The edits after that one.
    pub(in crate::lineage) unsettled: VecDeque<(EditId, Edit)>,
    /// The end of the log, if the manifest ends with a clean close.
    pub(in crate::lineage) closed: Option<LogMark>,
    /// Where the valid part ends.
    pub(in crate::lineage) end: u64,
    /// The damage after the valid part, if there is any.
    #[cfg(test)]
    pub(in crate::lineage) tail: Option<Damage>,
    /// The corruption to report: something was durable once and is gone.
    pub(in crate::lineage) lost: Option<Error>,
}

impl Contents {
    /// Reads the manifest at `path` from its `bytes`. At least the first `durable` bytes were durable once.
    pub(in crate::lineage) fn read(path: &Path, bytes: &[u8], durable: u64) -> Result<Contents> {
        let header = ManifestHeader::decode(path, bytes)?;
        let Scanned { records, end, damage, synced } = scan(bytes, header.generation);
        let mut assembly = Assembly::default();
        for (offset, payload) in &records {
            let taken = match Record::decode(payload) {
                Ok(record) => assembly.take(record),
                Err(Undecodable::Newer) => return Err(Error::newer_version(path, VERSION + 1, VERSION)),
                Err(Undecodable::Malformed) => Err("bytes that are none".into()),
            };
            taken.map_err(|refusal| Error::corruption(path, *offset, "a record that fits its place", refusal))?;
        }
        let durable = durable.max(synced);
        let gone = |damage: Option<&Damage>| match damage {
            Some(damage) => Error::corruption(path, damage.offset, damage.expected, damage.found.clone()),
            None => Error::corruption(path, end, format!("{durable} bytes that were durable"), "the end of the file"),
        };
        if assembly.part != Part::Edits {
            return Err(match &damage {
                Some(_) => gone(damage.as_ref()),
                None => Error::corruption(path, end, "the rest of the snapshot", "the end of the file"),
            });
        }
        let lost = (end < durable).then(|| gone(damage.as_ref()));
        let Assembly { state: settled, unsettled, closed, .. } = assembly;
        Ok(Contents {
            header,
            settled,
            unsettled,
            closed,
            end,
            #[cfg(test)]
            tail: damage,
            lost,
        })
    }

    /// Returns the state after all edits.
    pub(in crate::lineage) fn last(&self, path: &Path) -> Result<State> {
        let mut state = self.settled.clone();
        for (id, edit) in &self.unsettled {
            apply(path, &mut state, edit, *id)?;
        }
        Ok(state)
    }
}

/// Applies an edit that the manifest at `path` holds; an edit that does not fit is corruption.
pub(in crate::lineage) fn apply(path: &Path, state: &mut State, edit: &Edit, id: EditId) -> Result<()> {
    let refused = |refusal| Error::corruption(path, HEADER_BYTES, format!("an edit {id} that fits"), refusal);
    state.apply(edit, id).map_err(refused)
}

/// The part of a manifest that the next record belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Start,
    Snapshot,
    Edits,
}

/// Builds the contents from the records, one after the other.
#[derive(Default)]
struct Assembly {
    part: Part,
    state: State,
    tables: BTreeSet<TableId>,
    /// How many tables the records of the snapshot named. A table that partitions share counts once for each.
    named: u64,
    unsettled: VecDeque<(EditId, Edit)>,
    closed: Option<LogMark>,
}

impl Assembly {
    /// Takes the next record.
    fn take(&mut self, record: Record) -> std::result::Result<(), String> {
        if self.closed.is_some() {
            return Err("a record after the close".into());
        }
        match (self.part, record) {
            (Part::Start, Record::SnapshotBegin { edit, seq, next_keyspace, next_table, log_start }) => {
                let keyspaces = Default::default();
                self.state = State { keyspaces, next_keyspace, next_table, log_start, edit, seq };
                self.part = Part::Snapshot;
            }
            (Part::Snapshot, record) => self.take_snapshot(record)?,
            (Part::Edits, Record::Edit { id, edit }) => {
                let last = self.unsettled.back().map_or(self.state.edit, |(last, _)| *last);
                if last.0.checked_add(1) != Some(id.0) {
                    return Err(format!("edit {id} after edit {last}"));
                }
                self.unsettled.push_back((id, edit));
            }
            (Part::Edits, Record::Settled { edit }) => self.settle(edit)?,
            // A `round` record only makes the manifest grow before the sync of a round.
            (Part::Edits, Record::Round { edit }) => {
                let last = self.unsettled.back().map_or(self.state.edit, |(last, _)| *last);
                if edit > last {
                    return Err(format!("a round to edit {edit} after edit {last}"));
                }
            }
            (Part::Edits, Record::Closed { log_end, edit }) => {
                if !self.unsettled.is_empty() || edit != self.state.edit {
                    return Err(format!("a close at edit {edit}, with settled edit {}", self.state.edit));
                }
                self.closed = Some(log_end);
            }
            (part, record) => return Err(format!("{record:?} in part {part:?}")),
        }
        Ok(())
    }

    /// Takes a record of the snapshot.
    fn take_snapshot(&mut self, record: Record) -> std::result::Result<(), String> {
        match record {
            Record::SnapshotKeyspace { keyspace, name, splits, kind, flushed } => {
                let last = self.state.keyspaces.last_key_value().map(|(last, _)| *last);
                if last.is_some_and(|last| last >= keyspace) || keyspace >= self.state.next_keyspace {
                    return Err(format!("keyspace {keyspace} out of order"));
                }
                self.state.create_keyspace(keyspace, &name, &splits, kind)?;
                let content = self.state.keyspaces.get_mut(&keyspace).map(|keyspace| &mut keyspace.partitions);
                for (partition, flushed) in content.into_iter().flatten().zip(flushed) {
                    partition.flushed = flushed;
                }
            }
            Record::SnapshotPartitions { keyspace, created, next, ids } => {
                let content =
                    self.state.keyspaces.get_mut(&keyspace).ok_or_else(|| format!("no keyspace {keyspace}"))?;
                content.number(created, next, &ids)?;
            }
            Record::SnapshotTables { keyspace, partition, level, tables } => {
                for meta in tables {
                    self.take_table(keyspace, partition, &meta)?;
                    self.state.add(LevelPlace { keyspace, partition, level }, meta)?;
                }
            }
            Record::SnapshotFastTables { keyspace, partition, tables } => {
                for meta in tables {
                    self.take_table(keyspace, partition, &meta)?;
                    self.state.add_fast((keyspace, partition), (FastPlace::Newest, 0), meta)?;
                }
            }
            Record::SnapshotEnd { keyspaces, tables } => {
                let found = (self.state.keyspaces.len() as u64, self.named);
                if found != (keyspaces, tables) {
                    return Err(format!("the end of {keyspaces} keyspaces and {tables} tables after {found:?}"));
                }
                self.part = Part::Edits;
                self.tables.clear();
            }
            record => return Err(format!("{record:?} in a snapshot")),
        }
        Ok(())
    }

    /// Counts a table of the snapshot.
    fn take_table(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        meta: &TableMeta,
    ) -> std::result::Result<(), String> {
        if meta.id >= self.state.next_table {
            return Err(format!("table {} not below {}", meta.id, self.state.next_table));
        }
        let is_shared = self.state.sticks_out(keyspace, partition, meta);
        if !self.tables.insert(meta.id) && !is_shared {
            return Err(format!("table {} again", meta.id));
        }
        self.named += 1;
        Ok(())
    }

    /// Applies the edits up to `settled` to the settled state.
    fn settle(&mut self, settled: EditId) -> std::result::Result<(), String> {
        while self.unsettled.front().is_some_and(|(id, _)| *id <= settled) {
            let Some((id, edit)) = self.unsettled.pop_front() else { break };
            self.state.apply(&edit, id)?;
        }
        if self.state.edit != settled {
            return Err(format!("edit {settled} settled after edit {}", self.state.edit));
        }
        Ok(())
    }
}

/// Reads any bytes as a manifest, for fuzzing.
#[cfg(any(test, feature = "simulation"))]
pub(crate) fn fuzz_manifest(bytes: &[u8]) {
    let path = Path::new("manifest");
    if let Ok(contents) = Contents::read(path, bytes, 0) {
        let _ = contents.last(path);
    }
}
