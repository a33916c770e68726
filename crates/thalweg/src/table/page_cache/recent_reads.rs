//! [`RecentReads`]: which pieces of a table were read past the page cache recently.
//!
//! Where the page cache is too small for all tables, it should hold the pieces that are read repeatedly. Pieces that
//! are read once should not evict them.
//!
//! There is a bit for each 4 KiB. When a quarter of the bits is set, all are cleared. A read that finds its bit set is
//! a repeated read. If all blocks are equally likely, there are 15 repeated reads for 100 set bits, and nothing is
//! gained if these reads evict other blocks. So repeated reads count only while some blocks seem likelier than others:
//! the latest clearing found more than 25 repeated reads for 100 set bits, or there was no clearing yet. No clock, no
//! locks; a lost bit costs one read past the page cache.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PIECE_BYTES: u64 = 4 << 10;

/// The bits are cleared when one in this many is set.
const SET_ONE_IN: u64 = 4;

/// Some blocks are likelier than others if there are fewer than this many set bits for each repeated read.
const SET_A_REPEAT: u64 = 4;

/// See the module.
pub(in crate::table) struct RecentReads {
    bits: Vec<AtomicU64>,
    set: AtomicU64,
    /// Repeated reads since the bits were cleared.
    repeats: AtomicU64,
    /// Whether some blocks are likelier, as far as is known.
    is_skewed: AtomicBool,
    /// The bits are cleared when this many are set.
    set_max: u64,
}

impl RecentReads {
    /// `bytes`: the length of the file.
    pub(in crate::table) fn new(bytes: u64) -> Self {
        let pieces = bytes.div_ceil(PIECE_BYTES);
        let bits = (0..pieces.div_ceil(u64::from(u64::BITS))).map(|_| AtomicU64::new(0)).collect();
        RecentReads {
            bits,
            set: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
            is_skewed: AtomicBool::new(true),
            set_max: (pieces / SET_ONE_IN).max(1),
        }
    }

    /// Records a read of the block at `offset`. Returns whether its piece was read recently, and likely will be again.
    pub(in crate::table) fn record(&self, offset: u64) -> bool {
        let piece = offset / PIECE_BYTES;
        let word = usize::try_from(piece / u64::from(u64::BITS)).ok().and_then(|word| self.bits.get(word));
        let Some(word) = word else { return false };
        let bit = 1 << (piece % u64::from(u64::BITS));
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.repeats.fetch_add(1, Ordering::Relaxed);
            return self.is_skewed.load(Ordering::Relaxed);
        }
        if self.set.fetch_add(1, Ordering::Relaxed) + 1 >= self.set_max {
            let set = self.set.swap(0, Ordering::Relaxed);
            let repeats = self.repeats.swap(0, Ordering::Relaxed);
            self.is_skewed.store(repeats.saturating_mul(SET_A_REPEAT) > set, Ordering::Relaxed);
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

    /// How many of 100 000 reads count as recent, and how many of the hot ones among them. Of 50 reads `hot` ones go to
    /// 20 pieces, the others to 980.
    fn recent(hot: u64) -> (u32, u32) {
        let (recent, mut state) = (RecentReads::new(1000 * PIECE_BYTES), 1_u64);
        let (mut all, mut of_hot) = (0, 0);
        for read in 0..100_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_hot = read % 50 < hot;
            let piece = if is_hot { (state >> 33) % 20 } else { 20 + (state >> 33) % 980 };
            let is_recent = recent.record(piece * PIECE_BYTES);
            all += u32::from(is_recent);
            of_hot += u32::from(is_recent && is_hot);
        }
        (all, of_hot)
    }

    #[test]
    fn most_reads_of_hot_blocks_are_recent_and_hardly_any_of_equally_likely_ones() {
        let (all, _) = recent(1);
        assert!(all < 1_000, "equally likely: {all} of 100 000");
        let (all, hot) = recent(25);
        assert!(hot > 46_000, "half of the reads to a fiftieth of the blocks: {hot} of 50 000");
        assert!(all - hot < 8_000, "of the others {}", all - hot);
    }

    #[test]
    fn in_a_file_of_one_piece_no_read_is_repeated() {
        let recent = RecentReads::new(1);
        assert!(!recent.record(0) && !recent.record(0));
    }
}
