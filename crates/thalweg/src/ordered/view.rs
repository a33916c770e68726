//! [`View`]: what a reader of a partition sees, immutable; and [`Slot`]: a memtable with its place in the log.
//!
//! Invariants: sequence numbers in `active` are above all those in `sealed`, which ascend; those are above all in the
//! levels for the same key. A slot holds exactly the records of its partition with `after < seq <= sealed_at`; those
//! that were sealed and not flushed at a split hold the records of both halves, and are in both views.

use super::Partition;
use super::memtable::{Memtable, MemtablePool};
use super::share::Share;
use crate::compaction::Levels;
use crate::format::{EntryKind, LogMark, SeqNo};
use crate::table::{KeyRange, TableMeta};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A memtable, the sequence numbers that belong to it, and where the log is needed for it.
pub(crate) struct Slot {
    pub(crate) memtable: Arc<Memtable>,
    /// Records above this number belong here (or to a newer slot).
    pub(crate) after: SeqNo,
    /// Records at or below this number belong here (or to an older slot); 0 while active.
    sealed_at: AtomicU64,
    /// Sequence number of `first`, so that most inserts need not take its lock.
    first_seq: AtomicU64,
    last_seq: AtomicU64,
    first: Mutex<Option<LogMark>>,
    /// A split has put it into the views of two partitions.
    is_shared: AtomicBool,
    /// Bytes that the keyspace's share has counted; [`usize::MAX`] once it is sealed.
    counted: AtomicUsize,
}

impl Slot {
    /// An empty memtable for the records above `after`; the rest as for [`Memtable::new`].
    pub(crate) fn new(after: SeqNo, pool: &MemtablePool, bytes_expected: usize) -> Arc<Self> {
        Arc::new(Slot {
            memtable: Memtable::new(pool, bytes_expected),
            after,
            sealed_at: AtomicU64::new(0),
            first_seq: AtomicU64::new(u64::MAX),
            last_seq: AtomicU64::new(0),
            first: Mutex::new(None),
            is_shared: AtomicBool::new(false),
            counted: AtomicUsize::new(0),
        })
    }

    /// Inserts an entry of the record that begins at `mark`. The mark is set before the entry is: an entry whose
    /// record is published always pins the log.
    pub(crate) fn insert(&self, mark: LogMark, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        if seq.0 < self.first_seq.load(Ordering::Acquire) {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none_or(|first| mark.position < first.position) {
                *first = Some(mark);
            }
            self.first_seq.fetch_min(seq.0, Ordering::AcqRel);
        }
        self.last_seq.fetch_max(seq.0, Ordering::AcqRel);
        self.memtable.insert(key, seq, kind, value);
    }

    /// Where the oldest record in it begins; `None` while it is empty.
    pub(crate) fn first(&self) -> Option<LogMark> {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest sequence number in it.
    pub(crate) fn last_seq(&self) -> SeqNo {
        SeqNo(self.last_seq.load(Ordering::Acquire))
    }

    /// Seals it at `at`; it is no more among the active memtables that `share` counts.
    pub(crate) fn seal(&self, at: SeqNo, share: &Share) {
        self.sealed_at.store(at.0, Ordering::Release);
        let counted = self.counted.swap(usize::MAX, Ordering::Relaxed);
        if counted < usize::MAX {
            share.sealed(counted);
        }
    }

    /// A split puts it into the views of two partitions.
    pub(crate) fn set_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether entries of other partitions may be in it.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Bytes of the memtable, which `share` then knows of.
    pub(crate) fn count(&self, share: &Share) -> usize {
        let bytes = self.memtable.bytes();
        let before = self.counted.fetch_max(bytes, Ordering::Relaxed);
        if before < bytes {
            share.grew(bytes - before);
        }
        bytes
    }

    pub(crate) fn sealed_at(&self) -> SeqNo {
        SeqNo(self.sealed_at.load(Ordering::Acquire))
    }
}

/// Everything a partition holds at one moment.
#[derive(Clone)]
pub(crate) struct View {
    /// The keys that are the partition's. Memtables and tables may have others too, from before a split.
    pub(crate) range: Arc<KeyRange>,
    /// Where the keys behind `range` have gone by splits; `None` before the first.
    pub(crate) right: Option<Arc<Partition>>,
    pub(crate) active: Arc<Slot>,
    /// Waiting for their flush, oldest first.
    pub(crate) sealed: Vec<Arc<Slot>>,
    pub(crate) levels: Arc<Levels>,
}

impl View {
    /// Whether `key`, which was the partition's once, still is.
    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        !self.range.is_after(key) && !self.range.is_before(key)
    }

    /// Whether the table has keys that are not the partition's.
    pub(crate) fn sticks_out(&self, meta: &TableMeta) -> bool {
        self.range.is_after(&meta.key_min) || self.range.is_before(&meta.key_max)
    }

    /// The slot that a record with this number belongs to.
    pub(crate) fn slot_for(&self, seq: SeqNo) -> &Arc<Slot> {
        if self.active.after < seq {
            return &self.active;
        }
        let slot = self.sealed.iter().rev().find(|slot| slot.after < seq);
        // A slot is flushed only once every record up to its seal is published, and this one is not.
        slot.unwrap_or_else(|| unreachable!("the memtable of an unpublished record was flushed"))
    }

    /// Tables in level 0.
    pub(crate) fn level0_tables(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Slots, newest first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev())
    }
}
