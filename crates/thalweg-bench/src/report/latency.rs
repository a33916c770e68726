//! [`Latency`] from a histogram: percentiles, and the distribution thinned out for a plot.
//!
//! The points of the distribution lie at equal distances of log(1 - q), so that each decade of the tail (90 to 99 %, 99
//! to 99.9 % …) gets the same number; the last point is the longest operation. Shares are counted, not interpolated.

use super::Latency;
use hdrhistogram::Histogram;

/// The greatest number of points of a distribution.
const POINTS_MAX: usize = 200;

/// Points in each tenfold of the tail.
const POINTS_PER_DECADE: f64 = 32.0;

impl Latency {
    /// The percentiles of a histogram of nanoseconds; of an empty one zeros, and no points.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile);
        Latency {
            count: histogram.len(),
            mean_ns: histogram.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: histogram.max(),
            cdf: distribution(histogram),
        }
    }
}

fn distribution(histogram: &Histogram<u64>) -> Vec<(u64, f64)> {
    let total = histogram.len();
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut seen = 0;
    let mut next = 0;
    for step in histogram.iter_recorded() {
        seen += step.count_at_value();
        let share = seen as f64 / total as f64;
        let full = points.len() + 1 >= POINTS_MAX;
        if seen == total || (!full && share >= threshold(next)) {
            points.push((step.value_iterated_to(), share));
            while seen < total && threshold(next) <= share {
                next += 1;
            }
        }
    }
    points
}

/// The least share at which point `number` may lie.
fn threshold(number: u32) -> f64 {
    1.0 - 10f64.powf(-f64::from(number) / POINTS_PER_DECADE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values.for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn an_empty_histogram_gives_zeros() {
        assert_eq!(Latency::of(&Histogram::new(3).unwrap()), Latency::default());
    }

    #[test]
    fn percentiles_are_within_the_precision_of_the_histogram() {
        let latency = Latency::of(&histogram((1..=100_000).map(|n| n * 10)));
        let close = |got: u64, expected: f64| (got as f64 / expected - 1.0).abs() < 0.002;
        assert_eq!(latency.count, 100_000);
        assert!(
            close(latency.p50_ns, 5e5) && close(latency.p90_ns, 9e5) && close(latency.p99_ns, 9.9e5),
            "{latency:?}"
        );
        assert!(close(latency.p999_ns, 9.99e5) && close(latency.p9999_ns, 9.999e5) && close(latency.max_ns, 1e6));
        assert!((latency.mean_ns / 500_005.0 - 1.0).abs() < 0.002, "{}", latency.mean_ns);
    }

    #[test]
    fn the_distribution_rises_to_one_and_has_few_points() {
        for count in [1u64, 2, 100, 5_000, 3_000_000] {
            let latency = Latency::of(&histogram((1..=count).map(|n| 1_000 + n * n % 1_000_003 * 17)));
            let points = &latency.cdf;
            assert!(!points.is_empty() && points.len() <= POINTS_MAX, "{count}: {} points", points.len());
            assert!(points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1), "{count}");
            assert_eq!(*points.last().unwrap(), (latency.max_ns, 1.0), "{count}");
        }
    }

    #[test]
    fn the_tail_has_as_many_points_as_the_body() {
        let latency = Latency::of(&histogram((1..=1_000_000).map(|n| n * 1_000)));
        let between = |low: f64, high: f64| latency.cdf.iter().filter(|(_, q)| (low..high).contains(q)).count();
        assert!(between(0.0, 0.9) >= 25, "{}", between(0.0, 0.9));
        assert!(between(0.9, 0.99) >= 25, "{}", between(0.9, 0.99));
        // Three digits: what lies within 0.1 % of the longest is the same number.
        assert!(between(0.99, 0.999) >= 8, "{}", between(0.99, 0.999));
    }

    #[test]
    fn shares_are_counted() {
        let latency = Latency::of(&histogram([10u64, 10, 10, 20].into_iter()));
        assert_eq!(latency.cdf, [(10, 0.75), (20, 1.0)]);
    }
}
