//! The classic leveled policy: which job the shape of a partition needs most.
//!
//! The *score* of a level is its content divided by its target: tables over `level0_patience` in level 0, bytes over
//! target below. Tombstones count with the entries that they hide; tables that a running job already takes out of the
//! level do not count. A level is *due* at a score of 1, or when its tombstones hide half of the bytes in it and below
//! it. The last level is never a source.
//!
//! **Targets** follow from the bytes that there are ([`Targets`]): level 1 has a quarter of all bytes below level 0,
//! within bounds. Each level below is larger than the one above it by the same factor, and the last one has all the
//! rest. So no level is merged with ten times its bytes while another one has hardly any.
//!
//! **Deeper first**: of the levels that are due, the deepest one whose job can run beside the running ones goes first.
//! So each level is merged into a next level of its proper size: excess bytes there would be rewritten for nothing, and
//! would make the job longer. Meanwhile level 0 gathers tables, and its job takes all of them at once, as far as
//! `job_bytes_max` allows. When level 0 has [`LEVEL0_URGENT`] times its trigger, the highest score goes first instead,
//! so that writers need not wait for deep levels. But level 1 goes first if it would make the job of level 0 too large.
//! While level 0 then waits for jobs of level 1 to end, level 1 starts no other job, unless it is the fuller one.
//!
//! **Free moves** go before all: a table of level 1 that lies over nothing of level 2 moves there ([`plan_free`]).
//!
//! **Level 0** gives its oldest tables, as many as can run. A prefix in flush order holds, for each of its keys, every
//! older version of level 0, so the order of versions (see [`super`]) is kept. **Other levels** give the table that has
//! the least to rewrite below it for its size, with those neighbours that overlap no other lower tables; ties by key
//! order.

use super::aligned::Aligned;
use super::job::RunningJob;
use super::least_overlap::plan_least_overlap_wide;
use super::look_ahead::Cut;
use super::plan::{Plan, can_run, last_level, plan_level0, plan_move, ratio_cmp, staying, widen_move};
use super::shape::Shape;
use crate::table::TableMeta;
use std::cmp::Reverse;

/// The shape that the classic leveled policy keeps (LevelDB's and RocksDB's).
#[derive(Clone, Debug)]
pub(crate) struct LeveledOptions {
    /// Level 0 is compacted into level 1 when it has this many tables, if the partition is read much.
    pub(crate) level0_trigger: usize,
    /// The same number while nobody reads. The caller decides which one counts ([`super::Policy::with_level0_due_at`]).
    pub(crate) level0_patience: usize,
    /// With this many tables, level 0 no longer waits for deeper levels that are less full.
    pub(crate) level0_urgent: usize,
    /// Bytes of level 1.
    pub(crate) level1_bytes: u64,
    /// Each level below is this many times larger.
    pub(crate) growth_factor: u64,
    /// A table of level 1 is closed at this many bytes, a table of each level below at twice as many as in the level
    /// above.
    pub(crate) table_bytes: u64,
    /// A table of any level is closed at this many bytes at most.
    pub(crate) table_bytes_max: u64,
    /// A job of level 0 reads no more bytes if possible: its inputs stay until its edit is settled.
    pub(crate) job_bytes_max: u64,
    /// Levels, level 0 included; at least 2.
    pub(crate) levels_max: usize,
}

/// [`LeveledOptions::level0_urgent`] of an ordered keyspace, divided by its trigger.
pub(crate) const LEVEL0_URGENT: usize = 4;

/// The size limit of a job with several upper tables, in full tables of the level below.
const WIDE_TABLES: u64 = 25;

impl LeveledOptions {
    /// Returns the bytes at which a table of `level` is closed. Most tables are in the last level, and each is a file
    /// with a descriptor. So small tables are only for the levels that memtables wait for.
    pub(super) fn table_bytes_at(&self, level: usize) -> u64 {
        let doubled = (1..level).fold(self.table_bytes, |bytes, _| bytes.saturating_mul(2));
        doubled.min(self.table_bytes_max)
    }

    /// Returns where the outputs of a job end.
    pub(super) fn cut(&self, shape: &Shape<'_>, plan: &Plan) -> Cut {
        let size = self.table_bytes_at(plan.output_level);
        let job = plan.running(shape);
        let aligned = Aligned::new(size, shape, plan.output_level + 1, &job.key_min, &job.key_max);
        aligned.map_or(Cut::Size(size), Cut::Aligned)
    }
}

/// Returns the job that the shape needs most, or `None`; see [`super::Policy::pick`].
pub(super) fn plan(options: &LeveledOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    if let Some(plan) = plan_free(options, shape, running) {
        return Some(plan);
    }
    let targets = Targets::of(options, shape);
    let mut scores: Vec<Score> = (0..last_level(options.levels_max, shape))
        .map(|level| score(&targets, shape, running, level))
        .filter(|score| score.amount >= score.target)
        .collect();
    // A job of level 0 takes all of level 1. If that would be more than half of the job, level 1 has to be smaller
    // first.
    let level1_fits = shape.bytes(1) <= targets.bytes(1).max(options.job_bytes_max / 2);
    let urgent = |score: &Score| score.level == 0 && score.amount >= options.level0_urgent as u64;
    if !scores.iter().any(urgent) {
        scores.reverse();
    } else if level1_fits {
        // Stable, so that of equal scores the upper level goes first.
        scores.sort_by(|a, b| b.ratio_cmp(a));
    } else {
        scores.sort_by_key(|score| (score.level != 1, Reverse(score.level)));
    }
    // Otherwise jobs that start one after the other in level 1 could keep level 0 waiting until level 1 is small.
    let level0_runs = running.iter().any(|job| job.level == 0);
    let mut level0_waits = false;
    for score in scores {
        let plan = match score.level {
            0 => plan_level0(shape, running, level0_tables_max(options, shape), |_| true),
            1 if level0_waits => None,
            level => plan_least_overlap_wide(shape, running, level, wide_bytes_max(options, level)),
        };
        if let Some(plan) = plan {
            let is_wide = plan.level > 0 && plan.trivial_move;
            let excess = score.amount.saturating_sub(score.target);
            return Some(if is_wide { widen_move(shape, running, plan, |_| true, excess) } else { plan });
        }
        level0_waits |= score.level == 0 && !level0_runs;
    }
    None
}

/// Plans a move of a table of level 1 that lies between tables of level 2. The move costs nothing, and without it each
/// job of level 0 would rewrite the table. Such tables come from appends to several sequences of keys
/// ([`super::aligned`]). A table of less than half the full size stays until it is larger: below it would stay so
/// small.
fn plan_free(options: &LeveledOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    if shape.level(2).is_empty() {
        return None;
    }
    let is_large = |table: &TableMeta| table.bytes >= options.table_bytes_at(1) / 2;
    let free = shape.overlaps(1).into_iter().enumerate().filter(|(_, below)| below.is_empty());
    let large = free.filter(|(index, _)| shape.level(1).get(*index).is_some_and(|table| is_large(table)));
    let mut moves = large.filter_map(|(index, _)| plan_move(shape, 1, index));
    let plan = moves.find(|plan| can_run(shape, running, plan))?;
    Some(widen_move(shape, running, plan, is_large, u64::MAX))
}

/// Plans a job that takes the `wanted` tables of level 0 down, and all older ones, as far as they fit into one job.
pub(super) fn plan_wanted_level0(
    options: &LeveledOptions,
    shape: &Shape<'_>,
    running: &[RunningJob],
    wanted: &dyn Fn(&TableMeta) -> bool,
) -> Option<Plan> {
    let newest = shape.level(0).iter().rposition(|table| wanted(table))?;
    plan_level0(shape, running, level0_tables_max(options, shape).min(newest + 1), |_| true)
}

/// Returns the most bytes that a job with several tables of `level` reads: it should not keep others waiting for long.
fn wide_bytes_max(options: &LeveledOptions, level: usize) -> u64 {
    options.table_bytes_at(level + 1).saturating_mul(WIDE_TABLES).min(options.job_bytes_max)
}

/// Returns how many tables a job of level 0 takes at most. The limit is at least `level0_trigger`: fewer tables would
/// rewrite level 1 for too little.
fn level0_tables_max(options: &LeveledOptions, shape: &Shape<'_>) -> usize {
    let mut bytes = shape.bytes(1);
    let fit = shape.level(0).iter().take_while(|table| {
        bytes += table.bytes;
        bytes <= options.job_bytes_max
    });
    fit.count().max(options.level0_trigger)
}

/// Bytes that compactions must still take out of their level: of level 0 the tables beyond its trigger, of each level
/// below, but the last, what is above its target.
#[cfg(test)]
pub(super) fn debt_of(options: &LeveledOptions, shape: &Shape<'_>) -> u64 {
    let level0 = shape.level(0).iter().skip(options.level0_trigger).map(|table| table.bytes).sum::<u64>();
    let targets = Targets::of(options, shape);
    let below = (1..last_level(options.levels_max, shape))
        .map(|level| shape.bytes(level).saturating_sub(targets.bytes(level)))
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

fn score(targets: &Targets, shape: &Shape<'_>, running: &[RunningJob], level: usize) -> Score {
    let target = targets.of_level(level).max(1);
    let mut tables = 0;
    let (bytes, weight) = shape.sums(level, staying(shape, running, level).inspect(|_| tables += 1));
    let amount = if level == 0 { tables } else { weight };
    let amount = if amount < target && shape.hide_half(level, (bytes, weight)) { target } else { amount };
    Score { level, amount, target }
}

/// The target of each level, from the bytes that there are below level 0.
///
/// Let level 1 have `x` bytes, let level 0 give it `b` bytes at once, and let `g` be the factor from level to level.
/// Then a byte is written `1 + x / b` times into level 1, and about `1 + g / 2` times into each level below. The sum is
/// least with an `x` of about `b × g / 2`. With the usual factors this is two to four times `level1_bytes`, which is
/// what level 0 gives. In the model of `load.rs` three times costs least or nearly so for 10 to 60 times `level1_bytes`
/// in all.
pub(super) struct Targets {
    level0_tables: u64,
    level1_bytes: u64,
    /// How many times larger each level is than the one above, in parts of [`WHOLE`].
    factor: u64,
}

/// Level 1 has one part in this many of all bytes below level 0.
const LEVEL1_PARTS: u64 = 4;

/// Level 1 has at most this many times `level1_bytes`.
const LEVEL1_TIMES_MAX: u64 = 3;

/// 1, as a factor of [`Targets`].
const WHOLE: u64 = 256;

impl Targets {
    pub(super) fn of(options: &LeveledOptions, shape: &Shape<'_>) -> Self {
        let least = options.level1_bytes;
        // At most half of a job of level 0.
        let most = least.saturating_mul(LEVEL1_TIMES_MAX).min(options.job_bytes_max / 2).max(least);
        let all: u64 = (1..shape.len()).map(|level| shape.bytes(level)).sum();
        let deepest = shape.deepest().max(1);
        let mut targets = Targets {
            level0_tables: options.level0_patience as u64,
            level1_bytes: (all / LEVEL1_PARTS).clamp(least, most),
            factor: options.growth_factor.max(2).saturating_mul(WHOLE),
        };
        let last = (deepest..options.levels_max.max(deepest)).find(|level| targets.bytes(*level) > all);
        let Some(last) = last else { return targets };
        // Finds the least factor with which the last level is not due even if it has all bytes.
        let (mut too_small, mut enough) = (WHOLE - 1, targets.factor);
        while too_small + 1 < enough {
            targets.factor = too_small.midpoint(enough);
            if targets.bytes(last) > all {
                enough = targets.factor;
            } else {
                too_small = targets.factor;
            }
        }
        targets.factor = enough;
        targets
    }

    /// Returns the target of a level (not 0) in bytes.
    pub(super) fn bytes(&self, level: usize) -> u64 {
        let grown = |bytes: u64, _| {
            let bytes = u128::from(bytes) * u128::from(self.factor) / u128::from(WHOLE);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        (1..level).fold(self.level1_bytes, grown)
    }

    /// Returns the target of a level: tables for level 0, bytes for the others.
    fn of_level(&self, level: usize) -> u64 {
        if level == 0 { self.level0_tables } else { self.bytes(level) }
    }
}
