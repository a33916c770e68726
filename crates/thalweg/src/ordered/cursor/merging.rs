//! [`MergingCursor`]: several sorted sequences as one.
//!
//! The children that are at an entry form a binary heap, the smallest entry (going backwards: the largest) on top.
//!
//! Invariants, while the cursor is valid: going forwards, every child but the top is at its first entry after the
//! top's, or at its end; going backwards, at its last entry before. After an error the heap is empty. `runner_up` is
//! unknown, or the place in the heap of the child that comes next: while the top stays before it, a step compares once.
//!
//! Entries are unique by key and sequence number, but the same entry may come from two children: a sealed memtable and
//! the table that it was flushed to, if both are seen at once. Both copies are given; the earlier child's copy comes
//! first forwards and last backwards. If the direction turns at such an entry, the other copy may be left out.

use crate::error::Result;
use crate::format::{Cursor, CursorEntry, EntryKind, SeqNo, Slice, key};
use std::cmp::Ordering;

/// The union of `children`, in internal-key order.
pub(crate) struct MergingCursor<C> {
    children: Vec<C>,
    /// Indices of the children that are at an entry.
    heap: Vec<usize>,
    runner_up: Option<usize>,
    direction: Direction,
    /// The key of the entry at which the direction turns. The buffer is used again.
    turn_key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl<C: Cursor> MergingCursor<C> {
    /// Merges `children`; the earlier one comes first where two have the same entry.
    pub(crate) fn new(children: Vec<C>) -> Self {
        let heap = Vec::with_capacity(children.len());
        MergingCursor { children, heap, runner_up: None, direction: Direction::Forward, turn_key: Vec::new() }
    }

    /// Moves every child with `seek`, then rebuilds the heap.
    fn seek_all(&mut self, direction: Direction, mut seek: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.heap.clear();
        self.direction = direction;
        for child in &mut self.children {
            seek(child)?;
        }
        self.rebuild();
        Ok(())
    }

    fn rebuild(&mut self) {
        self.heap.clear();
        self.runner_up = None;
        self.heap.extend((0..self.children.len()).filter(|child| self.children[*child].valid()));
        for place in (0..self.heap.len() / 2).rev() {
            self.sift_down(place);
        }
    }

    /// Turns to `direction`: the top stays where it is, and the other children seek to its other side. A step back from
    /// where they are could meet an entry that was inserted meanwhile, on the wrong side of the top.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let top = self.top();
        let mut turn_key = std::mem::take(&mut self.turn_key);
        turn_key.clear();
        turn_key.extend_from_slice(self.children[top].key());
        let seq = self.children[top].seq();
        self.heap.clear();
        self.direction = direction;
        for (_, child) in self.children.iter_mut().enumerate().filter(|(child, _)| *child != top) {
            match direction {
                Direction::Forward => {
                    child.seek(&turn_key, seq)?;
                    if child.valid() && child.seq() == seq && child.key() == turn_key {
                        child.next()?;
                    }
                }
                Direction::Backward => child.seek_before(&turn_key, seq)?,
            }
        }
        self.turn_key = turn_key;
        self.rebuild();
        assert_eq!(self.top(), top, "the others lie on the far side of the top");
        Ok(())
    }

    /// Moves the top child on and restores the heap.
    fn step(&mut self, direction: Direction) -> Result<()> {
        if self.direction != direction {
            self.turn(direction)?;
        }
        let top = self.top();
        let child = &mut self.children[top];
        let stepped = match direction {
            Direction::Forward => child.next(),
            Direction::Backward => child.prev(),
        };
        if let Err(error) = stepped {
            self.heap.clear();
            return Err(error);
        }
        if !child.valid() {
            self.heap.swap_remove(0);
            self.runner_up = None;
            self.sift_down(0);
        } else if self.heap.len() > 1 {
            let runner_up = self.runner_up.unwrap_or_else(|| self.first_below(0));
            self.runner_up = Some(runner_up);
            if self.comes_before(self.heap[runner_up], top) {
                self.heap.swap(0, runner_up);
                self.runner_up = None;
                self.sift_down(runner_up);
            }
        }
        Ok(())
    }

    fn top(&self) -> usize {
        match self.heap.first() {
            Some(top) => *top,
            None => panic!("the cursor is not at an entry"),
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        while 2 * place + 1 < self.heap.len() {
            let first = self.first_below(place);
            if !self.comes_before(self.heap[first], self.heap[place]) {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }

    /// The place in the heap of the child that comes first among the one or two below `place`.
    fn first_below(&self, place: usize) -> usize {
        let left = 2 * place + 1;
        match (self.heap.get(left), self.heap.get(left + 1)) {
            (Some(left_child), Some(right_child)) if self.comes_before(*right_child, *left_child) => left + 1,
            _ => left,
        }
    }

    /// Whether child `a` is given before child `b` in the current direction. Both are at an entry.
    #[inline]
    fn comes_before(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.children[a], &self.children[b]);
        let order = key::compare((left.key(), left.seq()), (right.key(), right.seq())).then(a.cmp(&b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, |child| child.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, |child| child.seek_to_last())
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        for child in &mut self.children {
            child.approach(user_key, seq);
        }
        self.seek_all(Direction::Forward, |child| child.seek(user_key, seq))
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek_all(Direction::Backward, |child| child.seek_before(user_key, seq))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }
    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.children[self.top()].key()
    }
    #[inline]
    fn seq(&self) -> SeqNo {
        self.children[self.top()].seq()
    }
    #[inline]
    fn kind(&self) -> EntryKind {
        self.children[self.top()].kind()
    }
    #[inline]
    fn value(&self) -> Slice {
        self.children[self.top()].value()
    }
    #[inline]
    fn entry(&self) -> Option<CursorEntry<'_>> {
        self.children.get(*self.heap.first()?)?.entry()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::{FakeCursor, Fuse};
    use super::*;
    use crate::memtable::test_model::{Entries, Random, walk};
    use crate::memtable::{Memtable, MemtablePool};
    use std::cmp::Reverse;

    fn boxed(cursor: impl Cursor + Send + 'static) -> Box<dyn Cursor + Send> {
        Box::new(cursor)
    }

    /// Random entries dealt to `children` at random, and their union.
    fn deal(random: &mut Random, children: usize, entries: u64) -> (Vec<Entries>, Entries) {
        let mut dealt = vec![Entries::new(); children];
        let mut union = Entries::new();
        for seq in 1..=entries {
            let entry = ((random.key(), Reverse(SeqNo(seq))), (EntryKind::Put, vec![seq as u8]));
            dealt[random.below(children as u64) as usize].insert(entry.0.clone(), entry.1.clone());
            union.insert(entry.0, entry.1);
        }
        (dealt, union)
    }

    #[test]
    fn random_moves_agree_with_the_union() {
        for seed in 0..200 {
            let random = &mut Random::new(seed);
            let (children, entries) = (1 + random.below(12) as usize, random.below(80));
            let (dealt, union) = deal(random, children, entries);
            let mut cursor = MergingCursor::new(dealt.iter().map(|child| boxed(FakeCursor::new(child))).collect());
            assert!(!cursor.valid());
            walk(random, &mut cursor, &union, entries + 2, 300);
        }
    }

    #[test]
    fn no_children_make_an_empty_sequence() {
        walk(&mut Random::new(1), &mut MergingCursor::<FakeCursor>::new(Vec::new()), &Entries::new(), 1, 50);
    }

    #[test]
    fn a_copy_of_an_entry_comes_after_the_earlier_childs_forwards_and_before_it_backwards() {
        let copies = |value: &[u8]| {
            let key = (b"k".to_vec(), Reverse(SeqNo(1)));
            boxed(FakeCursor::new(&Entries::from([(key, (EntryKind::Put, value.to_vec()))])))
        };
        let mut cursor = MergingCursor::new(vec![copies(b"0"), copies(b"1"), copies(b"2")]);
        let mut given = String::new();
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            given.push(char::from(cursor.value()[0]));
            cursor.next().unwrap();
        }
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            given.push(char::from(cursor.value()[0]));
            cursor.prev().unwrap();
        }
        assert_eq!(given, "012210");
    }

    #[test]
    fn a_turn_passes_by_what_was_inserted_on_the_other_side_meanwhile() {
        let pool = MemtablePool::new(0);
        let (one, two) = (Memtable::new(&pool), Memtable::new(&pool));
        let insert = |memtable: &Memtable, key: &[u8], seq| memtable.insert(key, SeqNo(seq), EntryKind::Put, b"");
        insert(&one, b"b", 1);
        insert(&two, b"a", 2);
        insert(&two, b"d", 3);
        let mut cursor = MergingCursor::new(vec![boxed(one.cursor()), boxed(two.cursor())]);
        cursor.seek(b"b", SeqNo::MAX).unwrap();
        insert(&two, b"c", 4);
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), b"a");
        insert(&one, b"", 5);
        cursor.next().unwrap();
        assert_eq!(cursor.key(), b"b");
    }

    #[test]
    fn an_error_of_a_child_ends_the_cursor_until_the_next_seek() {
        let random = &mut Random::new(7);
        let (dealt, union) = deal(random, 3, 40);
        for moves in 0..60 {
            let fuse = Fuse::never();
            let children = dealt.iter().map(|child| boxed(FakeCursor::with_fuse(child, fuse.clone()))).collect();
            let mut cursor = MergingCursor::new(children);
            fuse.set(moves);
            let mut result = cursor.seek_to_first();
            for i in 0.. {
                if result.is_err() || !cursor.valid() {
                    break;
                }
                result = if i % 7 == 6 { cursor.prev() } else { cursor.next() };
            }
            assert!(result.is_err() && !cursor.valid());
            walk(random, &mut cursor, &union, 42, 50);
        }
    }
}
