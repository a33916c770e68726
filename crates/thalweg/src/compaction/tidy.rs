//! The compactions of a quiet database: while nobody writes, what was replaced goes, so that a small database is small.
//!
//! A partition is *untidy* when the levels above its last one have more than a tenth of what that one has: about as
//! much may be replaced by it. A tombstone counts as the entry that it removes. So is one with a table of which a tenth
//! is dead (see [`super::rewrite`]). Only partitions of up to
//! [`TIDY_BYTES_MAX`] are tidied, for each byte may be written once more for every tenth that was replaced: of a large
//! one the policy's own bounds are cheaper.

use super::job::RunningJob;
use super::plan::{Plan, plan_all, plan_level0};
use super::rewrite;
use super::shape::Shape;
use crate::format::SeqNo;
use crate::table::TableMeta;

/// Larger partitions are left as they are.
const TIDY_BYTES_MAX: u64 = 256 << 20;

/// The upper levels may have this part of what the last one has.
pub(crate) const TIDY_PART: u64 = 10;

/// The next job that makes the partition tidy: of its topmost level with tables, all of them.
pub(super) fn plan(shape: &Shape<'_>, running: &[RunningJob], all_see: &dyn Fn(SeqNo) -> bool) -> Option<Plan> {
    if !running.is_empty() {
        return None;
    }
    let deepest = shape.deepest();
    let above: u64 = (0..deepest).map(|level| shape.weight(level)).sum();
    let last = shape.bytes(deepest);
    let is_untidy = above > last / TIDY_PART || deepest == 0 && shape.level(0).len() > 1;
    let bytes: u64 = (0..=deepest).map(|level| shape.bytes(level)).sum();
    if bytes > TIDY_BYTES_MAX {
        return None;
    }
    if !is_untidy {
        let is_dead = |table: &TableMeta| rewrite::is_dead(table, TIDY_PART);
        return plan_dead_level0(shape, all_see).or_else(|| rewrite::plan(shape, running, &is_dead, all_see));
    }
    match (0..=deepest).find(|level| !shape.level(*level).is_empty())? {
        0 => plan_level0(shape, running, usize::MAX, |_| true),
        level => plan_all(shape, running, level),
    }
}

/// The merge of the only table that there is, in level 0, if part of it is dead.
fn plan_dead_level0(shape: &Shape<'_>, all_see: &dyn Fn(SeqNo) -> bool) -> Option<Plan> {
    let [table] = shape.level(0) else { return None };
    if shape.deepest() > 0 || !rewrite::is_dead(table, TIDY_PART) || !all_see(table.seq_max) {
        return None;
    }
    plan_level0(shape, &[], 1, |_| false)
}
