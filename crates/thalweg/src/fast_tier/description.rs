//! [`Tier`] and [`Partition`]: the input of the cost models.

use super::rates::Rates;

/// The tier as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tier {
    pub(crate) capacity_bytes: u64,
    /// The partitions that share it, those without fast tables too.
    pub(crate) partitions: usize,
    /// Where the log ends, as a position in bytes that grows with every record. A persistent tier leaves it 0.
    pub(crate) log_end: u64,
}

/// Tables of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) tables: u32,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// A number that was estimated, and its standard error in the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) sigma: f64,
}

/// The background work on the fast tables of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    #[default]
    Idle,
    /// The tables are merged within the tier. The partition may be evicted afterwards.
    Compacting,
    /// The tables leave the tier: their bytes count as gone when the tier needs more room.
    Evicting,
}

/// The paper's counters, which a compaction zeroes (PMB-12).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// `n_i^r`
    pub(crate) reads: u64,
    /// `n_i^w`
    pub(crate) writes: u64,
    /// `n_i^u`
    pub(crate) updates: u64,
    /// How long ago they were zeroed.
    pub(crate) seconds: f64,
}

impl Counted {
    /// Returns `n̂_i^r`. The first second counts as a whole one.
    pub(super) fn reads_a_second(&self) -> f64 {
        self.reads as f64 / self.seconds.max(1.0)
    }
}

/// A partition, `p_i`, and its tables in the tier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// The caller's name for it. The models only copy it into reports.
    pub(crate) id: u64,
    /// `n_i` tables, from flushes.
    pub(crate) unsorted: Run,
    /// `m_i` tables, disjoint.
    pub(crate) sorted: Run,
    /// The sorted tables that overlap an unsorted one.
    pub(crate) overlapped: Run,
    /// Distinct keys of `unsorted` and `overlapped` together: of the union of their HyperLogLogs.
    pub(crate) distinct: Estimate,
    pub(crate) rates: Rates,
    /// For [`super::FastTierForms::Paper`] and [`super::Rank::Paper`] with it.
    pub(crate) counted: Counted,
    /// Whether a snapshot older than the newest fast table is held: a merge would keep old versions for it.
    pub(crate) keeps_versions: bool,
    /// Bytes below the tier that an eviction makes compactions rewrite: the overlapping lower level, divided by the
    /// number of evictions that one such compaction takes.
    pub(crate) lower_bytes: u64,
    /// The start of the log that the partition's fast tables pin; `None` if they pin none.
    pub(crate) log_from: Option<u64>,
    pub(crate) activity: Activity,
}

impl Partition {
    /// `s_i`: the bytes of its live tables. Replaced tables that still take up room do not count.
    pub(crate) fn bytes(&self) -> u64 {
        self.unsorted.bytes.saturating_add(self.sorted.bytes)
    }

    pub(crate) fn entries(&self) -> u64 {
        self.unsorted.entries.saturating_add(self.sorted.entries)
    }

    /// Returns the entries of a merge of the unsorted tables with the sorted tables that they overlap.
    pub(super) fn merged_entries(&self) -> u64 {
        self.unsorted.entries.saturating_add(self.overlapped.entries)
    }

    /// Returns how many of these entries the merge removes at least: the estimate less three times the standard error.
    pub(super) fn removed_min(&self) -> f64 {
        (self.merged_entries() as f64 - self.distinct.value - 3.0 * self.distinct.sigma).max(0.0)
    }

    /// Returns the bytes of the partition; 0 while it is evicted.
    pub(super) fn staying_bytes(&self) -> u64 {
        if self.activity == Activity::Evicting { 0 } else { self.bytes() }
    }
}
