//! [`RecentReads`]: which pieces of a table were read past the page cache recently.
//!
//! Where the page cache is too small for all tables, it should hold the pieces that are read repeatedly. Pieces that
//! are read once should not sweep it.
//!
//! There is a bit for each 4 KiB. When a quarter of the bits is set, all are cleared. So of equally likely blocks one
//! read in eight finds its bit set; of likelier blocks most reads do. No clock, no locks; a lost bit costs one read
//! past the page cache.

use std::sync::atomic::{AtomicU64, Ordering};

const PIECE_BYTES: u64 = 4 << 10;

/// The bits are cleared when one in this many is set.
const SET_ONE_IN: u64 = 4;

/// See the module.
pub(in crate::table) struct RecentReads {
    bits: Vec<AtomicU64>,
    set: AtomicU64,
    /// The bits are cleared when this many are set.
    set_max: u64,
}

impl RecentReads {
    /// `bytes`: the length of the file.
    pub(in crate::table) fn new(bytes: u64) -> Self {
        let pieces = bytes.div_ceil(PIECE_BYTES);
        let bits = (0..pieces.div_ceil(u64::from(u64::BITS))).map(|_| AtomicU64::new(0)).collect();
        RecentReads { bits, set: AtomicU64::new(0), set_max: (pieces / SET_ONE_IN).max(1) }
    }

    /// Records a read of the block at `offset`. Returns whether its piece was read recently.
    pub(in crate::table) fn record(&self, offset: u64) -> bool {
        let piece = offset / PIECE_BYTES;
        let word = usize::try_from(piece / u64::from(u64::BITS)).ok().and_then(|word| self.bits.get(word));
        let Some(word) = word else { return false };
        let bit = 1 << (piece % u64::from(u64::BITS));
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return true;
        }
        if self.set.fetch_add(1, Ordering::Relaxed) + 1 >= self.set_max {
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
    fn a_repeated_read_is_known_until_the_bits_are_cleared() {
        let recent = RecentReads::new(400 * PIECE_BYTES);
        assert!(!recent.record(7 * PIECE_BYTES) && recent.record(7 * PIECE_BYTES + 100));
        // The hundredth bit clears all.
        assert!((100..199).all(|piece| !recent.record(piece * PIECE_BYTES)));
        assert!(!recent.record(7 * PIECE_BYTES));
        assert!(!recent.record(1 << 40), "beyond the end");
    }

    #[test]
    fn most_reads_of_a_hot_block_are_repeated_and_few_of_equally_likely_ones() {
        let (recent, mut state) = (RecentReads::new(1000 * PIECE_BYTES), 1_u64);
        let (mut again, mut hot) = (0, 0);
        for read in 0..100_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            again += u64::from(recent.record((state >> 33) % 1000 * PIECE_BYTES));
            if read % 50 == 0 {
                hot += u64::from(recent.record(1234));
            }
        }
        assert!((8_000..18_000).contains(&again), "{again} of 100 000");
        assert!(hot > 1_500, "{hot} of 2 000");
    }

    #[test]
    fn in_a_file_of_one_piece_no_read_is_repeated() {
        let recent = RecentReads::new(1);
        assert!(!recent.record(0) && !recent.record(0));
    }
}
