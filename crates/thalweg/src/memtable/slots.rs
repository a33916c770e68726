//! [`SlotsRef`]: the entries of one leaf, in the order in which they came.
//!
//! ```text
//!   claimed: usize | capacity: u32 | skip: u32 | slot[0] … slot[capacity-1]
//! ```
//!
//! A slot is the address of an entry, and above it, in the 16 bits that no address of a process needs, the entry's
//! *word*: 16 bits of its key ([`word_of`]), so that a search touches only entries that it is likely to want. All keys
//! of a leaf agree in their first `skip` bits, which the words leave out.
//!
//! Invariants
//! - A slot goes from null to an entry or to `FROZEN`, once, and then never changes. It belongs to the thread that
//!   raised `claimed` over it.
//! - Once [`SlotsRef::freeze`] has returned, no slot changes, also if a thread has claimed it: the content is final.
//!
//! Locks: none.

#![allow(unsafe_code)]

use super::arena::{ADDRESS_BITS, ALIGNMENT, Arena};
use super::entry::{EntryRef, Header as EntryHeader, Place};
use super::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::format::{prefetch, prefetch_range};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut, without_provenance_mut};

/// The content of a slot that must never get an entry. It is no entry's address, because those are aligned.
const FROZEN: *mut EntryHeader = without_provenance_mut(1);

/// The fixed part of the slots; the slots lie behind it.
#[repr(C)]
pub(super) struct Header {
    claimed: AtomicUsize,
    capacity: u32,
    skip: u32,
}

const _: () = assert!(align_of::<Header>() <= ALIGNMENT);
const _: () = assert!(size_of::<Header>().is_multiple_of(align_of::<AtomicPtr<EntryHeader>>()));
const _: () = assert!(usize::BITS - ADDRESS_BITS == u16::BITS, "words lie above addresses of a 64-bit machine");

/// The 16 bits of a key behind its first `skip` bits, zeros where the key is shorter. Of two keys that agree in their
/// first `skip` bits, the one with the smaller word is smaller; equal words say nothing.
pub(super) fn word_of(key: &[u8], skip: usize) -> u16 {
    let rest = key.get(skip / 8..).unwrap_or_default();
    let bytes = rest.first_chunk::<4>().copied().unwrap_or_else(|| {
        let mut bytes = [0; 4];
        bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        bytes
    });
    (u32::from_be_bytes(bytes) << (skip % 8) >> 16) as u16
}

/// The number of leading bits in which two keys agree, with zeros behind the end of the shorter key. All keys from one
/// to the other agree in these bits.
pub(super) fn common_bits(a: &[u8], b: &[u8]) -> usize {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let next = |key: &[u8]| key.get(common).copied().unwrap_or(0);
    let differing = next(a) ^ next(b);
    8 * common + if differing == 0 { 0 } else { differing.leading_zeros() as usize }
}

/// An entry with its word.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Slot<'a> {
    /// The entry's address and above it the word.
    word_and_entry: NonNull<EntryHeader>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Slot<'a> {
    pub(super) fn new(word: u16, entry: EntryRef<'a>) -> Self {
        let entry = entry.as_ptr();
        debug_assert!(entry.addr().get() >> ADDRESS_BITS == 0, "the arena hands out no such address");
        let word_and_entry = entry.map_addr(|address| address | usize::from(word) << ADDRESS_BITS);
        Slot { word_and_entry, arena: PhantomData }
    }

    /// The entry that was loaded from a slot; `None` if the slot has none.
    ///
    /// # Safety
    /// Loaded with Acquire, from a slot whose arena outlives `'a`.
    unsafe fn loaded(slot: *mut EntryHeader) -> Option<Self> {
        let word_and_entry = NonNull::new(slot).filter(|slot| slot.as_ptr() != FROZEN)?;
        Some(Slot { word_and_entry, arena: PhantomData })
    }

    pub(super) fn word(self) -> u16 {
        (self.word_and_entry.addr().get() >> ADDRESS_BITS) as u16
    }

    pub(super) fn entry(self) -> EntryRef<'a> {
        let entry = self.word_and_entry.as_ptr().map_addr(|address| address & ((1 << ADDRESS_BITS) - 1));
        // SAFETY: `word_and_entry` was made of an entry of an arena that outlives `'a`; its address is not null.
        unsafe { EntryRef::from_ptr(NonNull::new_unchecked(entry)) }
    }

    /// A number that sorts slots in the order of their words.
    pub(super) fn rank(self) -> usize {
        self.word_and_entry.addr().get()
    }
}

/// Slots in an arena that outlives `'a`, written and published.
#[derive(Clone, Copy)]
pub(super) struct SlotsRef<'a> {
    header: NonNull<Header>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> SlotsRef<'a> {
    /// Writes slots with these entries, whose words leave out `skip` bits. Nothing points to the slots yet.
    pub(super) fn write(arena: &'a Arena, capacity: usize, skip: usize, slots: &[Slot<'a>]) -> Self {
        assert!(slots.len() <= capacity);
        let piece = arena.allocate(size_of::<Header>() + capacity * size_of::<AtomicPtr<EntryHeader>>());
        let written = SlotsRef { header: piece.cast(), arena: PhantomData };
        let header = Header { claimed: AtomicUsize::new(slots.len()), capacity: capacity as u32, skip: skip as u32 };
        // SAFETY: the piece is ours alone, aligned, and has room for header and slots in a row; the header's size is a
        // multiple of the slots' alignment.
        unsafe {
            written.header.write(header);
            let to = written.header.add(1).cast::<AtomicPtr<EntryHeader>>();
            for index in 0..capacity {
                let slot = slots.get(index).map_or(null_mut(), |slot| slot.word_and_entry.as_ptr());
                to.add(index).write(AtomicPtr::new(slot));
            }
        }
        written
    }

    /// # Safety
    /// `header` came from [`SlotsRef::as_ptr`] of slots whose arena outlives `'a`, and by way of a Release and an
    /// Acquire.
    pub(super) unsafe fn from_ptr(header: NonNull<Header>) -> Self {
        SlotsRef { header, arena: PhantomData }
    }

    pub(super) fn as_ptr(self) -> NonNull<Header> {
        self.header
    }

    fn header(self) -> &'a Header {
        // SAFETY: the slots were written and are there for `'a`; nobody has a `&mut` to them.
        unsafe { self.header.as_ref() }
    }

    pub(super) fn capacity(self) -> usize {
        self.header().capacity as usize
    }

    /// The number of leading bits of their keys that the words leave out.
    pub(super) fn skip(self) -> usize {
        self.header().skip as usize
    }

    fn all(self) -> &'a [AtomicPtr<EntryHeader>] {
        // SAFETY: `capacity` slots were written behind the header, and are only ever shared.
        unsafe { std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), self.capacity()) }
    }

    /// Adds an entry. Returns `false` if there is no room: the slots are full or frozen.
    pub(super) fn add(self, entry: EntryRef<'a>) -> bool {
        let slot = Slot::new(word_of(entry.key(), self.skip()), entry);
        // Relaxed: shares out the slots, publishes nothing.
        let index = self.header().claimed.fetch_add(1, Ordering::Relaxed);
        let Some(to) = self.all().get(index) else { return false };
        let slot = slot.word_and_entry.as_ptr();
        // Release: publishes the entry. It fails only where `freeze` came first.
        to.compare_exchange(null_mut(), slot, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Closes every slot that has no entry yet. A thread that claimed such a slot adds its entry elsewhere.
    pub(super) fn freeze(self) {
        // Relaxed: this only spares other threads an attempt.
        self.header().claimed.fetch_max(self.capacity(), Ordering::Relaxed);
        for slot in self.all() {
            // Relaxed: readers of the entries load them again afterwards, with Acquire; after this exchange a load of
            // this thread finds what the exchange found or left.
            let _ = slot.compare_exchange(null_mut(), FROZEN, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The contents of the slots that were claimed, with and without an entry.
    fn claimed(self) -> impl Iterator<Item = *mut EntryHeader> {
        // Relaxed: slots that were claimed before this call are seen; more is not promised.
        let claimed = self.header().claimed.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `add`.
        self.all().iter().take(claimed).map(|slot| slot.load(Ordering::Acquire))
    }

    /// All entries, in no order.
    pub(super) fn slots(self) -> impl Iterator<Item = Slot<'a>> {
        // SAFETY: loaded with Acquire, and the slots are of an arena that outlives `'a`.
        self.claimed().filter_map(|slot| unsafe { Slot::loaded(slot) })
    }

    /// Replaces `to` by the slots of [`SlotsRef::slots`]. Nothing here is a branch that the processor must predict.
    pub(super) fn copy_into(self, to: &mut Vec<Slot<'a>>) {
        to.clear();
        to.reserve(self.capacity());
        let (start, mut len) = (to.as_mut_ptr().cast::<*mut EntryHeader>(), 0);
        for slot in self.claimed() {
            // SAFETY: `len` is below the number of slots that were looked at, which is at most the capacity reserved.
            unsafe { start.add(len).write(slot) };
            // The next slot overwrites one without an entry (null or `FROZEN`).
            len += usize::from(slot.addr() > FROZEN.addr());
        }
        // SAFETY: the first `len` were written, each with an entry that was loaded with Acquire, as `Slot::loaded`
        // asks; a `Slot` is laid out as the pointer in it.
        unsafe { to.set_len(len) };
    }

    /// The first entry of `place.key` at or after `place`: its newest version at or below the sequence number.
    pub(super) fn version(self, place: Place<'_>) -> Option<EntryRef<'a>> {
        let word = usize::from(word_of(place.key, self.skip()));
        let mut newest: Option<EntryRef<'a>> = None;
        // The word is compared first: it rules out nearly all other slots, those without an entry included.
        for slot in self.claimed().filter(|slot| slot.addr() >> ADDRESS_BITS == word) {
            // SAFETY: loaded with Acquire, and the slots are of an arena that outlives `'a`.
            let Some(entry) = unsafe { Slot::loaded(slot) }.map(Slot::entry) else { continue };
            let is_newer = newest.is_none_or(|newest| newest.seq() < entry.seq());
            if is_newer && entry.seq() <= place.seq && entry.key() == place.key {
                newest = Some(entry);
            }
        }
        newest
    }

    /// Prefetches what [`SlotsRef::add`] needs first into the processor's cache.
    pub(super) fn prefetch(self) {
        prefetch(self.header.as_ptr());
    }

    /// Prefetches all slots into the processor's cache.
    pub(super) fn prefetch_all(self) {
        let bytes = size_of::<Header>() + self.capacity() * size_of::<AtomicPtr<EntryHeader>>();
        prefetch_range(self.header.as_ptr(), bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::pool::MemtablePool;
    use super::*;
    use crate::format::{EntryKind, SeqNo};

    #[test]
    fn words_are_in_the_order_of_keys_that_agree_before_them() {
        let keys: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"b"];
        for (i, low) in keys.iter().enumerate() {
            for high in &keys[i..] {
                assert!(word_of(low, 0) <= word_of(high, 0), "{low:?} {high:?}");
                let (low, high) = ([b"same", *low].concat(), [b"same", *high].concat());
                let common = common_bits(&low, &high);
                assert!(common >= 32);
                for skip in [32, common.saturating_sub(1), common] {
                    assert!(word_of(&low, skip) <= word_of(&high, skip), "{low:?} {high:?} {skip}");
                }
            }
        }
        assert!(word_of(b"sameab", 32) < word_of(b"sameac", 32));
        assert_eq!(word_of(b"abc", 24), 0);
        assert_eq!(common_bits(b"a\x80", b"a\x81x"), 15);
    }

    #[test]
    fn frozen_slots_take_nothing_and_keep_what_they_have() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        let slots = SlotsRef::write(&arena, 4, 0, &[]);
        let entry = |seq| EntryRef::write(&arena, b"key", SeqNo(seq), EntryKind::Put, b"");
        assert!(slots.add(entry(1)) && slots.add(entry(2)));
        slots.freeze();
        assert!(!slots.add(entry(3)));
        let place = |seq| Place { key: b"key", seq: SeqNo(seq) };
        assert_eq!(slots.version(place(9)).map(EntryRef::seq), Some(SeqNo(2)));
        assert_eq!(slots.version(place(1)).map(EntryRef::seq), Some(SeqNo(1)));
        assert_eq!(slots.slots().count(), 2);
    }
}
