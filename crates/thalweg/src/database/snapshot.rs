//! [`Snapshot`]: a consistent state of all keyspaces.

use super::directory_keyspace::{DirectoryKeyspace, DirectorySnapshot};
use super::engine::Engine;
use super::key_bounds::{KeyBounds, owned};
use super::keyspace::Keyspace;
use super::limits::validate_key;
use super::range::Range;
use super::readable::Readable;
use crate::error::{Error, Result};
use crate::format::Slice;
use crate::keyspaces::SnapshotSeq;
use crate::ordered::cursor::Bounds;
use std::fmt;
use std::sync::Arc;

/// All keyspaces as they were at one moment. Cloning is cheap. While it lives, compactions keep the versions that it
/// sees.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-snapshot-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let levels = db.keyspace("levels")?;
/// levels.insert("Basel", "245 m")?;
/// let before = db.snapshot();
/// levels.insert("Basel", "246 m")?;
/// assert_eq!(before.get(&levels, "Basel")?.as_deref(), Some(b"245 m".as_slice()));
/// # drop(before); db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    engine: Arc<Engine>,
    seq: Arc<SnapshotSeq>,
}

impl Snapshot {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        let seq = Arc::new(engine.pin());
        Snapshot { engine, seq }
    }

    fn owns(&self, keyspace: &Keyspace) -> Result<()> {
        if keyspace.is_of(&self.engine) {
            return Ok(());
        }
        Err(Error::invalid_input("the keyspace belongs to another database than the snapshot"))
    }

    /// The value `key` had.
    ///
    /// # Errors
    /// As for [`Keyspace::get`]; `InvalidInput` for a keyspace of another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.owns(keyspace)?;
        let key = key.as_ref();
        validate_key(key)?;
        keyspace.ordered_at(self.seq.seq())?.super_version_for(key)?.get(key, self.seq.seq())
    }

    /// The values that several keys had, in the order of `keys`.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.owns(keyspace)?;
        keyspace.multi_get_at(self.seq.seq(), keys)
    }

    /// Whether `key` had a value. The value is not copied.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.owns(keyspace)?;
        let key = key.as_ref();
        validate_key(key)?;
        keyspace.ordered_at(self.seq.seq())?.super_version_for(key)?.contains(key, self.seq.seq())
    }

    /// All entries of a keyspace, in key order.
    pub fn iter(&self, keyspace: &Keyspace) -> Range {
        self.range(keyspace, ..)
    }

    /// The entries with keys in `range`, in key order. A range that ends before it begins is empty.
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyBounds) -> Range {
        self.entries(keyspace, owned(&range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        self.entries(keyspace, Bounds::prefix(prefix.as_ref()))
    }

    /// One keyspace as it was at that moment, for code that takes any [`Readable`].
    pub fn keyspace(&self, keyspace: &Keyspace) -> SnapshotKeyspace {
        SnapshotKeyspace { snapshot: self.clone(), keyspace: keyspace.clone() }
    }

    /// A directory keyspace as it was at that moment.
    ///
    /// # Errors
    /// `InvalidInput` for a keyspace of another database.
    pub fn directory_keyspace(&self, keyspace: &DirectoryKeyspace) -> Result<DirectorySnapshot> {
        self.owns(keyspace.inner())?;
        Ok(DirectorySnapshot::new(keyspace.clone(), Arc::clone(&self.seq)))
    }

    fn entries(&self, keyspace: &Keyspace, bounds: Bounds) -> Range {
        match self.owns(keyspace) {
            Ok(()) => keyspace.entries_at(&self.seq, bounds),
            Err(error) => Range::failed(&self.engine, &self.seq, error),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.seq.seq().0).finish_non_exhaustive()
    }
}

/// One keyspace as it was when a [`Snapshot`] was taken; read through [`Readable`].
#[derive(Clone, Debug)]
pub struct SnapshotKeyspace {
    snapshot: Snapshot,
    keyspace: Keyspace,
}

impl Readable for SnapshotKeyspace {
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.snapshot.get(&self.keyspace, key)
    }

    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.snapshot.contains_key(&self.keyspace, key)
    }

    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.snapshot.multi_get(&self.keyspace, keys)
    }

    fn range(&self, range: impl KeyBounds) -> Range {
        self.snapshot.range(&self.keyspace, range)
    }

    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.snapshot.prefix(&self.keyspace, prefix)
    }
}
