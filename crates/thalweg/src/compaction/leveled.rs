//! The classic leveled policy: which job the shape of a partition needs most.
//!
//! A level's *score* is what is in it over what should be: tables over `level0_trigger` in level 0, bytes over
//! target below, tombstones with what they hide; what a running job already takes out of it does not count. A level is
//! *due* at a score of 1, or when its tombstones hide half of what there is; the last level is never a source.
//!
//! **Targets** follow from what there is ([`Targets`]): level 1 has a quarter of all bytes below level 0, within
//! bounds, and each level below is the same number of times larger than the one above it, the last one with all the
//! rest. So no level gets ten times its bytes to merge with while another one has hardly any.
//!
//! **Deeper first**: of the levels that are due the deepest goes whose job can run beside the running ones. So level 0
//! is merged into a level 1 of its proper size, and each level into a next one of its: what is in excess there would be
//! rewritten for nothing, and would make the job longer. Meanwhile level 0 gathers tables, and its job takes all of
//! them at once, as far as `job_bytes_max` allows. Only when it has [`LEVEL0_URGENT`] times its trigger does the
//! highest score win, so that writers need not wait for what is deep, or level 1 if that would make the job too large;
//! and while level 0 then waits for jobs of level 1 to end, level 1 starts no other, unless it is the fuller one.
//!
//! **For nothing** goes before all: a table of level 1 that lies over nothing of level 2 moves there ([`plan_free`]).
//!
//! **Level 0** gives its oldest tables, as many as can run: a prefix in flush order holds, for each key in it,
//! every version that level 0 has below it, so the order of versions (see [`super`]) is kept. **Other levels** give
//! the table that has the least to rewrite below it for its size, with those neighbours that have nothing else below
//! them; ties by key order.

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
    /// Level 0 is compacted into level 1 when it has this many tables, where much is read.
    pub(crate) level0_trigger: usize,
    /// The same while nobody reads. What counts is for the caller to say ([`super::Policy::with_level0_due_at`]).
    pub(crate) level0_patience: usize,
    /// With this many tables, level 0 no longer waits for deeper levels that are less full.
    pub(crate) level0_urgent: usize,
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

/// [`LeveledOptions::level0_urgent`] of an ordered keyspace, divided by its trigger.
pub(crate) const LEVEL0_URGENT: usize = 4;

/// Tables of the level below that a job with several upper tables may be as large as.
const WIDE_TABLES: u64 = 25;

impl LeveledOptions {
    /// Bytes at which a table of `level` is closed. Most tables are in the last level, and each is a file with a
    /// descriptor: small ones are for the levels that memtables wait for.
    pub(super) fn table_bytes_at(&self, level: usize) -> u64 {
        let doubled = (1..level).fold(self.table_bytes, |bytes, _| bytes.saturating_mul(2));
        doubled.min(self.table_bytes_max)
    }

    /// Where the tables that a job writes end.
    pub(super) fn cut(&self, shape: &Shape<'_>, plan: &Plan) -> Cut {
        let size = self.table_bytes_at(plan.output_level);
        let job = plan.running(shape);
        let aligned = Aligned::new(size, shape, plan.output_level + 1, &job.key_min, &job.key_max);
        aligned.map_or(Cut::Size(size), Cut::Aligned)
    }
}

/// The job that is wanted most, or `None`; see [`super::Policy::pick`].
pub(super) fn plan(options: &LeveledOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    if let Some(plan) = plan_free(options, shape, running) {
        return Some(plan);
    }
    let targets = Targets::of(options, shape);
    let mut scores: Vec<Score> = (0..last_level(options.levels_max, shape))
        .map(|level| score(&targets, shape, running, level))
        .filter(|score| score.amount >= score.target)
        .collect();
    // All of level 1 goes into a job of level 0: where that would be half of the job, level 1 has to be smaller first.
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
    // Else jobs that start one after the other in level 1 could keep level 0 waiting until level 1 is small.
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

/// A move of a table of level 1 that lies between tables of level 2. It costs nothing, and each job of level 0 would
/// rewrite the table. Such tables come of what is appended to several sequences of keys ([`super::aligned`]). One of
/// less than half a full table stays until there is more: below it would stay so small.
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

/// A job that takes the tables of level 0 down that are `wanted`, and all that are older, as far as they fit into one.
pub(super) fn plan_wanted_level0(
    options: &LeveledOptions,
    shape: &Shape<'_>,
    running: &[RunningJob],
    wanted: &dyn Fn(&TableMeta) -> bool,
) -> Option<Plan> {
    let newest = shape.level(0).iter().rposition(|table| wanted(table))?;
    plan_level0(shape, running, level0_tables_max(options, shape).min(newest + 1), |_| true)
}

/// A job that takes more than one table from `level` reads no more bytes: it should not keep others waiting for long.
fn wide_bytes_max(options: &LeveledOptions, level: usize) -> u64 {
    options.table_bytes_at(level + 1).saturating_mul(WIDE_TABLES).min(options.job_bytes_max)
}

/// How many tables a job of level 0 takes at most: fewer than `level0_trigger` would rewrite level 1 for too little.
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

/// How much should be in each level, as much as there is below level 0.
///
/// With a level 1 of `x`, to which level 0 gives `b` at once, and a factor of `g` from level to level, a byte is
/// written `1 + x / b` times into level 1, and about `1 + g / 2` times into each level below. The sum is least with an
/// `x` of about `b × g / 2`: with the usual factors two to four times `level1_bytes`, which is what level 0 gives. In
/// the model of `load.rs` three times costs least or nearly so for 10 to 60 times `level1_bytes` in all.
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
        // Half of a job of level 0 at most.
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
        // The least with which the last level is not due if it has all.
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

    /// Bytes of a level, which is not 0.
    pub(super) fn bytes(&self, level: usize) -> u64 {
        let grown = |bytes: u64, _| {
            let bytes = u128::from(bytes) * u128::from(self.factor) / u128::from(WHOLE);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        (1..level).fold(self.level1_bytes, grown)
    }

    /// Tables of level 0, bytes of the others.
    fn of_level(&self, level: usize) -> u64 {
        if level == 0 { self.level0_tables } else { self.bytes(level) }
    }
}
