//! [`Memtable`]: the newest entries of a partition, in memory, sorted (DESIGN 7).
//!
//! A list of leaves in an arena (`docs/memtable.md`): readers take no lock and never wait; any number of writers insert
//! at once. Entries are never removed, so what a reader once saw stays. The memory goes when the last handle
//! and cursor do.
//!
//! Invariants: each `(key, seq)` is inserted once. When a memtable is sealed, its owner has waited for the inserts
//! under way (DESIGN 5, "Letting go"); the memtable itself knows no such state. Locks: none of its own.

mod arena;
mod cursor;
mod entry;
mod leaf;
mod list;
mod order;
mod pages;
mod pool;
mod position;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use cursor::{EntriesIn, MemtableCursor};
pub(crate) use pool::MemtablePool;

use crate::format::{EntryKind, SeqNo, Slice, Version};
use crate::table::KeyRange;
use arena::Arena;
use entry::Place;
use list::LeafList;
use std::sync::Arc;

/// What arena and list synchronise with: the standard library, or loom's models of it.
mod sync {
    #[cfg(all(test, loom))]
    pub(super) use loom::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    };
    #[cfg(not(all(test, loom)))]
    pub(super) use std::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    };
}

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

    /// Entries, those included that are being inserted at this moment.
    pub(crate) fn entries(&self) -> u64 {
        self.list.entries()
    }

    /// Whether no insert was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }
}
