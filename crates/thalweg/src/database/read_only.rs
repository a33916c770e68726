//! [`ReadOnlyDatabase`] and [`ReadOnlyKeyspace`]: handles without calls that write.

use super::directory_keyspace::DirectorySnapshot;
use super::handle::Database;
use super::key_bounds::KeyBounds;
use super::keyspace::Keyspace;
use super::range::Range;
use super::readable::Readable;
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::format::Slice;
use std::fmt;
use std::sync::Arc;

/// A database that cannot be written through this handle.
///
/// [`crate::Builder::open_read_only`] gives one that stays as it was at the open. Made [`From`] a [`Database`] it is a
/// handle of that database, for code that only reads. Cloning is cheap; the last handle to be dropped closes it.
///
/// ```
/// use thalweg::{Database, Readable};
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-read-only-{}", std::process::id()));
/// # let db = Database::open(&dir)?;
/// # db.keyspace("rivers")?.insert("Rhine", "1233 km")?;
/// # db.close()?;
/// let db = Database::builder(&dir).open_read_only()?;
/// assert_eq!(db.keyspace("rivers")?.get("Rhine")?.as_deref(), Some(b"1233 km".as_slice()));
/// # drop(db); let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReadOnlyDatabase(Database);

/// A keyspace that cannot be written through this handle: one of a [`ReadOnlyDatabase`], or made [`From`] a
/// [`Keyspace`]. It is read through [`Readable`].
#[derive(Clone)]
pub struct ReadOnlyKeyspace(Keyspace);

impl ReadOnlyDatabase {
    /// The keyspace of that name.
    ///
    /// # Errors
    /// `NoKeyspace` when there is none; `Closed`.
    pub fn keyspace(&self, name: &str) -> Result<ReadOnlyKeyspace> {
        self.existing_keyspace(name)?.ok_or_else(|| Error::NoKeyspace(Arc::from(name)))
    }

    /// The keyspace of that name, if there is one.
    ///
    /// # Errors
    /// `Closed`.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<ReadOnlyKeyspace>> {
        Ok(self.0.existing_keyspace(name)?.map(ReadOnlyKeyspace))
    }

    /// The directory keyspace of that name, if there is one, as it is now.
    ///
    /// # Errors
    /// `InvalidInput` when it is the name of an ordered keyspace; `Closed`.
    pub fn existing_directory_keyspace(&self, name: &str) -> Result<Option<DirectorySnapshot>> {
        Ok(self.0.existing_directory_keyspace(name)?.map(|keyspace| keyspace.snapshot()))
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.0.keyspaces()
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    /// See [`Database::dropped_by_recovery`].
    pub fn dropped_by_recovery(&self) -> &[String] {
        self.0.dropped_by_recovery()
    }

    /// See [`Database::draw_levels`].
    pub fn draw_levels(&self) -> String {
        self.0.draw_levels()
    }
}

impl From<Database> for ReadOnlyDatabase {
    fn from(database: Database) -> Self {
        ReadOnlyDatabase(database)
    }
}

impl From<Keyspace> for ReadOnlyKeyspace {
    fn from(keyspace: Keyspace) -> Self {
        ReadOnlyKeyspace(keyspace)
    }
}

impl ReadOnlyKeyspace {
    /// The name of the keyspace.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl Readable for ReadOnlyKeyspace {
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.0.get(key)
    }

    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.0.contains_key(key)
    }

    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.0.multi_get(keys)
    }

    fn range(&self, range: impl KeyBounds) -> Range {
        self.0.range(range)
    }

    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.0.prefix(prefix)
    }
}

impl fmt::Debug for ReadOnlyDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnlyDatabase").field("keyspaces", &self.keyspaces()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadOnlyKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnlyKeyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}
