//! [`Report`]: what the models saw of a partition and decided, for people who ask why.

use super::description::{Activity, Estimate, Partition, Run};
use super::eviction::EvictionCause;
use super::internal::{CompactionCause, Judgement, Sides};
use super::rank::Worth;
use super::rates::Rates;
use std::fmt;

/// What the models decided for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Keep,
    Compact(CompactionCause),
    Evict(EvictionCause),
}

/// See the module. [`fmt::Display`] writes it in one line.
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
    /// Eq. 2, in seconds; `None` while it is not evaluated.
    pub(crate) write_sides: Option<Sides>,
    /// Bytes that a merge would write for each byte of the unsorted tables.
    pub(crate) copies: f64,
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
            write_sides: judged.writes,
            copies: judged.copies,
            worth,
            decision,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { id, unsorted, sorted, rates, .. } = self;
        let mib = (unsorted.bytes.saturating_add(sorted.bytes)) as f64 / f64::from(1 << 20);
        write!(f, "partition {id}: n {}, m {}, s {mib:.1} MiB; ", unsorted.tables, sorted.tables)?;
        write!(f, "{:.0} gets/s, {:.0} seeks/s, {:.0} writes/s; ", rates.gets, rates.seeks, rates.writes)?;
        write!(f, "reads {:.3} {} {:.3} cores; ", self.read_sides.gain, sign(self.read_sides), self.read_sides.cost)?;
        match self.write_sides {
            Some(sides) => write!(f, "writes {:.3} {} {:.3} s; ", sides.gain, sign(sides), sides.cost)?,
            None => f.write_str("writes not weighed; ")?,
        }
        let (warmth, eviction) = (self.worth.warmth * 1e9, self.worth.eviction * 1e9);
        write!(f, "copies {:.1}; a GB is worth {warmth:.2} + {eviction:.2}; ", self.copies)?;
        f.write_str(match self.decision {
            Decision::Keep => "keep",
            Decision::Compact(CompactionCause::Reads) => "compact for reads",
            Decision::Compact(CompactionCause::Writes) => "compact for writes",
            Decision::Compact(CompactionCause::Tables) => "compact: too many tables",
            Decision::Evict(EvictionCause::Room) => "evict for room",
            Decision::Evict(EvictionCause::Log) => "evict for the log",
        })
    }
}

fn sign(sides: Sides) -> char {
    if sides.holds() { '>' } else { '≤' }
}
