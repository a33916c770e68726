//! Rewrites tables in their own level, to drop versions that were kept for readers that are gone.
//!
//! A merge keeps the versions that a snapshot or a long range sees, and a tombstone above them. When these readers have
//! ended, the versions that were merged to the bottom under them are *dead*: no policy takes them from the last level,
//! and only later writes to the same keys would merge them again. So such a table is merged alone.
//!
//! A table is rewritten when a third of its entries are dead (a tenth in a quiet database, see [`super::tidy`]), when
//! nothing lies below its range, and when all readers see all of it. Then no dead entry stays (see
//! [`super::retention`]). So no table is rewritten twice, and each rewrite drops at least half as many entries as it
//! writes. Neighbours that are due join one job, which makes fewer tables of them.
//!
//! The table stays at the bottom: data comes into the levels below only through its level, where its range is reserved.

use super::job::RunningJob;
use super::plan::{Plan, can_run};
use super::shape::Shape;
use crate::format::SeqNo;
use crate::planted::{Bug, planted};
use crate::table::TableMeta;

/// A table is rewritten when one entry in this many is dead.
pub(super) const DEAD_PART: u64 = 3;

/// Tables that one job rewrites at most.
const TABLES_MAX: usize = 8;

/// Whether at least one in `part` entries of the table is dead.
pub(super) fn is_dead(table: &TableMeta, part: u64) -> bool {
    table.dead() > 0 && table.dead().saturating_mul(part) >= table.entries
}

/// Plans a rewrite of the first tables, from the top, that are `wanted`, have dead entries, and can be rewritten beside
/// the running jobs. `all_see` is that of [`super::Policy::pick`]. It is called last, for tables that meet every other
/// condition.
pub(super) fn plan(
    shape: &Shape<'_>,
    running: &[RunningJob],
    wanted: &dyn Fn(&TableMeta) -> bool,
    all_see: &dyn Fn(SeqNo) -> bool,
) -> Option<Plan> {
    (1..shape.len()).find_map(|level| {
        let is_due = |table: &TableMeta| {
            let is_over = |deeper| !shape.overlapping(deeper, &table.key_min, &table.key_max).is_empty();
            table.dead() > 0
                && wanted(table)
                && (!(level + 1..shape.len()).any(is_over) || planted(Bug::RewrittenAboveOlder))
        };
        let tables = shape.level(level);
        let plan = |start: usize, count: usize| Plan {
            level,
            output_level: level,
            upper: start..start + count,
            lower: 0..0,
            trivial_move: false,
            bottom: true,
        };
        let can_go = |index: usize, table: &TableMeta| {
            is_due(table) && can_run(shape, running, &plan(index, 1)) && all_see(table.seq_max)
        };
        let start = tables.iter().enumerate().position(|(index, table)| can_go(index, table))?;
        let more = (start + 1..tables.len()).take_while(|index| can_go(*index, tables[*index])).take(TABLES_MAX - 1);
        let count = 1 + more.count();
        // Together they also reserve the ranges between them.
        Some(plan(start, count)).filter(|plan| can_run(shape, running, plan)).or_else(|| Some(plan(start, 1)))
    })
}
