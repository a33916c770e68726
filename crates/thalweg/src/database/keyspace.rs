//! [`Keyspace`]: the handle of a named map.

use super::engine::Engine;
use super::entry_lookup::{index_of, with_bytes};
use super::key_bounds::{KeyBounds, owned};
use super::limits::{validate_entry_name, validate_key, validate_value};
use super::options::WriteOptions;
use super::range::{Entry, Range};
use crate::error::Result;
use crate::format::{EntryKey, KeyspaceId, SeqNo, Slice};
use crate::keyspaces::SnapshotSeq;
use crate::log::Operation;
use crate::ordered::cursor::Bounds;
use crate::ordered::{OrderedKeyspace, SuperVersionGuard};
use crate::runtime::Point;
use arc_swap::{ArcSwap, Guard};
use std::fmt;
use std::sync::Arc;

/// Keys that are looked for together: enough for any device's queue, few enough not to flood the page cache.
const KEYS_AT_ONCE_MAX: usize = 256;

/// A named map of byte keys to byte values, in key order. Cloning is cheap; handles may be used from any thread.
///
/// Keys have 1 byte to 64 KiB, values 0 bytes to 64 MiB.
pub struct Keyspace {
    engine: Arc<Engine>,
    name: Arc<str>,
    /// The generation that this handle has seen last; after a clear the registry has another one.
    ordered: ArcSwap<OrderedKeyspace>,
}

impl Clone for Keyspace {
    fn clone(&self) -> Self {
        let (engine, name) = (Arc::clone(&self.engine), Arc::clone(&self.name));
        Keyspace { engine, name, ordered: ArcSwap::new(self.ordered.load_full()) }
    }
}

impl Keyspace {
    pub(super) fn new(engine: Arc<Engine>, ordered: Arc<OrderedKeyspace>) -> Self {
        Keyspace { engine, name: Arc::from(ordered.name.as_str()), ordered: ArcSwap::new(ordered) }
    }

    /// The open database of the keyspace.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether the keyspace belongs to this open database.
    pub(super) fn is_of(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }

    /// The keyspace itself, unless it was dropped or the database closed.
    pub(super) fn ordered(&self) -> Result<Guard<Arc<OrderedKeyspace>>> {
        self.engine.readable()?;
        let ordered = self.ordered.load();
        if !ordered.is_dropped() {
            return Ok(ordered);
        }
        match self.engine.keyspaces().get(ordered.id).cloned().and_then(|keyspace| keyspace.downcast()) {
            Some(next) => {
                self.ordered.store(Arc::clone(&next));
                // Not the stored one: another thread may have stored an earlier generation that it found before.
                Ok(Guard::from_inner(next))
            }
            None => Err(ordered.no_keyspace()),
        }
    }

    /// The generation in the registry. The caller prevents that another clears it.
    fn present(&self) -> Result<Arc<OrderedKeyspace>> {
        let ordered = self.ordered()?;
        let present = self.engine.keyspaces().get(ordered.id).cloned().and_then(|keyspace| keyspace.downcast());
        present.ok_or_else(|| ordered.no_keyspace())
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

    /// The name of the keyspace.
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

    /// Removes `key`, if it is there.
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

    pub(super) fn write<'a>(
        &self,
        key: &[u8],
        options: WriteOptions,
        operation: impl FnOnce(KeyspaceId) -> Operation<'a>,
    ) -> Result<()> {
        let engine = &self.engine;
        engine.writable()?;
        let ordered = self.ordered()?;
        engine.write_one(&operation(ordered.id), ordered.layout().partition_for(key), options)
    }

    /// The key of an entry in a directory keyspace.
    pub(super) fn entry_key(&self, directory: u64, name: &[u8]) -> Result<Vec<u8>> {
        validate_entry_name(name)?;
        let ordered = self.ordered()?;
        Ok(EntryKey::new(directory, name, &index_of(ordered.directories()).hash_key).to_bytes())
    }

    /// Writes an entry of a directory; without a value, removes it. Name and value have been checked.
    pub(super) fn write_entry(
        &self,
        (directory, name): (u64, &[u8]),
        value: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let engine = &self.engine;
        engine.writable()?;
        let ordered = self.ordered()?;
        let keyspace = ordered.id;
        with_bytes(&EntryKey::new(directory, name, &index_of(ordered.directories()).hash_key), |key| {
            let operation = match value {
                Some(value) => Operation::Put { keyspace, key, value },
                None => Operation::Remove { keyspace, key },
            };
            engine.write_one(&operation, ordered.layout().partition_for(key), options)
        })
    }

    /// Removes every entry, durably when it returns, at a cost that does not depend on their number. A concurrent write
    /// comes before or after the clear, as everywhere. Earlier snapshots and ranges still see the entries. The
    /// background frees the space when no reader needs it. Afterwards the keyspace has the partitions with which it was
    /// created.
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
    /// `NoKeyspace` after a drop; the errors of a `Sync` write.
    pub fn clear(&self) -> Result<()> {
        self.write_clear().map(drop)
    }

    /// As [`Keyspace::clear`]; gives the sequence number, by which a simulator orders writes.
    #[cfg(feature = "simulation")]
    pub fn clear_seq(&self) -> Result<u64> {
        Ok(self.write_clear()?.0)
    }

    fn write_clear(&self) -> Result<SeqNo> {
        self.engine.clear_keyspace(|| self.present())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// `InvalidInput` for the key's size; `Corruption` of a table; `NoKeyspace`, `Closed`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        let (super_version, seq) = self.live_version(key)?;
        super_version.get(key, seq)
    }

    /// Whether `key` has a value. The value is not copied.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        let (super_version, seq) = self.live_version(key)?;
        super_version.contains(key, seq)
    }

    fn live_version(&self, key: &[u8]) -> Result<(SuperVersionGuard, SeqNo)> {
        validate_key(key)?;
        let (_, super_version, seq) = self.live_generation(key)?;
        Ok((super_version, seq))
    }

    /// The generation of the keyspace now, its super version for `key`, and the last sequence number that readers see.
    pub(super) fn live_generation(
        &self,
        key: &[u8],
    ) -> Result<(Guard<Arc<OrderedKeyspace>>, SuperVersionGuard, SeqNo)> {
        loop {
            let ordered = self.ordered()?;
            let super_version = ordered.super_version_for(key);
            self.engine.environment.point(Point::Viewed);
            // The super version is loaded first: everything visible at the call is in it. A version that a compaction
            // dropped from it is shadowed by one that was visible before the super version was made.
            let seq = self.engine.visible();
            match super_version {
                Ok(super_version) if seq >= ordered.cleared_at => return Ok((ordered, super_version, seq)),
                Ok(_) => {
                    // The clear is not published yet: the entries from before it are read. Again the super version is
                    // loaded first, as a flush may have dropped versions that were visible a moment ago.
                    if let Some(earlier) = ordered.generation_at(seq)
                        && let Ok(super_version) = earlier.super_version_for(key)
                    {
                        self.engine.environment.point(Point::Viewed);
                        let seq = self.engine.visible();
                        if ordered.generation_at(seq).is_some_and(|now| Arc::ptr_eq(&now, &earlier)) {
                            return Ok((Guard::from_inner(earlier), super_version, seq));
                        }
                    }
                }
                Err(_) if ordered.is_cleared() => {}
                Err(dropped) => return Err(dropped),
            }
        }
    }

    /// The values of several keys, all as of one moment, in the order of `keys`.
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.multi_get_at(self.engine.pin().seq(), keys)
    }

    /// As [`Keyspace::multi_get`], as of the pinned number `seq`.
    pub(super) fn multi_get_at<K: AsRef<[u8]>>(&self, seq: SeqNo, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        let mut sorted = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            validate_key(key.as_ref())?;
            sorted.push((key.as_ref(), number));
        }
        sorted.sort_unstable();
        let ordered = self.ordered_at(seq)?;
        let mut values = vec![None; keys.len()];
        let mut rest = &sorted[..];
        while let Some((first, _)) = rest.first() {
            let super_version = ordered.super_version_for(first)?;
            self.engine.environment.point(Point::Viewed);
            let covered = rest.iter().take(KEYS_AT_ONCE_MAX).take_while(|(key, _)| super_version.covers(key)).count();
            let (part, others) = rest.split_at(covered);
            rest = others;
            let wanted: Vec<&[u8]> = part.iter().map(|(key, _)| *key).collect();
            for ((_, number), value) in part.iter().zip(super_version.multi_get(&wanted, seq)?) {
                values[*number] = value;
            }
        }
        Ok(values)
    }

    /// The entries with keys in `bounds`, as of a pinned number.
    pub(super) fn entries_at(&self, seq: &Arc<SnapshotSeq>, bounds: Bounds) -> Range {
        Range::new(&self.engine, seq, self.ordered_at(seq.seq()), bounds)
    }

    /// All entries in key order, as of now; `rev()` gives them backwards.
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// The entries with keys in `range`, in key order, as of now. A range that ends before it begins is empty.
    ///
    /// To page backwards, end each page before the smallest key of the previous one.
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
        self.entries_at(&Arc::new(self.engine.pin()), owned(&range))
    }

    /// The entries whose keys begin with `prefix`, in key order, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.entries_at(&Arc::new(self.engine.pin()), Bounds::prefix(prefix.as_ref()))
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
