//! [`VisibleCursor`]: the user's entries at a snapshot, in one direction.
//!
//! Of each user key it gives the newest version at or below the snapshot's sequence number, unless that is a tombstone.
//! Versions written after the snapshot may appear in the memtable while the cursor is open; they are passed over. All
//! versions up to the snapshot must be in place when the cursor is made.
//!
//! A key with many versions costs a few steps and a seek, not a step a version.
//!
//! Invariant: `decided` is the last key of which nothing more is to be given; the inner cursor is at one of its
//! remaining versions or beyond it.

use super::bounds::Bounds;
use crate::error::Result;
use crate::format::{Cursor, EntryKind, SeqNo, Slice};
use std::ops::Bound;

/// Steps over versions of one key before a seek takes over.
const STEPS_MAX: u32 = 8;

/// See the head of this file. Ends for good at its last entry, and after an error.
pub(crate) struct VisibleCursor<C> {
    inner: C,
    snapshot: SeqNo,
    bounds: Bounds,
    direction: Direction,
    state: State,
    decided: Slice,
    /// Going forwards: the inner cursor is at the version that decided the key.
    is_at_decided: bool,
    /// A key with versions that the snapshot does not see. The buffer is used again.
    unseen: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The inner cursor was not moved yet.
    Fresh,
    /// The inner cursor is in the range or beyond, and no key was decided.
    Positioned,
    /// As `Positioned`, and `decided` is a key.
    Decided,
    /// There is nothing more, or there was an error.
    Ended,
}

impl<C: Cursor> VisibleCursor<C> {
    /// The entries of `inner` within `bounds` at `snapshot`, ascending.
    pub(crate) fn forward(inner: C, snapshot: SeqNo, bounds: Bounds) -> Self {
        Self::new(inner, snapshot, bounds, Direction::Forward)
    }

    /// The entries of `inner` within `bounds` at `snapshot`, descending.
    pub(crate) fn backward(inner: C, snapshot: SeqNo, bounds: Bounds) -> Self {
        Self::new(inner, snapshot, bounds, Direction::Backward)
    }

    fn new(inner: C, snapshot: SeqNo, bounds: Bounds, direction: Direction) -> Self {
        let (decided, unseen) = (Slice::EMPTY, Vec::new());
        VisibleCursor { inner, snapshot, bounds, direction, state: State::Fresh, decided, is_at_decided: false, unseen }
    }

    /// The next key, in this cursor's direction, and its value. `None` at the end and ever after, also after an error.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(Slice, Slice)>> {
        if self.state == State::Ended {
            return Ok(None);
        }
        let found = match self.direction {
            Direction::Forward => self.next_forward(),
            Direction::Backward => self.next_backward(),
        };
        if !matches!(found, Ok(Some(_))) {
            self.state = State::Ended;
        }
        found
    }

    /// The key that `next` gave last. Requires that it gave one, and no end or error since.
    pub(crate) fn last(&self) -> &[u8] {
        &self.decided
    }

    #[inline]
    fn next_forward(&mut self) -> Result<Option<(Slice, Slice)>> {
        if self.state == State::Fresh {
            self.seek_lower()?;
            self.state = State::Positioned;
        }
        let mut steps = 0;
        loop {
            if self.is_at_decided {
                self.is_at_decided = false;
                self.inner.next()?;
            }
            let Some(entry) = self.inner.entry() else { return Ok(None) };
            if self.state == State::Decided && *entry.key == *self.decided {
                // An older version.
                steps += 1;
                if steps < STEPS_MAX {
                    self.inner.next()?;
                } else {
                    self.inner.seek(&successor(&self.decided), SeqNo::MAX)?;
                }
                continue;
            }
            if self.bounds.is_above(entry.key) {
                return Ok(None);
            }
            if entry.seq > self.snapshot {
                self.pass_unseen_versions()?;
                continue;
            }
            steps = 0;
            self.decided = Slice::from(entry.key);
            self.state = State::Decided;
            // The inner cursor stays, so that an error of its next step does not lose this entry.
            self.is_at_decided = true;
            if entry.kind == EntryKind::Put {
                return Ok(Some((self.decided.clone(), entry.value.into_slice())));
            }
        }
    }

    /// Going forwards from a version newer than the snapshot: to the first version of that key which the snapshot
    /// sees, or beyond the key, or at least a step on.
    fn pass_unseen_versions(&mut self) -> Result<()> {
        self.unseen.clear();
        self.unseen.extend_from_slice(self.inner.key());
        for _ in 0..STEPS_MAX {
            self.inner.next()?;
            if !self.inner.valid() || self.inner.seq() <= self.snapshot || self.inner.key() != self.unseen {
                return Ok(());
            }
        }
        self.inner.seek(&self.unseen, self.snapshot)
    }

    fn next_backward(&mut self) -> Result<Option<(Slice, Slice)>> {
        if self.state == State::Fresh {
            self.seek_upper()?;
            self.state = State::Positioned;
        }
        loop {
            self.pass_newer_versions()?;
            if !self.inner.valid() || self.bounds.is_below(self.inner.key()) {
                return Ok(None);
            }
            self.decide();
            if let Some((EntryKind::Put, value)) = self.newest_visible()? {
                return Ok(Some((self.decided.clone(), value)));
            }
        }
    }

    /// Going backwards, steps past the versions of the decided key that are newer than the snapshot.
    fn pass_newer_versions(&mut self) -> Result<()> {
        for _ in 0..STEPS_MAX {
            if !self.inner.valid() || !self.at_decided() {
                return Ok(());
            }
            self.inner.prev()?;
        }
        if self.inner.valid() && self.at_decided() {
            self.inner.seek_before(&self.decided, SeqNo::MAX)?;
        }
        Ok(())
    }

    /// Going backwards from the oldest version of the decided key, its newest version that the snapshot sees. Leaves
    /// the inner cursor at a version newer than that, or beyond the key.
    fn newest_visible(&mut self) -> Result<Option<(EntryKind, Slice)>> {
        let mut newest = None;
        for _ in 0..STEPS_MAX {
            if !self.at_visible_version() {
                return Ok(newest);
            }
            newest = Some((self.inner.kind(), self.inner.value()));
            self.inner.prev()?;
        }
        if self.at_visible_version() {
            self.inner.seek(&self.decided, self.snapshot)?;
            if self.at_visible_version() {
                newest = Some((self.inner.kind(), self.inner.value()));
            }
            self.inner.seek_before(&self.decided, SeqNo::MAX)?;
        }
        Ok(newest)
    }

    /// Whether the inner cursor is at a version of the decided key that the snapshot sees.
    fn at_visible_version(&self) -> bool {
        self.inner.valid() && self.inner.seq() <= self.snapshot && self.at_decided()
    }

    /// Whether the inner cursor, which is at an entry, is at a version of the decided key.
    fn at_decided(&self) -> bool {
        self.state == State::Decided && self.decided == self.inner.key()
    }

    /// Decides the key that the inner cursor is at.
    fn decide(&mut self) {
        self.decided = Slice::from(self.inner.key());
        self.state = State::Decided;
    }

    /// Seeks to the first version of the first key that is not below the range.
    fn seek_lower(&mut self) -> Result<()> {
        match self.bounds.lower() {
            Bound::Included(key) => self.inner.seek(key, SeqNo::MAX),
            Bound::Excluded(key) => self.inner.seek(&successor(key), SeqNo::MAX),
            Bound::Unbounded => self.inner.seek_to_first(),
        }
    }

    /// Seeks to the last version of the last key that is not above the range.
    fn seek_upper(&mut self) -> Result<()> {
        match self.bounds.upper() {
            Bound::Included(key) => self.inner.seek_before(&successor(key), SeqNo::MAX),
            Bound::Excluded(key) => self.inner.seek_before(key, SeqNo::MAX),
            Bound::Unbounded => self.inner.seek_to_last(),
        }
    }
}

/// The smallest key larger than `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::super::merging::MergingCursor;
    use super::super::tests::fake::{FakeCursor, Fuse, random_bounds, random_versions, visible};
    use super::*;
    use crate::memtable::test_model::{Entries, Random};
    use crate::memtable::{Memtable, MemtablePool};
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    fn drain<C: Cursor>(mut cursor: VisibleCursor<C>) -> Vec<(Slice, Slice)> {
        let mut entries = Vec::new();
        while let Some(entry) = cursor.next().unwrap() {
            entries.push(entry);
        }
        assert!(cursor.next().unwrap().is_none());
        entries
    }

    fn assert_agrees(
        expected: &BTreeMap<Vec<u8>, Vec<u8>>,
        mut make: impl FnMut(Direction) -> VisibleCursor<FakeCursor>,
    ) {
        let mut expected: Vec<_> =
            expected.iter().map(|(key, value)| (Slice::from(&**key), Slice::from(&**value))).collect();
        assert_eq!(drain(make(Direction::Forward)), expected);
        expected.reverse();
        assert_eq!(drain(make(Direction::Backward)), expected);
    }

    #[test]
    fn both_directions_give_what_a_map_holds_at_the_snapshot_within_the_bounds() {
        for seed in 0..3000 {
            let random = &mut Random::new(seed);
            let count = random.below(200);
            let entries = random_versions(random, count);
            let bounds = random_bounds(random);
            let snapshot = SeqNo(random.below(count + 2));
            assert_agrees(&visible(&entries, snapshot, &bounds), |direction| {
                VisibleCursor::new(FakeCursor::new(&entries), snapshot, bounds.clone(), direction)
            });
        }
    }

    #[test]
    fn versions_spread_over_memtables_and_tables_are_found_while_newer_ones_are_written() {
        for seed in 0..100 {
            let random = &mut Random::new(seed);
            let count = 100 + random.below(200);
            let entries = random_versions(random, count);
            let bounds = random_bounds(random);
            let snapshot = SeqNo(count);
            let (mut table, memtable) = (Entries::new(), Memtable::new(&MemtablePool::new(0)));
            for ((key, seq), (kind, value)) in &entries {
                // A few entries are in both, as when a memtable was flushed at this moment.
                let place = random.below(5);
                if place <= 2 {
                    table.insert((key.clone(), *seq), (*kind, value.clone()));
                }
                if place >= 2 {
                    memtable.insert(key, seq.0, *kind, value);
                }
            }
            let mut seq = snapshot;
            for direction in [Direction::Forward, Direction::Backward] {
                let children: Vec<Box<dyn Cursor + Send>> =
                    vec![Box::new(memtable.cursor()), Box::new(FakeCursor::new(&table))];
                let merged = MergingCursor::new(children);
                let mut cursor = VisibleCursor::new(merged, snapshot, bounds.clone(), direction);
                let mut found = BTreeMap::new();
                while let Some((key, value)) = cursor.next().unwrap() {
                    assert!(found.insert(key.to_vec(), value.to_vec()).is_none());
                    for _ in 0..random.below(30) {
                        seq.0 += 1;
                        memtable.insert(&random.key(), seq, EntryKind::Remove, b"");
                    }
                }
                assert_eq!(found, visible(&entries, snapshot, &bounds));
            }
        }
    }

    #[test]
    fn a_key_with_many_versions_takes_a_bounded_number_of_steps() {
        let mut entries = Entries::new();
        for seq in 1..=1000 {
            entries.insert((b"k".to_vec(), Reverse(SeqNo(seq))), (EntryKind::Put, seq.to_string().into_bytes()));
        }
        entries.insert((b"j".to_vec(), Reverse(SeqNo(1001))), (EntryKind::Put, b"j".to_vec()));
        entries.insert((b"l".to_vec(), Reverse(SeqNo(1002))), (EntryKind::Put, b"l".to_vec()));
        for direction in [Direction::Forward, Direction::Backward] {
            let fuse = Fuse::never();
            fuse.set(60);
            let inner = FakeCursor::with_fuse(&entries, fuse);
            let cursor = VisibleCursor::new(inner, SeqNo(500), Bounds::all(), direction);
            assert_eq!(drain(cursor), [(Slice::from(&b"k"[..]), Slice::from(&b"500"[..]))]);
        }
    }

    #[test]
    fn after_an_error_there_is_nothing_more() {
        let entries = random_versions(&mut Random::new(9), 100);
        let expected: Vec<_> = visible(&entries, SeqNo(70), &Bounds::all()).into_keys().collect();
        for direction in [Direction::Forward, Direction::Backward] {
            for moves in 0..40 {
                let fuse = Fuse::never();
                fuse.set(moves);
                let inner = FakeCursor::with_fuse(&entries, fuse);
                let mut cursor = VisibleCursor::new(inner, SeqNo(70), Bounds::all(), direction);
                let mut found = Vec::new();
                let error = loop {
                    match cursor.next() {
                        Ok(Some((key, _))) => found.push(key.to_vec()),
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                };
                assert!(error.is_some());
                assert!(cursor.next().unwrap().is_none());
                if direction == Direction::Backward {
                    found.reverse();
                    assert!(expected.ends_with(&found));
                } else {
                    assert!(expected.starts_with(&found));
                }
            }
        }
    }
}
