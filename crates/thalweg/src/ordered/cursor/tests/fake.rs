//! Helpers of the tests of cursors: a cursor over a vector that fails on demand, random bounds, and the entries that a
//! reader sees.

use crate::error::{Error, Result};
use crate::format::{Cursor, EntryKind, SeqNo, Slice};
use crate::memtable::test_model::{Entries, Random};
use crate::ordered::cursor::bounds::Bounds;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many more moves cursors may make before one fails; shared by all cursors of a test.
#[derive(Clone)]
pub(crate) struct Fuse(Arc<AtomicU64>);

impl Fuse {
    pub(crate) fn never() -> Self {
        Fuse(Arc::new(AtomicU64::new(u64::MAX)))
    }
    /// The `moves`th move from now fails, and only that.
    pub(crate) fn set(&self, moves: u64) {
        self.0.store(moves, Ordering::Relaxed);
    }
    fn burn(&self) -> Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.wrapping_sub(1), Ordering::Relaxed);
        if left == 0 { Err(Error::Closed) } else { Ok(()) }
    }
}

type Entry = (Vec<u8>, SeqNo, EntryKind, Slice);

/// A cursor over entries in memory.
pub(crate) struct FakeCursor {
    entries: Arc<[Entry]>,
    at: Option<usize>,
    fuse: Fuse,
}

impl FakeCursor {
    pub(crate) fn new(entries: &Entries) -> Self {
        Self::with_fuse(entries, Fuse::never())
    }

    pub(crate) fn with_fuse(entries: &Entries, fuse: Fuse) -> Self {
        let entries = entries
            .iter()
            .map(|((key, seq), (kind, value))| (key.clone(), seq.0, *kind, Slice::from(value.as_slice())))
            .collect();
        FakeCursor { entries, at: None, fuse }
    }

    /// How many entries lie before `(key, seq)`.
    fn before(&self, key: &[u8], seq: SeqNo) -> usize {
        self.entries.partition_point(|entry| (&*entry.0, Reverse(entry.1)) < (key, Reverse(seq)))
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = None;
        self.fuse.burn()?;
        self.at = at.filter(|at| *at < self.entries.len());
        Ok(())
    }

    fn entry(&self) -> &Entry {
        &self.entries[self.at.unwrap()]
    }
}

impl Cursor for FakeCursor {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.go(Some(self.before(user_key, seq)))
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.go(self.before(user_key, seq).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.go(Some(self.at.unwrap() + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.at.unwrap().checked_sub(1))
    }
    fn key(&self) -> &[u8] {
        &self.entry().0
    }
    fn seq(&self) -> SeqNo {
        self.entry().1
    }
    fn kind(&self) -> EntryKind {
        self.entry().2
    }
    fn value(&self) -> Slice {
        self.entry().3.clone()
    }
}

/// `count` entries with sequence numbers from 1, most of them of few keys, some of them tombstones.
pub(crate) fn random_versions(random: &mut Random, count: u64) -> Entries {
    let favourite = random.key();
    (1..=count)
        .map(|seq| {
            let key = if random.below(3) == 0 { favourite.clone() } else { random.key() };
            let kind = if random.below(3) == 0 { EntryKind::Remove } else { EntryKind::Put };
            let value = if kind == EntryKind::Put { seq.to_be_bytes().to_vec() } else { Vec::new() };
            ((key, Reverse(SeqNo(seq))), (kind, value))
        })
        .collect()
}

/// Any bounds, also such that cross.
pub(crate) fn random_bounds(random: &mut Random) -> Bounds {
    let mut bound = || {
        let key = Slice::from(random.key());
        match random.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    };
    Bounds { from: bound(), to: bound() }
}

/// The part of `entries` within `bounds` that a reader at `snapshot` sees.
pub(crate) fn visible(entries: &Entries, snapshot: SeqNo, bounds: &Bounds) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut newest = BTreeMap::new();
    for ((key, seq), (kind, value)) in entries {
        let below = match &bounds.from {
            Bound::Included(from) => **key < **from,
            Bound::Excluded(from) => **key <= **from,
            Bound::Unbounded => false,
        };
        let above = match &bounds.to {
            Bound::Included(to) => **key > **to,
            Bound::Excluded(to) => **key >= **to,
            Bound::Unbounded => false,
        };
        if seq.0 <= snapshot && !below && !above {
            newest.entry(key.clone()).or_insert((*kind, value.clone()));
        }
    }
    newest.into_iter().filter(|(_, (kind, _))| *kind == EntryKind::Put).map(|(key, (_, value))| (key, value)).collect()
}
