//! The order in which step 3 evicts partitions (PMB-11): by what a byte is worth while it stays.

use super::costs::Costs;
use super::description::Partition;
use super::mode::{FastTierForms, Rank};
use super::options::Options;

/// The horizon of an idle tier, in seconds: its tables stay for long.
const HORIZON_SECONDS_MAX: f64 = 3600.0;
const HORIZON_SECONDS_MIN: f64 = 1.0;

/// The worth of a byte of a partition. Partitions with a small sum are evicted first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    pub(crate) rank: Rank,
    /// With [`Rank::Sound`], the seconds that a byte saves while it stays for the horizon: reads of the disk, and
    /// updates that never reach it. With [`Rank::Paper`], reads a second.
    pub(crate) warmth: f64,
    /// With [`Rank::Sound`], the seconds that an eviction takes: for the byte, and for what lies below it.
    pub(crate) eviction: f64,
}

impl Worth {
    pub(crate) fn sum(self) -> f64 {
        self.warmth + self.eviction
    }
}

/// How long a byte that stays is expected to stay: the time in which writes fill the tier once.
pub(super) fn horizon_seconds(partitions: &[Partition]) -> f64 {
    let bytes: f64 = partitions.iter().map(|partition| partition.bytes() as f64).sum();
    let written: f64 = partitions.iter().map(|partition| partition.rates.written_bytes).sum();
    (bytes / written.max(f64::MIN_POSITIVE)).clamp(HORIZON_SECONDS_MIN, HORIZON_SECONDS_MAX)
}

/// The worth of a byte of the partition.
pub(super) fn worth(options: &Options, costs: &Costs, horizon_seconds: f64, partition: &Partition) -> Worth {
    let (bytes, entries) = (partition.bytes().max(1) as f64, partition.entries() as f64);
    let rates = &partition.rates;
    match options.rank {
        Rank::Paper => {
            let reads = match options.forms {
                FastTierForms::Sound => rates.gets + rates.seeks,
                FastTierForms::Paper => partition.counted.reads_a_second(),
            };
            Worth { rank: options.rank, warmth: reads / bytes, eviction: 0.0 }
        }
        Rank::Sound => {
            let reads = rates.gets * costs.get_seconds + rates.seeks * costs.seek_seconds;
            let saved = reads + rates.updates * costs.major_seconds;
            // The entries below are taken to be of the same size.
            let rewritten = entries * (1.0 + partition.lower_bytes as f64 / bytes);
            let (warmth, eviction) = (saved * horizon_seconds / bytes, rewritten * costs.major_seconds / bytes);
            Worth { rank: options.rank, warmth, eviction }
        }
    }
}
