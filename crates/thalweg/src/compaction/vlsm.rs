//! The vLSM policy (VLSM-1 to VLSM-10, `docs/vlsm.md`): short and narrow chains of compactions.
//!
//! Level 0 is a queue: its oldest table is merged into level 1 at once, alone (or with others that fill one table with
//! it), and not together with all that level 0 has gathered. Level 1 has `f` tables' bytes, so that this stays cheap.
//! Level 2 is Φ times as large, so that a small level 1 needs no more levels; each level below is `f` times larger.
//! Level 1 is cut so that most of its tables lie over little of level 2 ([`super::look_ahead`]). Only these *good*
//! tables are merged into level 2, the one with the least overlap for its size first. When none is good the least bad
//! one is merged, or level 0 would wait for ever (VLSM-A4).
//!
//! **Debt** (VLSM-A2): with `debt_bytes` above 0 a level may exceed its target by that much before the level above it
//! must wait. A job may take that much more of level 0 at once, if it is there. One pass then rewrites more, and a
//! chain is longer. Without debt every chain is as short as the shape allows.
//!
//! **The top first**: a memtable waits for level 0, so the job of level 0 goes before those below. A level is made
//! smaller only to make room for the one above it, or when nothing above wants to run. A level whose next level has no
//! room waits; the deepest level that is too large never does, so something can always run.

use super::job::RunningJob;
use super::look_ahead::{Cut, LookAhead, Overlap, OverlapLimit};
use super::plan::{Plan, last_level, plan_least_overlap, plan_level0, staying};
use super::shape::Shape;

/// The shape that the vLSM policy keeps.
#[derive(Clone, Debug)]
pub(crate) struct VlsmOptions {
    /// `S_M`: a table is closed at this many bytes; in level 1 sooner, but not below `S_m`, that is `S_M / f`.
    pub(crate) table_bytes: u64,
    /// `f`: tables of level 1, and how many times larger each level below level 2 is.
    pub(crate) growth_factor: u64,
    /// `Φ`: how many times larger level 2 is than level 1.
    pub(crate) phi: u64,
    pub(crate) overlap: Overlap,
    pub(crate) debt_bytes: u64,
    /// Level 0 is compacted when it has this many tables; 1 in the paper.
    pub(crate) level0_trigger: usize,
    /// Levels, level 0 included; at least 2.
    pub(crate) levels_max: usize,
}

impl VlsmOptions {
    fn limit(&self) -> OverlapLimit {
        OverlapLimit { overlap: self.overlap, factor: self.growth_factor, size_max: self.table_bytes }
    }

    /// `S_m`.
    pub(super) fn size_min(&self) -> u64 {
        self.table_bytes / self.growth_factor.max(1)
    }

    /// Bytes that a level (not 0) should have at most.
    pub(super) fn target_bytes(&self, level: usize) -> u64 {
        let level1 = self.table_bytes.saturating_mul(self.growth_factor);
        let factor = |level| if level == 2 { self.phi } else { self.growth_factor };
        (2..=level).fold(level1, |bytes, level| bytes.saturating_mul(factor(level)))
    }

    /// Returns where the outputs of a job end.
    pub(super) fn cut(&self, shape: &Shape<'_>, job: &RunningJob) -> Cut {
        if job.output_level != 1 {
            return Cut::Size(self.table_bytes);
        }
        Cut::LookAhead(LookAhead::new(self.limit(), self.size_min(), shape, &job.key_min, &job.key_max))
    }
}

/// Returns the job that the shape needs most, or `None`; see [`super::Policy::pick`].
pub(super) fn plan(options: &VlsmOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    let last = last_level(options.levels_max, shape);
    let bytes: Vec<u64> =
        (0..=last).map(|level| staying(shape, running, level).map(|table| table.bytes).sum()).collect();
    let is_due = |level: usize| match level {
        0 => staying(shape, running, 0).count() >= options.level0_trigger.max(1),
        _ => {
            let sums = shape.sums(level, staying(shape, running, level));
            sums.1 > options.target_bytes(level) || shape.hide_half(level, sums)
        }
    };
    let has_room =
        |level: usize| level == last || bytes[level] <= options.target_bytes(level).saturating_add(options.debt_bytes);
    // Otherwise jobs that start one after the other in level 1 could keep level 0 waiting until level 1 is small.
    let mut level0_waits = false;
    for level in (0..last).filter(|level| is_due(*level) && has_room(level + 1)) {
        let plan = match level {
            0 => plan_top(options, shape, running),
            1 if level0_waits => None,
            1 => plan_level1(options, shape, running),
            _ => plan_least_overlap(shape, running, level, |_| true),
        };
        if plan.is_some() {
            return plan;
        }
        level0_waits |= level == 0 && !running.iter().any(|job| job.level == 0);
    }
    None
}

/// Plans a job of the oldest table of level 0, and as many more as the debt allows. A table that overlaps nothing goes
/// down as it is only if it would have been cut so.
pub(super) fn plan_top(options: &VlsmOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    let most = options.table_bytes.saturating_add(options.debt_bytes);
    let mut bytes = 0;
    let more = shape.level(0).iter().skip(1).take_while(|table| {
        bytes += table.bytes;
        bytes <= most.saturating_sub(shape.level(0).first().map_or(0, |first| first.bytes))
    });
    let count = 1 + more.count();
    plan_level0(shape, running, count, |table| {
        table.bytes <= options.table_bytes && options.limit().is_good(shape, table)
    })
}

/// Plans the job of the best good table; if there is none, of the best of all tables.
fn plan_level1(options: &VlsmOptions, shape: &Shape<'_>, running: &[RunningJob]) -> Option<Plan> {
    let limit = options.limit();
    let some_good = shape.level(1).iter().any(|table| limit.is_good(shape, table));
    plan_least_overlap(shape, running, 1, |table| !some_good || limit.is_good(shape, table))
}

/// Whether the tables that a plan takes from level 1 are good.
pub(super) fn picks_good(options: &VlsmOptions, shape: &Shape<'_>, plan: &Plan) -> bool {
    shape.level(1).get(plan.upper.clone()).unwrap_or_default().iter().all(|t| options.limit().is_good(shape, t))
}

/// Bytes that compactions must still take out of their level.
#[cfg(test)]
pub(super) fn debt_of(options: &VlsmOptions, shape: &Shape<'_>) -> u64 {
    let level0 = shape.level(0).iter().skip(options.level0_trigger.max(1) - 1).map(|table| table.bytes).sum::<u64>();
    let below = (1..last_level(options.levels_max, shape))
        .map(|level| shape.bytes(level).saturating_sub(options.target_bytes(level)))
        .sum::<u64>();
    level0 + below
}
