//! [`Mode`]: which of the paper's techniques a tier uses; [`Forms`] and [`Rank`]: how its formulae are read.

/// The configurations of the paper's ablation (PMB-E10) and PMBlade-PM (PMB-E8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// PMBlade-SSD: no fast tier.
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

/// How a fast table stores its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Entries in an array, and an array of their offsets.
    Array,
    /// Three layers: meta, prefixes, groups of entries.
    Compressed,
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

impl Mode {
    /// Whether memtables are flushed into a fast tier.
    pub(crate) fn uses_tier(self) -> bool {
        self != Mode::Ssd
    }

    /// Whether steps 1 and 2 of Algorithm 1 run: a partition's tables are merged within the tier.
    pub(crate) fn compacts_internally(self) -> bool {
        matches!(self, Mode::Pi | Mode::Pic | Mode::Full)
    }

    /// Step 3 of Algorithm 1. The paper has eviction by partition as a part of the cost models, so P and PMBlade-PM are
    /// without it.
    pub(crate) fn eviction(self) -> EvictionRule {
        match self {
            Mode::Ssd => EvictionRule::Never,
            Mode::P | Mode::Pm => EvictionRule::Whole,
            Mode::Pi | Mode::Pic | Mode::Full => EvictionRule::Coldest,
        }
    }

    pub(crate) fn layout(self) -> Layout {
        match self {
            Mode::Ssd | Mode::P | Mode::Pi => Layout::Array,
            Mode::Pic | Mode::Full | Mode::Pm => Layout::Compressed,
        }
    }

    /// Whether compactions run as coroutines behind the gate; in the other modes they run as threads.
    pub(crate) fn uses_coroutines(self) -> bool {
        matches!(self, Mode::Full | Mode::Pm)
    }
}

/// How steps 1 and 2 are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forms {
    /// Rates that are never zeroed, distinct keys from HyperLogLogs, and merges with the overlapping sorted tables only
    /// (PMB-A1 to PMB-A5, PMB-A9, PMB-A12).
    #[default]
    Sound,
    /// The paper's: counters that a compaction zeroes, one cost for all reads, merges with all sorted tables, no bound
    /// on copies. The counted updates are what a merge removes, as the paper's text says; its formula has the opposite.
    Paper,
}

/// In which order step 3 evicts partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Seconds that a byte saves while it stays, and seconds that its eviction costs.
    #[default]
    Sound,
    /// Reads a byte: `n_i^r / s_i`. Where nothing is read, the order is that of the descriptions (PMB-A10).
    Paper,
}
