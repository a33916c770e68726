//! [`DoubleEnded`]: a range of a partition, walked from both ends.
//!
//! Each end has a [`VisibleCursor`] of its own, made when that end is first asked. Both see the same entries (same
//! snapshot, same bounds), so the ends meet where one comes to a key that the other gave; that key is the first thing
//! past the rest, and neither end reads beyond it.
//!
//! Invariants: keys given at the front ascend, keys given at the back descend, and every front key is less than every
//! back key. Once an end has met the other, come to its end or failed, there is nothing more at either end.

use super::bounds::Bounds;
use super::visible::VisibleCursor;
use crate::error::Result;
use crate::format::{Cursor, SeqNo, Slice};
use std::iter::FusedIterator;

/// The entries of one partition within bounds at a snapshot: key and value, from either end.
pub(crate) struct DoubleEnded<F> {
    /// Makes a cursor over all that the partition holds.
    make: F,
    snapshot: SeqNo,
    bounds: Bounds,
    front: End,
    back: End,
    done: bool,
}

#[derive(Default)]
struct End {
    cursor: Option<VisibleCursor>,
    /// The key given last.
    last: Option<Slice>,
}

impl<F> DoubleEnded<F>
where
    F: FnMut() -> Box<dyn Cursor + Send>,
{
    /// `make` is called at most twice, at the first call of `next` and of `next_back`. Both cursors must hold the same
    /// entries up to `snapshot`: the caller pins one state of the partition.
    pub(crate) fn new(make: F, snapshot: SeqNo, bounds: Bounds) -> Self {
        DoubleEnded { make, snapshot, bounds, front: End::default(), back: End::default(), done: false }
    }

    fn step(&mut self, backwards: bool) -> Result<Option<(Slice, Slice)>> {
        let (end, other) = if backwards { (&mut self.back, &self.front) } else { (&mut self.front, &self.back) };
        let cursor = end.cursor.get_or_insert_with(|| {
            let make = if backwards { VisibleCursor::backward } else { VisibleCursor::forward };
            make((self.make)(), self.snapshot, self.bounds.clone())
        });
        let Some((key, value)) = cursor.next()? else { return Ok(None) };
        let met = other.last.as_ref().is_some_and(|last| if backwards { key <= *last } else { key >= *last });
        if met {
            return Ok(None);
        }
        end.last = Some(key.clone());
        Ok(Some((key, value)))
    }

    /// A step, and the end of both ends when there was none.
    fn fused_step(&mut self, backwards: bool) -> Option<Result<(Slice, Slice)>> {
        if self.done {
            return None;
        }
        let found = self.step(backwards).transpose();
        if !matches!(found, Some(Ok(_))) {
            self.done = true;
            // Lets go of blocks and files early: callers keep spent iterators.
            (self.front, self.back) = (End::default(), End::default());
        }
        found
    }
}

impl<F> Iterator for DoubleEnded<F>
where
    F: FnMut() -> Box<dyn Cursor + Send>,
{
    type Item = Result<(Slice, Slice)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.fused_step(false)
    }
}

impl<F> DoubleEndedIterator for DoubleEnded<F>
where
    F: FnMut() -> Box<dyn Cursor + Send>,
{
    fn next_back(&mut self) -> Option<Self::Item> {
        self.fused_step(true)
    }
}

impl<F> FusedIterator for DoubleEnded<F> where F: FnMut() -> Box<dyn Cursor + Send> {}

#[cfg(test)]
mod tests {
    use super::super::fake::{Entries, FakeCursor, Fuse, Random, random_bounds, random_versions, visible};
    use super::*;

    fn range(
        entries: &Entries,
        fuse: &Fuse,
        snapshot: SeqNo,
        bounds: Bounds,
    ) -> DoubleEnded<impl FnMut() -> Box<dyn Cursor + Send> + use<>> {
        let (entries, fuse) = (entries.clone(), fuse.clone());
        let make = move || -> Box<dyn Cursor + Send> { Box::new(FakeCursor::with_fuse(&entries, fuse.clone())) };
        DoubleEnded::new(make, snapshot, bounds)
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
            || -> Box<dyn Cursor + Send> {
                made += 1;
                Box::new(FakeCursor::new(&random_versions(&mut Random::new(1), 50)))
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
