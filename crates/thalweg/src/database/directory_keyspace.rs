//! [`DirectoryKeyspace`]: the handle of a keyspace whose entries lie in directories.

use super::entry_lookup::{index_of, value_of};
use super::get_async::GetAsync;
use super::keyspace::Keyspace;
use super::limits::{validate_entry_name, validate_value};
use super::many_entries;
use super::options::WriteOptions;
use super::reader::Reader;
use crate::directory::{DirectoryIndex, ENTRIES_OF_A_PART, ListedEntry, Part};
use crate::error::Result;
use crate::format::{EntryKey, NameHash, SeqNo, Slice};
use crate::keyspaces::SnapshotSeq;
use crate::planted::{Bug, planted};
use std::fmt;
use std::sync::Arc;

/// The least cursor of an entry. Smaller ones are for what a caller lists before the entries of a directory.
const CURSOR_MIN: u64 = 3;
const CURSOR_MAX: u64 = (1 << 63) - 2;

/// A keyspace for the metadata of file systems (PhatKV): each entry has a directory, which is a number, and a name.
/// Cloning is cheap; handles may be used from any thread.
///
/// The entries of a directory lie together, in the order of a hash of their names. So a directory is listed with few
/// reads, but not in the order of names, and there are no ranges over directories. Names have 1 byte to 1 KiB, values
/// 0 bytes to 64 MiB. A directory exists as long as it has entries.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-directories-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let files = db.directory_keyspace("files")?;
/// files.insert(1, "src", "directory 7")?;
/// files.insert(7, "main.rs", "mode 644")?;
/// files.insert(7, "lib.rs", "mode 644")?;
/// assert_eq!(files.get(7, "lib.rs")?.as_deref(), Some(b"mode 644".as_slice()));
/// let mut names = files.list(7).map(|entry| Ok(entry?.name().to_vec())).collect::<thalweg::Result<Vec<_>>>()?;
/// names.sort();
/// assert_eq!(names, [b"lib.rs".to_vec(), b"main.rs".to_vec()]);
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DirectoryKeyspace {
    inner: Keyspace,
}

impl DirectoryKeyspace {
    pub(super) fn new(inner: Keyspace) -> Self {
        DirectoryKeyspace { inner }
    }

    pub(super) fn inner(&self) -> &Keyspace {
        &self.inner
    }

    /// The key of an entry.
    pub(super) fn key(&self, directory: u64, name: &[u8]) -> Result<Vec<u8>> {
        self.inner.entry_key(directory, name)
    }

    /// The name of the keyspace.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Sets the entry `name` of a directory to `value`, with the database's default durability.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`](crate::Keyspace::insert).
    pub fn insert(&self, directory: u64, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.insert_with(directory, name, value, WriteOptions::new())
    }

    /// As [`DirectoryKeyspace::insert`], with options of its own.
    ///
    /// # Errors
    /// As for [`Keyspace::insert_with`](crate::Keyspace::insert_with).
    pub fn insert_with(
        &self,
        directory: u64,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (name, value) = (name.as_ref(), value.as_ref());
        validate_entry_name(name)?;
        validate_value(value)?;
        self.inner.write_entry((directory, name), Some(value), options.into())
    }

    /// Removes the entry `name` of a directory, if it is there.
    ///
    /// # Errors
    /// As for [`Keyspace::insert`](crate::Keyspace::insert).
    pub fn remove(&self, directory: u64, name: impl AsRef<[u8]>) -> Result<()> {
        self.remove_with(directory, name, WriteOptions::new())
    }

    /// As [`DirectoryKeyspace::remove`], with options of its own.
    ///
    /// # Errors
    /// As for [`Keyspace::insert_with`](crate::Keyspace::insert_with).
    pub fn remove_with(&self, directory: u64, name: impl AsRef<[u8]>, options: impl Into<WriteOptions>) -> Result<()> {
        validate_entry_name(name.as_ref())?;
        self.inner.write_entry((directory, name.as_ref()), None, options.into())
    }

    /// Removes every entry of every directory; see [`Keyspace::clear`](crate::Keyspace::clear).
    ///
    /// # Errors
    /// As for [`Keyspace::clear`](crate::Keyspace::clear).
    pub fn clear(&self) -> Result<()> {
        self.inner.clear()
    }

    /// As [`DirectoryKeyspace::clear`]; gives the sequence number, by which a simulator orders writes.
    #[cfg(feature = "simulation")]
    pub fn clear_seq(&self) -> Result<u64> {
        self.inner.clear_seq()
    }

    /// The value of the entry `name` of a directory.
    ///
    /// # Errors
    /// `InvalidInput` for the size of the name; `Corruption` of a table; `NoKeyspace`, `Closed`, `Io`.
    pub fn get(&self, directory: u64, name: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = self.key(directory, name.as_ref())?;
        loop {
            let (ordered, super_version, seq) = self.inner.live_generation(&key)?;
            if let Some(found) = super_version.in_memory(&key, seq) {
                return Ok(value_of(found));
            }
            // Read after the super version, as entries that leave its memtables enter the index. All versions there are
            // published. The newest is the one to take: older ones may be gone, as nothing retains them for this call.
            let found = find(index_of(ordered.directories()), &key, SeqNo::MAX)?;
            match ordered.check_readable() {
                Ok(()) => return Ok(found),
                Err(_) if ordered.is_cleared() => {}
                Err(dropped) => return Err(dropped),
            }
        }
    }

    /// Whether the entry `name` of a directory is there.
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`].
    pub fn contains(&self, directory: u64, name: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(directory, name)?.is_some())
    }

    /// The values of several entries, all as of one moment, in their order. The device gets their reads at once.
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`].
    pub fn multi_get<N: AsRef<[u8]>>(&self, entries: &[(u64, N)]) -> Result<Vec<Option<Slice>>> {
        self.snapshot().multi_get(entries)
    }

    /// A reader, with which one thread has up to `depth` (1 to 4 096) lookups in flight at once, each with a tag.
    ///
    /// # Errors
    /// `InvalidInput` for the depth; `Closed`.
    pub fn reader<T>(&self, depth: usize) -> Result<Reader<T>> {
        Reader::new(&self.inner, depth)
    }

    /// As [`DirectoryKeyspace::get`], as a future for any executor. The lookup begins at the first poll. An answer from
    /// memory or the block cache is ready at once. Otherwise a thread of the database makes the read and wakes the
    /// future. The future may be dropped at any time, and keeps the database open.
    ///
    /// The waker runs on a thread of the database, and must not poll or drop futures of the database there.
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-get-async-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let files = db.directory_keyspace("files")?;
    /// files.insert(7, "main.rs", "mode 644")?;
    /// let found = files.get_async(7, "main.rs");
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
    /// #             return output;
    /// #         }
    /// #     }
    /// # }
    /// assert_eq!(block_on(found)?.as_deref(), Some(b"mode 644".as_slice()));
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`]; `Closed` also for a future that is polled after the database was closed.
    pub fn get_async(&self, directory: u64, name: impl AsRef<[u8]>) -> GetAsync {
        GetAsync::new(&self.inner, directory, name.as_ref())
    }

    /// The entries of a directory as of now, in an order of their own.
    pub fn list(&self, directory: u64) -> Listing {
        self.list_from(directory, 0)
    }

    /// As [`DirectoryKeyspace::list`], from the entries after `cursor` on, which is [`DirectoryEntry::cursor`] of an
    /// entry of this directory; 0 begins at the first. A cursor stays valid whatever is written meanwhile, and after
    /// the database was opened again.
    ///
    /// Entries with equal cursors come one after the other, and a listing from that cursor has none of them: stop where
    /// the cursor changes. (Two names have equal cursors about once in 2⁶³ pairs.)
    pub fn list_from(&self, directory: u64, cursor: u64) -> Listing {
        self.snapshot().list_from(directory, cursor)
    }

    /// Whether a directory has no entry.
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`].
    pub fn is_empty(&self, directory: u64) -> Result<bool> {
        Ok(self.list(directory).in_parts_of(1).next().transpose()?.is_none())
    }

    /// The numbers of the directories that have entries as of now, ascending.
    ///
    /// Each call to [`Directories::next`](Iterator::next) that begins a part goes over the index of all directories. So
    /// this is for exports and checks. To find out whether one directory exists, use [`DirectoryKeyspace::is_empty`].
    pub fn directories(&self) -> Directories {
        self.directories_from(0)
    }

    /// As [`DirectoryKeyspace::directories`], from the number `first` on.
    pub fn directories_from(&self, first: u64) -> Directories {
        self.snapshot().directories_from(first)
    }

    /// A snapshot of the keyspace, as of now.
    pub(super) fn snapshot(&self) -> DirectorySnapshot {
        DirectorySnapshot::new(self.clone(), Arc::new(self.inner.engine().pin()))
    }
}

/// A directory keyspace as it was when a [`Snapshot`](crate::Snapshot) was taken.
#[derive(Clone)]
pub struct DirectorySnapshot {
    keyspace: DirectoryKeyspace,
    seq: Arc<SnapshotSeq>,
}

impl DirectorySnapshot {
    pub(super) fn new(keyspace: DirectoryKeyspace, seq: Arc<SnapshotSeq>) -> Self {
        DirectorySnapshot { keyspace, seq }
    }

    /// The value that the entry `name` of a directory had.
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`].
    pub fn get(&self, directory: u64, name: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = self.keyspace.key(directory, name.as_ref())?;
        let seq = self.seq.seq();
        let ordered = self.keyspace.inner.ordered_at(seq)?;
        let super_version = ordered.super_version_for(&key)?;
        if let Some(found) = super_version.in_memory(&key, seq) {
            return Ok(value_of(found));
        }
        let found = find(index_of(ordered.directories()), &key, seq)?;
        ordered.check_readable().map(|()| found)
    }

    /// The values that several entries had, in their order; see [`DirectoryKeyspace::multi_get`].
    ///
    /// # Errors
    /// As for [`DirectoryKeyspace::get`].
    pub fn multi_get<N: AsRef<[u8]>>(&self, entries: &[(u64, N)]) -> Result<Vec<Option<Slice>>> {
        many_entries::multi_get(&self.keyspace.inner, self.seq.seq(), entries)
    }

    /// The entries that a directory had; see [`DirectoryKeyspace::list`].
    pub fn list(&self, directory: u64) -> Listing {
        self.list_from(directory, 0)
    }

    /// See [`DirectoryKeyspace::list_from`].
    pub fn list_from(&self, directory: u64, cursor: u64) -> Listing {
        let next = match cursor {
            0..CURSOR_MIN => Some(NameHash(0)),
            CURSOR_MAX.. => None,
            cursor if planted(Bug::CursorRepeated) => Some(NameHash(cursor << 1)),
            cursor => Some(NameHash((cursor + 1) << 1)),
        };
        let part_entries = ENTRIES_OF_A_PART;
        Listing { snapshot: self.clone(), directory, entries: Vec::new().into_iter(), next, part_entries }
    }

    /// The numbers of the directories that had entries, ascending; see [`DirectoryKeyspace::directories`].
    pub fn directories(&self) -> Directories {
        self.directories_from(0)
    }

    /// See [`DirectoryKeyspace::directories_from`].
    pub fn directories_from(&self, first: u64) -> Directories {
        Directories::new(self.clone(), first)
    }

    /// The least directory numbers from `from` on, some perhaps without entries; and the number from which to go on.
    fn numbers(&self, from: u64) -> Result<(Vec<u64>, Option<u64>)> {
        let ordered = self.keyspace.inner.ordered_at(self.seq.seq())?;
        let super_version = ordered.whole_version()?;
        let numbers = index_of(ordered.directories()).numbers(super_version.filled_memtables(), from)?;
        ordered.check_readable().map(|()| numbers)
    }

    fn part(&self, directory: u64, from: (NameHash, usize)) -> Result<Part> {
        let seq = self.seq.seq();
        let ordered = self.keyspace.inner.ordered_at(seq)?;
        let super_version = ordered.whole_version()?;
        let part = index_of(ordered.directories()).part(super_version.filled_memtables(), directory, from, seq)?;
        ordered.check_readable().map(|()| part)
    }
}

/// The entries of a directory, as of one moment. Ends after an error.
pub struct Listing {
    snapshot: DirectorySnapshot,
    directory: u64,
    entries: std::vec::IntoIter<ListedEntry>,
    /// The hash from which on the next part is read.
    next: Option<NameHash>,
    part_entries: usize,
}

impl Listing {
    /// Reads about `entries` entries at a time (default: 2 048), for a caller that may stop after that many.
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-parts-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let files = db.directory_keyspace("files")?;
    /// files.insert(7, "main.rs", "mode 644")?;
    /// assert!(files.list(7).in_parts_of(1).next().transpose()?.is_some());
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_parts_of(mut self, entries: usize) -> Self {
        self.part_entries = entries.clamp(1, ENTRIES_OF_A_PART);
        self
    }
}

impl Iterator for Listing {
    type Item = Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(DirectoryEntry(entry)));
            }
            let from = self.next.take()?;
            match self.snapshot.part(self.directory, (from, self.part_entries)) {
                Ok(part) => (self.entries, self.next) = (part.entries.into_iter(), part.next),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The numbers of the directories that have entries, ascending, as of one moment. Ends after an error.
///
/// To go on later, begin after the last number: [`DirectoryKeyspace::directories_from`].
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-numbers-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let files = db.directory_keyspace("files")?;
/// files.insert(7, "main.rs", "mode 644")?;
/// files.insert(1, "src", "directory 7")?;
/// assert_eq!(files.directories().collect::<thalweg::Result<Vec<_>>>()?, [1, 7]);
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
pub struct Directories {
    snapshot: DirectorySnapshot,
    /// The rest of the part. Some of these directories may have no entries.
    numbers: std::vec::IntoIter<u64>,
    /// The number from which on the next part is read.
    next: Option<u64>,
}

impl Directories {
    fn new(snapshot: DirectorySnapshot, first: u64) -> Self {
        Directories { snapshot, numbers: Vec::new().into_iter(), next: Some(first) }
    }

    /// Goes to the next number, which may be that of a directory without entries.
    fn advance(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some(number) = self.numbers.next() {
                return Ok(Some(number));
            }
            let Some(from) = self.next.take() else { return Ok(None) };
            let (numbers, next) = self.snapshot.numbers(from)?;
            (self.numbers, self.next) = (numbers.into_iter(), next);
        }
    }

    fn next_with_entries(&mut self) -> Result<Option<u64>> {
        while let Some(number) = self.advance()? {
            if self.snapshot.list(number).in_parts_of(1).next().transpose()?.is_some() {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

impl Iterator for Directories {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.next_with_entries();
        if found.is_err() {
            (self.numbers, self.next) = (Vec::new().into_iter(), None);
        }
        found.transpose()
    }
}

/// An entry of a directory that was listed.
#[derive(Clone)]
pub struct DirectoryEntry(ListedEntry);

impl DirectoryEntry {
    /// The name of the entry.
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// The value of the entry. This call reads values of more than 2 KiB. A shorter value, as the name, shares the
    /// memory of its block: 4 to 8 KiB that stay as long as the value does. Copy a value that is kept for long.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn value(&self) -> Result<Slice> {
        self.0.value()
    }

    /// The place of the entry in the listing: from 3 to 2⁶³ − 2, ascending. See [`DirectoryKeyspace::list_from`].
    pub fn cursor(&self) -> u64 {
        (self.0.hash.0 >> 1).clamp(CURSOR_MIN, CURSOR_MAX)
    }
}

fn find(index: &DirectoryIndex, key: &[u8], visible: SeqNo) -> Result<Option<Slice>> {
    let Some(key) = EntryKey::decode(key) else { unreachable!("the key was made of an entry") };
    match index.find(&key, visible)? {
        Some(found) => found.value(),
        None => Ok(None),
    }
}

impl fmt::Debug for DirectoryKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryKeyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for DirectorySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectorySnapshot").field("name", &self.keyspace.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for DirectoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryEntry").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl fmt::Debug for Directories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directories").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}
