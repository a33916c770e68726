//! [`Uniform`]: each number as likely as any other.

use super::Random;
use rand_xoshiro::rand_core::RngCore;

/// Numbers of `0..n`, without bias.
#[derive(Clone, Debug)]
pub struct Uniform {
    n: u64,
}

impl Uniform {
    /// Over `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: u64) -> Uniform {
        assert!(n > 0, "nothing to choose from");
        Uniform { n }
    }

    /// The next number.
    pub fn next(&mut self, random: &mut Random) -> u64 {
        Uniform::below(self.n, random)
    }

    /// A number of `0..n`, for an `n` that may change with each call; 0 for `n` = 0.
    ///
    /// The result is the high half of a random number times `n`. Products whose low half is below 2^64 mod n are in
    /// excess and are drawn again (Lemire, "Fast random integer generation in an interval", 2019).
    pub fn below(n: u64, random: &mut Random) -> u64 {
        let mut product = u128::from(random.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(random.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    /// The statistic of counts that should all be equal.
    fn chi_square(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum()
    }

    /// The 0.999 quantile of chi-square (Wilson and Hilferty; right within 1 % from 10 degrees of freedom on).
    fn quantile(degrees: f64) -> f64 {
        degrees * (1.0 - 2.0 / (9.0 * degrees) + 3.090_232 * (2.0 / (9.0 * degrees)).sqrt()).powi(3)
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((quantile(10.0) / 29.588 - 1.0).abs() < 0.01);
        assert!((quantile(100.0) / 149.449 - 1.0).abs() < 0.001);
    }

    #[test]
    fn every_number_is_equally_likely() {
        for (n, seed) in [(1000u64, 1), (1000, 2), (1000, 3), (97, 4), (1024, 5), (11, 6)] {
            let (mut uniform, mut random) = (Uniform::new(n), random(seed, "uniform", 0));
            let mut counts = vec![0u64; usize::try_from(n).unwrap()];
            for _ in 0..200_000 {
                counts[usize::try_from(uniform.next(&mut random)).unwrap()] += 1;
            }
            let statistic = chi_square(&counts);
            assert!(statistic < quantile(n as f64 - 1.0), "{n}: {statistic}");
            assert!(statistic > (n as f64 - 1.0) * 0.2, "{n}: too even to be random: {statistic}");
        }
    }

    #[test]
    fn a_range_that_does_not_divide_two_to_the_64_has_no_bias() {
        // Of 3 * 2^62 numbers a remainder would give those below 2^62 twice as often as the rest.
        let n = 3u64 << 62;
        let mut random = random(7, "uniform", 0);
        let mut thirds = [0u64; 3];
        for _ in 0..90_000 {
            thirds[usize::try_from(Uniform::below(n, &mut random) >> 62).unwrap()] += 1;
        }
        assert!(chi_square(&thirds) < 13.816, "{thirds:?}"); // The 0.999 quantile for two degrees of freedom.
    }
}
