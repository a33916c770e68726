//! [`KeyRanges`]: keys in ranges of different heat, with hot and cold keys inside each range: `prefix_dist`.
//!
//! The model is that of Cao et al., "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at
//! Facebook", FAST '20, section 6, fitted to ZippyDB, and of `db_bench`'s `mixgraph`. The keys are cut into ranges of
//! equal size. Range `i`, counted from 1, gets a share of all operations proportional to `a e^(b i) + c e^(d i)`. The
//! ranges lie in a shuffled order. Inside a range the keys have ranks: a rank of at most `r` is taken with the
//! probability `a r^b`. Ranks are scattered over the range, and several ranks may fall on one key.
//!
//! Differences from `mixgraph`: the shares are not rounded to whole multiples of the smallest one. Range, rank and size
//! are drawn independently of each other, not all from one number.

use super::permutation::{Permutation, scrambled};

/// `a e^(b x) + c e^(d x)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoTermExponential {
    /// Factor of the first term.
    pub a: f64,
    /// Exponent of the first term.
    pub b: f64,
    /// Factor of the second term.
    pub c: f64,
    /// Exponent of the second term.
    pub d: f64,
}

impl TwoTermExponential {
    /// Heat of ranges: `-keyrange_dist_a=14.18 -keyrange_dist_b=-2.917 -keyrange_dist_c=0.0164
    /// -keyrange_dist_d=-0.08082` of the FAST '20 paper's appendix; the same in RocksDB's pull request 5953.
    pub const HEAT: TwoTermExponential = TwoTermExponential { a: 14.18, b: -2.917, c: 0.0164, d: -0.08082 };

    /// The value of the function at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.a * (self.b * x).exp() + self.c * (self.d * x).exp()
    }
}

/// A distribution of ranks: a rank of at most `r` is taken with the probability `a r^b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// The share of the first rank.
    pub a: f64,
    /// The exponent.
    pub b: f64,
}

impl PowerLaw {
    /// Keys inside a range: `-key_dist_a=0.002312 -key_dist_b=0.3467` of the FAST '20 paper's appendix.
    pub const KEYS: PowerLaw = PowerLaw { a: 0.002312, b: 0.3467 };

    /// Returns the rank, from 1, at the quantile `share`, above 0 and at most 1.
    pub fn rank(&self, share: f64) -> u64 {
        (share / self.a).powf(1.0 / self.b).ceil().max(1.0) as u64
    }
}

/// Numbered keys in ranges of different heat.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    keys: u64,
    /// For each range, in the order of keys: its share of the operations plus the shares of the ranges before it.
    shares: Vec<f64>,
    inside: PowerLaw,
}

impl KeyRanges {
    /// Ranges of the paper: `-keyrange_num=30` of its appendix.
    pub const RANGES: u64 = 30;

    /// `keys` keys in [`KeyRanges::RANGES`] ranges, or fewer if there are fewer keys; at least one key.
    pub fn new(keys: u64, heat: TwoTermExponential, inside: PowerLaw) -> KeyRanges {
        assert!(keys > 0, "key ranges without keys");
        let ranges = KeyRanges::RANGES.min(keys);
        // Any order will do if it is the same in every run; without a shuffle the hot ranges would be neighbours.
        let order = Permutation::new(ranges, ranges);
        let heats: Vec<f64> = (0..ranges).map(|place| heat.at(order.number(place) as f64 + 1.0)).collect();
        let total: f64 = heats.iter().sum();
        let shares = heats
            .iter()
            .scan(0.0, |sum, heat| {
                *sum += heat / total;
                Some(*sum)
            })
            .collect();
        KeyRanges { keys, shares, inside }
    }

    /// Returns the key for two random numbers, each above 0 and at most 1.
    pub fn key(&self, range: f64, rank: f64) -> u64 {
        let ranges = self.shares.len() as u64;
        let range = self.shares.partition_point(|&share| share < range) as u64;
        // The shares add up to 1, except for rounding: a draw of exactly 1 belongs to the last range.
        let range = range.min(ranges - 1);
        let first = self.first(range);
        first + scrambled(self.inside.rank(rank)) % (self.first(range + 1) - first)
    }

    /// The first key of a range. The sizes of ranges differ by one key at most.
    fn first(&self, range: u64) -> u64 {
        (u128::from(self.keys) * u128::from(range) / self.shares.len() as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Random, fraction, random};

    fn unit(random: &mut Random) -> f64 {
        1.0 - fraction(random)
    }

    #[test]
    fn ranges_get_their_share_of_the_draws() {
        let keys = 3_001;
        let ranges = KeyRanges::new(keys, TwoTermExponential::HEAT, PowerLaw::KEYS);
        let mut random = random(5, "ranges", 0);
        let mut counts = vec![0.0; 30];
        let draws = 300_000;
        for _ in 0..draws {
            let key = ranges.key(unit(&mut random), unit(&mut random));
            assert!(key < keys);
            let range = (0..30).rev().find(|&range| ranges.first(range) <= key).unwrap();
            counts[range as usize] += 1.0;
        }
        counts.sort_by(f64::total_cmp);
        let total: f64 = (1..=30).map(|i| TwoTermExponential::HEAT.at(f64::from(i))).sum();
        let chi: f64 = (1..=30)
            .map(|i| {
                let expected = TwoTermExponential::HEAT.at(f64::from(i)) / total * f64::from(draws);
                (counts[30 - i as usize] - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 70.0, "chi-square {chi} with 29 degrees of freedom");
    }

    #[test]
    fn the_hottest_range_takes_four_fifths() {
        let total: f64 = (1..=30).map(|i| TwoTermExponential::HEAT.at(f64::from(i))).sum();
        let share = TwoTermExponential::HEAT.at(1.0) / total;
        assert!((share - 0.791).abs() < 0.001, "{share}");
    }

    #[test]
    fn ranks_follow_the_power_law() {
        let count = 1_000_000;
        let ranks: Vec<u64> =
            (0..count).map(|i| PowerLaw::KEYS.rank((f64::from(i) + 0.5) / f64::from(count))).collect();
        for rank in [1, 2, 10, 1000, 1_000_000] {
            let share = ranks.iter().filter(|&&drawn| drawn <= rank).count() as f64 / f64::from(count);
            let theory = 0.002312 * (rank as f64).powf(0.3467);
            assert!((share - theory).abs() < 0.00001, "{share} up to rank {rank}, theory {theory}");
        }
    }

    #[test]
    fn every_key_belongs_to_one_range() {
        for keys in [1, 2, 29, 30, 31, 1000] {
            let ranges = KeyRanges::new(keys, TwoTermExponential::HEAT, PowerLaw::KEYS);
            let count = ranges.shares.len() as u64;
            assert_eq!((ranges.first(0), ranges.first(count)), (0, keys));
            assert!((0..count).all(|range| ranges.first(range) < ranges.first(range + 1)));
            assert!(ranges.key(1.0, 1.0) < keys && ranges.key(f64::MIN_POSITIVE, f64::MIN_POSITIVE) < keys);
        }
    }
}
