//! [`LeafRef`]: a leaf of a leaf list: the lowest place that belongs to it, its slots, and its links.
//!
//! A leaf is one piece of the arena. Its *tower*, the links to the next leaf on each of its levels, grows downwards
//! from the header, so that the link of level 0, the header and the low key lie side by side whatever the height:
//!
//! ```text
//!   link[h-1] … link[1] link[0] | slots | word | low: *entry | low_seq: u64 | key_len: u32 | height: u32 | low key
//!                                ^ a leaf's address
//! ```
//!
//! The low key is a copy of the key of `low`, the leaf's first entry: a search reads leaves, which are few and stay in
//! the cache, instead of entries. The head, before all others, has no low entry.
//!
//! Invariants: everything but links and slots is constant once the leaf is linked; leaves are never unlinked, and live
//! as long as their arena. A `LeafRef<'a>` exists only for a leaf that was written, by this thread or by one that
//! published it, and that is borrowed for `'a` with its arena. Locks: none.

#![allow(unsafe_code)]

use super::arena::{ALIGNMENT, Arena};
use super::entry::{EntryRef, Header as EntryHeader, Place, key_word};
use super::slots::{Header as SlotsHeader, SlotsRef};
use super::sync::{AtomicPtr, Ordering};
use crate::format::SeqNo;
use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// Levels of the tallest tower. One leaf in four is a level taller, so 10 levels serve 4^10 leaves. A model check has
/// few levels, because its cost grows with every atomic.
pub(super) const HEIGHT_MAX: usize = if cfg!(all(loom, test)) { 2 } else { 10 };

/// The fixed part of a leaf; its tower lies before it, its low key behind it.
#[repr(C)]
pub(super) struct Header {
    slots: AtomicPtr<SlotsHeader>,
    /// The first eight bytes of the low key, by [`key_word`].
    word: u64,
    /// Null in the head.
    low: *mut EntryHeader,
    low_seq: SeqNo,
    key_len: u32,
    height: u32,
}

type Link = AtomicPtr<Header>;

const _: () = assert!(align_of::<Header>() <= ALIGNMENT);
const _: () = assert!(align_of::<Link>() <= ALIGNMENT);

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct LeafRef<'a> {
    header: NonNull<Header>,
    arena: PhantomData<&'a Arena>,
}

impl PartialEq for LeafRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl<'a> LeafRef<'a> {
    /// Writes a leaf that nothing points to yet, linked to nothing.
    pub(super) fn write(arena: &'a Arena, height: usize, low: Option<EntryRef<'a>>, slots: SlotsRef<'a>) -> Self {
        let tower_bytes = height * size_of::<Link>();
        let Place { key, seq } = low.map_or(Place { key: b"", seq: SeqNo::MAX }, EntryRef::place);
        let piece = arena.allocate(tower_bytes + size_of::<Header>() + key.len());
        // SAFETY: the piece is ours alone and has room for tower, header and key in a row; it is aligned for links and
        // header, whose sizes are multiples of their alignment. The pointer keeps the provenance of the whole chunk,
        // so that tower and key may be reached from the header.
        let header = unsafe {
            let header = piece.add(tower_bytes).cast::<Header>();
            for level in 0..height {
                header.cast::<Link>().sub(1 + level).write(Link::new(null_mut()));
            }
            header.write(Header {
                slots: AtomicPtr::new(slots.as_ptr().as_ptr()),
                word: key_word(key),
                low: low.map_or(null_mut(), |low| low.as_ptr().as_ptr()),
                low_seq: seq,
                key_len: key.len() as u32,
                height: height as u32,
            });
            header.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            header
        };
        LeafRef { header, arena: PhantomData }
    }

    /// # Safety
    /// `header` came from [`LeafRef::as_ptr`] of a leaf whose arena outlives `'a`; if by way of another thread, with a
    /// Release there and an Acquire here.
    pub(super) unsafe fn from_ptr(header: NonNull<Header>) -> Self {
        LeafRef { header, arena: PhantomData }
    }

    pub(super) fn as_ptr(self) -> NonNull<Header> {
        self.header
    }

    fn header(self) -> &'a Header {
        // SAFETY: the leaf was written and is there for `'a`; nobody has a `&mut` to it.
        unsafe { self.header.as_ref() }
    }

    /// The first entry of the leaf; `None` for the head.
    pub(super) fn low(self) -> Option<EntryRef<'a>> {
        // SAFETY: the low entry is of the same arena and was written before the leaf.
        NonNull::new(self.header().low).map(|low| unsafe { EntryRef::from_ptr(low) })
    }

    pub(super) fn low_key(self) -> &'a [u8] {
        // SAFETY: `key_len` bytes behind the header were initialised by `write` and never change.
        unsafe { std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), self.header().key_len as usize) }
    }

    /// Where the leaf begins. Not for the head, which begins before every place.
    pub(super) fn low_place(self) -> Place<'a> {
        Place { key: self.low_key(), seq: self.header().low_seq }
    }

    /// Whether the leaf begins at or before `place`; `word` is the first word of its key. Not for the head.
    pub(super) fn begins_by(self, word: u64, place: Place<'_>) -> bool {
        match self.header().word.cmp(&word) {
            Order::Less => true,
            Order::Greater => false,
            Order::Equal => self.low_place() <= place,
        }
    }

    pub(super) fn slots(self) -> SlotsRef<'a> {
        // Acquire: this thread sees what the slots held when they were put here. It also sees a link that was stored
        // before the slots were put here, if it loads the link afterwards.
        let slots = self.header().slots.load(Ordering::Acquire);
        // SAFETY: `slots` is never null and always of this arena; it was stored with Release.
        unsafe { SlotsRef::from_ptr(NonNull::new_unchecked(slots)) }
    }

    /// Replaces the slots `old` by `new`, unless another thread has replaced them.
    pub(super) fn replace_slots(self, old: SlotsRef<'a>, new: SlotsRef<'a>) -> bool {
        let (old, new) = (old.as_ptr().as_ptr(), new.as_ptr().as_ptr());
        // Release: publishes the new slots, and the link that was stored before.
        self.header().slots.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The next leaf on `level`, which this leaf's tower reaches.
    pub(super) fn next(self, level: usize) -> Option<LeafRef<'a>> {
        // Acquire: the next leaf's fields are seen as they were when it was linked.
        let next = NonNull::new(self.link(level).load(Ordering::Acquire))?;
        // SAFETY: links point to leaves of the same arena, and were stored with Release.
        Some(unsafe { LeafRef::from_ptr(next) })
    }

    /// Links this leaf, which is not linked on `level` yet, between `before` and `after`, unless another leaf was
    /// linked there. Requires that both towers reach `level`.
    pub(super) fn link_between(self, level: usize, before: LeafRef<'a>, after: Option<LeafRef<'a>>) -> bool {
        let after = after.map_or(null_mut(), |after| after.as_ptr().as_ptr());
        // Relaxed: the leaf is not reached on this level yet; the exchange publishes it.
        self.link(level).store(after, Ordering::Relaxed);
        let link = before.link(level);
        // Release: publishes the leaf, its slots and its links up to this level. On failure nothing is read through
        // the value found: it is loaded again with Acquire.
        link.compare_exchange(after, self.header.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn link(self, level: usize) -> &'a Link {
        assert!(level < self.header().height as usize, "a leaf is linked on the levels of its tower");
        // SAFETY: the tower has this link, as was just asserted; links are only ever shared.
        unsafe { self.header.cast::<Link>().sub(1 + level).as_ref() }
    }
}

/// The height of the `number`th tower: one in four is taller than 1, one in sixteen taller than 2, and so on. A hash of
/// the number, so that the same inserts make the same list.
pub(super) fn tower_height(number: u64) -> usize {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    HEIGHT_MAX.min(1 + hash.trailing_zeros() as usize / 2)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_tower_in_four_is_taller() {
        let mut at_least = [0u32; HEIGHT_MAX + 1];
        for number in 0..100_000 {
            for count in at_least.iter_mut().take(1 + tower_height(number)) {
                *count += 1;
            }
        }
        for (height, expected) in [(2, 25_000), (3, 6_250), (4, 1_562)] {
            let count = at_least[height];
            assert!(count.abs_diff(expected) < expected / 10, "{count} towers of height {height} or more");
        }
    }
}
