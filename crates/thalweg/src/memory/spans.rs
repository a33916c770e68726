//! Memory for the blocks of caches: [`take`] and [`give`].
//!
//! Pages of 2 MiB are cut into *spans* of 64 KiB, and a span into `n` slots of 1/n of it, `n` from 1 to 64. This `n` is
//! the *class* of the span; a span without a slot in use has no class. So slots have 1 KiB to 64 KiB: at 4 KiB (n = 16)
//! the next larger one has 7 % more, at 16 KiB a third, at 32 KiB twice as much. Pages that have only spans of no class
//! go back to the system; at most [`EMPTY_PAGES_MAX`] are kept.
//!
//! Slots are taken from the span at the lowest place, so that the spans at high places become empty. Invariants, with
//! the lock held: a span has a class while it has a slot in use; `partial` of that class lists it while it has a free
//! slot; `roomy` lists the pages with a span of no class.
//!
//! The process has one pool, which all its databases share. Locks: `POOL`, held for a few dozen instructions; pages are
//! mapped under it, and given back without it. A model check has no spans.

#![allow(unsafe_code)]

use super::pages::{PAGES_BYTES, Pages};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every slot's alignment.
pub(super) const ALIGNMENT: usize = 16;

const SPAN_BYTES: usize = 64 << 10;
const SPANS: usize = PAGES_BYTES / SPAN_BYTES;
/// The most slots of a span: a bit each in a word.
const SLOTS_MAX: usize = 64;
/// Pages without a slot in use that are kept for the next ones.
const EMPTY_PAGES_MAX: usize = 1;

const _: () = assert!(SPANS == u32::BITS as usize && SLOTS_MAX == u64::BITS as usize);

/// The pages that a slot is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(NonZeroU32);

/// A span by its pages and its number there.
type SpanAt = (u32, u8);

/// See the module.
struct Spans {
    /// Pages by place minus 1. `None` is free for the next pages.
    pages: Vec<Option<CutPages>>,
    vacant: BTreeSet<u32>,
    /// Pages with a span of no class.
    roomy: BTreeSet<u32>,
    /// Spans with free slots and used ones, by the number of their slots.
    partial: [BTreeSet<SpanAt>; SLOTS_MAX + 1],
    empty_pages: usize,
}

struct CutPages {
    memory: Pages,
    spans: [Span; SPANS],
    /// A bit for each span of no class.
    free: u32,
}

#[derive(Clone, Copy, Default)]
struct Span {
    /// The number of slots, which is the span's class; 0 for no class.
    slots: u8,
    /// A bit for each free slot.
    free: u64,
}

static POOL: Mutex<Spans> = Mutex::new(Spans::new());

fn pool() -> MutexGuard<'static, Spans> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of slots of at least `bytes` that a span has; `None` if `bytes` is too small or too large for a
/// slot.
fn slots_of(bytes: usize) -> Option<usize> {
    let slots = SPAN_BYTES.checked_div(bytes.next_multiple_of(ALIGNMENT))?;
    (bytes > SPAN_BYTES / (SLOTS_MAX + 1) && slots > 0).then(|| slots.min(SLOTS_MAX))
}

fn bytes_of_slot(slots: usize) -> usize {
    SPAN_BYTES / slots / ALIGNMENT * ALIGNMENT
}

/// Returns the size of the slot that [`take`] gives for `bytes`; `None` if it gives none.
pub(super) fn slot_bytes(bytes: usize) -> Option<usize> {
    if cfg!(all(test, loom)) { None } else { slots_of(bytes).map(bytes_of_slot) }
}

/// Takes memory for `bytes`, aligned to [`ALIGNMENT`], with any content; `None` if they are too few or too many.
pub(super) fn take(bytes: usize) -> Option<(NonNull<u8>, Place)> {
    slot_bytes(bytes)?;
    Some(pool().take(slots_of(bytes)?))
}

/// Gives back what [`take`] gave.
///
/// # Safety
/// `take(bytes)` must have returned `memory` and `place`, and nobody may use the memory any more.
pub(super) unsafe fn give(memory: NonNull<u8>, place: Place, bytes: usize) {
    let unused = slots_of(bytes).and_then(|slots| pool().give(memory, place, slots));
    drop(unused);
}

impl Spans {
    const fn new() -> Self {
        Spans {
            pages: Vec::new(),
            vacant: BTreeSet::new(),
            roomy: BTreeSet::new(),
            partial: [const { BTreeSet::new() }; SLOTS_MAX + 1],
            empty_pages: 0,
        }
    }

    fn take(&mut self, slots: usize) -> (NonNull<u8>, Place) {
        let (at, number) = match self.partial[slots].first() {
            Some(span) => *span,
            None => self.open_span(slots),
        };
        let place = NonZeroU32::MIN.saturating_add(at);
        let Some(pages) = self.pages.get_mut(at as usize).and_then(Option::as_mut) else {
            unreachable!("a span of pages {at}, which are gone")
        };
        let span = &mut pages.spans[usize::from(number)];
        let slot = span.free.trailing_zeros() as usize;
        span.free &= span.free - 1;
        if span.free == 0 {
            self.partial[slots].remove(&(at, number));
        }
        let offset = usize::from(number) * SPAN_BYTES + slot * bytes_of_slot(slots);
        // SAFETY: the slot lies within its span, and the span within its pages.
        (unsafe { pages.memory.memory().add(offset) }, Place(place))
    }

    /// Makes a span of no class one of `slots` slots.
    fn open_span(&mut self, slots: usize) -> SpanAt {
        let at = match self.roomy.first() {
            Some(at) => *at,
            None => self.add_pages(),
        };
        let Some(pages) = self.pages.get_mut(at as usize).and_then(Option::as_mut) else {
            unreachable!("pages {at} have room and are gone")
        };
        self.empty_pages -= usize::from(pages.free == u32::MAX);
        let number = pages.free.trailing_zeros() as u8;
        pages.free &= pages.free - 1;
        if pages.free == 0 {
            self.roomy.remove(&at);
        }
        pages.spans[usize::from(number)] = Span { slots: slots as u8, free: u64::MAX >> (SLOTS_MAX - slots) };
        self.partial[slots].insert((at, number));
        (at, number)
    }

    fn add_pages(&mut self) -> u32 {
        let pages = Some(CutPages { memory: Pages::new(), spans: [Span::default(); SPANS], free: u32::MAX });
        let at = match self.vacant.pop_first() {
            Some(at) => {
                self.pages[at as usize] = pages;
                at
            }
            None => {
                self.pages.push(pages);
                self.pages.len() as u32 - 1
            }
        };
        self.empty_pages += 1;
        self.roomy.insert(at);
        at
    }

    /// Returns pages that are not needed any more, to be dropped after the lock.
    fn give(&mut self, memory: NonNull<u8>, place: Place, slots: usize) -> Option<CutPages> {
        let at = place.0.get() - 1;
        let pages = self.pages.get_mut(at as usize)?.as_mut()?;
        let offset = memory.addr().get() - pages.memory.memory().addr().get();
        let number = offset / SPAN_BYTES;
        let span = &mut pages.spans[number];
        let bit = 1 << (offset % SPAN_BYTES / bytes_of_slot(slots));
        assert!(usize::from(span.slots) == slots && span.free & bit == 0, "a slot that was not taken is given back");
        if span.free == 0 {
            self.partial[slots].insert((at, number as u8));
        }
        span.free |= bit;
        if span.free != u64::MAX >> (SLOTS_MAX - slots) {
            return None;
        }
        *span = Span::default();
        pages.free |= 1 << number;
        self.partial[slots].remove(&(at, number as u8));
        self.roomy.insert(at);
        if pages.free != u32::MAX {
            return None;
        }
        if self.empty_pages < EMPTY_PAGES_MAX {
            self.empty_pages += 1;
            return None;
        }
        self.roomy.remove(&at);
        self.vacant.insert(at);
        self.pages.get_mut(at as usize)?.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Spans {
        fn mapped(&self) -> usize {
            self.pages.iter().flatten().count()
        }
    }

    #[test]
    fn a_slot_is_the_smallest_that_a_span_can_be_cut_into() {
        assert_eq!((slot_bytes(0), slot_bytes(1008), slot_bytes(65_537)), (None, None, None));
        for (bytes, slot) in [(1009, 1024), (1024, 1024), (1025, 1040), (4096, 4096), (4097, 4368), (65_536, 65_536)] {
            assert_eq!(slot_bytes(bytes), Some(slot), "{bytes}");
        }
        for bytes in 1009..=SPAN_BYTES {
            let slot = slot_bytes(bytes).unwrap();
            assert!(slot >= bytes && slot.is_multiple_of(ALIGNMENT) && SPAN_BYTES / slot <= SLOTS_MAX);
        }
    }

    #[test]
    fn slots_do_not_overlap_and_memory_goes_back_once_they_are_given_back() {
        let mut spans = Spans::new();
        // Deterministic, and no order in particular.
        let numbers = (0..3000_usize).map(|number| number.wrapping_mul(2_654_435_761) % 4096);
        let rounds = if cfg!(miri) { 20 } else { 3000 };
        let mut taken = Vec::new();
        for number in numbers.take(rounds) {
            let slots = 1 + number % SLOTS_MAX;
            let (memory, place) = spans.take(slots);
            // SAFETY: this test has the slot, which is as long as is written.
            unsafe { memory.write_bytes(number as u8, bytes_of_slot(slots)) };
            taken.push((memory, place, slots, number as u8));
            if number % 3 == 0 {
                let (memory, place, slots, _) = taken.swap_remove(number % taken.len());
                spans.give(memory, place, slots);
            }
        }
        let mut ranges: Vec<_> =
            taken.iter().map(|(memory, _, slots, _)| (memory.addr(), bytes_of_slot(*slots))).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0.get() + pair[0].1 <= pair[1].0.get()));
        for (memory, place, slots, byte) in taken {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), bytes_of_slot(slots)) };
            assert!(bytes.iter().all(|found| *found == byte));
            spans.give(memory, place, slots);
        }
        assert_eq!((spans.mapped(), spans.empty_pages), (EMPTY_PAGES_MAX, EMPTY_PAGES_MAX));
        assert!(spans.partial.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn a_cache_of_one_size_takes_little_more_than_its_slots() {
        let mut spans = Spans::new();
        let count = 4 * PAGES_BYTES / bytes_of_slot(15);
        let mut taken: Vec<_> = (0..count).map(|_| spans.take(15)).collect();
        assert!(spans.mapped() <= 5);
        // A tenth comes and goes, as in a cache.
        for round in 0..10 * count {
            let (memory, place) = taken.swap_remove(round.wrapping_mul(40_503) % taken.len());
            spans.give(memory, place, 15);
            if taken.len() < count * 9 / 10 {
                taken.extend((0..count / 10).map(|_| spans.take(15)));
            }
            if cfg!(miri) && round > 300 {
                break;
            }
        }
        assert!(spans.mapped() <= 5);
    }

    #[test]
    #[should_panic(expected = "a slot that was not taken is given back")]
    fn a_slot_that_is_given_back_twice_is_noticed() {
        let mut spans = Spans::new();
        let (memory, place) = spans.take(16);
        spans.take(16);
        spans.give(memory, place, 16);
        spans.give(memory, place, 16);
    }
}
