//! Finds the table of a level that has the least to rewrite below it for its size.
//!
//! A level of small tables has thousands, and the search runs after each job. So one pass over both levels finds all
//! overlaps. A table that is no better than the best so far, or that is in a job already, is not examined further.

use super::job::RunningJob;
use super::plan::{Plan, can_run, plan_upper, ratio_cmp};
use super::shape::Shape;
use crate::table::TableMeta;
use std::collections::BTreeSet;
use std::ops::Range;

/// Plans the job of the table of `level` (not 0) that has the least to rewrite below it for its size, of those that can
/// run. Neighbours that overlap no other lower tables than this table does join the job for their own bytes alone
/// (LevelDB's and RocksDB's expansion of inputs). With neighbours a job reads no more than `most` bytes. Ties by key
/// order.
pub(super) fn plan_least_overlap_wide(
    shape: &Shape<'_>,
    running: &[RunningJob],
    level: usize,
    most: u64,
) -> Option<Plan> {
    let (upper, lower) = (Side::of(shape, running, level), Side::of(shape, running, level + 1));
    let (overlaps, weights) = (shape.overlaps(level), shape.weights(level));
    let mut best: Option<(Plan, (u64, u64))> = None;
    for (index, below) in overlaps.iter().enumerate() {
        let alone = index..index + 1;
        if upper.is_busy(&alone) || lower.is_busy(below) {
            continue;
        }
        let rewritten = lower.bytes(below);
        let wide = widened(&upper, &overlaps, index, most.saturating_sub(rewritten));
        for range in [wide, Some(alone)].into_iter().flatten() {
            let moved = upper.metas(&range).map(&weights).fold(0, u64::saturating_add);
            let ratio = (rewritten, moved.max(1));
            let is_better = best.as_ref().is_none_or(|(_, least)| ratio_cmp(ratio, *least).is_lt());
            if !is_better || upper.is_busy(&range) {
                continue;
            }
            // A neighbour may lie in a later gap of the level below. Then another lower table lies between, and the
            // range is skipped.
            let plan = plan_upper(shape, level, range).filter(|plan| plan.lower == *below);
            if let Some(plan) = plan.filter(|plan| can_run(shape, running, plan)) {
                best = Some((plan, ratio));
            }
        }
    }
    best.map(|(plan, _)| plan)
}

/// The tables of a level, and which of them are in a job.
struct Side<'s> {
    tables: &'s [&'s TableMeta],
    busy: Vec<bool>,
}

impl<'s> Side<'s> {
    fn of(shape: &'s Shape<'_>, running: &[RunningJob], level: usize) -> Self {
        let busy: BTreeSet<_> = running.iter().flat_map(|job| &job.tables).collect();
        let tables = shape.level(level);
        Side { tables, busy: tables.iter().map(|table| busy.contains(&table.id)).collect() }
    }

    fn metas(&self, range: &Range<usize>) -> impl Iterator<Item = &'s TableMeta> + use<'s> {
        self.tables.get(range.clone()).unwrap_or_default().iter().copied()
    }

    fn bytes(&self, range: &Range<usize>) -> u64 {
        self.metas(range).map(|table| table.bytes).sum()
    }

    fn is_busy(&self, range: &Range<usize>) -> bool {
        self.busy.get(range.clone()).unwrap_or_default().contains(&true)
    }
}

/// Returns the table at `index` with the neighbours that join it, of `most` bytes together; `None` if none joins it.
fn widened(upper: &Side<'_>, overlaps: &[Range<usize>], index: usize, most: u64) -> Option<Range<usize>> {
    let all = overlaps.get(index).filter(|all| !all.is_empty())?;
    let mut bytes = upper.bytes(&(index..index + 1));
    let mut comes_along = |index: usize| {
        let (Some(table), Some(below)) = (upper.tables.get(index), overlaps.get(index)) else { return false };
        let is_within = below.is_empty() || all.start <= below.start && below.end <= all.end;
        let fits = bytes.saturating_add(table.bytes) <= most;
        bytes += if is_within && fits { table.bytes } else { 0 };
        is_within && fits
    };
    let mut range = index..index + 1;
    while range.start > 0 && comes_along(range.start - 1) {
        range.start -= 1;
    }
    while comes_along(range.end) {
        range.end += 1;
    }
    (range.len() > 1).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::metas;
    use crate::format::{SeqNo, TableId};
    use fastrand::Rng;

    /// The same, table by table, without anything that saves time.
    fn plan_plainly(shape: &Shape<'_>, running: &[RunningJob], level: usize, most: u64) -> Option<Plan> {
        let weights = shape.weights(level);
        let bytes = |level, range: &Range<usize>| metas(shape, level, range).map(|table| table.bytes).sum::<u64>();
        let mut best: Option<(Plan, (u64, u64))> = None;
        for index in 0..shape.level(level).len() {
            let alone = plan_upper(shape, level, index..index + 1).unwrap();
            let comes_along = |upper: &Range<usize>, index: usize| {
                let Some(table) = shape.level(level).get(index) else { return false };
                let below = shape.overlapping(level + 1, &table.key_min, &table.key_max);
                let is_within = below.is_empty() || below.clone().all(|lower| alone.lower.contains(&lower));
                let all = bytes(level, upper) + bytes(level + 1, &alone.lower) + table.bytes;
                !alone.lower.is_empty() && is_within && all <= most
            };
            let mut upper = alone.upper.clone();
            while upper.start > 0 && comes_along(&upper, upper.start - 1) {
                upper.start -= 1;
            }
            while comes_along(&upper, upper.end) {
                upper.end += 1;
            }
            let wide = plan_upper(shape, level, upper).filter(|wide| wide.lower == alone.lower);
            for plan in [wide, Some(alone)].into_iter().flatten() {
                let moved: u64 = metas(shape, level, &plan.upper).map(&weights).sum();
                let ratio = (bytes(level + 1, &plan.lower), moved.max(1));
                let is_better = best.as_ref().is_none_or(|(_, least)| ratio_cmp(ratio, *least).is_lt());
                if is_better && can_run(shape, running, &plan) {
                    best = Some((plan, ratio));
                }
            }
        }
        best.map(|(plan, _)| plan)
    }

    /// Disjoint tables with gaps between some.
    fn level(random: &mut Rng, next_id: &mut u64, most: usize) -> Vec<TableMeta> {
        let mut keys: Vec<u16> = (0..2 * random.usize(0..=most)).map(|_| random.u16(..400)).collect();
        keys.sort_unstable();
        keys.dedup();
        let table = |ends: &[u16]| {
            *next_id += 1;
            let entries = random.u64(1..50);
            TableMeta {
                id: TableId(*next_id),
                bytes: random.u64(1..8) * 10,
                checksum: 0,
                entries,
                tombstones: if random.u8(..4) == 0 { random.u64(..=entries) } else { 0 },
                keys: entries,
                seq_min: SeqNo(1),
                seq_max: SeqNo(1),
                key_min: ends[0].to_be_bytes().into(),
                key_max: ends[1].to_be_bytes().into(),
            }
        };
        keys.chunks_exact(2).map(table).collect()
    }

    #[test]
    fn it_is_what_looking_at_each_table_gives() {
        let (mut random, mut wide, mut beside) = (Rng::with_seed(17), 0, 0);
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let mut next_id = 0;
            let levels: Vec<Vec<TableMeta>> =
                [0, 12, 20, 8].iter().map(|most| level(&mut random, &mut next_id, *most)).collect();
            let shape = Shape::of_metas(&levels);
            let overlapping = |table: &&TableMeta| shape.overlapping(2, &table.key_min, &table.key_max);
            assert_eq!(shape.overlaps(1), shape.level(1).iter().map(overlapping).collect::<Vec<_>>());
            let (mut running, most) = (Vec::new(), random.u64(10..400));
            while let Some(plan) = plan_plainly(&shape, &running, 1, most) {
                assert_eq!(plan_least_overlap_wide(&shape, &running, 1, most), Some(plan.clone()));
                wide += usize::from(plan.upper.len() > 1);
                beside += usize::from(!running.is_empty());
                running.push(plan.running(&shape));
            }
            assert_eq!(plan_least_overlap_wide(&shape, &running, 1, most), None);
        }
        assert!(cfg!(miri) || wide > 1_000 && beside > 1_000, "{wide} wide, {beside} beside others");
    }
}
