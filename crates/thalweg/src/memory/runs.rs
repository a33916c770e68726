//! Memory that is large and does not stay: chunks of memtables and buffers of table I/O. [`take`] and [`give`].
//!
//! Pages of 2 MiB are cut into *runs* of adjoining units of 16 KiB. A search for a run begins at the pages with the
//! lowest number, so pages with high numbers become empty. The pool keeps [`EMPTY_PAGES_MAX`] empty pages for the next
//! runs, and gives all others back to the system. [`rest`] gives back the kept ones, too.
//!
//! Why not the heap: glibc may keep memory that one thread allocates and another frees. A writer allocates the chunks
//! of a memtable, and a flush frees them. With a fast tier of 512 MiB and a budget of 256 MiB, it kept up to 90 MiB.
//!
//! The process has one pool, which all its databases share. Locks: `POOL`, held for a look at each of its pages; pages
//! are mapped under it, and given back without it. A model check has no runs.

#![allow(unsafe_code)]

use super::pages::{PAGES_BYTES, Pages};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The alignment of every run. The bytes of a run are a multiple of it.
const UNIT_BYTES: usize = 16 << 10;
const UNITS: usize = PAGES_BYTES / UNIT_BYTES;
/// The least and the most bytes that get a run.
const BYTES_MIN: usize = 4 * UNIT_BYTES;
const BYTES_MAX: usize = PAGES_BYTES / 2;
/// Pages without a run that are kept for the next ones.
const EMPTY_PAGES_MAX: usize = 4;

const _: () = assert!(UNITS == u128::BITS as usize);

/// The pages that a run is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunPlace(NonZeroU32);

/// See the module.
struct Runs {
    /// Pages by place minus 1. `None` is free for the next pages.
    pages: Vec<Option<CutPages>>,
    empty_pages: usize,
}

struct CutPages {
    memory: Pages,
    /// A bit for each free unit.
    free: u128,
}

static POOL: Mutex<Runs> = Mutex::new(Runs { pages: Vec::new(), empty_pages: 0 });

fn pool() -> MutexGuard<'static, Runs> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes memory for `bytes`, aligned to 16 KiB, with any content; `None` if they are too few or too many.
pub(crate) fn take(bytes: usize) -> Option<(NonNull<u8>, RunPlace)> {
    let has_runs = !cfg!(all(test, loom)) && (BYTES_MIN..=BYTES_MAX).contains(&bytes);
    has_runs.then(|| pool().take(bytes.div_ceil(UNIT_BYTES)))
}

/// Gives back what [`take`] gave.
///
/// # Safety
/// `take(bytes)` must have returned `memory` and `place`, and nobody may use the memory any more.
pub(crate) unsafe fn give(memory: NonNull<u8>, place: RunPlace, bytes: usize) {
    let unused = pool().give(memory, place, bytes.div_ceil(UNIT_BYTES));
    drop(unused);
}

/// Gives the empty pages back to the system.
pub(crate) fn rest() {
    let empty = pool().take_empty();
    drop(empty);
}

impl Runs {
    fn take(&mut self, units: usize) -> (NonNull<u8>, RunPlace) {
        let found = self.pages.iter().position(|pages| pages.as_ref().is_some_and(|it| it.find(units).is_some()));
        let at = found.unwrap_or_else(|| self.add_pages());
        let Some(pages) = self.pages.get_mut(at).and_then(Option::as_mut) else { unreachable!("pages {at} are gone") };
        let Some(unit) = pages.find(units) else { unreachable!("new pages have room") };
        self.empty_pages -= usize::from(pages.free == u128::MAX);
        pages.free &= !mask(unit, units);
        // SAFETY: the units lie within the pages.
        (unsafe { pages.memory.memory().add(unit * UNIT_BYTES) }, RunPlace(NonZeroU32::MIN.saturating_add(at as u32)))
    }

    fn add_pages(&mut self) -> usize {
        let at = self.pages.iter().position(Option::is_none).unwrap_or(self.pages.len());
        if at == self.pages.len() {
            self.pages.push(None);
        }
        self.pages[at] = Some(CutPages { memory: Pages::new(), free: u128::MAX });
        self.empty_pages += 1;
        at
    }

    /// Returns pages that became empty and are not kept.
    fn give(&mut self, memory: NonNull<u8>, place: RunPlace, units: usize) -> Option<CutPages> {
        let at = place.0.get() as usize - 1;
        let Some(entry) = self.pages.get_mut(at) else { unreachable!("place {at} was never taken") };
        let Some(pages) = entry else { unreachable!("the pages of a run are gone") };
        let unit = (memory.addr().get() - pages.memory.memory().addr().get()) / UNIT_BYTES;
        assert!(pages.free & mask(unit, units) == 0, "a run is given back once");
        pages.free |= mask(unit, units);
        if pages.free != u128::MAX {
            return None;
        }
        if self.empty_pages == EMPTY_PAGES_MAX {
            return entry.take();
        }
        self.empty_pages += 1;
        None
    }

    fn take_empty(&mut self) -> Vec<CutPages> {
        self.empty_pages = 0;
        let is_empty = |pages: &mut CutPages| pages.free == u128::MAX;
        self.pages.iter_mut().filter_map(|pages| pages.take_if(is_empty)).collect()
    }
}

impl CutPages {
    /// Returns the number of the first unit of the lowest free run that has `units` units.
    fn find(&self, units: usize) -> Option<usize> {
        // A bit of `starts` says that `known` units from there on are free.
        let (mut starts, mut known) = (self.free, 1);
        while known < units {
            let more = known.min(units - known);
            starts &= starts >> more;
            known += more;
        }
        (starts != 0).then(|| starts.trailing_zeros() as usize)
    }
}

/// A bit for each of `units` from `first` on; `units` must be less than [`UNITS`].
fn mask(first: usize, units: usize) -> u128 {
    ((1 << units) - 1) << first
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_units_that_adjoin_are_found() {
        let cut = |free| CutPages { memory: Pages::new(), free };
        assert_eq!(cut(u128::MAX).find(64), Some(0));
        assert_eq!(cut(u128::MAX << 65).find(64), None);
        assert_eq!(cut(u128::MAX << 64).find(64), Some(64));
        assert_eq!([1, 2, 3, 4].map(|units| cut(0b111_0110).find(units)), [Some(1), Some(1), Some(4), None]);
        assert_eq!(cut(0).find(1), None);
    }

    #[test]
    fn runs_do_not_overlap_and_keep_their_bytes() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        // A pool of its own: others use that of the process at the same time.
        let mut runs = Runs { pages: Vec::new(), empty_pages: 0 };
        let mut held: Vec<(NonNull<u8>, RunPlace, usize, u8)> = Vec::new();
        for turn in 0..if cfg!(miri) { 60 } else { 5000 } {
            let units = 4 + random(61);
            let (memory, place) = runs.take(units);
            assert_eq!(memory.addr().get() % UNIT_BYTES, 0);
            for at in [0, units * UNIT_BYTES / 2, units * UNIT_BYTES - 1] {
                // SAFETY: the run has this byte, and nobody else has it.
                unsafe { memory.add(at).write(turn as u8) };
            }
            held.push((memory, place, units, turn as u8));
            while held.len() > random(200) {
                let (memory, place, units, byte) = held.swap_remove(random(held.len()));
                // SAFETY: as above; memory of pages is initialised.
                let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), units * UNIT_BYTES) };
                assert!([0, bytes.len() / 2, bytes.len() - 1].iter().all(|at| bytes[*at] == byte));
                runs.give(memory, place, units);
            }
            let empty = runs.pages.iter().flatten().filter(|pages| pages.free == u128::MAX).count();
            assert!(empty == runs.empty_pages && empty <= EMPTY_PAGES_MAX);
        }
        held.drain(..).for_each(|(memory, place, units, _)| drop(runs.give(memory, place, units)));
        assert_eq!(runs.pages.iter().flatten().count(), runs.empty_pages);
        runs.take_empty();
        assert_eq!((runs.pages.iter().flatten().count(), runs.empty_pages), (0, 0));
    }

    #[test]
    fn what_is_small_or_huge_gets_no_run() {
        assert!([0, 100, BYTES_MIN - 1, BYTES_MAX + 1, usize::MAX].iter().all(|bytes| take(*bytes).is_none()));
        for bytes in [BYTES_MIN, 270_000, BYTES_MAX] {
            let (memory, place) = take(bytes).unwrap();
            // SAFETY: `take` returned the memory for `bytes`, and nothing uses it.
            unsafe { give(memory, place, bytes) };
        }
        rest();
    }
}
