//! [`Pareto`]: the generalised Pareto distribution, which sizes of values and lengths of scans follow at Meta.
//!
//! The density is `(1/σ) (1 + k (x - θ)/σ)^(-1 - 1/k)` for `x ≥ θ`. A draw inverts the tail
//! `P(X > x) = (1 + k (x - θ)/σ)^(-1/k)`. Source: Cao et al., "Characterizing, Modeling, and Benchmarking RocksDB
//! Key-Value Workloads at Facebook", FAST '20, section 6; `value_theta`, `value_k`, `value_sigma` and `iter_…` of
//! `db_bench`'s `mixgraph`.

/// A generalised Pareto distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// θ: the smallest value.
    pub theta: f64,
    /// k: the shape; the larger, the longer the tail. For k ≥ 1 the mean is infinite.
    pub k: f64,
    /// σ: the scale.
    pub sigma: f64,
}

impl Pareto {
    /// Sizes of values: `-value_k=0.2615 -value_sigma=25.45` of the FAST '20 paper's appendix; about 35 bytes on
    /// average.
    pub const VALUE_BYTES: Pareto = Pareto { theta: 0.0, k: 0.2615, sigma: 25.45 };

    /// Lengths of scans: `-iter_k=2.517 -iter_sigma=14.236` of the same appendix.
    pub const SCAN_ENTRIES: Pareto = Pareto { theta: 0.0, k: 2.517, sigma: 14.236 };

    /// Returns the value that a draw exceeds with the probability `tail`, above 0 and at most 1.
    pub fn exceeded(&self, tail: f64) -> f64 {
        if self.k == 0.0 {
            self.theta - self.sigma * tail.ln()
        } else {
            self.theta + self.sigma * (tail.powf(-self.k) - 1.0) / self.k
        }
    }

    /// Like [`exceeded`](Pareto::exceeded), but a whole number, rounded up, between 1 and `max`. Numbers above `max`
    /// wrap around to 1, as in `mixgraph`; otherwise 5 % of all scans would have the greatest length.
    pub fn whole(&self, tail: f64, max: u64) -> u64 {
        let drawn = self.exceeded(tail).ceil().max(1.0) as u64;
        if drawn > max { (drawn - 1) % max + 1 } else { drawn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` tails, each from the middle of one of as many equal parts of 0 to 1.
    fn tails(count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| (f64::from(i) + 0.5) / f64::from(count))
    }

    #[test]
    fn values_have_the_mean_and_the_variance_of_theory() {
        let Pareto { k, sigma, .. } = Pareto::VALUE_BYTES;
        let drawn: Vec<f64> = tails(1_000_000).map(|tail| Pareto::VALUE_BYTES.exceeded(tail)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / (sigma / (1.0 - k)) - 1.0).abs() < 0.001, "mean {mean}");
        let theory = sigma.powi(2) / ((1.0 - k).powi(2) * (1.0 - 2.0 * k));
        assert!((variance / theory - 1.0).abs() < 0.02, "variance {variance}, theory {theory}");
    }

    #[test]
    fn scans_have_the_quantiles_of_theory() {
        let Pareto { k, sigma, .. } = Pareto::SCAN_ENTRIES;
        let mut drawn: Vec<f64> = tails(100_000).map(|tail| Pareto::SCAN_ENTRIES.exceeded(tail)).collect();
        drawn.sort_by(f64::total_cmp);
        for x in [5.0, 26.0, 100.0, 1000.0_f64] {
            let share = drawn.partition_point(|&drawn| drawn <= x) as f64 / drawn.len() as f64;
            let theory = 1.0 - (1.0 + k * x / sigma).powf(-1.0 / k);
            assert!((share - theory).abs() < 0.0001, "{share} of all up to {x}, theory {theory}");
        }
    }

    #[test]
    fn without_a_shape_it_is_exponential() {
        let exponential = Pareto { theta: 2.0, k: 0.0, sigma: 3.0 };
        assert!((exponential.exceeded(0.5) - (2.0 + 3.0 * 2.0_f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn whole_numbers_stay_between_one_and_the_greatest() {
        let mut greatest = 0;
        for tail in tails(100_000).chain([1.0, f64::MIN_POSITIVE]) {
            let entries = Pareto::SCAN_ENTRIES.whole(tail, 100);
            assert!((1..=100).contains(&entries), "{entries}");
            greatest = greatest.max(entries);
        }
        assert_eq!(greatest, 100);
        let at_most = tails(100_000).filter(|&tail| Pareto::SCAN_ENTRIES.whole(tail, 100) == 100).count();
        assert!(at_most < 1000, "{at_most} of 100,000 are as long as can be");
    }
}
