//! [`Session`]: a partition whose policy picks and ends jobs, and a log of that with drawings of the levels.
//!
//! Merges are ideal: what comes out is as large as what went in, cut into equal parts.

use crate::compaction::draw::{draw_shape, human, label};
use crate::compaction::job::RunningJob;
use crate::compaction::plan::Plan;
use crate::compaction::shape::Shape;
use crate::compaction::{LeveledOptions, Policy};
use crate::format::{SeqNo, TableId};
use crate::table::TableMeta;
use expect_test::Expect;

pub(super) const KIB: u64 = 1024;

pub(super) fn policy() -> Policy {
    Policy::Leveled(LeveledOptions {
        level0_trigger: 2,
        level0_patience: 2,
        level0_urgent: 8,
        level1_bytes: 40 * KIB,
        growth_factor: 4,
        table_bytes: 10 * KIB,
        table_bytes_max: 10 * KIB,
        job_bytes_max: u64::MAX,
        levels_max: 4,
    })
}

/// A partition, the jobs that run on it, and what was said so far.
pub(super) struct Session {
    policy: Policy,
    pub(super) levels: Vec<Vec<TableMeta>>,
    running: Vec<(Plan, RunningJob)>,
    next_id: u64,
    log: String,
}

impl Session {
    /// `levels`: a line a level, tables as `min-max:KiB`, or `min-max:KiB†` if they are all tombstones.
    pub(super) fn new(levels: &[&str]) -> Self {
        let mut session =
            Session { policy: policy(), levels: Vec::new(), running: Vec::new(), next_id: 1, log: String::new() };
        for line in levels {
            let tables = line.split_whitespace().map(|spec| session.parse(spec)).collect();
            session.levels.push(tables);
        }
        session.draw()
    }

    pub(super) fn parse(&mut self, spec: &str) -> TableMeta {
        let (range, size) = spec.split_once(':').unwrap();
        let (min, max) = range.split_once('-').unwrap();
        let dead = size.ends_with('†');
        let kib: u64 = size.trim_end_matches('†').parse().unwrap();
        self.table(min.as_bytes(), max.as_bytes(), kib * KIB, if dead { 100 } else { 0 })
    }

    pub(super) fn table(&mut self, min: &[u8], max: &[u8], bytes: u64, tombstones: u64) -> TableMeta {
        let id = TableId(self.next_id);
        self.next_id += 1;
        TableMeta {
            id,
            bytes,
            checksum: 0,
            entries: 100,
            tombstones,
            keys: 100,
            seq_min: SeqNo(id.0),
            seq_max: SeqNo(id.0),
            key_min: min.into(),
            key_max: max.into(),
        }
    }

    pub(super) fn draw(mut self) -> Self {
        let shape = Shape::of_metas(&self.levels);
        let debt = self.policy.debt_of(&shape);
        self.log += &draw_shape(&shape);
        if debt > 0 {
            self.log += &format!("debt {}\n", human(debt));
        }
        self
    }

    pub(super) fn flush(mut self, spec: &str) -> Self {
        let table = self.parse(spec);
        self.levels[0].push(table);
        self.log += &format!("> flush {spec}\n");
        self
    }

    /// Starts the job that is wanted most.
    pub(super) fn pick(mut self) -> Self {
        let shape = Shape::of_metas(&self.levels);
        let busy: Vec<RunningJob> = self.running.iter().map(|(_, job)| job.clone()).collect();
        let Some(plan) = self.policy.plan(&shape, &busy, &|_| true) else {
            self.log += "> pick: nothing to do\n";
            return self;
        };
        let names = |level: usize, range: &std::ops::Range<usize>| {
            let tables = &shape.level(level)[range.clone()];
            let names = tables.iter().map(|t| format!("[{}—{}]", label(&t.key_min), label(&t.key_max)));
            names.collect::<Vec<_>>().join(" ")
        };
        let what = match (plan.trivial_move, plan.lower.is_empty()) {
            (true, _) => "move",
            (false, true) => "rewrite",
            (false, false) => "merge",
        };
        self.log += &format!("> pick: {what} L{} {}", plan.level, names(plan.level, &plan.upper));
        if !plan.lower.is_empty() {
            self.log += &format!(" with L{} {}", plan.level + 1, names(plan.level + 1, &plan.lower));
        }
        self.log += if plan.bottom { ", bottom\n" } else { "\n" };
        let job = plan.running(&shape);
        self.running.push((plan, job));
        self
    }

    /// Ends the oldest running job, and draws.
    pub(super) fn finish(mut self) -> Self {
        let (plan, job) = self.running.remove(0);
        let mut inputs = Vec::new();
        for level in &mut self.levels {
            inputs.extend(level.extract_if(.., |table| job.tables.contains(&table.id)));
        }
        let outputs = if plan.trivial_move { inputs } else { self.ideal_merge(&inputs, plan.bottom) };
        while self.levels.len() <= job.output_level {
            self.levels.push(Vec::new());
        }
        self.levels[job.output_level].extend(outputs);
        self.levels[job.output_level].sort_by(|a, b| a.key_min.cmp(&b.key_min));
        self.log += &format!("> finish: into L{}\n", job.output_level);
        self.draw()
    }

    fn ideal_merge(&mut self, inputs: &[TableMeta], bottom: bool) -> Vec<TableMeta> {
        let dead = |table: &TableMeta| bottom && table.tombstones == table.entries;
        let living: Vec<&TableMeta> = inputs.iter().filter(|table| !dead(table)).collect();
        let mut keys: Vec<&[u8]> = living.iter().flat_map(|table| [&*table.key_min, &*table.key_max]).collect();
        keys.sort();
        keys.dedup();
        let bytes: u64 = living.iter().map(|table| table.bytes).sum();
        let parts = bytes.div_ceil(self.policy.table_bytes()).min(keys.len() as u64 / 2).max(1) as usize;
        let part = keys.len().div_ceil(parts).max(1);
        let count = keys.len().div_ceil(part) as u64;
        keys.chunks(part).map(|keys| self.table(keys[0], keys[keys.len() - 1], bytes / count, 0)).collect()
    }

    pub(super) fn check(self, expected: Expect) {
        expected.assert_eq(&self.log);
    }
}
