//! [`Model`]: Algorithm 1 (PMB-8), the three steps with their options.

use super::costs::Costs;
use super::description::{Partition, Tier};
use super::eviction::{self, Eviction};
use super::internal::{self, Compaction};
use super::options::Options;
use super::rank;
use super::report::{Decision, Report};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    options: Options,
}

impl Model {
    pub(crate) fn new(options: Options) -> Model {
        Model { options }
    }

    /// Judges steps 1 and 2 for one partition. Called when a flush has given the partition a table, after every 64 Ki
    /// reads of it (PMB-A11), and again when its merge has ended: step 2 sees the result of step 1 (PMB-A4). Returns
    /// `None` while the partition is busy.
    pub(crate) fn compaction(&self, costs: &Costs, tier: &Tier, partition: &Partition) -> Option<Compaction> {
        internal::judge(&self.options, costs, tier, partition).compaction
    }

    /// Judges step 3 for all partitions of the tier. Called when a flush has made the tier larger. From then on the
    /// caller describes each returned partition as [`super::Activity::Evicting`], and evicts them in this order.
    pub(crate) fn evictions(&self, costs: &Costs, tier: &Tier, partitions: &[Partition]) -> Vec<Eviction> {
        eviction::evictions(&self.options, costs, tier, partitions)
    }

    /// Judges all three steps for all partitions. Returns a report for each partition, in their order, with the
    /// numbers.
    pub(crate) fn reports(&self, costs: &Costs, tier: &Tier, partitions: &[Partition]) -> Vec<Report> {
        let horizon = rank::horizon_seconds(partitions);
        let report = |partition: &Partition| {
            let judged = internal::judge(&self.options, costs, tier, partition);
            let worth = rank::worth(&self.options, costs, horizon, partition);
            let decision = judged.compaction.map_or(Decision::Keep, |compaction| Decision::Compact(compaction.cause));
            Report::new(partition, &judged, worth, decision)
        };
        let mut reports: Vec<Report> = partitions.iter().map(report).collect();
        for Eviction { index, cause } in self.evictions(costs, tier, partitions) {
            reports[index].decision = Decision::Evict(cause);
        }
        reports
    }
}
