//! [`Report`]: the input and the decision of the models for a partition, for people who ask why.

use super::description::{Activity, Estimate, Partition, Run};
use super::eviction::EvictionCause;
use super::internal::{CompactionCause, Judgement, Sides, WriteStep};
use super::mode::Rank;
use super::rank::Worth;
use super::rates::Rates;
use std::fmt;

/// The decision of the models for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Keep,
    Compact(CompactionCause),
    Evict(EvictionCause),
}

/// See the module. [`fmt::Display`] writes it in four lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    /// [`Partition::id`]
    pub(crate) id: u64,
    pub(crate) unsorted: Run,
    pub(crate) sorted: Run,
    pub(crate) distinct: Estimate,
    pub(crate) rates: Rates,
    pub(crate) activity: Activity,
    /// Eq. 1, in cores.
    pub(crate) read_sides: Sides,
    /// Eq. 2, in seconds.
    pub(crate) write_step: WriteStep,
    /// Bytes that a merge would write for each byte of the unsorted tables.
    pub(crate) copies: f64,
    /// Whether these copies are the only reason against a merge.
    pub(crate) copies_too_many: bool,
    /// For Eq. 3.
    pub(crate) worth: Worth,
    pub(crate) decision: Decision,
}

impl Report {
    pub(super) fn new(partition: &Partition, judged: &Judgement, worth: Worth, decision: Decision) -> Report {
        Report {
            id: partition.id,
            unsorted: partition.unsorted,
            sorted: partition.sorted,
            distinct: partition.distinct,
            rates: partition.rates,
            activity: partition.activity,
            read_sides: judged.reads,
            write_step: judged.writes,
            copies: judged.copies,
            copies_too_many: judged.copies_too_many,
            worth,
            decision,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { id, unsorted, sorted, rates, .. } = self;
        let mib = (unsorted.bytes.saturating_add(sorted.bytes)) as f64 / f64::from(1 << 20);
        writeln!(f, "partition {id}: n {}, m {}, s {mib:.1} MiB: {}", unsorted.tables, sorted.tables, self.says())?;
        writeln!(f, "  {:.0} gets/s, {:.0} seeks/s, {:.0} writes/s", rates.gets, rates.seeks, rates.writes)?;
        let sides = self.read_sides;
        write!(f, "  reads waste {:.3} {} {:.3} cores; ", sides.gain, sign(sides), sides.cost)?;
        match self.write_step {
            WriteStep::Weighed(sides) => {
                write!(f, "a merge saves {:.3} {} {:.3} s", sides.gain, sign(sides), sides.cost)?;
            }
            WriteStep::Small => f.write_str("too small to save writes")?,
            WriteStep::KeepsVersions => f.write_str("a snapshot is held")?,
        }
        writeln!(f, ", copies {:.1}", self.copies)?;
        let (warmth, eviction) = (self.worth.warmth * 1e9, self.worth.eviction * 1e9);
        match self.worth.rank {
            Rank::Sound => write!(f, "  a GB saves {warmth:.2} s if it stays, and costs {eviction:.2} s if it goes"),
            Rank::Paper => write!(f, "  a GB gets {warmth:.0} reads/s"),
        }
    }
}

impl Report {
    fn says(&self) -> &'static str {
        match (self.decision, self.activity) {
            (Decision::Keep, Activity::Compacting) => "being compacted",
            (Decision::Keep, Activity::Evicting) => "being evicted",
            (Decision::Keep, Activity::Idle) if self.copies_too_many => "keep, a merge would copy too much",
            (Decision::Keep, Activity::Idle) => "keep",
            (Decision::Compact(CompactionCause::Reads), _) => "compact for reads",
            (Decision::Compact(CompactionCause::Writes), _) => "compact for writes",
            (Decision::Compact(CompactionCause::Tables), _) => "compact, too many tables",
            (Decision::Evict(EvictionCause::Room), _) => "evict for room",
            (Decision::Evict(EvictionCause::Log), _) => "evict for the log",
        }
    }
}

fn sign(sides: Sides) -> char {
    if sides.holds() { '>' } else { '≤' }
}
