//! [`DoubleEnded`]: a range of a partition, walked from both ends.
//!
//! Each end has a [`VisibleCursor`] of its own, made when that end is first asked. Both see the same entries (same
//! snapshot, same bounds), so the ends meet when one comes to a key that the other gave. That key is the first one past
//! the remaining entries, and neither end reads beyond it.
//!
//! Invariants: keys given at the front ascend, keys given at the back descend, and every front key is less than every
//! back key. Once an end has met the other, come to its end or failed, there is nothing more at either end.

use super::bounds::Bounds;
use super::visible::VisibleCursor;
use crate::error::Result;
use crate::format::{Cursor, SeqNo, Slice};
use crate::planted::{Bug, planted};
use std::iter::FusedIterator;
use std::ops::Bound;

/// Makes cursors over all that a partition holds.
pub(crate) trait Open {
    /// The cursor that it makes.
    type Cursor: Cursor;
    /// Another cursor over the same entries.
    fn open(&mut self) -> Self::Cursor;
}

/// The entries of one partition within bounds at a snapshot: key and value, from either end.
pub(crate) struct DoubleEnded<O: Open> {
    source: O,
    snapshot: SeqNo,
    bounds: Bounds,
    front: Option<VisibleCursor<O::Cursor>>,
    back: Option<VisibleCursor<O::Cursor>>,
    done: bool,
}

impl<O: Open> DoubleEnded<O> {
    /// Makes a range over `source`. The first call of `next` and of `next_back` opens a cursor of `source`, and so does
    /// the first such call after [`DoubleEnded::skip_below`] or [`DoubleEnded::skip_above`]. All cursors must hold the
    /// same entries up to `snapshot`: the caller pins one state of the partition.
    pub(crate) fn new(source: O, snapshot: SeqNo, bounds: Bounds) -> Self {
        DoubleEnded { source, snapshot, bounds, front: None, back: None, done: false }
    }

    /// Leaves out the entries below `key`, and those that were given.
    pub(crate) fn skip_below(&mut self, key: &[u8]) {
        self.leave_given();
        if !self.bounds.is_below(key) {
            self.bounds.from = Bound::Included(Slice::from(key));
        }
    }

    /// Leaves out the entries above `key`, and those that were given.
    pub(crate) fn skip_above(&mut self, key: &[u8]) {
        self.leave_given();
        if !self.bounds.is_above(key) {
            self.bounds.to = Bound::Included(Slice::from(key));
        }
    }

    /// Whether everything in it is below `key`.
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        self.bounds.is_above(key)
    }

    /// Whether everything in it is above `key`.
    pub(crate) fn begins_after(&self, key: &[u8]) -> bool {
        self.bounds.is_below(key)
    }

    /// Excludes the keys that were given from the bounds, and drops the cursors: the next step makes new ones. A cursor
    /// that exists has given a key, because the end or an error drops both cursors.
    fn leave_given(&mut self) {
        self.bounds = self.rest();
        (self.front, self.back) = (None, None);
    }

    /// The bounds of the remaining entries. A cursor that exists has given a key.
    pub(crate) fn rest(&self) -> Bounds {
        let last = |cursor: &VisibleCursor<O::Cursor>| match planted(Bug::NewerViewRepeats) {
            true => Bound::Included(Slice::from(cursor.last())),
            false => Bound::Excluded(Slice::from(cursor.last())),
        };
        let from = self.front.as_ref().map_or_else(|| self.bounds.from.clone(), last);
        let to = self.back.as_ref().map_or_else(|| self.bounds.to.clone(), last);
        Bounds { from, to }
    }

    /// The source of the cursors.
    pub(crate) fn source(&self) -> &O {
        &self.source
    }

    /// Ends the range, and returns the source of its cursors.
    pub(crate) fn into_source(self) -> O {
        self.source
    }

    #[inline(always)]
    fn step(&mut self, backwards: bool) -> Result<Option<(Slice, Slice)>> {
        let (end, other) = if backwards { (&mut self.back, &self.front) } else { (&mut self.front, &self.back) };
        let cursor = end.get_or_insert_with(|| {
            let make = if backwards { VisibleCursor::backward } else { VisibleCursor::forward };
            make(self.source.open(), self.snapshot, self.bounds.clone())
        });
        let Some((key, value)) = cursor.next()? else { return Ok(None) };
        // If the other end had come to its end or failed, this one would have ended, too. So the other's last key was
        // given.
        let met =
            other.as_ref().is_some_and(|other| if backwards { *key <= *other.last() } else { *key >= *other.last() });
        Ok((!met).then_some((key, value)))
    }

    /// Takes a step. Ends both ends if the step finds no entry or fails.
    #[inline(always)]
    fn fused_step(&mut self, backwards: bool) -> Option<Result<(Slice, Slice)>> {
        if self.done {
            return None;
        }
        let found = self.step(backwards).transpose();
        if !matches!(found, Some(Ok(_))) {
            self.done = true;
            // Releases blocks and files early: callers keep spent iterators.
            (self.front, self.back) = (None, None);
        }
        found
    }
}

impl<O: Open> Iterator for DoubleEnded<O> {
    type Item = Result<(Slice, Slice)>;
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.fused_step(false)
    }
}

impl<O: Open> DoubleEndedIterator for DoubleEnded<O> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.fused_step(true)
    }
}

impl<O: Open> FusedIterator for DoubleEnded<O> {}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::{FakeCursor, Fuse, random_bounds, random_versions, visible};
    use super::*;
    use crate::memtable::test_model::{Entries, Random};

    impl<F: FnMut() -> FakeCursor> Open for F {
        type Cursor = FakeCursor;
        fn open(&mut self) -> FakeCursor {
            self()
        }
    }

    fn range(
        entries: &Entries,
        fuse: &Fuse,
        snapshot: SeqNo,
        bounds: Bounds,
    ) -> DoubleEnded<impl FnMut() -> FakeCursor + use<>> {
        let (entries, fuse) = (entries.clone(), fuse.clone());
        DoubleEnded::new(move || FakeCursor::with_fuse(&entries, fuse.clone()), snapshot, bounds)
    }

    #[test]
    fn the_ends_meet_without_giving_a_key_twice_or_leaving_one_out() {
        for seed in 0..3000 {
            let random = &mut Random::new(seed);
            let count = random.below(150);
            let entries = random_versions(random, count);
            let bounds = random_bounds(random);
            let snapshot = SeqNo(random.below(count + 2));
            let expected = visible(&entries, snapshot, &bounds);
            let mut expected = expected.iter();
            let mut range = range(&entries, &Fuse::never(), snapshot, bounds);
            let backwards_in_8 = random.below(9);
            loop {
                let backwards = random.below(8) < backwards_in_8;
                let found = if backwards { range.next_back() } else { range.next() };
                let expected = if backwards { expected.next_back() } else { expected.next() };
                let found = found.transpose().unwrap();
                assert_eq!(found, expected.map(|(key, value)| (Slice::from(&**key), Slice::from(&**value))));
                if found.is_none() {
                    break;
                }
            }
            assert!(range.next().is_none() && range.next_back().is_none());
        }
    }

    #[test]
    fn an_end_that_is_not_asked_makes_no_cursor() {
        let mut made = 0;
        let mut range = DoubleEnded::new(
            || {
                made += 1;
                FakeCursor::new(&random_versions(&mut Random::new(1), 50))
            },
            SeqNo(50),
            Bounds::all(),
        );
        assert!(range.by_ref().all(|entry| entry.is_ok()));
        assert!(range.next_back().is_none());
        drop(range);
        assert_eq!(made, 1);
    }

    #[test]
    fn an_error_at_one_end_ends_both() {
        let entries = random_versions(&mut Random::new(4), 100);
        for moves in 0..50 {
            let fuse = Fuse::never();
            fuse.set(moves);
            let mut range = range(&entries, &fuse, SeqNo(100), Bounds::all());
            let mut backwards = false;
            let failed = loop {
                backwards = !backwards;
                match if backwards { range.next_back() } else { range.next() } {
                    Some(Ok(_)) => {}
                    found => break found.is_some(),
                }
            };
            assert!(failed);
            assert!(range.next().is_none() && range.next_back().is_none());
        }
    }
}
