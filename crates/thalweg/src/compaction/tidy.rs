//! The compactions of a quiet database: while nobody writes, they drop replaced entries, so that a small database is
//! small.
//!
//! A partition is *untidy* when the levels above its last one have more than a tenth of the bytes of the last one: they
//! may replace about as many bytes of it. A tombstone counts as the entry that it removes. A partition is untidy, too,
//! when a tenth of one of its tables is dead (see [`super::rewrite`]).
//!
//! Tidying may write ten bytes for each byte that it frees. So in partitions of more than [`TIDY_BYTES_MAX`] level 0
//! stays, and the levels between it and the last may keep an eighth of the bytes of the last one. If they have more,
//! the tables with the least to rewrite go down one after the other. That writes up to nine bytes for each byte that
//! goes down, and fewer if the last level is small. Without it these levels would keep almost as much as the last one
//! while a partition has just got one more level.

use super::job::RunningJob;
use super::plan::{Plan, plan_all, plan_least_overlap, plan_level0};
use super::rewrite;
use super::shape::Shape;
use crate::format::SeqNo;
use crate::table::TableMeta;

/// The most bytes of a partition that is tidied as a whole. Larger partitions keep more.
const TIDY_BYTES_MAX: u64 = 256 << 20;

/// The levels between level 0 and the last one of a large partition may have this part of what the last one has.
const LARGE_PART: u64 = 8;

/// The upper levels may have this part of what the last one has.
pub(crate) const TIDY_PART: u64 = 10;

/// Plans the next job that makes the partition tidy: it takes all tables of the topmost level that has any. `large`:
/// whether a large partition gets a job, too.
pub(super) fn plan(
    shape: &Shape<'_>,
    running: &[RunningJob],
    large: bool,
    all_see: &dyn Fn(SeqNo) -> bool,
) -> Option<Plan> {
    if !running.is_empty() {
        return None;
    }
    let deepest = shape.deepest();
    let above: u64 = (0..deepest).map(|level| shape.weight(level)).sum();
    let last = shape.bytes(deepest);
    let is_untidy = above > last / TIDY_PART || deepest == 0 && shape.level(0).len() > 1;
    let bytes: u64 = (0..=deepest).map(|level| shape.bytes(level)).sum();
    if bytes > TIDY_BYTES_MAX {
        return large.then(|| plan_large(shape)).flatten();
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

/// Plans the next job of a large partition.
fn plan_large(shape: &Shape<'_>) -> Option<Plan> {
    let deepest = shape.deepest();
    let above = 1..deepest;
    let weight: u64 = above.clone().map(|level| shape.weight(level)).sum();
    if weight <= shape.bytes(deepest) / LARGE_PART {
        return None;
    }
    let level = above.rev().find(|level| !shape.level(*level).is_empty())?;
    plan_least_overlap(shape, &[], level, |_| true)
}

/// Plans the merge of the only table that there is, in level 0, if part of it is dead.
fn plan_dead_level0(shape: &Shape<'_>, all_see: &dyn Fn(SeqNo) -> bool) -> Option<Plan> {
    let [table] = shape.level(0) else { return None };
    if shape.deepest() > 0 || !rewrite::is_dead(table, TIDY_PART) || !all_see(table.seq_max) {
        return None;
    }
    plan_level0(shape, &[], 1, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::metas;
    use crate::format::TableId;

    const MIB: u64 = 1 << 20;

    /// Tables of `bytes` each, side by side over all keys.
    fn level(tables: u16, bytes: u64) -> Vec<TableMeta> {
        let width = u16::MAX / tables;
        let table = |at: u16| TableMeta {
            id: TableId(u64::from(at) + u64::from(tables) * 1000),
            bytes,
            checksum: 0,
            entries: 1000,
            tombstones: 0,
            keys: 1000,
            seq_min: SeqNo(1),
            seq_max: SeqNo(1),
            key_min: (at * width).to_be_bytes().into(),
            key_max: (at * width + width - 1).to_be_bytes().into(),
        };
        (0..tables).map(table).collect()
    }

    /// Does what the plans say until there is none. Returns the bytes that were written.
    fn tidy(levels: &mut [Vec<TableMeta>]) -> u64 {
        let mut written = 0;
        while let Some(Plan { level, output_level, upper, lower, .. }) = {
            let shape = Shape::of_metas(levels);
            plan(&shape, &[], true, &|_| true)
        } {
            assert_eq!(output_level, level + 1);
            let moved: u64 = levels[level].drain(upper).map(|table| table.bytes).sum();
            let below = &mut levels[output_level][lower];
            written += moved + below.iter().map(|table| table.bytes).sum::<u64>();
            below[0].bytes += moved;
        }
        written
    }

    #[test]
    fn a_large_partition_keeps_an_eighth_above_its_last_level_and_writes_no_more_than_that_takes() {
        let mut levels = [level(2, 10 * MIB), level(32, 3 * MIB), level(96, 5 * MIB)];
        let written = tidy(&mut levels);
        let shape = Shape::of_metas(&levels);
        assert_eq!(shape.bytes(0), 20 * MIB, "level 0 stays");
        let (above, last) = (shape.bytes(1), shape.bytes(2));
        assert!(above <= last / 8 && above + 3 * MIB > last / 8 - MIB, "{above} above {last}");
        // Each table lies over three or four.
        let moved = 96 * MIB - above;
        assert!(written <= moved / 3 * 24, "{written} written for {moved}");
    }

    #[test]
    fn a_large_partition_is_left_alone_unless_it_is_asked_for() {
        let levels = [level(2, 10 * MIB), level(32, 3 * MIB), level(96, 5 * MIB)];
        assert_eq!(plan(&Shape::of_metas(&levels), &[], false, &|_| true), None);
    }

    #[test]
    fn a_large_partition_with_little_above_its_last_level_stays_as_it_is() {
        let levels = [level(3, 10 * MIB), level(20, 3 * MIB), level(96, 5 * MIB)];
        let shape = Shape::of_metas(&levels);
        assert_eq!(plan(&shape, &[], true, &|_| true), None);
        let all_levels = [level(3, 10 * MIB), Vec::new(), level(96, 5 * MIB)];
        assert_eq!(plan(&Shape::of_metas(&all_levels), &[], true, &|_| true), None);
    }

    #[test]
    fn of_several_levels_above_the_last_the_lowest_goes_first() {
        let levels = [Vec::new(), level(8, MIB), level(32, 3 * MIB), level(96, 5 * MIB)];
        let shape = Shape::of_metas(&levels);
        let plan = plan(&shape, &[], true, &|_| true).unwrap();
        assert_eq!((plan.level, plan.output_level, metas(&shape, 2, &plan.upper).count()), (2, 3, 1));
    }
}
