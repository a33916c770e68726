//! [`Zipfian`] and [`ScrambledZipfian`]: few numbers often, many seldom, as YCSB draws them.
//!
//! The k-th likeliest of n numbers has the probability 1 / (k^0.99 zeta(n)), where zeta(n) is the sum of 1 / i^0.99
//! over 1..=n. The method is that of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD
//! 1994), which YCSB uses. It is exact for the two likeliest numbers. From the third on it inverts a continuous curve,
//! which draws the third about 19 % too often, the tenth 4 %, the twentieth 1 %. A more exact method would not be
//! comparable with published results.

use super::{Random, fnv_hash, fraction};

const THETA: f64 = 0.99;

/// Ranks of `0..n`: 0 is the likeliest.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    zeta: f64,
    eta: f64,
    /// 1 + 1 / 2^theta: the two likeliest ranks' weight.
    first_two: f64,
}

impl Zipfian {
    /// A generator over `0..n`. Computes zeta(n), which takes about 20 ns for each number of the range.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: u64) -> Zipfian {
        let mut zipfian = Zipfian { n: 0, zeta: 0.0, eta: 0.0, first_two: 1.0 + 0.5f64.powf(THETA) };
        assert!(n > 0, "nothing to choose from");
        zipfian.grow(n);
        zipfian
    }

    /// Over `0..n`, zeta(n) known.
    fn with_zeta(n: u64, zeta: f64) -> Zipfian {
        let mut zipfian = Zipfian { n, zeta, eta: 0.0, first_two: 1.0 + 0.5f64.powf(THETA) };
        zipfian.set_eta();
        zipfian
    }

    /// Widens the range to `0..n` if it is narrower: adds the terms of the new numbers to zeta.
    pub fn grow(&mut self, n: u64) {
        if n > self.n {
            self.zeta += (self.n + 1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
            self.n = n;
            self.set_eta();
        }
    }

    fn set_eta(&mut self) {
        self.eta = (1.0 - (2.0 / self.n as f64).powf(1.0 - THETA)) / (1.0 - self.first_two / self.zeta);
    }

    /// The size of the range.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The next rank.
    pub fn next(&mut self, random: &mut Random) -> u64 {
        let u = fraction(random);
        let weight = u * self.zeta;
        if weight < 1.0 {
            0
        } else if weight < self.first_two {
            1
        } else {
            let share = hundredth_power(self.eta * u - self.eta + 1.0);
            // Rounding may reach n when u is next to 1.
            ((self.n as f64 * share) as u64).min(self.n - 1)
        }
    }
}

/// x^100. The exponent 1 / (1 - theta) is an integer, so eight multiplications suffice; `powf` takes several times as
/// long.
fn hundredth_power(x: f64) -> f64 {
    let square = |x: f64| x * x;
    let fourth = square(square(x));
    let thirty_second = square(square(square(fourth)));
    square(thirty_second) * thirty_second * fourth
}

/// A scrambled zipfian over `0..n`, with the likely numbers scattered over the whole range: YCSB's
/// `ScrambledZipfianGenerator`. It draws one of ten thousand million zipfian ranks and hashes it to a number. The hash
/// of a rank does not depend on `n`; only the remainder modulo `n` does.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    n: u64,
    ranks: Zipfian,
}

impl ScrambledZipfian {
    /// The number of ranks of the underlying zipfian.
    pub const RANKS: u64 = 10_000_000_000;
    /// zeta(10^10), as YCSB publishes it.
    const ZETA: f64 = 26.469_028_201_783_02;

    /// Over `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: u64) -> ScrambledZipfian {
        assert!(n > 0, "nothing to choose from");
        ScrambledZipfian { n, ranks: Zipfian::with_zeta(Self::RANKS, Self::ZETA) }
    }

    /// The next number.
    pub fn next(&mut self, random: &mut Random) -> u64 {
        fnv_hash(self.ranks.next(random)) % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    /// zeta(n), added up from the small end, so that rounding differs from the generator's.
    fn zeta(n: u64) -> f64 {
        (1..=n).rev().map(|i| 1.0 / (i as f64).powf(THETA)).sum()
    }

    /// The probability of the k-th rank, from 1, by the law.
    fn law(k: u64, zeta: f64) -> f64 {
        1.0 / ((k as f64).powf(THETA) * zeta)
    }

    /// The probability of the k-th rank by Gray's method, solved for the uniform number that leads to it.
    fn gray(k: u64, n: u64, zeta: f64) -> f64 {
        if k <= 2 {
            return law(k, zeta);
        }
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - (law(1, zeta) + law(2, zeta)));
        let below = |x: u64| ((x as f64 / n as f64).powf(1.0 - THETA) - 1.0 + eta) / eta;
        below(k) - below(k - 1)
    }

    /// That `found` of `draws` is within five standard deviations of a probability.
    fn assert_near(found: u64, draws: u64, probability: f64, what: &str) {
        let expected = draws as f64 * probability;
        let deviation = (expected * (1.0 - probability)).sqrt();
        assert!((found as f64 - expected).abs() < 5.0 * deviation, "{what}: {found} instead of {expected:.0}");
    }

    fn counts(n: usize, draws: u64, mut next: impl FnMut() -> u64) -> Vec<u64> {
        let mut counts = vec![0u64; n];
        for _ in 0..draws {
            counts[usize::try_from(next()).unwrap()] += 1;
        }
        counts
    }

    const DRAWS: u64 = 2_000_000;

    #[test]
    fn top_ranks_are_as_frequent_as_theory_says() {
        for n in [1000u64, 100_000] {
            let (mut zipfian, mut random) = (Zipfian::new(n), random(1, "zipfian", 0));
            let counts = counts(usize::try_from(n).unwrap(), DRAWS, || zipfian.next(&mut random));
            let zeta = zeta(n);
            for (k, &found) in (1..=20).zip(&counts) {
                assert_near(found, DRAWS, gray(k, n, zeta), &format!("rank {k} of {n}"));
                // Against the law itself, what the method is known to be off, and sampling.
                let (found, law) = (found as f64 / DRAWS as f64, law(k, zeta));
                let off = if k <= 2 { 0.0 } else { 0.6 / k as f64 };
                assert!((found / law - 1.0).abs() < off + 5.0 / (law * DRAWS as f64).sqrt(), "rank {k} of {n}");
            }
            // And the long tail: all ranks above the middle together.
            let tail: f64 = (n / 2 + 1..=n).map(|k| gray(k, n, zeta)).sum();
            let middle = usize::try_from(n / 2).unwrap();
            assert_near(counts[middle..].iter().sum(), DRAWS, tail, "upper half");
        }
    }

    #[test]
    fn a_grown_range_is_that_of_a_new_one() {
        let mut grown = Zipfian::new(10);
        for n in [11, 12, 500, 400, 1000] {
            grown.grow(n);
        }
        let new = Zipfian::new(1000);
        assert_eq!(grown.n(), 1000);
        assert!((grown.zeta - new.zeta).abs() < 1e-9 && (grown.eta - new.eta).abs() < 1e-9);
    }

    #[test]
    fn the_smallest_ranges_are_kept() {
        for n in [1, 2, 3] {
            let (mut zipfian, mut random) = (Zipfian::new(n), random(1, "zipfian", 0));
            let counts = counts(3, 10_000, || zipfian.next(&mut random));
            assert!(counts.iter().take(usize::try_from(n).unwrap()).all(|count| *count > 0), "{n}: {counts:?}");
            assert_eq!(counts.iter().skip(usize::try_from(n).unwrap()).sum::<u64>(), 0, "{n}: {counts:?}");
        }
    }

    #[test]
    fn the_published_zeta_is_that_of_ten_thousand_million() {
        // zeta(n) = sum up to m, and the rest by Euler and Maclaurin.
        let (m, n) = (1000u64, ScrambledZipfian::RANKS);
        let integral = ((n as f64).powf(1.0 - THETA) - (m as f64).powf(1.0 - THETA)) / (1.0 - THETA);
        let ends = ((n as f64).powf(-THETA) - (m as f64).powf(-THETA)) / 2.0;
        let slope = THETA * ((m as f64).powf(-THETA - 1.0) - (n as f64).powf(-THETA - 1.0)) / 12.0;
        let sum = zeta(m) + integral + ends + slope;
        assert!((sum - ScrambledZipfian::ZETA).abs() < 1e-7, "{sum}");
    }

    #[test]
    fn the_likeliest_scrambled_numbers_are_hashes_of_ranks_and_as_frequent_as_theory_says() {
        let n = 1_000_000;
        let (mut scrambled, mut random) = (ScrambledZipfian::new(n), random(1, "scrambled", 0));
        let counts = counts(1_000_000, DRAWS, || scrambled.next(&mut random));
        let mut sorted: Vec<usize> = (0..1_000_000).collect();
        sorted.sort_by_key(|number| std::cmp::Reverse(counts[*number]));
        // Neighbours in frequency may change places by chance, so the top is compared as a set, and in order of ranks.
        for k in 1..=20u64 {
            let number = usize::try_from(fnv_hash(k - 1) % n).unwrap();
            assert!(sorted[..24].contains(&number), "rank {k}");
            // A million numbers share what 10^10 ranks have: about 1 / n each beside its own rank.
            let expected = gray(k, ScrambledZipfian::RANKS, ScrambledZipfian::ZETA);
            assert_near(counts[number], DRAWS, expected + 0.6 / n as f64, &format!("rank {k}"));
        }
        // Sorted frequencies fall as the law says; five deviations of the least of them, and what the method is off.
        for (k, number) in (1..=20u64).zip(&sorted) {
            let law = law(k, ScrambledZipfian::ZETA) * DRAWS as f64;
            let off = if k <= 2 { 0.0 } else { 0.6 / k as f64 };
            assert!((counts[*number] as f64 / law - 1.0).abs() < off + 5.0 / law.sqrt(), "{k}-th likeliest");
        }
    }
}
