//! [`Replay`]: the keyspaces that the log makes of the recovered state.

use super::definitions::{Definition, Definitions};
use super::keyspace::{Keyspace, Kind, NewKeyspace, ReplayedEntry};
use super::registry::{KeyspaceMap, Registry};
use crate::error::{Error, Result};
use crate::format::{EntryKind, KeyspaceId, LogMark, SeqNo};
use crate::lineage::State;
use crate::log::{Operation, Record};
use crate::table::TableStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
pub(crate) struct Replay<'a> {
    kind: &'a dyn Kind,
    /// The directory of the log, for errors.
    log: PathBuf,
    keyspaces: KeyspaceMap,
    definitions: Definitions,
    next_keyspace: KeyspaceId,
}

/// What a replay has made.
pub(crate) struct Replayed {
    pub(crate) registry: Registry,
    /// The first id that no keyspace has had.
    pub(crate) next_keyspace: KeyspaceId,
}

impl<'a> Replay<'a> {
    /// Begins with the keyspaces of `state`, of a database in `root`.
    pub(crate) fn new(kind: &'a dyn Kind, state: &State, tables: &TableStore, root: &Path) -> Result<Self> {
        let mut keyspaces = KeyspaceMap::default();
        for (id, keyspace) in &state.keyspaces {
            keyspaces.insert(kind.recover(*id, keyspace, tables)?);
        }
        Ok(Replay {
            kind,
            log: root.join("log"),
            keyspaces,
            definitions: Definitions::default(),
            next_keyspace: state.next_keyspace.max(KeyspaceId(1)),
        })
    }

    /// Applies a record, which begins at `mark` and whose first operation has the number `first`.
    pub(crate) fn record(&mut self, mark: LogMark, first: SeqNo, record: &Record) -> Result<()> {
        let mut seq = first;
        let mut filled: Vec<Arc<dyn Keyspace>> = Vec::new();
        for operation in record.operations() {
            match operation {
                Operation::Put { keyspace, key, value } => {
                    let entry = ReplayedEntry { mark, key, seq, kind: EntryKind::Put, value };
                    filled.extend(self.entry(keyspace, entry)?);
                }
                Operation::Remove { keyspace, key } => {
                    let entry = ReplayedEntry { mark, key, seq, kind: EntryKind::Remove, value: &[] };
                    filled.extend(self.entry(keyspace, entry)?);
                }
                Operation::CreateKeyspace { keyspace, name, splits, kind } => {
                    let splits = splits.into_iter().map(Box::from).collect();
                    self.create(mark, NewKeyspace { id: keyspace, name, splits, kind, after: seq });
                }
                Operation::DropKeyspace { keyspace } => self.drop_keyspace(mark, keyspace, seq),
                Operation::ClearKeyspace { keyspace } => self.clear(mark, keyspace, seq)?,
            }
            seq = SeqNo(seq.0 + 1);
        }
        // Where the record ends: all its entries are on one side of a seal.
        filled.iter().for_each(|keyspace| keyspace.seal_replayed(SeqNo(seq.0 - 1)));
        Ok(())
    }

    /// Ends the replay: the keyspaces read what they must know of their tables.
    pub(crate) fn finish(self) -> Result<Replayed> {
        self.keyspaces.iter().try_for_each(|keyspace| keyspace.load())?;
        Ok(Replayed { registry: Registry::new(self.keyspaces, self.definitions), next_keyspace: self.next_keyspace })
    }

    /// Inserts an entry unless it is in a table already or its keyspace is gone. Returns the keyspace if that filled a
    /// buffer of it.
    fn entry(&self, keyspace: KeyspaceId, entry: ReplayedEntry<'_>) -> Result<Option<Arc<dyn Keyspace>>> {
        let Some(found) = self.existing(entry.mark, keyspace)? else { return Ok(None) };
        Ok(found.replay(entry).then(|| Arc::clone(found)))
    }

    /// The keyspace, or `None` when it is gone.
    fn existing(&self, mark: LogMark, id: KeyspaceId) -> Result<Option<&Arc<dyn Keyspace>>> {
        match self.keyspaces.get(id) {
            None if id >= self.next_keyspace => Err(Error::corruption(
                &self.log,
                mark.position.raw(),
                format!("a keyspace below {}", self.next_keyspace),
                format!("a record of keyspace {id}"),
            )),
            found => Ok(found),
        }
    }

    fn create(&mut self, mark: LogMark, new: NewKeyspace<'_>) {
        if new.id < self.next_keyspace {
            return; // The manifest knows it, or knows that it was dropped.
        }
        self.next_keyspace = KeyspaceId(new.id.0 + 1);
        self.definitions.push(Definition::create(new.change(), mark, new.after));
        self.keyspaces.insert(self.kind.create(new));
    }

    fn clear(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) -> Result<()> {
        let Some(keyspace) = self.existing(mark, id)?.cloned() else { return Ok(()) };
        // The generation before has no table with a record of that number, and the one after it has only such tables.
        if keyspace.was_flushed_at(seq) {
            return Ok(());
        }
        self.keyspaces.insert(Arc::clone(&keyspace).next_generation(seq));
        self.definitions.push(Definition::clear(keyspace, mark, seq));
        Ok(())
    }

    fn drop_keyspace(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) {
        if let Some(keyspace) = self.keyspaces.remove(id) {
            keyspace.lifecycle().set_dropped();
            self.definitions.push(Definition::drop(keyspace, mark, seq));
        }
    }
}
