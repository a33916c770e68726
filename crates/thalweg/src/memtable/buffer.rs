//! [`Memtable`]: a sorted buffer of entries, in memory.

use super::arena::{Arena, LARGE_BYTES};
use super::cursor::{EntriesIn, MemtableCursor};
use super::entry::{EntryRef, Place};
use super::list::LeafList;
use super::pool::MemtablePool;
use crate::format::{EntryKind, SeqNo, Slice, Version};
use crate::table::{KeyRange, PointKey};
use std::sync::Arc;

/// The least size of a memtable whose successor has a filter. The successor of a smaller one has none: its leaves stay
/// in the processor's cache. Simulations have small memtables.
const FILTERED_BYTES_MIN: usize = if cfg!(feature = "simulation") { 5 << 10 } else { LARGE_BYTES };

/// A sorted buffer of entries.
pub(crate) struct Memtable {
    list: Arc<LeafList>,
}

impl Memtable {
    /// An empty memtable, whose memory comes from `pool` once it is large.
    pub(crate) fn new(pool: &MemtablePool) -> Arc<Self> {
        Self::expecting(pool, 0, 0)
    }

    /// An empty memtable that will hold about as much as this one. If that is much, it takes large blocks from the
    /// start, and has a filter.
    pub(crate) fn successor(&self, pool: &MemtablePool) -> Arc<Self> {
        let is_large = self.bytes() >= FILTERED_BYTES_MIN;
        Self::expecting(pool, self.bytes(), if is_large { self.entries() } else { 0 })
    }

    /// An empty memtable that will hold about `bytes` bytes and `entries` entries. With 0 entries expected it has no
    /// filter.
    pub(super) fn expecting(pool: &MemtablePool, bytes: usize, entries: u64) -> Arc<Self> {
        Arc::new(Memtable { list: Arc::new(LeafList::new(Arena::new(pool, bytes), entries)) })
    }

    /// Adds an entry; a reader on any thread sees it whole or not at all.
    ///
    /// # Panics
    /// When key or value are longer than the format's limits; in debug builds when `(key, seq)` was inserted before (in
    /// others only if it is noticed).
    pub(crate) fn insert(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        self.list.insert(key, seq, kind, value);
    }

    /// The newest version of the key at or below its sequence number.
    pub(crate) fn get(&self, point: &PointKey<'_>) -> Option<Version> {
        let entry = self.find(point)?;
        Some(Version { seq: entry.seq(), kind: entry.kind(), value: Slice::from(entry.value()) })
    }

    /// The kind of the version that [`Memtable::get`] finds.
    pub(crate) fn kind(&self, point: &PointKey<'_>) -> Option<EntryKind> {
        Some(self.find(point)?.kind())
    }

    fn find(&self, point: &PointKey<'_>) -> Option<EntryRef<'_>> {
        let PointKey { key, seq, .. } = *point;
        if self.list.may_have(point.hash()) { self.list.get(Place { key, seq }) } else { None }
    }

    /// Whether its filter, if it has one, knows the key.
    #[cfg(test)]
    pub(super) fn may_have(&self, point: &PointKey<'_>) -> bool {
        self.list.may_have(point.hash())
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

    /// Notes that a flush will put the memtable's bytes into a fast tier.
    pub(crate) fn seal(&self) {
        self.list.arena().seal();
    }

    /// Notes that only readers hold it from now on: no flush gives its memory back. Nothing is inserted after that.
    pub(crate) fn retire(&self) {
        self.list.arena().retire();
    }

    /// The number of entries, including those that are being inserted at this moment.
    pub(crate) fn entries(&self) -> u64 {
        self.list.entries()
    }

    /// Whether no insert was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }
}
