//! [`Latest`]: the newer, the likelier.

use super::{Random, Zipfian};

/// The newest number minus a zipfian distance: YCSB's `SkewedLatestGenerator`.
#[derive(Clone, Debug)]
pub struct Latest {
    distance: Zipfian,
}

impl Latest {
    /// A generator over `0..n`, the numbers that exist at first.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: u64) -> Latest {
        Latest { distance: Zipfian::new(n) }
    }

    /// Draws a number of `0..n`; `n` - 1 is the likeliest. `n` never shrinks.
    pub fn next(&mut self, n: u64, random: &mut Random) -> u64 {
        self.distance.grow(n);
        self.distance.n() - 1 - self.distance.next(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    #[test]
    fn the_two_newest_are_as_frequent_as_theory_says_before_and_after_growth() {
        let (mut latest, mut random) = (Latest::new(1000), random(1, "latest", 0));
        for n in [1000u64, 1500] {
            let zeta: f64 = (1..=n).map(|i| (i as f64).powf(-0.99)).sum();
            let draws = 500_000u32;
            let mut counts = [0u32; 1500];
            for _ in 0..draws {
                let number = latest.next(n, &mut random);
                assert!(number < n);
                counts[usize::try_from(n - 1 - number).unwrap()] += 1;
            }
            for (distance, weight) in [(0, 1.0), (1, 0.5f64.powf(0.99))] {
                let probability = weight / zeta;
                let expected = f64::from(draws) * probability;
                let deviation = (expected * (1.0 - probability)).sqrt();
                let found = f64::from(counts[distance]);
                assert!((found - expected).abs() < 5.0 * deviation, "{distance}: {found} instead of {expected}");
            }
            // Distances never grow likelier, seen in decades.
            let decade = |from: usize| counts[from..from * 10].iter().sum::<u32>() / u32::try_from(from * 9).unwrap();
            assert!(counts[0] > decade(1) && decade(1) > decade(10) && decade(10) > decade(100), "{n}");
        }
    }
}
