//! Steps 1 and 2 of Algorithm 1: whether the fast tables of a partition are merged within the tier (PMB-7 to PMB-10).

use super::costs::Costs;
use super::description::{Activity, Partition, Run, Tier};
use super::mode::FastTierForms;
use super::options::Options;

/// The two sides of an inequality, in one unit. It holds if the gain is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sides {
    pub(crate) gain: f64,
    pub(crate) cost: f64,
}

impl Sides {
    pub(crate) fn holds(self) -> bool {
        self.gain > self.cost
    }
}

/// Why a partition is merged within the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionCause {
    /// Step 1: reads look into too many tables.
    Reads,
    /// Step 2: what the merge removes is cheaper to remove here than below.
    Writes,
    /// There are too many unsorted tables, whatever a merge costs.
    Tables,
}

/// The tables of a partition that a merge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The newest unsorted tables, those that no such merge has made. They become one unsorted table.
    Newest,
    /// All unsorted tables, and the sorted ones that overlap them (PMB-A5).
    Overlapped,
    /// All tables (PMB-7).
    All,
}

/// A merge of fast tables of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    pub(crate) cause: CompactionCause,
    pub(crate) takes: Takes,
}

/// The result of step 2, or why it was not computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WriteStep {
    /// There is no unsorted table, or the partition is smaller than `τ_w`.
    Small,
    /// A snapshot needs old versions, so that a merge would remove fewer entries than there are duplicates.
    KeepsVersions,
    /// Both sides, in seconds.
    Weighed(Sides),
}

/// While a merge with sorted tables would copy too much, there may be this many times as many unsorted tables. Then
/// they are merged among each other: that copies each byte once, and leaves few tables for reads.
const PATIENCE: u32 = 4;

/// The result of steps 1 and 2 for a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgement {
    /// Both sides of step 1, in cores.
    pub(super) reads: Sides,
    pub(super) writes: WriteStep,
    /// Bytes that a merge writes for each byte of the unsorted tables.
    pub(super) copies: f64,
    /// Whether these copies are the only reason against a merge (PMB-A12).
    pub(super) copies_too_many: bool,
    pub(super) compaction: Option<Compaction>,
}

/// Judges steps 1 and 2 for a partition.
pub(super) fn judge(options: &Options, costs: &Costs, tier: &Tier, partition: &Partition) -> Judgement {
    let rewritten = rewritten(options, partition);
    let reads = read_sides(options, costs, partition);
    let writes = write_step(options, costs, tier, partition);
    let (new_bytes, old_bytes) = (partition.unsorted.bytes as f64, rewritten.bytes as f64);
    // A table that overlaps nothing needs no merge.
    let can_merge = options.mode.compacts_internally()
        && partition.activity == Activity::Idle
        && partition.unsorted.tables > 0
        && partition.unsorted.tables.saturating_add(rewritten.tables) > 1;
    let saves_writes = matches!(writes, WriteStep::Weighed(sides) if sides.holds());
    let copies_few = options.forms == FastTierForms::Paper || new_bytes >= options.unsorted_part_min * old_bytes;
    let has_tables = |factor: u32| {
        let most = options.unsorted_tables_max.map(|most| most.saturating_mul(factor));
        most.is_some_and(|most| partition.unsorted.tables >= most)
    };
    let is_forced = has_tables(if copies_few { 1 } else { PATIENCE });
    let cause = if !can_merge {
        None
    } else if copies_few && reads.holds() {
        Some(CompactionCause::Reads)
    } else if copies_few && saves_writes {
        Some(CompactionCause::Writes)
    } else {
        is_forced.then_some(CompactionCause::Tables)
    };
    let takes = match options.forms {
        FastTierForms::Paper => Takes::All,
        FastTierForms::Sound if copies_few => Takes::Overlapped,
        FastTierForms::Sound => Takes::Newest,
    };
    let compaction = cause.map(|cause| Compaction { cause, takes });
    let copies = 1.0 + old_bytes / new_bytes.max(1.0);
    let copies_too_many = can_merge && cause.is_none() && (reads.holds() || saves_writes || has_tables(1));
    Judgement { reads, writes, copies, copies_too_many, compaction }
}

/// The sorted tables that a merge takes.
fn rewritten(options: &Options, partition: &Partition) -> Run {
    match options.forms {
        FastTierForms::Sound => partition.overlapped,
        FastTierForms::Paper => partition.sorted,
    }
}

/// Eq. 1 (PMB-9): the cores that reads spend on `n_i / 2` more tables than a sorted partition has, and `κ`. The paper's
/// own right side, `I_p / t_p`, is one core if both are seconds (PMB-A1).
fn read_sides(options: &Options, costs: &Costs, partition: &Partition) -> Sides {
    let tables = f64::from(partition.unsorted.tables) / 2.0;
    let busy = match options.forms {
        FastTierForms::Sound => partition.rates.gets * costs.get_seconds + partition.rates.seeks * costs.seek_seconds,
        FastTierForms::Paper => partition.counted.reads_a_second() * costs.get_seconds,
    };
    Sides { gain: busy * tables, cost: options.read_cores_min }
}

/// Eq. 2 (PMB-10): the seconds that major compactions save because a merge has removed entries, and those that the
/// merge takes.
fn write_step(options: &Options, costs: &Costs, tier: &Tier, partition: &Partition) -> WriteStep {
    let threshold = options.write_threshold_bytes(tier.capacity_bytes, tier.partitions);
    if partition.unsorted.tables == 0 || partition.bytes() < threshold {
        return WriteStep::Small;
    }
    if partition.keeps_versions {
        return WriteStep::KeepsVersions;
    }
    let (removed, merged) = match options.forms {
        // The paper's estimate of the surviving entries is inverted; the sorted entries are merged, too (PMB-A2).
        FastTierForms::Sound => (partition.removed_min(), partition.merged_entries() as f64),
        FastTierForms::Paper => (partition.counted.updates as f64, partition.counted.writes as f64),
    };
    WriteStep::Weighed(Sides { gain: removed * costs.major_seconds, cost: merged * costs.internal_seconds })
}
