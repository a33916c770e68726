//! [`LeafList`]: the entries of a memtable in internal-key order; readers take no lock, writers insert concurrently.
//!
//! ```text
//!   level 1   head ─────────────────────► leaf k ──────────► …
//!   level 0   head ──► leaf c ──► leaf g ──► leaf k ──► leaf p ──► …      leaves, linked as in a skip list
//!              │         │          │          │
//!            a b _     e c d      g _ _      k m l                        slots: entries as they came
//! ```
//!
//! A leaf has the entries from its low place up to that of the next leaf, unsorted: an insert finds the leaf and takes
//! the next slot. It moves nothing and touches no other entry. When the slots are full they are *frozen* and replaced.
//!
//! # Invariants
//! 1. Leaves are never unlinked and their low places never change; each level is strictly ascending. So a link only
//!    ever changes from one leaf to a smaller one, and its leaf's share only ever shrinks.
//! 2. Level 0 alone defines which leaves there are. Higher levels are shortcuts, each a subsequence of the level below.
//! 3. An entry that was added is always found in the slots of the leaf that its place belongs to. Those slots may also
//!    hold entries at or after the next leaf: that leaf has them too, and here they are not looked at.
//! 4. A leaf other than the head has an entry at its low place.
//!
//! # How slots are replaced, and why 3 holds
//! First the slots `A` of a leaf are frozen: their content is then final, and all threads that make room see the same
//! entries. The next step depends on `A` and the next leaf alone:
//! - *Grow*, if `A` is short of the largest capacity, or half of its slots were closed before they were filled: larger
//!   slots with the same entries replace `A`.
//! - *Split* otherwise: a new leaf with the upper part of `A` is linked behind this leaf, and then slots with the rest
//!   replace `A`. A thread that finds `A` between these steps (`A` has entries at or after the next leaf) does the
//!   second step itself. If the new entry is after all of `A`, and the next leaf has not much room, the new leaf begins
//!   with the new entry alone. `A` then stays if some of its slots were closed before they were filled; else an equally
//!   full copy replaces it.
//!
//! The link behind the leaf is exchanged only if `A` is frozen and of the kind that is split, and the next leaf was
//! seen to be after all of `A`. By 1 the link held no leaf within `A` before that exchange. So if `A` was replaced
//! before the exchange, then by a full copy of itself, to which nothing can be added. So nothing that is not in `A` was
//! added to this leaf: the new leaf misses nothing.
//!
//! Every thread reads the slots first and the next leaf after that. Slots that hold the lower part of a split were
//! stored after the link to the new leaf: a thread that sees these slots sees that leaf. A thread that sees `A` instead
//! has everything in it. An insert that saw `A`, and then a next leaf after its place, and got a slot of `A`, did so
//! before `A` was frozen; so every thread that split `A` saw the entry.
//!
//! The thread that makes room puts the new entry in with the rest. So each replacement of slots completes an insert,
//! and the inserts as a whole advance whatever any thread does.
//!
//! Locks: none (the arena takes one to get a new chunk).

#![allow(unsafe_code)]

use super::arena::Arena;
use super::entry::{EntryRef, Place, key_word};
use super::filter::MemtableFilter;
use super::leaf::{HEIGHT_MAX, Header as LeafHeader, LeafRef, tower_height};
use super::order::{count_before, rank, settle};
use super::slots::{Slot, SlotsRef, common_bits, word_of};
use super::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::format::{EntryKind, SeqNo};
use std::ptr::NonNull;

/// Slots of the first leaf at the beginning: an almost empty memtable is small.
const CAPACITY_MIN: usize = if cfg!(all(loom, test)) { 2 } else { 4 };
/// Slots of a leaf at most. Fewer make more leaves to search, more make longer searches in a leaf: `docs/memtable.md`.
pub(super) const CAPACITY_MAX: usize = if cfg!(all(loom, test)) { 2 } else { 128 };

/// Words are computed again when they could leave out this many more bits. Until then they are copied, so that a split
/// need not touch the entries.
const SKIP_STEP: usize = 6;

/// A sorted list of entries in an arena.
pub(super) struct LeafList {
    arena: Arena,
    head: NonNull<LeafHeader>,
    /// The tallest tower so far. A hint: a stale one costs time, not correctness.
    height: AtomicUsize,
    /// The number of leaves so far, without the head. Tower heights follow from it.
    leaves: AtomicU64,
    entries: AtomicU64,
    filter: MemtableFilter,
}

/// The leaf that a place belongs to, its slots, and the next leaf. The slots were read before the next leaf.
#[derive(Clone, Copy)]
pub(super) struct Cover<'a> {
    pub(super) leaf: LeafRef<'a>,
    pub(super) slots: SlotsRef<'a>,
    pub(super) next: Option<LeafRef<'a>>,
}

// SAFETY: `head` points into `arena`, which the list owns and which may move between threads.
unsafe impl Send for LeafList {}
// SAFETY: entries and leaves are immutable once published, except for links and slots, which are atomics; the files of
// leaves and slots say how each is published.
unsafe impl Sync for LeafList {}

impl<'a> Cover<'a> {
    pub(super) fn of(leaf: LeafRef<'a>) -> Self {
        let slots = leaf.slots();
        Cover { leaf, slots, next: leaf.next(0) }
    }

    /// Whether `place`, which is not before the leaf, belongs to it.
    fn ends_after(&self, word: u64, place: Place<'_>) -> bool {
        !self.next.is_some_and(|next| next.begins_by(word, place))
    }

    /// Replaces `slots` by the entries of the leaf, and perhaps some at or after the next leaf, in no order.
    pub(super) fn copy_into(&self, slots: &mut Vec<Slot<'a>>) {
        self.slots.copy_into(slots);
    }

    /// Ranks the slots of [`Cover::copy_into`], and removes those at or after the next leaf.
    pub(super) fn rank(&self, slots: &mut Vec<Slot<'a>>) {
        rank(slots);
        self.cut(slots);
    }

    /// Removes the entries at or after the next leaf from the ranked `slots`. Returns whether there were any.
    fn cut(&self, slots: &mut Vec<Slot<'a>>) -> bool {
        let Some(next) = self.next else { return false };
        let len = slots.len();
        let end = self.count_before(next.low_place(), slots);
        slots.truncate(end);
        end < len
    }

    /// How many of the leaf's ranked `slots` are before `place`, which belongs to this leaf or begins the next.
    pub(super) fn count_before(&self, place: Place<'_>, slots: &mut [Slot<'a>]) -> usize {
        count_before(slots, word_of(place.key, self.slots.skip()), place)
    }
}

impl LeafList {
    /// An empty list. `entries_expected` is a guess at how many it will have; 0: it gets no filter.
    pub(super) fn new(arena: Arena, entries_expected: u64) -> Self {
        let slots = SlotsRef::write(&arena, CAPACITY_MIN, 0, &[]);
        let head = LeafRef::write(&arena, HEIGHT_MAX, None, slots).as_ptr();
        let (leaves, entries, filter) = (AtomicU64::new(0), AtomicU64::new(0), MemtableFilter::new(entries_expected));
        LeafList { arena, head, height: AtomicUsize::new(1), leaves, entries, filter }
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Its memory.
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The number of entries, including those that are being inserted at this moment.
    pub(super) fn entries(&self) -> u64 {
        // Relaxed: a statistic. Readers also skip a list without entries: a published entry was counted before, and its
        // publication orders the count too.
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether it may have a key with this hash.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        self.filter.may_have(hash)
    }

    /// The first entry of `place.key` at or after `place`: its newest version at or below the sequence number.
    pub(super) fn get(&self, place: Place<'_>) -> Option<EntryRef<'_>> {
        let cover = self.cover(place);
        let found = cover.slots.version(place);
        let Some(next) = cover.next else { return found };
        // Entries at or after the next leaf are skipped here (invariant 3). If all that is left of the key is there,
        // the next leaf begins with it (4).
        let found = found.filter(|found| found.place() < next.low_place());
        found.or_else(|| next.low().filter(|_| next.low_key() == place.key))
    }

    /// Adds an entry. `(key, seq)` must be new to the list, which is asserted when its leaf is sorted.
    pub(super) fn insert(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        let place = Place { key, seq };
        let is_new = || self.get(place).is_none_or(|found| found.seq() != seq);
        debug_assert!(is_new(), "a sequence number was used twice for a key");
        // Counts the entry before it is in the list: readers skip a list that has none.
        self.entries.fetch_add(1, Ordering::Relaxed);
        let bits = self.filter.bits_of(&self.arena, key);
        let mut cover = self.cover(place);
        cover.slots.prefetch();
        let entry = EntryRef::write(&self.arena, key, seq, kind, value);
        bits.set();
        while !cover.slots.add(entry) && !self.make_room(cover, entry) {
            cover = self.cover(place);
        }
    }

    fn head(&self) -> LeafRef<'_> {
        // SAFETY: the head was written into `arena` by `new`; whoever has the list got it from there.
        unsafe { LeafRef::from_ptr(self.head) }
    }

    /// The range of keys that the head covers.
    pub(super) fn first(&self) -> Cover<'_> {
        Cover::of(self.head())
    }

    /// The range of keys that the last leaf covers.
    pub(super) fn last(&self) -> Cover<'_> {
        let mut leaf = self.head();
        // Relaxed: a hint.
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            while let Some(next) = leaf.next(level) {
                leaf = next;
            }
        }
        self.before(leaf, |_| true)
    }

    /// The range of keys that the leaf of `place` covers.
    pub(super) fn cover(&self, place: Place<'_>) -> Cover<'_> {
        let word = key_word(place.key);
        self.before(self.descend(0, |leaf| leaf.begins_by(word, place)), |leaf| leaf.begins_by(word, place))
    }

    /// The range of keys that the last leaf before `leaf` covers. `leaf` is not the head.
    pub(super) fn cover_before(&self, leaf: LeafRef<'_>) -> Cover<'_> {
        let end = leaf.low_place();
        self.before(self.descend(0, |leaf| leaf.low_place() < end), |leaf| leaf.low_place() < end)
    }

    /// Walks from `leaf` to the last leaf for which `is_before` holds.
    fn before<'a>(&self, leaf: LeafRef<'a>, is_before: impl Fn(LeafRef<'a>) -> bool) -> Cover<'a> {
        let mut cover = Cover::of(leaf);
        while let Some(next) = cover.next.filter(|next| is_before(*next)) {
            cover = Cover::of(next);
        }
        cover
    }

    /// The last leaf on `level` for which `is_before` holds, or the head.
    fn descend<'a>(&'a self, level: usize, is_before: impl Fn(LeafRef<'a>) -> bool) -> LeafRef<'a> {
        let (mut leaf, mut after) = (self.head(), None);
        // Relaxed: a hint.
        let top = self.height.load(Ordering::Relaxed).max(level + 1);
        for level in (level..top).rev() {
            // A leaf that the level above has compared is not compared again.
            while let Some(next) = leaf.next(level) {
                if after == Some(next) || !is_before(next) {
                    after = Some(next);
                    break;
                }
                leaf = next;
            }
        }
        leaf
    }

    /// Replaces the full slots of `cover` by slots that also have `entry`. Returns `false` if other threads have
    /// changed the leaf and `entry` was not added.
    fn make_room<'a>(&'a self, cover: Cover<'a>, entry: EntryRef<'a>) -> bool {
        let (old, place) = (cover.slots, entry.place());
        old.freeze();
        let cover = Cover { next: cover.leaf.next(0), ..cover };
        if !cover.ends_after(key_word(place.key), place) {
            return false;
        }
        let mut slots = Vec::with_capacity(CAPACITY_MAX + 1);
        slots.extend(old.slots());
        let splits = old.capacity() == CAPACITY_MAX && slots.len() >= CAPACITY_MAX / 2;
        let slot = Slot::new(word_of(place.key, old.skip()), entry);
        slots.push(slot);
        rank(&mut slots);
        if cover.cut(&mut slots) || !splits {
            let capacity = CAPACITY_MAX.min(2 * old.capacity());
            let new = self.write_slots(capacity, old.skip(), cover.leaf, cover.next, &mut slots);
            return cover.leaf.replace_slots(old, new);
        }
        let last = slots.len() - 1;
        settle(&mut slots, last);
        // An ascending load fills leaf after leaf. But in a gap before an existing leaf, each new entry would begin a
        // leaf of its own.
        let is_gap = cover.next.is_some_and(|next| next.slots().slots().count() < CAPACITY_MAX / 2);
        let is_last = slots[last].rank() == slot.rank() && !is_gap;
        let middle = if is_last { last } else { slots.len() / 2 };
        settle(&mut slots, middle);
        let (lower, upper) = slots.split_at_mut(middle);
        let entry_is_upper = upper.iter().any(|upper| upper.rank() == slot.rank());
        let Some(leaf) = self.link_behind(&cover, upper) else { return false };
        if is_last && lower.len() < CAPACITY_MAX {
            // `old` stays, because slots with room could take entries that a late splitter of `old` does not know.
            return true;
        }
        let new = self.write_slots(CAPACITY_MAX, old.skip(), cover.leaf, Some(leaf), lower);
        cover.leaf.replace_slots(old, new) || entry_is_upper
    }

    /// Writes slots for the leaf from `leaf` to `next`, with entries whose words leave out `skip` bits.
    fn write_slots<'a>(
        &'a self,
        capacity: usize,
        skip: usize,
        leaf: LeafRef<'a>,
        next: Option<LeafRef<'a>>,
        slots: &mut [Slot<'a>],
    ) -> SlotsRef<'a> {
        let low = leaf.low().map(|_| leaf.low_key());
        let skip = fresh_skip(skip, low, next, slots);
        SlotsRef::write(&self.arena, capacity, skip, slots)
    }

    /// Links a new leaf with `slots` behind that of `cover`, unless another was linked there.
    fn link_behind<'a>(&'a self, cover: &Cover<'a>, slots: &mut [Slot<'a>]) -> Option<LeafRef<'a>> {
        let low = slots.first()?.entry();
        let skip = fresh_skip(cover.slots.skip(), Some(low.key()), cover.next, slots);
        let new_slots = SlotsRef::write(&self.arena, CAPACITY_MAX, skip, slots);
        // Relaxed: each leaf only needs a number of its own.
        let height = tower_height(self.leaves.fetch_add(1, Ordering::Relaxed));
        let leaf = LeafRef::write(&self.arena, height, Some(low), new_slots);
        if !leaf.link_between(0, cover.leaf, cover.next) {
            return None;
        }
        // Relaxed: a hint.
        self.height.fetch_max(height, Ordering::Relaxed);
        let end = leaf.low_place();
        for level in 1..height {
            let is_before = |leaf: LeafRef<'a>| leaf.low_place() < end;
            let mut before = self.descend(level, is_before);
            loop {
                let after = before.next(level);
                match after.filter(|after| is_before(*after)) {
                    Some(next) => before = next,
                    None if leaf.link_between(level, before, after) => break,
                    // Others linked leaves here meanwhile; leaves are never unlinked, so the search goes on.
                    None => {}
                }
            }
        }
        Some(leaf)
    }
}

/// Returns how many bits the words of slots from `low` to `next` shall leave out: those that both keys have in common.
/// For the head, `low` is `None`. Computes the words again if that is worth it.
fn fresh_skip(skip: usize, low: Option<&[u8]>, next: Option<LeafRef<'_>>, slots: &mut [Slot<'_>]) -> usize {
    let (Some(low), Some(next)) = (low, next) else { return skip };
    let common = common_bits(low, next.low_key());
    if common < skip + SKIP_STEP {
        return skip;
    }
    for slot in slots {
        *slot = Slot::new(word_of(slot.entry().key(), common), slot.entry());
    }
    common
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::pool::MemtablePool;
    use super::*;

    #[test]
    fn every_level_is_an_ascending_part_of_the_level_below_and_leaves_have_what_is_theirs() {
        let list = LeafList::new(Arena::new(&MemtablePool::new(0), 0), 0);
        let inserts = if cfg!(miri) { 300u64 } else { 20_000 };
        for i in 0..inserts {
            let key = (i.wrapping_mul(0x9e37_79b9) % (inserts / 5)).to_be_bytes();
            list.insert(&key, SeqNo(i + 1), EntryKind::Put, b"");
        }
        let mut below: Option<Vec<LeafRef<'_>>> = None;
        for level in 0..HEIGHT_MAX {
            let leaves: Vec<_> = std::iter::successors(list.head().next(level), |leaf| leaf.next(level)).collect();
            assert!(leaves.is_sorted_by(|a, b| a.low_place() < b.low_place()));
            if let Some(below) = &below {
                let mut below = below.iter();
                assert!(leaves.iter().all(|leaf| below.any(|other| other == leaf)));
            }
            below = Some(leaves);
        }
        let (mut cover, mut count) = (list.first(), 0);
        loop {
            let mut slots = Vec::new();
            cover.copy_into(&mut slots);
            cover.rank(&mut slots);
            count += slots.len() as u64;
            for entry in slots.iter().map(|slot| slot.entry()) {
                assert!(cover.leaf.low().is_none_or(|low| low.place() <= entry.place()));
                assert!(cover.next.is_none_or(|next| entry.place() < next.low_place()));
            }
            let Some(next) = cover.next else { break };
            cover = Cover::of(next);
        }
        assert_eq!(count, inserts);
    }
}

/// Interleavings: `RUSTFLAGS="--cfg loom" cargo test -p thalweg --lib loom_`. Leaves have two slots here, so that a
/// third entry splits one. All of them where one thread reads; where both write, which takes hours, those in which a
/// thread is interrupted up to [`PREEMPTIONS`] times.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::pool::MemtablePool;
    use super::super::position::Position;
    use super::*;
    use std::sync::Arc;

    const PREEMPTIONS: usize = 3;

    fn model(test: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.check(test);
    }

    fn list() -> Arc<LeafList> {
        Arc::new(LeafList::new(Arena::new(&MemtablePool::new(0), 0), 0))
    }

    fn insert(list: &LeafList, key: &[u8; 1], seq: u64) {
        list.insert(key, SeqNo(seq), EntryKind::Put, key);
    }

    fn keys(list: &Arc<LeafList>) -> Vec<u8> {
        let mut position = Position::new(Arc::clone(list));
        position.go_to_first();
        let mut keys = Vec::new();
        while position.valid() {
            assert_eq!(position.entry().key(), position.entry().value());
            keys.extend_from_slice(position.entry().key());
            position.go_to_next();
        }
        keys
    }

    /// `one` and `other` are inserted at once into a list that has `first`: all of them are there in the end, in order.
    fn both_are_kept(first: &'static [&[u8; 1]], one: &'static [u8; 1], other: &'static [u8; 1], all: &'static [u8]) {
        model(move || {
            let list = list();
            let mut seqs = 1..;
            for (key, seq) in first.iter().zip(&mut seqs) {
                insert(&list, key, seq);
            }
            let (beside, seq) = (Arc::clone(&list), seqs.next().unwrap());
            let thread = loom::thread::spawn(move || insert(&beside, one, seq));
            insert(&list, other, seqs.next().unwrap());
            thread.join().unwrap();
            assert_eq!(keys(&list), all);
        });
    }

    #[test]
    fn loom_two_inserts_that_find_a_leaf_full_are_both_kept() {
        both_are_kept(&[b"b", b"d"], b"c", b"a", b"abcd");
    }

    #[test]
    fn loom_an_insert_that_appends_and_one_that_splits_are_both_kept() {
        both_are_kept(&[b"b", b"d"], b"e", b"c", b"bcde");
    }

    #[test]
    fn loom_an_insert_into_the_last_slot_and_one_that_finds_no_slot_are_both_kept() {
        both_are_kept(&[b"b"], b"c", b"a", b"abc");
    }

    #[test]
    fn loom_steps_from_a_seek_see_all_that_was_there_before_while_the_leaf_splits() {
        model(|| {
            let list = list();
            insert(&list, b"b", 1);
            insert(&list, b"d", 2);
            let other = Arc::clone(&list);
            let thread = loom::thread::spawn(move || insert(&other, b"c", 3));
            let mut position = Position::new(Arc::clone(&list));
            position.go_to_at_or_after(Place { key: b"b", seq: SeqNo::MAX });
            let mut seen = Vec::new();
            while position.valid() {
                seen.extend_from_slice(position.entry().key());
                position.go_to_next();
            }
            assert!([&b"bd"[..], b"bcd"].contains(&&*seen), "{seen:?}");
            thread.join().unwrap();
        });
    }

    #[test]
    fn loom_a_reader_sees_entries_whole_in_order_and_all_that_were_there_before() {
        loom::model(|| {
            let list = list();
            insert(&list, b"b", 1);
            insert(&list, b"d", 2);
            let other = Arc::clone(&list);
            let thread = loom::thread::spawn(move || {
                insert(&other, b"c", 3);
                insert(&other, b"a", 4);
            });
            let found = list.get(Place { key: b"d", seq: SeqNo::MAX }).map(|entry| entry.seq());
            assert_eq!(found, Some(SeqNo(2)));
            let seen = keys(&list);
            assert!([&b"bd"[..], b"bcd", b"abcd"].contains(&&*seen), "{seen:?}");
            let mut position = Position::new(Arc::clone(&list));
            position.go_to_before(Place { key: b"d", seq: SeqNo::MAX });
            assert!(position.entry().key() == b"c" || (position.entry().key() == b"b" && seen == b"bd"));
            thread.join().unwrap();
            assert_eq!(keys(&list), b"abcd");
        });
    }
}
