//! [`FastTierMode`]: which of the paper's techniques a tier uses; [`FastTierForms`] and [`Rank`]: how its formulae are
//! read.

use crate::fast_table::FastLayout;

/// Which of PM-Blade's techniques a fast tier uses: the configurations of the paper's ablation (PMB-E10), and
/// PMBlade-PM (PMB-E8). It is stored nowhere: each open may choose another.
///
/// | | internal compaction, eviction by partition | tables | compactions run as |
/// |---|---|---|---|
/// | `Ssd` | there is no tier | | threads |
/// | `P` | no | arrays | threads |
/// | `Pi` | yes | arrays | threads |
/// | `Pic` | yes | prefixes | threads |
/// | `Full` | yes | prefixes | coroutines |
/// | `Pm` | no | prefixes | coroutines |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "the others are chosen by experiments"))]
pub enum FastTierMode {
    /// PMBlade-SSD: no fast tier, whatever else asks for one.
    Ssd,
    /// PMB-P: level 0 in the fast tier as arrays, without the cost models. All of it is evicted at the threshold.
    P,
    /// PMB-PI: P with the cost models: internal compaction, and eviction by partition.
    Pi,
    /// PMB-PIC: PI with compressed tables.
    Pic,
    /// PM-Blade: PIC with coroutines and the gate for compactions.
    #[default]
    Full,
    /// PMBlade-PM: as `Full`, but without the cost models. All of level 0 is evicted at the threshold.
    Pm,
}

/// Which partitions leave the tier when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionRule {
    /// None: there is no tier.
    Never,
    /// Those that are least worth keeping, until the tier has its target size (step 3).
    Coldest,
    /// All of them.
    Whole,
}

impl FastTierMode {
    /// Whether memtables are flushed into a fast tier.
    pub(crate) fn uses_tier(self) -> bool {
        self != FastTierMode::Ssd
    }

    /// Whether steps 1 and 2 of Algorithm 1 run: a partition's tables are merged within the tier.
    pub(crate) fn compacts_internally(self) -> bool {
        matches!(self, FastTierMode::Pi | FastTierMode::Pic | FastTierMode::Full)
    }

    /// Returns the rule of step 3 of Algorithm 1. In the paper eviction by partition is a part of the cost models, so P
    /// and PMBlade-PM are without it.
    pub(crate) fn eviction(self) -> EvictionRule {
        match self {
            FastTierMode::Ssd => EvictionRule::Never,
            FastTierMode::P | FastTierMode::Pm => EvictionRule::Whole,
            FastTierMode::Pi | FastTierMode::Pic | FastTierMode::Full => EvictionRule::Coldest,
        }
    }

    /// How its tables arrange their entries.
    pub(crate) fn layout(self) -> FastLayout {
        match self {
            FastTierMode::Ssd | FastTierMode::P | FastTierMode::Pi => FastLayout::Array,
            FastTierMode::Pic | FastTierMode::Full | FastTierMode::Pm => FastLayout::Prefixed,
        }
    }

    /// Whether compactions run as coroutines behind the gate; in the other modes they run as threads.
    pub(crate) fn uses_coroutines(self) -> bool {
        matches!(self, FastTierMode::Full | FastTierMode::Pm)
    }
}

/// How the cost models of a fast tier are computed. It is stored nowhere: each open may choose another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "the others are chosen by experiments"))]
pub enum FastTierForms {
    /// Rates that are never zeroed, distinct keys from HyperLogLogs, and merges with the overlapping sorted tables only
    /// (PMB-A1 to PMB-A5, PMB-A9, PMB-A12).
    #[default]
    Sound,
    /// The paper's: counters that a compaction zeroes, one cost for all reads, merges with all sorted tables, no bound
    /// on copies. A merge removes the counted updates, as the paper's text says; its formula says the opposite.
    Paper,
}

impl FastTierForms {
    /// The order of step 3 in these forms.
    pub(crate) fn rank(self) -> Rank {
        match self {
            FastTierForms::Sound => Rank::Sound,
            FastTierForms::Paper => Rank::Paper,
        }
    }
}

/// In which order step 3 evicts partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rank {
    /// By the seconds that a byte saves while it stays, and the seconds that its eviction costs.
    #[default]
    Sound,
    /// By reads per byte: `n_i^r / s_i`. If nothing is read, the order is that of the descriptions (PMB-A10).
    Paper,
}
