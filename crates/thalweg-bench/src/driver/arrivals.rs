//! [`Arrivals`]: the schedule of an open loop: when each operation is to start (VLSM-11), whether the engine is ready
//! or not.
//!
//! All workers share one schedule: a worker takes the next arrival when it has finished its previous operation. The
//! schedule is lock-free: a worker that loses its processor while it takes an arrival must not hold up the others,
//! because the delay would look like the engine's. So the only state is a count, and, for Poisson, the time of the last
//! arrival. The gap after an arrival is drawn from a generator seeded with the time of this arrival. This makes the
//! time of the next arrival a function of the last one.

use super::clock::SECOND_NS;
use crate::error::{Error, Result};
use crate::parameters::Arrival;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering};

/// The greatest rate: an instrument that takes a hundred nanoseconds an operation can offer no more (VLSM-11's offers
/// up to 1.5 million).
pub const RATE_MAX: f64 = 1e7;

/// The schedule of the operations of an open loop.
pub(super) struct Arrivals {
    arrival: Arrival,
    gap_ns: f64,
    seed: u64,
    /// The end of the arrivals, in nanoseconds after the start.
    end_ns: u64,
    /// The greatest number of arrivals.
    count_max: u64,
    taken: AtomicU64,
    /// Poisson: the time of the last arrival taken.
    last_ns: AtomicU64,
}

impl Arrivals {
    /// A schedule of at most `count_max` arrivals at `rate` a second, until `end_ns` after the start.
    ///
    /// # Errors
    /// `Usage` for a rate that is too high.
    pub(super) fn new(arrival: Arrival, rate: f64, seed: u64, end_ns: u64, count_max: u64) -> Result<Arrivals> {
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(Error::Usage(format!(
                "{rate} operations a second cannot be offered: more than 0, at most 1e7"
            )));
        }
        Ok(Arrivals {
            arrival,
            gap_ns: SECOND_NS as f64 / rate,
            seed,
            end_ns,
            count_max,
            taken: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
        })
    }

    /// The next arrival, in nanoseconds after the start; `None`: there are no more.
    pub(super) fn take(&self) -> Option<u64> {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        if index >= self.count_max {
            return None;
        }
        match self.arrival {
            Arrival::Uniform => Some((index as f64 * self.gap_ns) as u64).filter(|&time| time < self.end_ns),
            Arrival::Poisson => {
                let next = |last| Some(self.after(last)).filter(|&time| time < self.end_ns);
                self.last_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().and_then(next)
            }
        }
    }

    /// The time of the arrival after the one at `last_ns`. It is at least 1 ns later: an equal time would repeat for
    /// ever.
    fn after(&self, last_ns: u64) -> u64 {
        let bits = SplitMix64::seed_from_u64(self.seed ^ last_ns).next_u64() >> 11;
        // In (0, 1], so the logarithm is finite.
        let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
        last_ns.saturating_add(((-uniform.ln() * self.gap_ns).round() as u64).max(1))
    }

    /// Takes all remaining arrivals, and returns their number.
    pub(super) fn abandon(&self) -> u64 {
        let mut left = 0;
        while self.take().is_some() {
            left += 1;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: &Arrivals) -> Vec<u64> {
        std::iter::from_fn(|| arrivals.take()).collect()
    }

    #[test]
    fn uniform_arrivals_are_equally_far_apart() {
        let arrivals = Arrivals::new(Arrival::Uniform, 4000.0, 1, 2 * SECOND_NS, u64::MAX).unwrap();
        let expected: Vec<u64> = (0..8000).map(|i| i * 250_000).collect();
        assert_eq!(times(&arrivals), expected);
    }

    #[test]
    fn uniform_arrivals_do_not_drift_when_the_gap_is_no_whole_nanosecond() {
        let arrivals = Arrivals::new(Arrival::Uniform, 300_000.0, 1, 10 * SECOND_NS, u64::MAX).unwrap();
        let times = times(&arrivals);
        assert_eq!(times.len(), 3_000_000);
        assert_eq!(times[2_700_000], 9 * SECOND_NS);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_variance_of_an_exponential_distribution() {
        let arrivals = Arrivals::new(Arrival::Poisson, 10_000.0, 7, u64::MAX, 200_000).unwrap();
        let times = times(&arrivals);
        assert_eq!(times.len(), 200_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e5 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance / 1e10 - 1.0).abs() < 0.04, "variance {variance}");
        // Memoryless: a gap says nothing about the next one.
        let covariance = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        assert!((covariance / gaps.len() as f64 / variance).abs() < 0.01);
        let long = gaps.iter().filter(|&&gap| gap > 3e5).count() as f64 / gaps.len() as f64;
        assert!((long / (-3.0_f64).exp() - 1.0).abs() < 0.05, "share of gaps above three means {long}");
    }

    #[test]
    fn the_seed_decides() {
        let poisson = |seed| times(&Arrivals::new(Arrival::Poisson, 1000.0, seed, SECOND_NS, u64::MAX).unwrap());
        assert_eq!(poisson(1), poisson(1));
        assert_ne!(poisson(1), poisson(2));
    }

    #[test]
    fn workers_share_the_arrivals_of_one() {
        for arrival in [Arrival::Uniform, Arrival::Poisson] {
            let make = || Arrivals::new(arrival, 100_000.0, 3, SECOND_NS, u64::MAX).unwrap();
            let alone = times(&make());
            let shared = make();
            let mut together: Vec<u64> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| times(&shared))).collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
            });
            together.sort_unstable();
            assert_eq!(together, alone);
        }
    }

    #[test]
    fn what_is_left_is_counted() {
        let arrivals = Arrivals::new(Arrival::Uniform, 1000.0, 1, SECOND_NS, 900).unwrap();
        for _ in 0..100 {
            assert!(arrivals.take().is_some());
        }
        assert_eq!(arrivals.abandon(), 800);
        assert_eq!(arrivals.take(), None);
    }

    #[test]
    fn a_rate_that_cannot_be_offered_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(matches!(Arrivals::new(Arrival::Uniform, rate, 1, 1, 1), Err(Error::Usage(_))));
        }
    }
}
