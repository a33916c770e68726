//! [`Keyspace`]: the handle of a named map.

use super::handle::{Shared, validate_key, validate_value};
use super::options::Durability;
use super::range::Range;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::Slice;
use crate::log::Operation;
use crate::ordered::OrderedKeyspace;
use crate::runtime::Point;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A named map of byte keys to byte values, in key order. Cloning is cheap; handles may be used from any thread.
///
/// Keys have 1 byte to 64 KiB, values 0 bytes to 64 MiB.
#[derive(Clone)]
pub struct Keyspace {
    shared: Arc<Shared>,
    ordered: Arc<OrderedKeyspace>,
}

impl Keyspace {
    pub(super) fn new(shared: Arc<Shared>, ordered: Arc<OrderedKeyspace>) -> Self {
        Keyspace { shared, ordered }
    }

    /// Whether both belong to the same open database.
    pub(super) fn shares(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The keyspace itself, unless it was dropped or the database closed.
    pub(super) fn ordered(&self) -> Result<&Arc<OrderedKeyspace>> {
        self.shared.engine.readable()?;
        if self.ordered.is_dropped() {
            return Err(self.ordered.no_keyspace());
        }
        Ok(&self.ordered)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.shared))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.ordered.name
    }

    /// Sets `key` to `value`, with the database's default durability.
    ///
    /// # Errors
    /// `InvalidInput` for sizes; `NoKeyspace` after a drop; `NoSpace` (try again once there is room); `Poisoned`,
    /// `Closed`, `ReadOnly`.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.insert_with(key, value, self.shared.engine.options.durability)
    }

    /// As [`Keyspace::insert`], with a durability of its own.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`]. A `Sync` write that gives an error may be visible until the close and may or may
    /// not survive it.
    pub fn insert_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        validate_key(key)?;
        validate_value(value)?;
        self.shared.engine.writable()?;
        let ordered = self.ordered()?;
        let operation = Operation::Put { keyspace: ordered.id, key, value };
        self.shared.engine.write_one(&operation, ordered.layout().partition_for(key), durability)
    }

    /// Removes `key`; nothing happens when it is not there.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        validate_key(key)?;
        self.shared.engine.writable()?;
        let ordered = self.ordered()?;
        let operation = Operation::Remove { keyspace: ordered.id, key };
        let durability = self.shared.engine.options.durability;
        self.shared.engine.write_one(&operation, ordered.layout().partition_for(key), durability)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// `InvalidInput` for the key's size; `Corruption` of a table; `NoKeyspace`, `Closed`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        validate_key(key)?;
        let view = self.ordered()?.view_for(key)?;
        self.shared.engine.environment.point(Point::Viewed);
        // The view first: everything visible at the call is in it, and whatever a compaction dropped from it is
        // shadowed by a version that was visible before the view was made.
        let seq = self.shared.engine.visible();
        view.get(key, seq)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of several keys, all as of one moment, in the order asked.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.snapshot().multi_get(self, keys)
    }

    /// All entries in key order, as of now; `rev()` gives them backwards.
    pub fn iter(&self) -> Range {
        self.range::<&[u8]>(..)
    }

    /// The entries with keys in `range`, in key order, as of now. A range that ends before it begins is empty.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        self.snapshot().range(self, range)
    }

    /// The entries whose keys begin with `prefix`, in key order, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.snapshot().prefix(self, prefix)
    }
}

/// Refuses names that a record cannot hold.
pub(super) fn validate_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Error::invalid_input(format!("a keyspace name has 1 to 255 bytes, this one {}", name.len())));
    }
    Ok(())
}

/// Split points ascend and are keys; at most 1 MiB of them.
pub(super) fn validate_splits(splits: &[&[u8]]) -> Result<()> {
    splits.iter().try_for_each(|split| validate_key(split))?;
    if !splits.is_sorted_by(|a, b| a < b) {
        return Err(Error::invalid_input("split points ascend, each once"));
    }
    if splits.iter().map(|split| split.len()).sum::<usize>() > 1 << 20 {
        return Err(Error::invalid_input("split points have at most 1 MiB in all"));
    }
    Ok(())
}
