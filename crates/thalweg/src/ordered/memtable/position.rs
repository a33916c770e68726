//! [`Position`]: a place in a leaf list, which it keeps alive: at an entry, or nowhere.
//!
//! It holds the entries of one leaf, as they were when it came to the leaf: an entry that is added to that leaf
//! afterwards it may not see. Everything whose insertion happened before the position was last sent somewhere it sees.
//!
//! Invariant: `'static` in its fields stands for "as long as `list`"; what it hands out lives as long as its borrow.
//! Locks: none.

#![allow(unsafe_code)]

use super::entry::{EntryRef, Place};
use super::list::{Cover, LeafList};
use super::order::settle;
use super::slots::Slot;
use std::ops::Range;
use std::sync::Arc;

/// How many entries ahead of a walk memory is asked for.
const AHEAD: usize = 6;

/// See the module.
pub(super) struct Position {
    /// The leaf of `slots`; `None` before it was sent anywhere.
    cover: Option<Cover<'static>>,
    /// The entries of the leaf, ranked.
    slots: Vec<Slot<'static>>,
    /// Where the run is that it came to last, which is settled.
    settled: Range<usize>,
    /// The entry it is at; none if there is none of this index.
    index: usize,
    list: Arc<LeafList>,
}

// SAFETY: leaves and entries are of `list`, which may be used from any thread and goes along.
unsafe impl Send for Position {}

impl Position {
    /// Nowhere in `list`.
    pub(super) fn new(list: Arc<LeafList>) -> Self {
        Position { cover: None, slots: Vec::new(), settled: 0..0, index: 0, list }
    }

    pub(super) fn valid(&self) -> bool {
        self.index < self.slots.len()
    }

    pub(super) fn go_to_first(&mut self) {
        let first = self.list().first();
        self.load(first);
        self.forwards_to(0);
    }

    pub(super) fn go_to_last(&mut self) {
        let last = self.list().last();
        self.load(last);
        self.backwards_from(self.slots.len());
    }

    /// To the first entry at or after `place`.
    pub(super) fn go_to_at_or_after(&mut self, place: Place<'_>) {
        let cover = self.list().cover(place);
        self.load(cover);
        let index = cover.count_before(place, &mut self.slots);
        self.forwards_to(index);
    }

    /// To the last entry before `place`.
    pub(super) fn go_to_before(&mut self, place: Place<'_>) {
        let cover = self.list().cover(place);
        self.load(cover);
        let index = cover.count_before(place, &mut self.slots);
        self.backwards_from(index);
    }

    pub(super) fn go_to_next(&mut self) {
        assert!(self.valid(), "the cursor is not at an entry");
        self.forwards_to(self.index + 1);
    }

    pub(super) fn go_to_previous(&mut self) {
        assert!(self.valid(), "the cursor is not at an entry");
        self.backwards_from(self.index);
    }

    /// Where it is.
    pub(super) fn entry(&self) -> EntryRef<'_> {
        match self.slots.get(self.index) {
            Some(slot) => slot.entry(),
            None => panic!("the cursor is not at an entry"),
        }
    }

    fn list(&self) -> &'static LeafList {
        // SAFETY: the list lives as long as this position, which alone keeps what it gets from here.
        unsafe { &*Arc::as_ptr(&self.list) }
    }

    fn load(&mut self, cover: Cover<'static>) {
        cover.ranked_into(&mut self.slots);
        self.settled = 0..0;
        self.cover = Some(cover);
    }

    /// To the entry of this index of the leaf, or the first of the leaves behind it.
    fn forwards_to(&mut self, index: usize) {
        self.index = index;
        while self.index >= self.slots.len() {
            let Some(next) = self.cover.and_then(|cover| cover.next) else { return };
            self.load(Cover::of(next));
            self.index = 0;
        }
        self.settle();
        if let Some(slot) = self.slots.get(self.index + AHEAD) {
            slot.entry().prefetch();
        }
    }

    /// To the entry before that of this index of the leaf, or the last of the leaves before it.
    fn backwards_from(&mut self, mut index: usize) {
        while index == 0 {
            let leaf = self.cover.map(|cover| cover.leaf).filter(|leaf| leaf.low().is_some());
            let Some(leaf) = leaf else {
                self.slots.clear();
                return;
            };
            let before = self.list().cover_before(leaf);
            self.load(before);
            index = self.slots.len();
        }
        self.index = index - 1;
        self.settle();
    }

    /// Puts the run in order that it is in, unless it is in it since it was.
    fn settle(&mut self) {
        if !self.settled.contains(&self.index) {
            self.settled = settle(&mut self.slots, self.index);
        }
    }
}
