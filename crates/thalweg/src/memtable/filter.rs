//! [`MemtableFilter`]: a Bloom filter over the keys of a memtable, so that most reads of absent keys pass it by.
//!
//! A lookup in a large memtable misses the processor's cache three or four times; the filter costs one miss at most. A
//! key is four bits of one word, so an insert needs one atomic operation.
//!
//! The filter is made by the first insert, in the memtable's arena. Its size follows from the number of entries of the
//! previous memtable: a memtable that follows a small one, or none, has no filter.
//!
//! Invariant: the bits of a key are set before its entry is in the list. A reader sees every entry that was published
//! before it began, and with it the bits: the publication orders both.
//!
//! Locks: none, but the first insert makes others wait while it clears the words (512 KiB at most).

#![allow(unsafe_code)]

use super::arena::Arena;
use super::sync::{AtomicU64, Ordering};
use crate::format::prefetch;
use crate::planted::{Bug, planted};
use crate::table::key_hash;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Bits of the filter for each expected entry. About one in twenty absent keys passes.
const BITS_PER_ENTRY: usize = 8;

/// Larger filters would not fit in the pool's blocks, nor in the processor's cache.
const WORDS_MAX: usize = 1 << 16;

/// See the module.
pub(super) struct MemtableFilter {
    /// The number of words, also before they are made; 0 without a filter.
    words: usize,
    /// The words, in the arena of the list that owns this.
    first: OnceLock<NonNull<AtomicU64>>,
}

// SAFETY: `first` points into the arena of the list that owns this, which moves with it.
unsafe impl Send for MemtableFilter {}
// SAFETY: the words are atomics, and `first` is set once, by a lock that publishes them.
unsafe impl Sync for MemtableFilter {}

impl MemtableFilter {
    /// A filter for about `entries` entries; 0: no filter.
    pub(super) fn new(entries: u64) -> Self {
        let words = usize::try_from(entries).map_or(WORDS_MAX, |entries| entries.saturating_mul(BITS_PER_ENTRY) / 64);
        MemtableFilter { words: words.min(WORDS_MAX), first: OnceLock::new() }
    }

    /// Returns the bits of a key, to be set before its entry is in the list, and prefetches their word into the
    /// processor's cache. `arena` is the same in every call.
    pub(super) fn bits_of(&self, arena: &Arena, key: &[u8]) -> KeyBits<'_> {
        if self.words == 0 {
            return KeyBits(None);
        }
        let hash = key_hash(key);
        if planted(Bug::MemtableFilterForgets) && hash.is_multiple_of(4) {
            return KeyBits(None);
        }
        let first = *self.first.get_or_init(|| write(arena, self.words));
        let word = self.word(first, hash);
        prefetch(word);
        KeyBits(Some((word, bits(hash))))
    }

    /// Whether the memtable may have a key with this hash.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        // Without a filter, or before the first insert, the list itself must be searched.
        self.first.get().is_none_or(|first| KeyBits(Some((self.word(*first, hash), bits(hash)))).are_set())
    }

    fn word(&self, first: NonNull<AtomicU64>, hash: u64) -> &AtomicU64 {
        let index = (((hash >> 32) * self.words as u64) >> 32) as usize;
        assert!(index < self.words);
        // SAFETY: `write` made `words` words from `first` on, in an arena that the owner of this filter has.
        unsafe { first.add(index).as_ref() }
    }
}

/// The bits of a key, and the word that they are in; `None`: there is no filter.
pub(super) struct KeyBits<'a>(Option<(&'a AtomicU64, u64)>);

impl KeyBits<'_> {
    fn are_set(&self) -> bool {
        // Relaxed, here and below: the publication of the entry publishes its bits.
        self.0.is_none_or(|(word, bits)| word.load(Ordering::Relaxed) & bits == bits)
    }

    pub(super) fn set(&self) {
        // When the bits are set already, as for a key that is written again and again, nothing is stored.
        if let Some((word, bits)) = self.0.filter(|_| !self.are_set()) {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

/// Writes the words of an empty filter.
fn write(arena: &Arena, words: usize) -> NonNull<AtomicU64> {
    let first = arena.allocate(words * size_of::<AtomicU64>()).cast::<AtomicU64>();
    for index in 0..words {
        // SAFETY: the piece is ours alone, aligned, and has room for this many words.
        unsafe { first.add(index).write(AtomicU64::new(0)) };
    }
    first
}

/// The bits of a key in its word: four, or fewer where they coincide.
fn bits(hash: u64) -> u64 {
    (0..4).fold(0, |bits, probe| bits | 1 << (hash >> (6 * probe) & 63))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::pool::MemtablePool;
    use super::*;

    fn may_have(filter: &MemtableFilter, key: u64) -> bool {
        filter.may_have(key_hash(&key.to_be_bytes()))
    }

    #[test]
    fn every_key_passes_and_few_others_do() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        let sizes: &[u64] = if cfg!(miri) { &[500] } else { &[1_000, 100_000, 400_000] };
        for &entries in sizes {
            let filter = MemtableFilter::new(entries);
            assert!(may_have(&filter, 7), "no filter yet");
            (0..entries).for_each(|key| filter.bits_of(&arena, &key.to_be_bytes()).set());
            assert!((0..entries).all(|key| may_have(&filter, key)));
            let passed = (entries..2 * entries).filter(|key| may_have(&filter, *key)).count();
            let percent = passed as f64 * 100.0 / entries as f64;
            assert!((2.0..7.0).contains(&percent), "{percent} % of {entries}");
        }
    }

    #[test]
    fn a_memtable_that_follows_none_has_no_filter() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        let (filter, bytes) = (MemtableFilter::new(0), arena.bytes());
        filter.bits_of(&arena, b"key").set();
        assert!(may_have(&filter, 2) && arena.bytes() == bytes);
    }

    #[test]
    fn a_filter_stays_small_whatever_is_expected() {
        let arena = Arena::new(&MemtablePool::new(0), 0);
        MemtableFilter::new(u64::MAX).bits_of(&arena, b"key").set();
        assert!(arena.bytes() <= 8 * WORDS_MAX + (8 << 10));
    }
}
