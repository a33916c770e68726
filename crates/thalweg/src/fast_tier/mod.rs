//! The cost models of the fast tier: when fast tables are merged within the tier, and which partitions leave it.
//!
//! PM-Blade's Algorithm 1 (PMB-8 to PMB-12), with the readings of `docs/fast-tier.md`. The module only computes: it
//! does no I/O, starts no thread and reads no clock. A caller describes its partitions and gets decisions, each with
//! the numbers behind it. Costs are in seconds, rates per second, sizes in bytes.
//!
//! Invariants:
//!
//! - **Pure**: equal descriptions, costs and options give equal decisions, in any mode.
//! - **No more than needed**, if the mode evicts by rank: without any one of the partitions that [`Model::evictions`]
//!   names for room, the tier would be larger than the target; without any one that it names for the log, the log would
//!   be longer than allowed.
//! - **One decision a partition**: a partition that is evicted is not merged within the tier as well.
//!
//! Locks: [`Statistics`] and [`Calibration`] have a lock each, held for a few additions.
//!
//! In reading order:
//!
//! - `mode`: which techniques of the paper are used; `options`: thresholds and bounds; `description`: what a partition
//!   looks like to the models;
//! - `costs`: seconds an operation, and their calibration; `sampler`, `rates`, `statistics`: what is counted;
//! - `internal`: steps 1 and 2, `rank` and `eviction`: step 3, `model`: all three; `report`: what a user is shown.

mod costs;
mod description;
mod eviction;
mod internal;
mod mode;
mod model;
mod options;
mod rank;
mod rates;
mod report;
mod sampler;
mod statistics;
#[cfg(test)]
mod tests;

pub(crate) use costs::{Calibration, Costs};
pub(crate) use description::{Activity, Estimate, Partition, Run, Tier};
pub(crate) use internal::Takes;
pub use mode::{FastTierForms, FastTierMode};
pub(crate) use model::Model;
pub(crate) use options::Options;
pub(crate) use report::Report;
pub(crate) use sampler::ReadSampler;
pub(crate) use statistics::{Flushed, Statistics};
#[cfg(test)]
use {
    description::Counted,
    eviction::{Eviction, EvictionCause},
    internal::{Compaction, CompactionCause},
    mode::{EvictionRule, Rank},
    rates::Rates,
    report::Decision,
};
