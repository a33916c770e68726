//! [`Replay`]: replays the log into the keyspaces of the recovered state.
//!
//! Between two records the registry is that of a database which has written the first and not the second. So flushes
//! may run there ([`super::LogPins::set_replayed_to`]), after [`Replay::load`].

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
    registry: Arc<Registry>,
    /// The keyspaces of the registry.
    keyspaces: Arc<KeyspaceMap>,
    next_keyspace: KeyspaceId,
    is_loaded: bool,
    /// The last number of the last record.
    last: SeqNo,
    /// Bytes of the keys and values that it has inserted.
    inserted_bytes: u64,
}

/// The result of a replay.
pub(crate) struct Replayed {
    pub(crate) registry: Arc<Registry>,
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
        let registry = Arc::new(Registry::new(keyspaces));
        Ok(Replay {
            kind,
            log: root.join("log"),
            keyspaces: registry.keyspaces(),
            registry,
            next_keyspace: state.next_keyspace.max(KeyspaceId(1)),
            is_loaded: false,
            last: SeqNo(0),
            inserted_bytes: 0,
        })
    }

    /// The registry that the replay fills.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The last number of the last record.
    pub(crate) fn last(&self) -> SeqNo {
        self.last
    }

    /// Bytes of the keys and values that it has inserted.
    pub(crate) fn inserted_bytes(&self) -> u64 {
        self.inserted_bytes
    }

    /// Applies a record, which begins at `mark` and whose first operation has the number `first`. Returns whether that
    /// filled a buffer.
    pub(crate) fn record(&mut self, mark: LogMark, first: SeqNo, record: &Record) -> Result<bool> {
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
        // Seals only where a record ends, so that all entries of a record are on one side of a seal.
        self.last = SeqNo(seq.0 - 1);
        filled.iter().for_each(|keyspace| keyspace.seal_replayed(self.last));
        Ok(!filled.is_empty())
    }

    /// Lets the keyspaces read what they must know of their tables. Comes before the first flush: a flush adds to this
    /// data, and keyspaces that the log creates have no other.
    pub(crate) fn load(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_loaded, true) {
            self.keyspaces.iter().try_for_each(|keyspace| keyspace.load())?;
        }
        Ok(())
    }

    /// Bytes of the keys and values of a record: at most what [`Replay::record`] would insert.
    pub(crate) fn bytes_of(record: &Record) -> u64 {
        let of = |operation| match operation {
            Operation::Put { key, value, .. } => (key.len() + value.len()) as u64,
            Operation::Remove { key, .. } => key.len() as u64,
            _ => 0,
        };
        record.operations().map(of).sum()
    }

    /// Ends the replay.
    pub(crate) fn finish(mut self) -> Result<Replayed> {
        self.load()?;
        Ok(Replayed { registry: self.registry, next_keyspace: self.next_keyspace })
    }

    /// Inserts an entry unless it is in a table already or its keyspace is gone. Returns the keyspace if that filled a
    /// buffer of it.
    fn entry(&mut self, keyspace: KeyspaceId, entry: ReplayedEntry<'_>) -> Result<Option<Arc<dyn Keyspace>>> {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        let (inserted, is_full) = match self.existing(entry.mark, keyspace)? {
            Some(found) => {
                let inserted = found.replay(entry);
                (inserted.is_some(), inserted.filter(|is_full| *is_full).map(|_| Arc::clone(found)))
            }
            None => (false, None),
        };
        self.inserted_bytes += if inserted { bytes } else { 0 };
        Ok(is_full)
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
        let (creation, seq) = (new.change(), new.after);
        let keyspace = self.kind.create(new);
        self.define(|registry| registry.create(keyspace, creation, mark, seq));
    }

    fn clear(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) -> Result<()> {
        let Some(keyspace) = self.existing(mark, id)?.cloned() else { return Ok(()) };
        // The generation before the clear has no table with a record of that number, and the one after it has only such
        // tables.
        if keyspace.was_flushed_at(seq) {
            return Ok(());
        }
        self.define(|registry| registry.clear(&keyspace, mark, seq));
        Ok(())
    }

    fn drop_keyspace(&mut self, mark: LogMark, id: KeyspaceId, seq: SeqNo) {
        if let Some(keyspace) = self.keyspaces.get(id).cloned() {
            self.define(|registry| registry.drop_keyspace(&keyspace, mark, seq));
        }
    }

    /// Changes the registry.
    fn define(&mut self, change: impl FnOnce(&Registry)) {
        // Releases the map, so that the registry need not copy it.
        self.keyspaces = Arc::default();
        change(&self.registry);
        self.keyspaces = self.registry.keyspaces();
    }
}
