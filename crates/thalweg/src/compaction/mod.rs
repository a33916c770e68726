//! Compaction: which tables to merge, the merge, and writing memtables and merges to tables (DESIGN 7).
//!
//! What everything here rests on, for each partition:
//!
//! - **Order**: of two versions of a user key, the newer is never below the older. From new to old: memtables, level 0
//!   from its end to its start, level 1, level 2, and so on. A flush installs in memtable order at the end of level 0;
//!   a level-0 job takes a prefix of level 0; a job of a deeper level takes every table that could hold the key there.
//! - **Disjoint**: tables of a level below 0 are sorted and no user key is in two of them, so a level has at most one
//!   table to look at for a key, and all versions of a key in a level move together.
//! - A job takes everything of the output level that overlaps the *hull* of its upper tables, also what lies in a gap
//!   between them, since one output may span that gap.
//!
//! Locks: none. The caller calls [`Policy::pick`] and registers [`Job::running`] under the lock that guards its levels,
//! and takes the job off that list in the critical section that installs its outputs, or later, never earlier: the
//! policy must see either a job's inputs in `levels` and the job in `running`, or its outputs in `levels`.

mod draw;
mod flush;
mod job;
mod leveled;
mod look_ahead;
mod merge;
mod neighbour;
mod outputs;
mod plan;
mod policy;
mod retention;
mod runs;
mod shape;
mod split;
mod tidy;
mod tournament;
mod vlsm;

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod golden_cuts;
#[cfg(test)]
mod load;
#[cfg(test)]
mod simulate;

pub(crate) use draw::draw;
pub(crate) use flush::flush;
pub(crate) use job::{Job, RunningJob};
pub use look_ahead::Overlap;
pub(crate) use merge::merge;
pub(crate) use policy::{Fraction, Policy};
pub(crate) use split::clip;
pub(crate) use vlsm::VlsmOptions;

use crate::table::Table;
use std::sync::Arc;

/// The tables of one partition: level 0 in flush order (oldest first, may overlap), the others sorted and disjoint.
pub(crate) type Levels = Vec<Vec<Arc<Table>>>;

/// The shape that the classic leveled policy keeps (LevelDB's and RocksDB's).
#[derive(Clone, Debug)]
pub(crate) struct LeveledOptions {
    /// Level 0 is compacted into level 1 when it has this many tables.
    pub(crate) level0_trigger: usize,
    /// Bytes of level 1.
    pub(crate) level1_bytes: u64,
    /// Each level below is this many times larger.
    pub(crate) growth_factor: u64,
    /// A table of level 1 is closed at this many bytes, those of each level below at twice as many as above,
    pub(crate) table_bytes: u64,
    /// but at no more than this.
    pub(crate) table_bytes_max: u64,
    /// A job of level 0 reads no more bytes, if it can help it: what it reads stays until its edit is settled.
    pub(crate) job_bytes_max: u64,
    /// Levels, level 0 included; at least 2.
    pub(crate) levels_max: usize,
}
