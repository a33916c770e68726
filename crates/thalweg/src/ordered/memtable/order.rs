//! The entries of a leaf put in order, no more of them than is needed: by their words, which touches no entry, and by
//! their keys only where words are equal and someone looks.
//!
//! A *run* is a longest row of slots with equal words. Slots are *ranked* when their words ascend; a run is *settled*
//! when its entries ascend. All slots here have words of one `skip`. Locks: none.

use super::entry::Place;
use super::slots::Slot;
use std::ops::Range;

/// Ranks `slots`.
pub(super) fn rank(slots: &mut [Slot<'_>]) {
    slots.sort_unstable_by_key(|slot| slot.rank());
}

/// Settles the run at `index` of ranked slots, and says where it is.
pub(super) fn settle(slots: &mut [Slot<'_>], index: usize) -> Range<usize> {
    let word = slots[index].word();
    let before = slots[..index].iter().rev().take_while(|slot| slot.word() == word).count();
    let behind = slots[index..].iter().take_while(|slot| slot.word() == word).count();
    let run = index - before..index + behind;
    if run.len() > 1 {
        slots[run.clone()].sort_unstable_by(|a, b| {
            let order = a.entry().place().cmp(&b.entry().place());
            assert!(order.is_ne() || a.rank() == b.rank(), "a sequence number was used twice for a key");
            order
        });
    }
    run
}

/// How many of the ranked `slots` are before `place`, whose key has this `word`. Settles the run of that word.
pub(super) fn count_before(slots: &mut [Slot<'_>], word: u16, place: Place<'_>) -> usize {
    let start = slots.partition_point(|slot| slot.word() < word);
    if slots.get(start).is_none_or(|slot| slot.word() != word) {
        return start;
    }
    let run = settle(slots, start);
    start + slots[run].partition_point(|slot| slot.entry().place() < place)
}
