//! [`Position`]: a place in a leaf list, which it keeps alive: at an entry, or nowhere.
//!
//! It holds the entries of one leaf, as they were when it read the leaf: an entry that is added to that leaf
//! afterwards it may not see. Everything whose insertion happened before the position was last sent somewhere, or sent
//! near, it sees.
//!
//! A seek, and the first steps from where it leads, put nothing in order: they look through the leaf's entries for
//! the one that is next, and a leaf whose low entry is that one is not even read. Only a walk that goes on ranks a
//! leaf, and then every leaf that it comes to.
//!
//! Invariants: `entry`, if any, is of the leaf of `cover`; where the leaf is ranked it is that of the index, and its
//! run is settled. `'static` in the fields stands for "as long as `list`"; what a position hands out lives as long as
//! its borrow. Locks: none.

#![allow(unsafe_code)]

use super::entry::{EntryRef, Place};
use super::list::{Cover, LeafList};
use super::order::{first_from, last_before, settle};
use super::slots::{Slot, word_of};
use std::ops::Range;
use std::sync::Arc;

/// How many entries ahead of a walk memory is asked for.
const AHEAD: usize = 6;

/// Steps from a seek that look for their entry. A look passes over the slots, ranking sorts them, and most seeks lead
/// to few steps here: the entries that come next are in other memtables and tables.
const LOOKS_MAX: u32 = if cfg!(all(loom, test)) { 1 } else { 4 };

/// See the module.
pub(super) struct Position {
    /// The leaf it is in; `None` before it was sent anywhere.
    cover: Option<Cover<'static>>,
    /// The entries of the leaf, as `order` tells.
    slots: Vec<Slot<'static>>,
    order: Order,
    /// The entry it is at.
    entry: Option<EntryRef<'static>>,
    /// Where the next seek leads.
    approached: Option<Cover<'static>>,
    /// Steps that may yet look for their entry.
    looks_left: u32,
    list: Arc<LeafList>,
}

/// The state of a cursor's copy of a leaf.
enum Order {
    /// Not read yet.
    Unread,
    /// Read, in no order, those at or after the next leaf still among them.
    Unsorted,
    /// Ranked, and those cut off. The position is at this one; `settled` is where the run is that it came to last.
    Ranked { index: usize, settled: Range<usize> },
}

// SAFETY: leaves and entries are of `list`, which may be used from any thread and goes along.
unsafe impl Send for Position {}
// SAFETY: as above; nothing changes through `&self`.
unsafe impl Sync for Position {}

impl Position {
    /// Nowhere in `list`.
    pub(super) fn new(list: Arc<LeafList>) -> Self {
        let (slots, order) = (Vec::new(), Order::Unread);
        Position { cover: None, slots, order, entry: None, approached: None, looks_left: 0, list }
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.entry.is_some()
    }

    pub(super) fn go_to_first(&mut self) {
        let first = self.list().first();
        self.enter(first);
        self.rank();
        self.forwards_to(0);
    }

    pub(super) fn go_to_last(&mut self) {
        let last = self.list().last();
        self.enter(last);
        self.rank();
        self.backwards_from(self.slots.len());
    }

    /// Asks for the memory that going to `place` needs. Going there with `go_to_at_or_after` is the next call.
    pub(super) fn approach(&mut self, place: Place<'_>) {
        let cover = self.list().cover(place);
        cover.slots.prefetch_all();
        (self.approached, self.entry) = (Some(cover), None);
    }

    /// To the first entry at or after `place`.
    pub(super) fn go_to_at_or_after(&mut self, place: Place<'_>) {
        let cover = self.approached.take().unwrap_or_else(|| self.list().cover(place));
        self.enter(cover);
        self.looks_left = LOOKS_MAX;
        self.look_forwards(place, |entry| entry.place() < place);
    }

    /// To the last entry before `place`.
    pub(super) fn go_to_before(&mut self, place: Place<'_>) {
        let cover = self.list().cover(place);
        self.enter(cover);
        self.looks_left = LOOKS_MAX;
        self.look_backwards(place);
    }

    pub(super) fn go_to_next(&mut self) {
        let here = self.here();
        if let Order::Ranked { index, .. } = self.order {
            self.forwards_to(index + 1);
        } else if self.looks_left > 0 {
            self.looks_left -= 1;
            self.look_forwards(here, |entry| entry.place() <= here);
        } else {
            let index = self.rank_around(here);
            self.forwards_to(index + 1);
        }
    }

    pub(super) fn go_to_previous(&mut self) {
        let here = self.here();
        if let Order::Ranked { index, .. } = self.order {
            self.backwards_from(index);
        } else if self.looks_left > 0 {
            self.looks_left -= 1;
            self.look_backwards(here);
        } else {
            let index = self.rank_around(here);
            self.backwards_from(index);
        }
    }

    /// Where it is.
    #[inline]
    pub(super) fn entry(&self) -> EntryRef<'_> {
        match self.entry {
            Some(entry) => entry,
            None => panic!("the cursor is not at an entry"),
        }
    }

    fn here(&self) -> Place<'static> {
        match self.entry {
            Some(entry) => entry.place(),
            None => panic!("the cursor is not at an entry"),
        }
    }

    fn list(&self) -> &'static LeafList {
        // SAFETY: the list lives as long as this position, which alone keeps what it gets from here.
        unsafe { &*Arc::as_ptr(&self.list) }
    }

    /// Into the leaf of `cover`, at none of its entries.
    fn enter(&mut self, cover: Cover<'static>) {
        (self.cover, self.order, self.entry, self.approached) = (Some(cover), Order::Unread, None, None);
    }

    /// The leaf it is in, which was read. Requires that it was sent somewhere.
    fn read(&mut self) -> Cover<'static> {
        let Some(cover) = self.cover else { panic!("the cursor was not sent anywhere") };
        if matches!(self.order, Order::Unread) {
            cover.copy_into(&mut self.slots);
            self.order = Order::Unsorted;
        }
        cover
    }

    /// Ranks the entries of the leaf, which were not.
    fn rank(&mut self) -> Cover<'static> {
        let cover = self.read();
        cover.rank(&mut self.slots);
        self.order = Order::Ranked { index: 0, settled: 0..0 };
        cover
    }

    /// Ranks the entries of the leaf, which were not, and says how many are before `here`.
    fn rank_around(&mut self, here: Place<'_>) -> usize {
        self.rank().count_before(here, &mut self.slots)
    }

    /// To the first entry of the leaf, not ranked, that `is_before` does not hold for, or the low entry of the next: it
    /// holds for what is before `place`, which belongs to the leaf, and at most for `place` besides.
    fn look_forwards(&mut self, place: Place<'_>, is_before: impl Fn(EntryRef<'static>) -> bool) {
        let cover = self.read();
        let found = first_from(&self.slots, word_of(place.key, cover.slots.skip()), is_before);
        let Some(next) = cover.next else {
            self.entry = found;
            return;
        };
        // What is at or after the next leaf is not looked at here.
        self.entry = found.filter(|found| found.place() < next.low_place());
        if self.entry.is_none() {
            self.enter(Cover::of(next));
            self.entry = next.low();
        }
    }

    /// To the last entry before `place`, which belongs to the leaf, not ranked, that it is in.
    fn look_backwards(&mut self, mut place: Place<'_>) {
        loop {
            let cover = self.read();
            self.entry = last_before(&self.slots, word_of(place.key, cover.slots.skip()), place);
            if self.entry.is_some() || cover.leaf.low().is_none() {
                return;
            }
            place = cover.leaf.low_place();
            self.enter(self.list().cover_before(cover.leaf));
        }
    }

    /// To the entry of this index of the leaf, which is ranked, or the first of the leaves behind it.
    fn forwards_to(&mut self, mut index: usize) {
        while index >= self.slots.len() {
            let Some(next) = self.cover.and_then(|cover| cover.next) else {
                self.entry = None;
                return;
            };
            self.enter(Cover::of(next));
            self.rank();
            index = 0;
        }
        self.settle_at(index);
        if let Some(slot) = self.slots.get(index + AHEAD) {
            slot.entry().prefetch();
        }
    }

    /// To the entry before that of this index of the leaf, which is ranked, or the last of the leaves before it.
    fn backwards_from(&mut self, mut index: usize) {
        while index == 0 {
            let leaf = self.cover.map(|cover| cover.leaf).filter(|leaf| leaf.low().is_some());
            let Some(leaf) = leaf else {
                self.entry = None;
                return;
            };
            let before = self.list().cover_before(leaf);
            self.enter(before);
            self.rank();
            index = self.slots.len();
        }
        self.settle_at(index - 1);
    }

    /// To the entry of this index of the leaf, which is ranked. Puts the run in order that it is in, unless it was.
    fn settle_at(&mut self, at: usize) {
        if let Order::Ranked { index, settled } = &mut self.order {
            if !settled.contains(&at) {
                *settled = settle(&mut self.slots, at);
            }
            *index = at;
        }
        self.entry = self.slots.get(at).map(|slot| slot.entry());
    }
}
