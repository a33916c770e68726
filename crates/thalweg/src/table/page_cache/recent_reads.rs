//! [`Wanted`]: which pieces of a table were read past the page cache of late, so that the page cache, where it is too
//! small for all, has those that are read again and again, and is not swept by those that are read once.
//!
//! A bit for each 4 KiB. When a quarter of them is set all are taken back: of blocks that are equally likely one read
//! in eight finds its bit set, of those that are likelier most. No clock, no locks; a bit that is lost is a read past
//! the cache.

use std::sync::atomic::{AtomicU64, Ordering};

const PIECE_BYTES: u64 = 4 << 10;

/// Bits are taken back when one in so many is set.
const SET_ONE_IN: u64 = 4;

/// See the module.
pub(in crate::table) struct Wanted {
    bits: Vec<AtomicU64>,
    set: AtomicU64,
    /// Bits set that are enough.
    most: u64,
}

impl Wanted {
    /// For a file of `bytes` bytes.
    pub(in crate::table) fn new(bytes: u64) -> Self {
        let pieces = bytes.div_ceil(PIECE_BYTES);
        let bits = (0..pieces.div_ceil(u64::from(u64::BITS))).map(|_| AtomicU64::new(0)).collect();
        Wanted { bits, set: AtomicU64::new(0), most: (pieces / SET_ONE_IN).max(1) }
    }

    /// The block at `offset` is wanted; whether it was of late.
    pub(in crate::table) fn again(&self, offset: u64) -> bool {
        let piece = offset / PIECE_BYTES;
        let word = usize::try_from(piece / u64::from(u64::BITS)).ok().and_then(|word| self.bits.get(word));
        let Some(word) = word else { return false };
        let bit = 1 << (piece % u64::from(u64::BITS));
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return true;
        }
        if self.set.fetch_add(1, Ordering::Relaxed) + 1 >= self.most {
            self.set.store(0, Ordering::Relaxed);
            self.bits.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_soon_is_known_and_then_forgotten() {
        let wanted = Wanted::new(400 * PIECE_BYTES);
        assert!(!wanted.again(7 * PIECE_BYTES) && wanted.again(7 * PIECE_BYTES + 100));
        // A hundredth bit takes all back.
        assert!((100..199).all(|piece| !wanted.again(piece * PIECE_BYTES)));
        assert!(!wanted.again(7 * PIECE_BYTES));
        assert!(!wanted.again(1 << 40), "beyond the end");
    }

    #[test]
    fn of_equally_likely_blocks_few_are_wanted_again_and_of_likelier_ones_most() {
        let (wanted, mut state) = (Wanted::new(1000 * PIECE_BYTES), 1_u64);
        let (mut again, mut hot) = (0, 0);
        for read in 0..100_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            again += u64::from(wanted.again((state >> 33) % 1000 * PIECE_BYTES));
            if read % 50 == 0 {
                hot += u64::from(wanted.again(1234));
            }
        }
        assert!((8_000..18_000).contains(&again), "{again} of 100 000");
        assert!(hot > 1_500, "{hot} of 2 000");
    }

    #[test]
    fn a_file_of_one_piece_is_never_wanted_again() {
        let wanted = Wanted::new(1);
        assert!(!wanted.again(0) && !wanted.again(0));
    }
}
