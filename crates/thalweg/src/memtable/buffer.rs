//! [`Memtable`]: a sorted buffer of entries, in memory.

use super::arena::Arena;
use super::cursor::{EntriesIn, MemtableCursor};
use super::entry::Place;
use super::list::LeafList;
use super::pool::MemtablePool;
use crate::format::{EntryKind, SeqNo, Slice, Version};
use crate::table::KeyRange;
use std::sync::Arc;

/// A sorted buffer of entries.
pub(crate) struct Memtable {
    list: Arc<LeafList>,
}

impl Memtable {
    /// An empty memtable, whose memory comes from `pool` once it is large. `bytes_expected` is a guess at what it will
    /// hold, such as the bytes of the one before it: a large one is large from the start.
    pub(crate) fn new(pool: &MemtablePool, bytes_expected: usize) -> Arc<Self> {
        Arc::new(Memtable { list: Arc::new(LeafList::new(Arena::new(pool, bytes_expected))) })
    }

    /// Adds an entry; a reader on any thread sees it whole or not at all.
    ///
    /// # Panics
    /// When key or value are longer than the format's limits; in debug builds when `(key, seq)` was inserted before (in
    /// others only if it is noticed).
    pub(crate) fn insert(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        self.list.insert(key, seq, kind, value);
    }

    /// The newest version of `key` at or below `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Option<Version> {
        let entry = self.list.get(Place { key, seq })?;
        Some(Version { seq: entry.seq(), kind: entry.kind(), value: Slice::from(entry.value()) })
    }

    /// What the version that [`Memtable::get`] finds is.
    pub(crate) fn kind(&self, key: &[u8], seq: SeqNo) -> Option<EntryKind> {
        Some(self.list.get(Place { key, seq })?.kind())
    }

    /// A cursor over all entries, also those inserted while it is open.
    pub(crate) fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(&self.list))
    }

    /// Its entries with keys in `range`, to be walked once.
    pub(crate) fn entries_in(self: &Arc<Self>, range: &Arc<KeyRange>) -> EntriesIn {
        EntriesIn::new(self.cursor(), range)
    }

    /// Bytes of memory in use, overhead included. Never decreases.
    pub(crate) fn bytes(&self) -> usize {
        self.list.bytes()
    }

    /// Notes that only readers hold it from now on: no flush gives its memory back. Nothing is inserted after that.
    pub(crate) fn retire(&self) {
        self.list.retire();
    }

    /// Entries, those included that are being inserted at this moment.
    pub(crate) fn entries(&self) -> u64 {
        self.list.entries()
    }

    /// Whether no insert was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }
}
