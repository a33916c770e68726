//! Sorts the entries of a leaf no further than needed: by their words, which touches no entry, and by their keys only
//! where words are equal and an entry there is wanted. Finds a single entry without sorting.
//!
//! A *run* is a maximal row of slots with equal words. Slots are *ranked* when their words ascend; a run is *settled*
//! when its entries ascend. All slots here have words of one `skip`. Locks: none.

use super::arena::ADDRESS_BITS;
use super::entry::{EntryRef, Place};
use super::slots::Slot;
use std::ops::Range;

/// Ranks `slots`.
pub(super) fn rank(slots: &mut [Slot<'_>]) {
    slots.sort_unstable_by_key(|slot| slot.rank());
}

/// Settles the run at `index` of ranked slots. Returns the range of the run.
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

/// The number of the ranked `slots` before `place`, whose key has this `word`. Settles the run of that word.
pub(super) fn count_before(slots: &mut [Slot<'_>], word: u16, place: Place<'_>) -> usize {
    let start = slots.partition_point(|slot| slot.word() < word);
    if slots.get(start).is_none_or(|slot| slot.word() != word) {
        return start;
    }
    let run = settle(slots, start);
    start + slots[run].partition_point(|slot| slot.entry().place() < place)
}

/// The first entry for which `is_before` does not hold; `slots` may be in any order. `is_before` holds for a beginning
/// of the sorted entries, which ends among the entries with this `word`.
pub(super) fn first_from<'a>(
    slots: &[Slot<'a>],
    word: u16,
    is_before: impl Fn(EntryRef<'a>) -> bool,
) -> Option<EntryRef<'a>> {
    let mut from = word;
    loop {
        let found = least_word(slots, from)?;
        let entries = of_word(slots, found).filter(|entry| found > word || !is_before(*entry));
        if let Some(first) = entries.min_by(|a, b| a.place().cmp(&b.place())) {
            return Some(first);
        }
        from = found.checked_add(1)?;
    }
}

/// The last entry before `place`, whose key has this `word`; `slots` may be in any order.
pub(super) fn last_before<'a>(slots: &[Slot<'a>], word: u16, place: Place<'_>) -> Option<EntryRef<'a>> {
    let mut from = word;
    loop {
        let found = greatest_word(slots, from)?;
        let entries = of_word(slots, found).filter(|entry| found < word || entry.place() < place);
        if let Some(last) = entries.max_by(|a, b| a.place().cmp(&b.place())) {
            return Some(last);
        }
        from = found.checked_sub(1)?;
    }
}

/// The least word of `slots` that is not below `from`, if there is one. It is the word of the slot that comes first
/// when the slots are counted upwards from `from`, with 0 after the largest.
fn least_word(slots: &[Slot<'_>], from: u16) -> Option<u16> {
    let start = usize::from(from) << ADDRESS_BITS;
    let least = slots.iter().map(|slot| slot.rank().wrapping_sub(start)).min()?;
    u16::try_from(usize::from(from) + (least >> ADDRESS_BITS)).ok()
}

/// The greatest word of `slots` that is not above `from`, as in [`least_word`].
fn greatest_word(slots: &[Slot<'_>], from: u16) -> Option<u16> {
    let end = (usize::from(from) << ADDRESS_BITS).wrapping_add(1 << ADDRESS_BITS);
    let greatest = slots.iter().map(|slot| slot.rank().wrapping_sub(end)).max()?;
    let below = usize::from(u16::MAX) - (greatest >> ADDRESS_BITS);
    u16::try_from(usize::from(from).checked_sub(below)?).ok()
}

/// The entries with this word.
fn of_word<'a>(slots: &[Slot<'a>], word: u16) -> impl Iterator<Item = EntryRef<'a>> {
    slots.iter().filter(move |slot| slot.word() == word).map(|slot| slot.entry())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::arena::Arena;
    use super::super::pool::MemtablePool;
    use super::super::slots::word_of;
    use super::*;
    use crate::format::{EntryKind, SeqNo};
    use crate::memtable::test_model::Random;

    #[test]
    fn what_a_look_finds_is_what_the_order_has() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        for seed in 0..if cfg!(miri) { 10 } else { 300 } {
            let random = &mut Random::new(seed);
            let slot = |key: &[u8], seq| {
                Slot::new(word_of(key, 0), EntryRef::write(&arena, key, SeqNo(seq), EntryKind::Put, b""))
            };
            let slots: Vec<_> = (1..=random.below(20)).map(|seq| slot(&random.key(), seq)).collect();
            let mut places: Vec<_> = slots.iter().map(|slot| slot.entry().place()).collect();
            places.sort();
            let key = random.key();
            let place = Place { key: &key, seq: SeqNo(random.below(22)) };
            let (index, word) = (places.partition_point(|other| *other < place), word_of(&key, 0));
            let first = first_from(&slots, word, |entry| entry.place() < place).map(EntryRef::place);
            assert_eq!(first.as_ref(), places.get(index), "{seed}");
            let last = last_before(&slots, word, place).map(EntryRef::place);
            assert_eq!(last.as_ref(), index.checked_sub(1).and_then(|index| places.get(index)), "{seed}");
        }
    }
}
