//! [`Rates`] of a partition, and the moving averages that they come from.

/// Events a second, averaged so that those of 10 s ago weigh half.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Point reads that looked into a fast table.
    pub(crate) gets: f64,
    /// Ranges that were positioned in fast tables.
    pub(crate) seeks: f64,
    /// Entries flushed into the tier.
    pub(crate) writes: f64,
    /// Flushed entries whose key the tier already had.
    pub(crate) updates: f64,
    /// Bytes flushed into the tier.
    pub(crate) written_bytes: f64,
}

impl Rates {
    const FIELDS: usize = 5;

    fn from_array([gets, seeks, writes, updates, written_bytes]: [f64; Self::FIELDS]) -> Rates {
        Rates { gets, seeks, writes, updates, written_bytes }
    }

    fn to_array(self) -> [f64; Self::FIELDS] {
        [self.gets, self.seeks, self.writes, self.updates, self.written_bytes]
    }

    /// Returns the sum of the rates of two partitions.
    pub(crate) fn plus(self, other: Rates) -> Rates {
        let other = other.to_array();
        let mut sum = self.to_array();
        sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        Rates::from_array(sum)
    }

    /// Returns the rates of a part of a partition.
    pub(crate) fn times(self, factor: f64) -> Rates {
        Rates::from_array(self.to_array().map(|rate| rate * factor))
    }
}

const HALF_LIFE_SECONDS: f64 = 10.0;
/// Averages over less than this would be mostly chance.
const SECONDS_MIN: f64 = 1.0;

/// Averages of rates over unequal intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Averages {
    observed_ns: u64,
    /// The sum of the weights of all intervals, below 1: the averages of a young partition would be too low without it.
    weight: f64,
    /// Weighted sums of rates.
    sums: Rates,
    /// The totals at `observed_ns`.
    totals: Rates,
}

impl Averages {
    /// Averages that begin at `now_ns`, with the rates of a predecessor as the past.
    pub(super) fn new(now_ns: u64, rates: Rates) -> Averages {
        let weight = if rates == Rates::default() { 0.0 } else { 1.0 };
        Averages { observed_ns: now_ns, weight, sums: rates, totals: Rates::default() }
    }

    /// Returns the rates at `now_ns`, when the counters were `totals`.
    pub(super) fn observe(&mut self, now_ns: u64, totals: Rates) -> Rates {
        let seconds = now_ns.saturating_sub(self.observed_ns) as f64 / 1e9;
        if seconds > 0.0 {
            let stays = (-seconds / HALF_LIFE_SECONDS).exp2();
            let news = totals.plus(self.totals.times(-1.0)).times((1.0 - stays) / seconds);
            self.sums = self.sums.times(stays).plus(news);
            self.weight = self.weight * stays + (1.0 - stays);
            self.observed_ns = now_ns;
            self.totals = totals;
        }
        let weight_min = 1.0 - (-SECONDS_MIN / HALF_LIFE_SECONDS).exp2();
        self.sums.times(1.0 / self.weight.max(weight_min))
    }
}
