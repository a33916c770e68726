//! The classic leveled policy (DESIGN 7): which job the shape of a partition asks for most.
//!
//! A level's *score* is what is in it over what should be: tables over `level0_trigger` in level 0, bytes over
//! target below; what a running job already takes out of it does not count. A level is *due* at a score of 1; the last
//! level is never a source.
//!
//! **Deeper first**: of the levels that are due the deepest goes whose job can run beside the running ones. So level 0
//! is merged into a level 1 of its proper size, and each level into a next one of its: what is in excess there would be
//! rewritten for nothing, and would make the job longer. Meanwhile level 0 gathers tables, and its job takes all of
//! them at once. Only when it has [`LEVEL0_URGENT`] times its trigger does the highest score win, so that writers need
//! not wait for what is deep; and while level 0 then waits for jobs of level 1 to end, level 1 starts no other, unless
//! it is the fuller one.
//!
//! **Level 0** gives its oldest tables, as many as can run: a prefix in flush order holds, for each key in it,
//! every version that level 0 has below it, so the order of versions (see [`super`]) is kept. **Other levels** give
//! the table that has the least to rewrite below it for its size; ties by key order.
//!
//! **A trivial move** takes a table that overlaps nothing in the level below down without a rewrite; from level 0
//! that is the oldest one, and where the whole level could be merged it must overlap no other there. Not so a table
//! of many tombstones above nothing: moves would carry it for free to the last level, which is never a source, and
//! its tombstones would stay for ever; a rewrite drops them.
//!
//! **Bottom**: a job may drop a tombstone for good when no older version of its key is anywhere else. By the order
//! of versions those are only below it: in the job's own inputs (which hold all of the output level that can have
//! the key), or in a deeper level, and `bottom` says that no deeper level overlaps the job's range. That stays true
//! while the job runs. A job running at the pick still has its inputs in `levels`, so deeper data that it moves
//! down is seen where it comes from. Nothing new can come to the deeper levels from the job's key ranges but
//! through the output level, where the tables that hold these keys are the job's own inputs, hence busy, and its
//! output range is reserved. What comes from above (newer memtables and level-0 tables, jobs into the source level)
//! holds only newer versions.

use super::job::{Job, RunningJob};
use super::shape::{Shape, hull};
use super::{LeveledOptions, Levels};
use crate::table::TableMeta;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// With so many times the tables that make it due, level 0 no longer waits for deeper levels that are less full.
pub(super) const LEVEL0_URGENT: u64 = 4;

/// A table with a tombstone in this many entries, and nothing below its range, is rewritten rather than moved.
const ENTRIES_PER_TOMBSTONE_MOVED: u64 = 4;

/// The job that the shape of `levels` asks for most and that can run beside `running`, or `None`. See the module for
/// what `levels` and `running` must agree on. The job's output level may be one that `levels` does not have yet, if it
/// is below `levels_max`. Pick again whenever a job ends or a flush installs.
pub(crate) fn pick(options: &LeveledOptions, levels: &Levels, running: &[RunningJob]) -> Option<Job> {
    let Plan { level, upper, lower, trivial_move, bottom } = plan(options, &Shape::of(levels), running)?;
    let tables = |level: usize, range: Range<usize>| {
        levels
            .get(level)
            .and_then(|tables| tables.get(range))
            .map_or_else(Vec::new, |tables| tables.iter().map(Arc::clone).collect())
    };
    Some(Job { level, upper: tables(level, upper), lower: tables(level + 1, lower), trivial_move, bottom })
}

/// A job, as positions in the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) level: usize,
    pub(super) upper: Range<usize>,
    pub(super) lower: Range<usize>,
    pub(super) trivial_move: bool,
    pub(super) bottom: bool,
}

/// See [`pick`].
pub(super) fn plan(options: &LeveledOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    let mut scores: Vec<Score> = (0..last_level(options, shape))
        .map(|level| score(options, shape, running, level))
        .filter(|score| score.amount >= score.target)
        .collect();
    let urgent = |score: &Score| score.level == 0 && score.amount >= score.target.saturating_mul(LEVEL0_URGENT);
    if scores.iter().any(urgent) {
        // Stable, so that of equal scores the upper level goes first.
        scores.sort_by(|a, b| b.ratio_cmp(a));
    } else {
        scores.reverse();
    }
    // Else jobs that start one after the other in level 1 could keep level 0 waiting until level 1 is small.
    let level0_runs = running.iter().any(|job| job.level == 0);
    let mut level0_waits = false;
    for score in scores {
        let plan = match score.level {
            0 => plan_level0(shape, running),
            1 if level0_waits => None,
            level => plan_level(shape, running, level),
        };
        if plan.is_some() {
            return plan;
        }
        level0_waits |= score.level == 0 && !level0_runs;
    }
    None
}

/// Bytes that compactions must still take out of their level: of level 0 the tables beyond its trigger, of each level
/// below, but the last, what is above its target.
#[cfg(test)]
pub(super) fn debt_of(options: &LeveledOptions, shape: &Shape<'_>) -> u64 {
    let level0 = shape.level(0).iter().skip(options.level0_trigger).map(|table| table.bytes).sum::<u64>();
    let below = (1..last_level(options, shape))
        .map(|level| shape.bytes(level).saturating_sub(target_bytes(options, level)))
        .sum::<u64>();
    level0 + below
}

/// How full a level is: `amount / target`, kept as a fraction so that no rounding decides between levels.
struct Score {
    level: usize,
    amount: u64,
    target: u64,
}

impl Score {
    fn ratio_cmp(&self, other: &Score) -> std::cmp::Ordering {
        ratio_cmp((self.amount, self.target), (other.amount, other.target))
    }
}

fn score(options: &LeveledOptions, shape: &Shape<'_>, running: &[RunningJob], level: usize) -> Score {
    let leaving: BTreeSet<_> = running.iter().filter(|job| job.level == level).flat_map(|job| &job.tables).collect();
    let staying = shape.level(level).iter().filter(|table| !leaving.contains(&table.id));
    let (amount, target) = match level {
        0 => (staying.count() as u64, options.level0_trigger as u64),
        _ => (staying.map(|table| table.bytes).sum(), target_bytes(options, level)),
    };
    Score { level, amount, target: target.max(1) }
}

fn target_bytes(options: &LeveledOptions, level: usize) -> u64 {
    (1..level).fold(options.level1_bytes, |bytes, _| bytes.saturating_mul(options.growth_factor))
}

/// The level that is never a source: the last one allowed, or a deeper one that a larger `levels_max` once filled.
fn last_level(options: &LeveledOptions, shape: &Shape<'_>) -> usize {
    assert!(options.levels_max >= 2, "a partition has at least levels 0 and 1");
    let deepest = (0..shape.len()).rev().find(|level| !shape.level(*level).is_empty()).unwrap_or(0);
    deepest.max(options.levels_max - 1)
}

fn plan_level0(shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    let tables = shape.level(0);
    if let Some((oldest, newer)) = tables.split_first() {
        let alone = newer.iter().all(|table| !table.overlaps(&oldest.key_min, &oldest.key_max));
        let moved = plan_upper(shape, 0, 0..1).filter(|plan| alone && plan.trivial_move);
        if let Some(plan) = moved.filter(|plan| can_run(shape, running, plan)) {
            return Some(plan);
        }
    }
    // A shorter prefix has a smaller range, which may be free where that of the whole level is not.
    (1..=tables.len())
        .rev()
        .filter_map(|count| plan_upper(shape, 0, 0..count))
        .find(|plan| can_run(shape, running, plan))
}

fn plan_level(shape: &Shape<'_>, running: &[RunningJob], level: usize) -> Option<Plan> {
    let mut best: Option<(Plan, (u64, u64))> = None;
    for (index, table) in shape.level(level).iter().enumerate() {
        let Some(plan) = plan_upper(shape, level, index..index + 1) else { continue };
        let overlap = metas(shape, level + 1, &plan.lower).map(|lower| lower.bytes).sum();
        let ratio = (overlap, table.bytes.max(1));
        let better = best.as_ref().is_none_or(|(_, least)| ratio_cmp(ratio, *least).is_lt());
        if better && can_run(shape, running, &plan) {
            best = Some((plan, ratio));
        }
    }
    best.map(|(plan, _)| plan)
}

/// The job of these upper tables, with what they overlap below.
fn plan_upper(shape: &Shape<'_>, level: usize, upper: Range<usize>) -> Option<Plan> {
    let (from, to) = hull(metas(shape, level, &upper))?;
    let lower = shape.overlapping(level + 1, from, to);
    let (from, to) = hull(metas(shape, level, &upper).chain(metas(shape, level + 1, &lower)))?;
    let bottom = (level + 2..shape.len()).all(|deeper| shape.overlapping(deeper, from, to).is_empty());
    let dead_weight = bottom
        && metas(shape, level, &upper).any(|table| {
            table.tombstones > 0 && table.tombstones.saturating_mul(ENTRIES_PER_TOMBSTONE_MOVED) >= table.entries
        });
    let trivial_move = upper.len() == 1 && lower.is_empty() && !dead_weight;
    Some(Plan { level, upper, lower, trivial_move, bottom })
}

fn can_run(shape: &Shape<'_>, running: &[RunningJob], plan: &Plan) -> bool {
    let job = plan.running(shape);
    running.iter().all(|other| !job.conflicts(other))
}

fn metas<'s>(shape: &'s Shape<'_>, level: usize, range: &Range<usize>) -> impl Iterator<Item = &'s TableMeta> + Clone {
    shape.level(level).get(range.clone()).unwrap_or_default().iter().copied()
}

/// Compares `a.0 / a.1` with `b.0 / b.1`.
fn ratio_cmp(a: (u64, u64), b: (u64, u64)) -> std::cmp::Ordering {
    let cross = |x: u64, y: u64| u128::from(x) * u128::from(y);
    cross(a.0, b.1).cmp(&cross(b.0, a.1))
}

impl Plan {
    pub(super) fn running(&self, shape: &Shape<'_>) -> RunningJob {
        RunningJob::new(
            self.level,
            metas(shape, self.level, &self.upper).chain(metas(shape, self.level + 1, &self.lower)),
        )
    }
}
