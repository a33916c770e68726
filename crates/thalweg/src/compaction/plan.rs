//! [`Plan`]: one job as positions in the levels, and the rules that every policy follows when it makes one.
//!
//! **A trivial move** takes a table that overlaps nothing in the level below down without a rewrite. From a level below
//! 0 it takes several at once; from level 0 it takes the oldest, which must overlap no other there. A table of many
//! tombstones above nothing is rewritten instead: moves would carry it for free to the last level, which is never a
//! source, and its tombstones would stay for ever. A rewrite drops them.
//!
//! **Bottom**: a job may drop a tombstone for good when no older version of its key is anywhere else. By the order of
//! versions, older ones are only below it: in the job's own inputs (which hold all of the output level that can have
//! the key), or in a deeper level. `bottom` says that no deeper level overlaps the job's range, and that stays true
//! while the job runs. A job that runs at the pick still has its inputs in `levels`, so deeper data that it moves down
//! is seen in the level from which it comes. New data in the job's key ranges comes to the deeper levels only through
//! the output level. There the tables that hold these keys are the job's own inputs, hence busy, and its output range
//! is reserved. Data from above (newer memtables and level-0 tables, jobs into the source level) holds only newer
//! versions.

use super::job::RunningJob;
use super::shape::{Shape, hull};
use crate::table::TableMeta;
use std::collections::BTreeSet;
use std::ops::Range;

/// A table with a tombstone in this many entries, and nothing below its range, is rewritten rather than moved.
const ENTRIES_PER_TOMBSTONE_MOVED: u64 = 4;

/// The most tables that one move takes. Each look at one more table costs as much as there are tables.
const MOVED_TABLES_MAX: usize = 64;

/// A job, as positions in the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) level: usize,
    /// See [`super::Job::output_level`].
    pub(super) output_level: usize,
    pub(super) upper: Range<usize>,
    pub(super) lower: Range<usize>,
    pub(super) trivial_move: bool,
    pub(super) bottom: bool,
}

/// Plans the job of these upper tables and the tables that they overlap below.
pub(super) fn plan_upper(shape: &Shape<'_>, level: usize, upper: Range<usize>) -> Option<Plan> {
    let (from, to) = hull(metas(shape, level, &upper))?;
    let lower = shape.overlapping(level + 1, from, to);
    let (from, to) = hull(metas(shape, level, &upper).chain(metas(shape, level + 1, &lower)))?;
    let bottom = (level + 2..shape.len()).all(|deeper| shape.overlapping(deeper, from, to).is_empty());
    let dead_weight = bottom
        && metas(shape, level, &upper).any(|table| {
            table.tombstones > 0 && table.tombstones.saturating_mul(ENTRIES_PER_TOMBSTONE_MOVED) >= table.entries
        });
    let trivial_move = upper.len() == 1 && lower.is_empty() && !dead_weight;
    Some(Plan { level, output_level: level + 1, upper, lower, trivial_move, bottom })
}

/// Plans a move of this table of `level` (not 0), if it lies over nothing below.
pub(super) fn plan_move(shape: &Shape<'_>, level: usize, index: usize) -> Option<Plan> {
    let table = shape.level(level).get(index)?;
    let is_free = shape.overlapping(level + 1, &table.key_min, &table.key_max).is_empty();
    is_free.then(|| plan_upper(shape, level, index..index + 1)).flatten().filter(|plan| plan.trivial_move)
}

/// Widens the move of a table of a level below 0 to neighbours that are `wanted` and lie over nothing either. Together
/// they have at most `most` bytes, and are at most [`MOVED_TABLES_MAX`] tables. One edit moves them all. A level that
/// begins gets hundreds of tables, and level 0 should not wait for each.
pub(super) fn widen_move(
    shape: &Shape<'_>,
    running: &[RunningJob],
    plan: Plan,
    wanted: impl Fn(&TableMeta) -> bool,
    most: u64,
) -> Plan {
    assert!(plan.level > 0 && plan.trivial_move, "a move of a sorted level");
    let bytes = |upper: &Range<usize>| metas(shape, plan.level, upper).map(|table| table.bytes).sum::<u64>();
    let (mut wide, mut sum) = (plan.clone(), bytes(&plan.upper));
    while wide.upper.len() < MOVED_TABLES_MAX {
        let added = wide.upper.end..wide.upper.end + 1;
        sum += bytes(&added);
        let upper = wide.upper.start..added.end;
        let lies_over_nothing = hull(metas(shape, plan.level, &upper))
            .is_some_and(|(from, to)| shape.overlapping(plan.level + 1, from, to).is_empty());
        let next = Plan { upper, ..wide.clone() };
        let is_wanted = metas(shape, plan.level, &added).all(&wanted);
        let is_free = plan_move(shape, plan.level, added.start).is_some() && lies_over_nothing;
        if !is_wanted || !is_free || sum > most || !can_run(shape, running, &next) {
            return wide;
        }
        wide = next;
    }
    wide
}

/// The tables of a level that no running job takes out of it.
pub(super) fn staying<'s>(
    shape: &'s Shape<'_>,
    running: &[RunningJob],
    level: usize,
) -> impl Iterator<Item = &'s TableMeta> {
    let leaving: BTreeSet<_> =
        running.iter().filter(|job| job.level == level).flat_map(|job| job.tables.iter().copied()).collect();
    shape.level(level).iter().copied().filter(move |table| !leaving.contains(&table.id))
}

/// Returns the level that is never a source: the last of `levels_max`, or a deeper one that a larger number once
/// filled.
pub(super) fn last_level(levels_max: usize, shape: &Shape<'_>) -> usize {
    assert!(levels_max >= 2, "a partition has at least levels 0 and 1");
    shape.deepest().max(levels_max - 1)
}

/// Plans a job of the oldest tables of level 0, `most` at most, and no more than can run: a shorter prefix has a
/// smaller range, which may be free when that of a longer one is not. A table that overlaps nothing goes down as it is,
/// if `may_move` says so.
pub(super) fn plan_level0(
    shape: &Shape<'_>,
    running: &[RunningJob],
    most: usize,
    may_move: impl Fn(&TableMeta) -> bool,
) -> Option<Plan> {
    let (oldest, newer) = shape.level(0).split_first()?;
    let alone = newer.iter().all(|table| !table.overlaps(&oldest.key_min, &oldest.key_max));
    let moved = plan_upper(shape, 0, 0..1).filter(|plan| alone && plan.trivial_move && may_move(oldest));
    if let Some(plan) = moved.filter(|plan| can_run(shape, running, plan)) {
        return Some(plan);
    }
    (1..=most.min(newer.len() + 1))
        .rev()
        .filter_map(|count| plan_upper(shape, 0, 0..count))
        .map(|plan| Plan { trivial_move: plan.trivial_move && may_move(oldest), ..plan })
        .find(|plan| can_run(shape, running, plan))
}

/// Plans a job of all tables of a level below level 0, if it can run.
pub(super) fn plan_all(shape: &Shape<'_>, running: &[RunningJob], level: usize) -> Option<Plan> {
    let plan = plan_upper(shape, level, 0..shape.level(level).len())?;
    can_run(shape, running, &plan).then_some(plan)
}

/// Plans the job of the table of `level` (not 0) that has the least to rewrite below it for its size, of those that are
/// `chosen` and can run. Ties by key order.
pub(super) fn plan_least_overlap(
    shape: &Shape<'_>,
    running: &[RunningJob],
    level: usize,
    chosen: impl Fn(&TableMeta) -> bool,
) -> Option<Plan> {
    let (mut best, weights) = (None, shape.weights(level));
    for (index, _) in shape.level(level).iter().enumerate().filter(|(_, table)| chosen(table)) {
        let Some(plan) = plan_upper(shape, level, index..index + 1) else { continue };
        keep_better(shape, running, &weights, &mut best, plan);
    }
    best.map(|(plan, _): (Plan, _)| plan)
}

/// Makes the plan the best if it can run and has less to rewrite for the weight that it moves than the best so far.
fn keep_better(
    shape: &Shape<'_>,
    running: &[RunningJob],
    weights: impl Fn(&TableMeta) -> u64,
    best: &mut Option<(Plan, (u64, u64))>,
    plan: Plan,
) {
    let lower: u64 = metas(shape, plan.level + 1, &plan.lower).map(|table| table.bytes).sum();
    let upper = metas(shape, plan.level, &plan.upper).map(weights).fold(0, u64::saturating_add);
    let ratio = (lower, upper.max(1));
    let better = best.as_ref().is_none_or(|(_, least)| ratio_cmp(ratio, *least).is_lt());
    if better && can_run(shape, running, &plan) {
        *best = Some((plan, ratio));
    }
}

/// Whether the job can run beside the running ones.
pub(super) fn can_run(shape: &Shape<'_>, running: &[RunningJob], plan: &Plan) -> bool {
    let job = plan.running(shape);
    running.iter().all(|other| !job.conflicts(other))
}

pub(super) fn metas<'s>(
    shape: &'s Shape<'_>,
    level: usize,
    range: &Range<usize>,
) -> impl Iterator<Item = &'s TableMeta> + Clone {
    shape.level(level).get(range.clone()).unwrap_or_default().iter().copied()
}

/// Compares `a.0 / a.1` with `b.0 / b.1`.
pub(super) fn ratio_cmp(a: (u64, u64), b: (u64, u64)) -> std::cmp::Ordering {
    let cross = |x: u64, y: u64| u128::from(x) * u128::from(y);
    cross(a.0, b.1).cmp(&cross(b.0, a.1))
}

impl Plan {
    pub(super) fn running(&self, shape: &Shape<'_>) -> RunningJob {
        RunningJob::new(
            self.level,
            self.output_level,
            metas(shape, self.level, &self.upper).chain(metas(shape, self.output_level, &self.lower)),
        )
    }
}
