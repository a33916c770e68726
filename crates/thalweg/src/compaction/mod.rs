//! Compaction: which tables to merge, the merge, and writing memtables and merges to tables.
//!
//! The invariants of each partition:
//!
//! - **Order**: of two versions of a user key, the newer is never below the older. From new to old: memtables, level 0
//!   from its end to its start, level 1, level 2, and so on. A flush installs in memtable order at the end of level 0;
//!   a level-0 job takes a prefix of level 0; a job of a deeper level takes every table that could hold the key there.
//! - **Disjoint**: tables of a level below 0 are sorted and no user key is in two of them, so a level has at most one
//!   table to look at for a key, and all versions of a key in a level move together.
//! - A job takes every table of the output level that overlaps the *hull* of its upper tables, also a table in a gap
//!   between them, since one output may span that gap.
//!
//! Locks: none. The caller calls [`Policy::pick`] and registers [`Job::running`] under the lock that guards its levels.
//! It takes the job off that list in the critical section that installs the outputs, or later, never earlier. So the
//! policy sees either a job's inputs in `levels` and the job in `running`, or its outputs in `levels`.
//!
//! In reading order:
//!
//! - `shape`: the levels of a partition as policies see them; `look_ahead`, `aligned`: where tables are cut;
//! - `job`: what is merged; `plan`, `least_overlap`: how a job is chosen; `leveled`, `vlsm`, `tidy`, `rewrite`: the
//!   policies; `policy`: one of them;
//! - `retention`: which versions stay; `predecessor`, `tournament`, `runs`: sorted inputs; `outputs`: tables written;
//! - `split`: cuts a job by key range; `merge`, `flush`, `fast`: the coroutines; `draw`: levels drawn for people.

mod aligned;
mod draw;
mod fast;
mod flush;
mod job;
mod least_overlap;
mod leveled;
mod look_ahead;
mod merge;
mod outputs;
mod plan;
mod policy;
mod predecessor;
mod retention;
mod rewrite;
mod runs;
mod shape;
mod split;
#[cfg(test)]
mod tests;
mod tidy;
mod tournament;
mod vlsm;

pub(crate) use draw::{draw, draw_fast};
pub(crate) use fast::{FastInputs, FastMedium, FastTableMaker, compact_fast, evict, flush_fast};
pub(crate) use flush::{flush, flush_pack};
pub(crate) use job::{Job, RunningJob};
pub(crate) use leveled::{LEVEL0_URGENT, LeveledOptions};
pub use look_ahead::Overlap;
pub(crate) use merge::{STEP_BYTES, Steps, merge, merge_packs};
pub(crate) use policy::{Fraction, Policy};
pub(crate) use shape::Levels;
pub(crate) use split::clip;
pub(crate) use tidy::TIDY_PART;
pub(crate) use vlsm::VlsmOptions;
