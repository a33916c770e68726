//! [`EngineStore`]: the rows of a volume in a Thalweg database, entries in a directory keyspace.

use super::{
    Batch, Directories, Listed, Listing, MetaStore, NAMES, Operation, Promise, RowReader, Rows, Space, WhenDurable,
};
use crate::error::{Error, Result};
use crate::row::Ino;
use std::sync::{Mutex, PoisonError};
use thalweg::{CommitTicket, Database, DirectoryKeyspace, DirectorySnapshot, Keyspace, Slice, Snapshot, WriteOptions};

/// A volume's rows in a Thalweg database.
pub struct EngineStore {
    /// `None` once it is closed.
    database: Mutex<Option<Database>>,
    handle: Database,
    names: DirectoryKeyspace,
    spaces: [Keyspace; Space::ALL.len()],
}

impl EngineStore {
    /// The keyspaces of a volume in `database`, which are made where they are missing.
    ///
    /// # Errors
    /// Those of [`Database::keyspace`].
    pub fn new(database: Database) -> Result<Self> {
        let names = database.directory_keyspace(NAMES)?;
        let [inodes, data, xattrs, objects, reclaim, volume] = Space::ALL.map(|space| database.keyspace(space.name()));
        let spaces = [inodes?, data?, xattrs?, objects?, reclaim?, volume?];
        Ok(EngineStore { handle: database.clone(), database: Mutex::new(Some(database)), names, spaces })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.handle
    }

    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl RowReader for EngineStore {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        Ok(self.names.get(directory, name)?)
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        Box::new(self.names.list_from(directory, cursor).in_parts_of(wanted).map(listed))
    }

    fn directories(&self) -> Directories<'_> {
        Box::new(self.names.directories().map(|number| Ok(number?)))
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.space(space).get(key)?)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        Box::new(self.space(space).range(from..to).map(|entry| Ok(entry?)))
    }
}

/// A volume's rows as of one moment.
struct EngineSnapshot<'s> {
    snapshot: Snapshot,
    names: DirectorySnapshot,
    spaces: &'s [Keyspace; Space::ALL.len()],
}

impl RowReader for EngineSnapshot<'_> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        Ok(self.names.get(directory, name)?)
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        Box::new(self.names.list_from(directory, cursor).in_parts_of(wanted).map(listed))
    }

    fn directories(&self) -> Directories<'_> {
        Box::new(self.names.directories().map(|number| Ok(number?)))
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.snapshot.get(&self.spaces[space as usize], key)?)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        Box::new(self.snapshot.range(&self.spaces[space as usize], from..to).map(|entry| Ok(entry?)))
    }
}

fn listed(entry: thalweg::Result<thalweg::DirectoryEntry>) -> Result<Listed> {
    let entry = entry?;
    Ok(Listed { name: entry.name().into(), row: entry.value()?, cursor: entry.cursor() })
}

impl MetaStore for EngineStore {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        let snapshot = self.handle.snapshot();
        let names = snapshot.directory_keyspace(&self.names)?;
        Ok(Box::new(EngineSnapshot { snapshot, names, spaces: &self.spaces }))
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let mut written = self.handle.batch();
        for operation in batch.operations() {
            match operation {
                Operation::Entry { directory, name, row: Some(row) } => {
                    written.insert_entry(&self.names, *directory, name, row)?;
                }
                Operation::Entry { directory, name, row: None } => {
                    written.remove_entry(&self.names, *directory, name)?;
                }
                Operation::Row { space, key, row: Some(row) } => written.insert(self.space(*space), key, row)?,
                Operation::Row { space, key, row: None } => written.remove(self.space(*space), key)?,
            }
        }
        Ok(written.commit_with(WriteOptions::new().frees_space(batch.frees_space()))?)
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        Ok(Box::new(self.handle.ticket()?))
    }

    fn close(&self) -> Result<()> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner).take();
        database.map_or(Ok(()), |database| Ok(database.close()?))
    }
}

impl Promise for CommitTicket {
    fn is_durable(&self) -> bool {
        CommitTicket::is_durable(self)
    }

    fn wait(&self) -> Result<()> {
        Ok(CommitTicket::wait(self)?)
    }

    fn when_durable(&self, done: WhenDurable) {
        self.on_durable(move |result| done(result.map_err(Error::from)));
    }
}
