//! [`Readable`]: the reads that a live keyspace, one in a snapshot and one of a read-only database have in common.

use super::key_bounds::KeyBounds;
use super::keyspace::Keyspace;
use super::range::{Entry, Range};
use crate::error::Result;
use crate::format::Slice;

/// Reads of one keyspace: of a [`Keyspace`] as of now, of a [`crate::SnapshotKeyspace`] as of its snapshot, of a
/// [`crate::ReadOnlyKeyspace`].
///
/// ```
/// use thalweg::{Readable, Result};
///
/// fn length_km(rivers: &impl Readable, name: &str) -> Result<Option<u64>> {
///     Ok(rivers.get(name)?.and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok()))
/// }
///
/// # fn main() -> Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-readable-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.insert("Rhine", "1320")?;
/// let before = db.snapshot();
/// rivers.insert("Rhine", "1233")?;
/// assert_eq!(length_km(&before.keyspace(&rivers), "Rhine")?, Some(1320));
/// assert_eq!(length_km(&rivers, "Rhine")?, Some(1233));
/// # drop(before); db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
///
/// The errors of every call are those of [`Keyspace::get`]; a [`Range`] gives them as its first item.
pub trait Readable {
    /// The value of `key`.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>>;

    /// Whether `key` has a value. The value is not copied.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool>;

    /// The values of several keys, all as of one moment, in the order of `keys`.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>>;

    /// The entries with keys in `range`, in key order.
    fn range(&self, range: impl KeyBounds) -> Range;

    /// The entries whose keys begin with `prefix`, in key order.
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range;

    /// All entries in key order.
    fn iter(&self) -> Range {
        self.range(..)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn first(&self) -> Result<Option<Entry>> {
        self.iter().next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn last(&self) -> Result<Option<Entry>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// See [`Keyspace::get`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }
}

impl Readable for Keyspace {
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        Keyspace::get(self, key)
    }

    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Keyspace::contains_key(self, key)
    }

    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        Keyspace::multi_get(self, keys)
    }

    fn range(&self, range: impl KeyBounds) -> Range {
        Keyspace::range(self, range)
    }

    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Keyspace::prefix(self, prefix)
    }
}
