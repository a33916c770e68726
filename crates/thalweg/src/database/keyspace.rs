//! [`Keyspace`]: the handle of a named map.

use super::handle::{Shared, validate_key, validate_value};
use super::key_bounds::KeyBounds;
use super::options::WriteOptions;
use super::range::{Entry, Range};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, SeqNo, Slice};
use crate::log::Operation;
use crate::ordered::{OrderedKeyspace, ViewGuard};
use crate::runtime::Point;
use arc_swap::{ArcSwap, Guard};
use std::fmt;
use std::sync::Arc;

/// A named map of byte keys to byte values, in key order. Cloning is cheap; handles may be used from any thread.
///
/// Keys have 1 byte to 64 KiB, values 0 bytes to 64 MiB.
pub struct Keyspace {
    shared: Arc<Shared>,
    name: Arc<str>,
    /// The generation that this handle has seen last; after a clear the registry has another one.
    ordered: ArcSwap<OrderedKeyspace>,
}

impl Clone for Keyspace {
    fn clone(&self) -> Self {
        let (shared, name) = (Arc::clone(&self.shared), Arc::clone(&self.name));
        Keyspace { shared, name, ordered: ArcSwap::new(self.ordered.load_full()) }
    }
}

impl Keyspace {
    pub(super) fn new(shared: Arc<Shared>, ordered: Arc<OrderedKeyspace>) -> Self {
        Keyspace { shared, name: Arc::from(ordered.name.as_str()), ordered: ArcSwap::new(ordered) }
    }

    /// Whether both belong to the same open database.
    pub(super) fn shares(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The keyspace itself, unless it was dropped or the database closed.
    pub(super) fn ordered(&self) -> Result<Guard<Arc<OrderedKeyspace>>> {
        self.shared.engine.readable()?;
        let ordered = self.ordered.load();
        if !ordered.is_dropped() {
            return Ok(ordered);
        }
        match self.shared.engine.registry().get(&ordered.id) {
            Some(cleared) => {
                self.ordered.store(Arc::clone(cleared));
                Ok(self.ordered.load())
            }
            None => Err(ordered.no_keyspace()),
        }
    }

    /// The generation that a snapshot of number `seq` reads.
    pub(super) fn ordered_at(&self, seq: SeqNo) -> Result<Guard<Arc<OrderedKeyspace>>> {
        let ordered = self.ordered()?;
        if seq >= ordered.cleared_at {
            return Ok(ordered);
        }
        let earlier = ordered.generation_at(seq).ok_or_else(|| ordered.no_keyspace())?;
        Ok(Guard::from_inner(earlier))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.shared))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets `key` to `value`, with the database's default durability.
    ///
    /// # Errors
    /// `InvalidInput` for sizes; `NoKeyspace` after a drop; `NoSpace` (try again once there is room); `Poisoned`,
    /// `Closed`.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.insert_with(key, value, WriteOptions::new())
    }

    /// As [`Keyspace::insert`], with options of its own.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`]. A `Sync` write that gives an error may be visible until the close and may or may
    /// not survive it.
    pub fn insert_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        validate_key(key)?;
        validate_value(value)?;
        self.write(key, options.into(), |keyspace| Operation::Put { keyspace, key, value })
    }

    /// Removes `key`; nothing happens when it is not there.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.remove_with(key, WriteOptions::new())
    }

    /// As [`Keyspace::remove`], with options of its own.
    ///
    /// # Errors
    /// As for [`Keyspace::insert_with`].
    pub fn remove_with(&self, key: impl AsRef<[u8]>, options: impl Into<WriteOptions>) -> Result<()> {
        let key = key.as_ref();
        validate_key(key)?;
        self.write(key, options.into(), |keyspace| Operation::Remove { keyspace, key })
    }

    fn write<'a>(
        &self,
        key: &[u8],
        options: WriteOptions,
        operation: impl FnOnce(KeyspaceId) -> Operation<'a>,
    ) -> Result<()> {
        let engine = &self.shared.engine;
        engine.writable()?;
        let ordered = self.ordered()?;
        let durability = engine.durability_of(options);
        engine.write_one(&operation(ordered.id), ordered.layout().partition_for(key), durability)
    }

    /// Removes every entry, durably when it returns, at a cost that does not depend on how many there are. What is
    /// written while it runs comes before it or after it, as everywhere; snapshots and ranges that were taken before
    /// still see what they saw. The background gives the space back once nobody reads it. The keyspace has the
    /// partitions again that it was created with.
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-clear-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.insert("alice", "since nine")?;
    /// let before = db.snapshot();
    /// sessions.clear()?;
    /// assert!(sessions.is_empty()?);
    /// assert!(before.contains_key(&sessions, "alice")?);
    /// # drop(before); db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoKeyspace` after a drop; what a `Sync` write can give.
    pub fn clear(&self) -> Result<()> {
        self.write_clear().map(drop)
    }

    /// As [`Keyspace::clear`]; gives the sequence number, by which a simulator orders writes.
    #[cfg(feature = "simulation")]
    pub fn clear_seq(&self) -> Result<u64> {
        Ok(self.write_clear()?.0)
    }

    fn write_clear(&self) -> Result<SeqNo> {
        let engine = &self.shared.engine;
        engine.writable()?;
        let _turn = engine.definition_turn.lock_blocking(&engine.environment);
        let ordered = Arc::clone(&*self.ordered()?);
        engine.write_clear(&ordered)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// `InvalidInput` for the key's size; `Corruption` of a table; `NoKeyspace`, `Closed`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        let (view, seq) = self.live_view(key)?;
        view.get(key, seq)
    }

    /// Whether `key` has a value. The value is not copied.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        let (view, seq) = self.live_view(key)?;
        view.contains(key, seq)
    }

    fn live_view(&self, key: &[u8]) -> Result<(ViewGuard, SeqNo)> {
        validate_key(key)?;
        loop {
            let ordered = self.ordered()?;
            let view = ordered.view_for(key);
            self.shared.engine.environment.point(Point::Viewed);
            // The view first: everything visible at the call is in it, and whatever a compaction dropped from it is
            // shadowed by a version that was visible before the view was made.
            let seq = self.shared.engine.visible();
            match view {
                Ok(view) if seq >= ordered.cleared_at => return Ok((view, seq)),
                Ok(_) => {
                    // The clear is not published yet: what was there before it is read.
                    let earlier = ordered.generation_at(seq).map(|earlier| earlier.view_for(key));
                    if let Some(Ok(view)) = earlier {
                        return Ok((view, seq));
                    }
                }
                Err(_) if ordered.is_cleared() => {}
                Err(dropped) => return Err(dropped),
            }
        }
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
        self.range(..)
    }

    /// The entries with keys in `range`, in key order, as of now. A range that ends before it begins is empty.
    ///
    /// Pages backwards: each page ends before the first key of the page before it.
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-range-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let log = db.keyspace("log")?;
    /// for number in 0..25_u32 {
    ///     log.insert(number.to_be_bytes(), "an entry")?;
    /// }
    /// let newest: Vec<_> = log.iter().keys().rev().take(10).collect::<Result<_, _>>()?;
    /// assert_eq!(newest[0], 24_u32.to_be_bytes());
    /// let last = newest.last().expect("a page of ten");
    /// let page: Vec<_> = log.range(..last).keys().rev().take(10).collect::<Result<_, _>>()?;
    /// assert_eq!(page[0], 14_u32.to_be_bytes());
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyBounds) -> Range {
        self.snapshot().range(self, range)
    }

    /// The entries whose keys begin with `prefix`, in key order, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.snapshot().prefix(self, prefix)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn first(&self) -> Result<Option<Entry>> {
        self.iter().next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn last(&self) -> Result<Option<Entry>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no entry. Looks for the first one.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name()).finish_non_exhaustive()
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
