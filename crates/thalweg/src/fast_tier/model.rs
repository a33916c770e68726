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

    /// Steps 1 and 2 for one partition. To be asked when a flush has given the partition a table, after every 64 Ki
    /// reads of it (PMB-A11), and again when its merge has ended: step 2 sees what step 1 has left (PMB-A4). `None`
    /// while the partition is busy.
    pub(crate) fn compaction(&self, costs: &Costs, tier: &Tier, partition: &Partition) -> Option<Compaction> {
        internal::judge(&self.options, costs, tier, partition).compaction
    }

    /// Step 3, for all partitions of the tier: to be asked when a flush has made the tier larger. The caller describes
    /// each partition that is named as [`super::Activity::Evicting`] from now on, and evicts them in this order.
    pub(crate) fn evictions(&self, costs: &Costs, tier: &Tier, partitions: &[Partition]) -> Vec<Eviction> {
        eviction::evictions(&self.options, costs, tier, partitions)
    }

    /// All three steps for all partitions, with the numbers behind them; a report for each partition, in their order.
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
