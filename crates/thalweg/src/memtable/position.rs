//! [`Position`]: a place in a leaf list, which it keeps alive: at an entry, or nowhere.
//!
//! A position holds the entries of one leaf as they were when it read the leaf. It may not see an entry that is added
//! to that leaf afterwards. It sees every entry whose insertion happened before its last seek, or before the approach
//! to that seek if there was one.
//!
//! A seek, and the first steps after it, sort nothing: they look through the leaf's entries for the next one. A leaf
//! whose low entry is the next one is not even read. Only a longer walk ranks a leaf, and then every leaf that it
//! enters.
//!
//! Invariants: `entry`, if any, is of the leaf of `cover`; if the leaf is ranked, it is the entry at the index, and its
//! run is settled. `'static` in the fields stands for "as long as `list`"; what a position hands out lives as long as
//! its borrow. Locks: none.

#![allow(unsafe_code)]

use super::entry::{EntryRef, Place};
use super::list::{Cover, LeafList};
use super::order::{first_from, last_before, settle};
use super::slots::{Slot, word_of};
use std::ops::Range;
use std::sync::Arc;

/// A walk prefetches the entry that lies this many entries ahead.
const AHEAD: usize = 6;

/// The number of steps after a seek that look for their entry. A look scans the slots, while ranking sorts them. Most
/// seeks lead to few steps here, because the entries that come next are in other memtables and tables.
const LOOKS_MAX: u32 = if cfg!(all(loom, test)) { 1 } else { 4 };

/// See the module.
pub(super) struct Position {
    /// The leaf that the position is in; `None` before the first seek.
    cover: Option<Cover<'static>>,
    /// The entries of the leaf, in the state of `order`.
    slots: Vec<Slot<'static>>,
    order: Order,
    /// The entry that the position is at.
    entry: Option<EntryRef<'static>>,
    /// Where the next seek leads.
    approached: Option<Cover<'static>>,
    /// The number of steps that may still look for their entry.
    looks_left: u32,
    list: Arc<LeafList>,
}

/// The state of a cursor's copy of a leaf.
enum Order {
    /// Not read yet.
    Unread,
    /// Read, in no order. Entries at or after the next leaf are still among them.
    Unsorted,
    /// Ranked, without the entries at or after the next leaf. The position is at `index`; `settled` is the run that it
    /// came to last.
    Ranked { index: usize, settled: Range<usize> },
}

// SAFETY: leaves and entries are of `list`, which may be used from any thread and moves with the position.
unsafe impl Send for Position {}
// SAFETY: as above; nothing changes through `&self`.
unsafe impl Sync for Position {}

impl Position {
    /// A position at no entry of `list`.
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

    /// Prefetches the memory that a seek to `place` needs. The next call must be this seek, by `go_to_at_or_after`.
    pub(super) fn approach(&mut self, place: Place<'_>) {
        let cover = self.list().cover(place);
        cover.slots.prefetch_all();
        (self.approached, self.entry) = (Some(cover), None);
    }

    /// Moves to the first entry at or after `place`.
    pub(super) fn go_to_at_or_after(&mut self, place: Place<'_>) {
        let cover = self.approached.take().unwrap_or_else(|| self.list().cover(place));
        self.enter(cover);
        self.looks_left = LOOKS_MAX;
        self.look_forwards(place, |entry| entry.place() < place);
    }

    /// Moves to the last entry before `place`.
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

    /// The entry that the position is at.
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

    /// Moves into the leaf of `cover`, to none of its entries.
    fn enter(&mut self, cover: Cover<'static>) {
        (self.cover, self.order, self.entry, self.approached) = (Some(cover), Order::Unread, None, None);
    }

    /// Reads the leaf of the position if it was not read yet. Requires an earlier seek.
    fn read(&mut self) -> Cover<'static> {
        let Some(cover) = self.cover else { panic!("the cursor was not sent anywhere") };
        if matches!(self.order, Order::Unread) {
            cover.copy_into(&mut self.slots);
            self.order = Order::Unsorted;
        }
        cover
    }

    /// Ranks the entries of the leaf, which were not ranked yet.
    fn rank(&mut self) -> Cover<'static> {
        let cover = self.read();
        cover.rank(&mut self.slots);
        self.order = Order::Ranked { index: 0, settled: 0..0 };
        cover
    }

    /// Ranks the entries of the leaf, which were not ranked yet. Returns how many are before `here`.
    fn rank_around(&mut self, here: Place<'_>) -> usize {
        self.rank().count_before(here, &mut self.slots)
    }

    /// Moves to the first entry of the unranked leaf for which `is_before` does not hold, or to the low entry of the
    /// next leaf. `is_before` holds for entries before `place`, which belongs to the leaf, and perhaps for `place`
    /// itself.
    fn look_forwards(&mut self, place: Place<'_>, is_before: impl Fn(EntryRef<'static>) -> bool) {
        let cover = self.read();
        let found = first_from(&self.slots, word_of(place.key, cover.slots.skip()), is_before);
        let Some(next) = cover.next else {
            self.entry = found;
            return;
        };
        // Entries at or after the next leaf are skipped here.
        self.entry = found.filter(|found| found.place() < next.low_place());
        if self.entry.is_none() {
            self.enter(Cover::of(next));
            self.entry = next.low();
        }
    }

    /// Moves to the last entry before `place`, which belongs to the unranked leaf of the position.
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

    /// Moves to the entry at this index of the ranked leaf, or to the first entry of the leaves behind it.
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

    /// Moves to the entry before this index of the ranked leaf, or to the last entry of the leaves before it.
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

    /// Moves to the entry at this index of the ranked leaf, and settles its run if it is not settled.
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
