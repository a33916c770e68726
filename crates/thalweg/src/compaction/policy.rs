//! [`Policy`]: the shape in which a partition's levels are kept, and so the job that is wanted next.

use super::job::{Job, RunningJob};
use super::leveled::{self, LeveledOptions};
use super::look_ahead::Cut;
use super::plan::{Plan, plan_least_overlap};
use super::rewrite;
use super::shape::{Levels, Shape};
use super::tidy;
use super::vlsm::{self, VlsmOptions};
use crate::format::SeqNo;
use crate::table::TableMeta;
use std::ops::Range;
use std::sync::Arc;

/// Splits of a partition make tables no smaller than one part in this many, nor than [`TABLE_SHARE_MIN`] bytes: each
/// table is a file with a descriptor. With tables of 128 KiB instead of 2 MiB in sixteen partitions, overwrites of 1
/// KiB had 0.7 of their speed, and took twice the processors.
const TABLE_PARTS_MAX: u64 = 16;
const TABLE_SHARE_MIN: u64 = 2 << 20;

/// Two sizes are alike if they differ by at most one part in this many.
const ALIKE_PARTS: u64 = 64;

/// The fraction `part / all`, at most 1; `all` is not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    pub(crate) part: u64,
    pub(crate) all: u64,
}

/// See the module. Any policy takes over the levels that another has left.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    Leveled(LeveledOptions),
    Vlsm(VlsmOptions),
}

impl Policy {
    /// Returns the job that the shape of `levels` needs most and that can run beside `running`, or `None`. See
    /// [`crate::compaction`] for what `levels` and `running` must agree on. The job's output level may be one that
    /// `levels` does not have yet, if it is below `levels_max`. Pick again whenever a job ends or a flush installs.
    /// `all_see` says whether all readers, current and later ones, see everything up to a sequence number.
    pub(crate) fn pick(&self, levels: &Levels, running: &[RunningJob], all_see: &dyn Fn(SeqNo) -> bool) -> Option<Job> {
        let shape = Shape::of(levels);
        let plan = self.plan(&shape, running, all_see)?;
        Some(self.job(levels, &shape, plan))
    }

    /// The bytes of level 0, with each tombstone counted as the entry that it removes; and the bytes of the levels
    /// below.
    pub(crate) fn level0_weight(levels: &Levels) -> (u64, u64) {
        let shape = Shape::of(levels);
        (shape.weight(0), (1..shape.len()).map(|level| shape.bytes(level)).sum())
    }

    /// Returns a job of a database that nobody writes to (see [`super::tidy`]). `large`: whether a large partition has
    /// one.
    pub(crate) fn pick_tidy(
        &self,
        levels: &Levels,
        running: &[RunningJob],
        large: bool,
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Job> {
        let shape = Shape::of(levels);
        let plan = tidy::plan(&shape, running, large, all_see)?;
        Some(self.job(levels, &shape, plan))
    }

    fn job(&self, levels: &Levels, shape: &Shape<'_>, plan: Plan) -> Job {
        let (cut, is_poor) = (self.cut(shape, &plan), self.is_poor(shape, &plan));
        let Plan { level, output_level, upper, lower, trivial_move, bottom } = plan;
        let tables = |level: usize, range: Range<usize>| {
            levels
                .get(level)
                .and_then(|tables| tables.get(range))
                .map_or_else(Vec::new, |tables| tables.iter().map(Arc::clone).collect())
        };
        let (upper, lower) = (tables(level, upper), tables(output_level, lower));
        Job { level, output_level, upper, lower, trivial_move, bottom, cut, is_poor, is_awaited: false }
    }

    /// Returns a job that a caller waits for. It takes `wanted` tables of `level` down; from level 0 also all older
    /// tables.
    pub(crate) fn pick_wanted(
        &self,
        levels: &Levels,
        running: &[RunningJob],
        level: usize,
        wanted: &dyn Fn(&TableMeta) -> bool,
    ) -> Option<Job> {
        let shape = Shape::of(levels);
        let plan = match (level, self) {
            (0, _) if !shape.level(0).iter().any(|table| wanted(table)) => None,
            (0, Policy::Leveled(options)) => leveled::plan_wanted_level0(options, &shape, running, wanted),
            (0, Policy::Vlsm(options)) => vlsm::plan_top(options, &shape, running),
            _ => plan_least_overlap(&shape, running, level, wanted),
        }?;
        Some(Job { is_awaited: true, ..self.job(levels, &shape, plan) })
    }

    /// Returns a job that a caller waits for. It rewrites `wanted` tables with dead entries; see [`super::rewrite`].
    pub(crate) fn pick_wanted_dead(
        &self,
        levels: &Levels,
        running: &[RunningJob],
        wanted: &dyn Fn(&TableMeta) -> bool,
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Job> {
        let shape = Shape::of(levels);
        let plan = rewrite::plan(&shape, running, wanted, all_see)?;
        Some(Job { is_awaited: true, ..self.job(levels, &shape, plan) })
    }

    /// Whether there is a job; see [`Policy::pick`].
    pub(crate) fn wants_job(&self, levels: &Levels, running: &[RunningJob], all_see: &dyn Fn(SeqNo) -> bool) -> bool {
        self.plan(&Shape::of(levels), running, all_see).is_some()
    }

    /// Whether some table has enough dead entries to be rewritten once all readers see it.
    pub(crate) fn has_dead(levels: &Levels) -> bool {
        levels.iter().skip(1).flatten().any(|table| rewrite::is_dead(table.meta(), rewrite::DEAD_PART))
    }

    /// Whether both, of one keyspace, ask for the same jobs, or one asks for a job a few bytes later than the other.
    pub(crate) fn is_like(&self, other: &Policy) -> bool {
        let alike = |a: u64, b: u64| a.abs_diff(b) <= a / ALIKE_PARTS;
        let (level1, tables) = ((self.level1_bytes(), other.level1_bytes()), (self.table_bytes(), other.table_bytes()));
        let is_same = match (self, other) {
            (Policy::Leveled(a), Policy::Leveled(b)) => {
                (a.level0_trigger, a.level0_patience, a.level0_urgent)
                    == (b.level0_trigger, b.level0_patience, b.level0_urgent)
            }
            (Policy::Vlsm(a), Policy::Vlsm(b)) => {
                a.level0_trigger == b.level0_trigger && alike(a.debt_bytes, b.debt_bytes)
            }
            _ => false,
        };
        is_same && alike(level1.0, level1.1) && alike(tables.0, tables.1)
    }

    /// See [`Policy::pick`].
    pub(super) fn plan(
        &self,
        shape: &Shape<'_>,
        running: &[RunningJob],
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Plan> {
        let plan = match self {
            Policy::Leveled(options) => leveled::plan(options, shape, running),
            Policy::Vlsm(options) => vlsm::plan(options, shape, running),
        };
        plan.or_else(|| rewrite::plan(shape, running, &|table| rewrite::is_dead(table, rewrite::DEAD_PART), all_see))
    }

    /// Returns where the outputs of a job end.
    pub(super) fn cut(&self, shape: &Shape<'_>, plan: &Plan) -> Cut {
        match self {
            Policy::Leveled(options) => options.cut(shape, plan),
            Policy::Vlsm(options) => options.cut(shape, &plan.running(shape)),
        }
    }

    /// Whether the job takes a table of level 1 that lies over too much of level 2, because no table lies over less.
    fn is_poor(&self, shape: &Shape<'_>, plan: &Plan) -> bool {
        match self {
            Policy::Vlsm(options) if (plan.level, plan.output_level) == (1, 2) => {
                !vlsm::picks_good(options, shape, plan)
            }
            _ => false,
        }
    }

    /// Returns the policy of a partition whose level 1 and tables have this fraction of the bytes.
    pub(crate) fn shared(&self, fraction: Fraction) -> Policy {
        let share = |bytes: u64| (u128::from(bytes) * u128::from(fraction.part) / u128::from(fraction.all)) as u64;
        let table = |bytes: u64| share(bytes).max(bytes / TABLE_PARTS_MAX).max(bytes.min(TABLE_SHARE_MIN));
        let mut policy = self.clone();
        match &mut policy {
            Policy::Leveled(options) => {
                options.level1_bytes = share(options.level1_bytes);
                options.table_bytes = table(options.table_bytes);
            }
            Policy::Vlsm(options) => {
                options.table_bytes = table(options.table_bytes);
                options.debt_bytes = share(options.debt_bytes);
            }
        }
        policy
    }

    /// Bytes of a full level 1.
    pub(crate) fn level1_bytes(&self) -> u64 {
        match self {
            Policy::Leveled(options) => options.level1_bytes,
            Policy::Vlsm(options) => options.table_bytes.saturating_mul(options.growth_factor),
        }
    }

    /// Bytes of a full table.
    pub(crate) fn table_bytes(&self) -> u64 {
        match self {
            Policy::Leveled(options) => options.table_bytes,
            Policy::Vlsm(options) => options.table_bytes,
        }
    }

    /// Returns the same policy with level 0 due at its first table: for a disk that has hardly room for a table.
    pub(crate) fn eager(mut self) -> Policy {
        match &mut self {
            Policy::Leveled(options) => {
                (options.level0_trigger, options.level0_patience) = (1, 1);
                options.level0_urgent = leveled::LEVEL0_URGENT;
            }
            Policy::Vlsm(options) => options.level0_trigger = 1,
        }
        self
    }

    /// Returns the same policy with level 0 due at this many tables. vLSM has a rule of its own.
    pub(crate) fn with_level0_due_at(mut self, tables: usize) -> Policy {
        if let Policy::Leveled(options) = &mut self {
            options.level0_patience = tables;
        }
        self
    }

    /// Returns the number of tables with which level 0 is compacted even if nobody reads.
    pub(crate) fn level0_patience(&self) -> usize {
        match self {
            Policy::Leveled(options) => options.level0_patience.max(options.level0_trigger),
            Policy::Vlsm(options) => options.level0_trigger,
        }
    }

    /// Returns the number of tables with which level 0 is compacted.
    pub(crate) fn level0_trigger(&self) -> usize {
        match self {
            Policy::Leveled(options) => options.level0_trigger,
            Policy::Vlsm(options) => options.level0_trigger,
        }
    }

    /// Whether writers may soon have to wait for the job: it takes so much of level 0 that no other level goes first.
    pub(crate) fn is_urgent(&self, job: &Job) -> bool {
        let urgent = match self {
            Policy::Leveled(options) => options.level0_urgent,
            Policy::Vlsm(options) => options.level0_trigger.saturating_mul(leveled::LEVEL0_URGENT),
        };
        job.level == 0 && job.upper.len() >= urgent
    }

    /// Levels, level 0 included.
    #[cfg(test)]
    pub(super) fn levels_max(&self) -> usize {
        match self {
            Policy::Leveled(options) => options.levels_max,
            Policy::Vlsm(options) => options.levels_max,
        }
    }

    /// Bytes that compactions must still take out of their level.
    #[cfg(test)]
    pub(super) fn debt_of(&self, shape: &Shape<'_>) -> u64 {
        match self {
            Policy::Leveled(options) => leveled::debt_of(options, shape),
            Policy::Vlsm(options) => vlsm::debt_of(options, shape),
        }
    }
}
