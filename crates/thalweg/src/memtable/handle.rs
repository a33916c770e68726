//! [`MemtableHandle`]: a memtable, the sequence numbers that belong to it, and where the log is needed for it.
//!
//! Invariant: a handle holds exactly the records of its owner with `after < seq <= sealed_at`.
//!
//! Locks: `first` is held for a copy.

use super::buffer::Memtable;
use super::pool::MemtablePool;
use crate::format::{EntryKind, LogMark, SeqNo};
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// See the module.
pub(crate) struct MemtableHandle {
    pub(crate) memtable: Arc<Memtable>,
    /// Records above this number belong here (or to a newer memtable).
    pub(crate) after: SeqNo,
    /// Records at or below this number belong here (or to an older memtable); 0 while active.
    sealed_at: AtomicU64,
    /// Sequence number of `first`, so that most inserts need not take its lock.
    first_seq: AtomicU64,
    last_seq: AtomicU64,
    first: Mutex<Option<LogMark>>,
    /// Whether the memtable has or had two owners.
    is_shared: AtomicBool,
    /// Owners that have not flushed it yet.
    owners: AtomicUsize,
    /// Bytes that [`MemtableHandle::count_growth`] has returned so far; [`usize::MAX`] once it is sealed.
    counted: AtomicUsize,
}

impl MemtableHandle {
    /// An empty memtable for the records above `after`.
    pub(crate) fn new(after: SeqNo, pool: &MemtablePool) -> Arc<Self> {
        Self::of(Memtable::new(pool), after)
    }

    /// An empty memtable for the records above `after`, which will hold about as much as this one.
    pub(crate) fn successor(&self, after: SeqNo, pool: &MemtablePool) -> Arc<Self> {
        Self::of(self.memtable.successor(pool), after)
    }

    fn of(memtable: Arc<Memtable>, after: SeqNo) -> Arc<Self> {
        Arc::new(MemtableHandle {
            memtable,
            after,
            sealed_at: AtomicU64::new(0),
            first_seq: AtomicU64::new(u64::MAX),
            last_seq: AtomicU64::new(0),
            first: Mutex::new(None),
            is_shared: AtomicBool::new(false),
            owners: AtomicUsize::new(1),
            counted: AtomicUsize::new(0),
        })
    }

    /// Inserts an entry of the record that begins at `mark`. Sets the mark before it inserts the entry: an entry whose
    /// record is published always pins the log.
    pub(crate) fn insert(&self, mark: LogMark, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        if seq.0 < self.first_seq.load(Ordering::Acquire) {
            let mut first = self.first.lock();
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
        *self.first.lock()
    }

    /// The largest sequence number in it.
    pub(crate) fn last_seq(&self) -> SeqNo {
        SeqNo(self.last_seq.load(Ordering::Acquire))
    }

    /// Seals the memtable at `at`. Returns the bytes that [`MemtableHandle::count_growth`] counted; from now on it
    /// counts none.
    #[must_use]
    pub(crate) fn seal(&self, at: SeqNo) -> usize {
        self.sealed_at.store(at.0, Ordering::Release);
        let counted = self.counted.swap(usize::MAX, Ordering::Relaxed);
        if counted < usize::MAX { counted } else { 0 }
    }

    /// Counts the memtable's bytes as waiting for a flush into a fast tier. The memtable must be sealed.
    pub(crate) fn wait_for_flush(&self) {
        self.memtable.seal();
    }

    /// The sequence number at which it was sealed; 0 while it is active.
    pub(crate) fn sealed_at(&self) -> SeqNo {
        SeqNo(self.sealed_at.load(Ordering::Acquire))
    }

    /// Gives it one more owner.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
        self.owners.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes an owner, which has flushed its entries or has none. The last owner retires the memtable: only readers
    /// hold it then.
    pub(crate) fn leave(&self) {
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.memtable.retire();
        }
    }

    /// Whether entries of another owner may be in it.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Returns the memtable's bytes, and its growth since the previous call; the growth is 0 once the memtable is
    /// sealed.
    #[must_use]
    pub(crate) fn count_growth(&self) -> (usize, usize) {
        let bytes = self.memtable.bytes();
        let before = self.counted.fetch_max(bytes, Ordering::Relaxed);
        (bytes, bytes.saturating_sub(before))
    }
}
