//! [`Permutation`]: all numbers below a limit, each once, in an order that looks like chance.
//!
//! Nothing is stored: the number at a place is computed. The computation multiplies by odd constants and shifts; each
//! step maps the numbers of `b` bits one to one onto themselves, where `2^b` is the smallest power of two that is at
//! least the limit. A result that is not below the limit goes through the steps again. This ends, because repeated
//! steps from a number below the limit come back to it. It takes less than two turns on average.

/// All numbers below a limit in a scrambled order, the same for the same limit and seed.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    limit: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Permutation {
    /// A permutation of the numbers `0..limit`; `limit` is at least 1.
    pub fn new(limit: u64, seed: u64) -> Permutation {
        assert!(limit > 0, "a permutation of nothing");
        let bits = u64::BITS - (limit - 1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
        Permutation { limit, mask, shift: bits / 2 + 1, key: scrambled(seed) }
    }

    /// The number of numbers.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number at `place`, which is below the limit.
    pub fn number(&self, place: u64) -> u64 {
        assert!(place < self.limit, "place {place} of {}", self.limit);
        let mut number = place;
        loop {
            number = self.turn(number);
            if number < self.limit {
                return number;
            }
        }
    }

    fn turn(&self, number: u64) -> u64 {
        let mut number = number.wrapping_add(self.key) & self.mask;
        for odd in [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F_u64] {
            number = number.wrapping_mul(odd) & self.mask;
            number ^= number >> self.shift;
        }
        number
    }
}

/// `number` with all bits mixed, one to one: the finisher of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub fn scrambled(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_every_number_once() {
        for limit in (1..200).chain([1023, 1024, 1025, 40_000]) {
            for seed in 0..3 {
                let permutation = Permutation::new(limit, seed);
                let mut seen = vec![false; limit as usize];
                for place in 0..limit {
                    let number = permutation.number(place) as usize;
                    assert!(!seen[number], "{number} twice of {limit}");
                    seen[number] = true;
                }
            }
        }
    }

    #[test]
    fn works_at_the_largest_limit() {
        let permutation = Permutation::new(u64::MAX, 1);
        assert_ne!(permutation.number(0), permutation.number(1));
    }

    #[test]
    fn keeps_no_order() {
        let limit = 100_000;
        let permutation = Permutation::new(limit, 7);
        let numbers: Vec<u64> = (0..limit).map(|place| permutation.number(place)).collect();
        let rising = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64 / limit as f64;
        let distance = numbers.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64).sum::<f64>() / limit as f64;
        assert!((rising - 0.5).abs() < 0.02, "{rising} of all steps go up");
        assert!((distance / (limit as f64 / 3.0) - 1.0).abs() < 0.05, "a step is {distance} long");
    }

    #[test]
    fn spreads_every_stretch_of_places_over_all_numbers() {
        let limit = 100_000;
        let permutation = Permutation::new(limit, 3);
        for start in [0, 50_000, 90_000] {
            let mut counts = [0_u32; 50];
            for place in start..start + 10_000 {
                counts[(permutation.number(place) * 50 / limit) as usize] += 1;
            }
            let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 200.0).powi(2) / 200.0).sum();
            assert!(chi < 110.0, "chi-square {chi} with 49 degrees of freedom");
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let (one, two) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        let same = (0..1000).filter(|&place| one.number(place) == two.number(place)).count();
        assert!(same < 20, "{same} of 1000 in the same place");
    }
}
