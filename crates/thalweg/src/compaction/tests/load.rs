//! A load of random keys in ideal tables and ideal time: what a policy writes a byte that is put, how many tables
//! level 0 has meanwhile, and how long the chains are that memtables wait for. Tables are ranges of evenly spread keys
//! that are all different.

use crate::compaction::job::RunningJob;
use crate::compaction::look_ahead::{Cut, Overlap};
use crate::compaction::shape::Shape;
use crate::compaction::{LeveledOptions, Policy, VlsmOptions};
use crate::format::{SeqNo, TableId};
use crate::table::TableMeta;

const MIB: u64 = 1 << 20;

/// Keys are numbers below this, as eight bytes.
const KEYS: f64 = 1e15;

struct Load {
    policy: Policy,
    levels: Vec<Vec<TableMeta>>,
    next_id: u64,
    /// Bytes moved since level 0 was taken from last, and what each memtable has waited for.
    chain: u64,
    chains: Vec<u64>,
    good: u64,
    poor: u64,
}

/// A job that runs: what it takes, where its tables end, and whether it only moves a table.
struct Running {
    job: RunningJob,
    inputs: Vec<TableMeta>,
    cut: Cut,
    moved: bool,
}

/// The cost of a load.
#[derive(Debug, Default)]
struct Cost {
    /// Bytes that jobs wrote a byte that was put.
    amplification: f64,
    /// Of level 0, the mean over time while the load ran.
    level0_tables: f64,
    /// Bytes of the largest job.
    job_bytes_max: u64,
    /// Seconds that writers waited.
    stalled: f64,
    /// MiB moved for a memtable.
    chain_mean: u64,
    chain_p99: u64,
    chain_max: u64,
    /// Of the tables cut by looking ahead, those that are good.
    good: f64,
}

fn to_key(key: f64) -> [u8; 8] {
    (key as u64).to_be_bytes()
}

fn from_key(key: &[u8]) -> f64 {
    u64::from_be_bytes(key.try_into().unwrap()) as f64
}

impl Load {
    fn table(&mut self, from: f64, to: f64, bytes: u64) -> TableMeta {
        let id = TableId(self.next_id);
        self.next_id += 1;
        TableMeta {
            id,
            bytes,
            checksum: 0,
            entries: bytes,
            tombstones: 0,
            keys: bytes,
            seq_min: SeqNo(id.0),
            seq_max: SeqNo(id.0),
            key_min: (from as u64).to_be_bytes().into(),
            key_max: (to as u64 - 1).to_be_bytes().into(),
        }
    }

    /// Merges ideally: the bytes of each piece of the range are the sum of the inputs' bytes there. Keys come in steps:
    /// a full table or, where a table may end sooner, a part of the smallest one.
    fn merge(&mut self, inputs: &[TableMeta], mut cut: Cut) -> Vec<TableMeta> {
        let ranges: Vec<(f64, f64, f64)> =
            inputs.iter().map(|t| (from_key(&t.key_min), from_key(&t.key_max) + 1.0, t.bytes as f64)).collect();
        let mut ends: Vec<f64> = ranges.iter().flat_map(|range| [range.0, range.1]).collect();
        // A table may have to end where one of the level below begins or ends.
        let below: Vec<f64> = match &cut {
            Cut::Size(_) => Vec::new(),
            Cut::Aligned(aligned) => {
                aligned.marks().iter().flat_map(|mark| [0.0, 1.0].map(|after| from_key(mark) + after)).collect()
            }
            Cut::LookAhead(_) => self.levels[2].iter().map(|table| from_key(&table.key_min)).collect(),
        };
        let (first, last) = ends.iter().fold((f64::MAX, 0.0), |(a, b), end| (end.min(a), end.max(b)));
        ends.extend(below.into_iter().filter(|end| *end > first && *end < last));
        ends.sort_by(f64::total_cmp);
        let small_step = self.policy.table_bytes() as f64 / 128.0;
        let (mut outputs, mut start, mut bytes) = (Vec::new(), ends[0], 0.0);
        cut.begin(&to_key(start));
        for pair in ends.windows(2) {
            let (mut from, to) = (pair[0], pair[1]);
            let here = ranges.iter().filter(|range| range.0 <= from && range.1 >= to && to > from);
            let density: f64 = here.map(|range| range.2 / (range.1 - range.0)).sum();
            while from < to && density > 0.0 {
                if bytes > 0.0 && !cut.has_room(&to_key(from), (bytes + 0.5) as u64) {
                    outputs.push(self.table(start, from, bytes as u64));
                    (start, bytes) = (from, 0.0);
                    cut.begin(&to_key(from));
                }
                let step_bytes = match &cut {
                    Cut::Size(most) => *most as f64 - bytes,
                    Cut::Aligned(aligned) => aligned.size() as f64 - bytes,
                    Cut::LookAhead(_) => small_step,
                };
                let step = (step_bytes / density).min(to - from).max(1.0);
                bytes += density * step;
                from += step;
            }
        }
        if bytes >= 1.0 {
            outputs.push(self.table(start, ends[ends.len() - 1], bytes as u64));
        }
        let (good, poor) = cut.judge(&outputs).unwrap_or_default();
        self.good += good;
        self.poor += poor;
        outputs
    }

    fn pick(&self) -> Option<Running> {
        let shape = Shape::of_metas(&self.levels);
        let plan = self.policy.plan(&shape, &[], &|_| true)?;
        let job = plan.running(&shape);
        let inputs = self.levels.iter().flatten().filter(|table| job.tables.contains(&table.id)).cloned().collect();
        Some(Running { cut: self.policy.cut(&shape, &plan), job, inputs, moved: plan.trivial_move })
    }

    fn install(&mut self, job: &RunningJob, outputs: Vec<TableMeta>, bytes: u64) {
        self.chain += bytes;
        if job.level == 0 {
            let memtables = self.levels[0].iter().filter(|table| job.tables.contains(&table.id)).count();
            self.chains.extend(std::iter::repeat_n(std::mem::take(&mut self.chain), memtables));
        }
        self.levels.iter_mut().for_each(|level| level.retain(|table| !job.tables.contains(&table.id)));
        let level = &mut self.levels[job.output_level];
        level.extend(outputs);
        level.sort_by(|a, b| a.key_min.cmp(&b.key_min));
    }
}

/// Puts `total` MiB at `ingest` MiB a second in memtables of `memtable` MiB, while one worker merges `speed` MiB a
/// second; then lets it finish.
fn load(policy: &Policy, total: u64, memtable: u64, ingest: f64, speed: f64) -> Cost {
    let mut load = Load {
        policy: policy.clone(),
        levels: vec![Vec::new(); 7],
        next_id: 1,
        chain: 0,
        chains: Vec::new(),
        good: 0,
        poor: 0,
    };
    let (mut cost, mut now, mut flushes, mut free_at) = (Cost::default(), 0.0, total / memtable, 0.0);
    let mut next_flush = memtable as f64 / ingest;
    let mut running: Option<Running> = None;
    let (mut written, mut table_seconds) = (0, 0.0);
    loop {
        if running.is_none() {
            running = load.pick();
            if let Some(Running { inputs, moved, .. }) = &running {
                let bytes: u64 = if *moved { 0 } else { inputs.iter().map(|table| table.bytes).sum() };
                written += bytes;
                cost.job_bytes_max = cost.job_bytes_max.max(bytes);
                free_at = now + bytes as f64 / MIB as f64 / speed;
            }
        }
        if running.is_none() && flushes == 0 {
            break;
        }
        if load.levels[0].len() >= 20 && free_at > next_flush {
            cost.stalled += free_at - next_flush;
            next_flush = free_at;
        }
        let ends_first = running.is_some() && (flushes == 0 || free_at <= next_flush);
        let then = if ends_first { free_at } else { next_flush };
        if flushes > 0 {
            table_seconds += load.levels[0].len() as f64 * (then - now);
            cost.level0_tables = table_seconds / then;
        }
        now = then;
        if let Some(Running { job, inputs, cut, moved }) = running.take_if(|_| ends_first) {
            let bytes = if moved { 0 } else { inputs.iter().map(|table| table.bytes).sum() };
            let outputs = if moved { inputs } else { load.merge(&inputs, cut) };
            load.install(&job, outputs, bytes);
        } else {
            let table = load.table(0.0, KEYS, memtable * MIB);
            load.levels[0].push(table);
            flushes -= 1;
            next_flush = now + memtable as f64 / ingest;
        }
    }
    cost.amplification = written as f64 / (total * MIB) as f64;
    load.chains.sort_unstable();
    let chain = |share: usize| load.chains.get(load.chains.len() * share / 1000).map_or(0, |bytes| bytes / MIB);
    cost.chain_mean = load.chains.iter().sum::<u64>() / MIB / load.chains.len().max(1) as u64;
    cost.chain_p99 = chain(990);
    cost.chain_max = load.chains.last().map_or(0, |bytes| bytes / MIB);
    cost.good = load.good as f64 / (load.good + load.poor).max(1) as f64;
    cost
}

/// RocksDB's shape: tables of 64 MiB, level 1 of 256.
fn leveled() -> Policy {
    Policy::Leveled(LeveledOptions {
        level0_trigger: 4,
        level0_patience: 4,
        level0_urgent: 16,
        level1_bytes: 256 * MIB,
        growth_factor: 8,
        table_bytes: 64 * MIB,
        table_bytes_max: 64 * MIB,
        job_bytes_max: 704 * MIB,
        levels_max: 7,
    })
}

/// The mean over loads that differ a little, for how jobs happen to fall decides much of a single one.
fn mean(total: u64, memtable: u64) -> Cost {
    let mut sum = Cost::default();
    let runs: Vec<(f64, f64)> = [200.0, 260.0, 320.0, 400.0, 500.0, 650.0]
        .iter()
        .flat_map(|speed| [110.0, 117.0, 124.0, 131.0].map(|ingest| (ingest, *speed)))
        .collect();
    for (ingest, speed) in &runs {
        let cost = load(&leveled(), total, memtable, *ingest, *speed);
        sum.amplification += cost.amplification / runs.len() as f64;
        sum.level0_tables += cost.level0_tables / runs.len() as f64;
        sum.stalled += cost.stalled / runs.len() as f64;
        sum.job_bytes_max = sum.job_bytes_max.max(cost.job_bytes_max);
    }
    sum
}

#[test]
fn a_load_of_random_keys_writes_no_more_than_it_did() {
    // With the highest score first the loads wrote 3.44, 3.94, 4.34 and 4.93 times what was put, level 0 had 4.3, 5.9,
    // 8.8 and 11.9 tables, and the largest jobs were of 1152, 1920, 2560 and 1888 MiB. Deeper first, without a bound
    // of what a job reads: 3.34, 3.84, 3.77 and 4.47 times; 1088, 1664, 2304 and 1728 MiB. With the bound, and each
    // level `growth_factor` times the one above it from a level 1 of 256 MiB: 3.4, 4.0, 4.6 and 4.8 times. With tables
    // that end at their size, not where one below ends: 3.24, 3.58, 4.33 and 4.27 times.
    for (total, memtable, amplification_max, tables_max, job_mib_max) in
        [(2048, 64, 3.0, 4.5, 704), (3072, 64, 3.45, 6.6, 704), (5120, 64, 3.95, 9.5, 704), (4096, 32, 3.9, 11.0, 704)]
    {
        let cost = mean(total, memtable);
        let within = cost.amplification <= amplification_max
            && cost.level0_tables <= tables_max
            && cost.job_bytes_max <= job_mib_max * MIB;
        assert!(within, "{total} MiB, memtables of {memtable}: {cost:?}");
    }
}

#[test]
fn levels_of_even_steps_write_less_than_steps_of_the_growth_factor() {
    // As in a partition that was split, whose jobs of level 0 are far from their bound, when memtables are as large as
    // the largest of many is when it is sealed. Steps of 8 from a level 1 of 256 MiB: 3.37, 4.82 and 6.86 times. Tables
    // that end at their size: 2.83, 4.24 and 5.90 times.
    let mut policy = leveled();
    if let Policy::Leveled(options) = &mut policy {
        options.job_bytes_max = u64::MAX;
    }
    for (total, amplification_max) in [(3072, 2.85), (7680, 3.9), (15360, 5.2)] {
        let cost = load(&policy, total, 128, 10.0, 400.0);
        assert!(cost.amplification <= amplification_max, "{total} MiB: {cost:?}");
    }
}

/// vLSM with memtables and tables of `table` MiB and the paper's `f`.
fn vlsm(table: u64, phi: u64, debt: u64) -> Policy {
    Policy::Vlsm(VlsmOptions {
        table_bytes: table * MIB,
        growth_factor: 8,
        phi,
        overlap: Overlap::Count,
        debt_bytes: debt * MIB,
        level0_trigger: 1,
        levels_max: 7,
    })
}

#[test]
fn chains_of_vlsm_are_short_and_narrow_and_most_of_its_tables_are_good() {
    // A worker that keeps up. Leveled at its best: 4.7 times what was put, 1 144 MiB for a memtable.
    let leveled = load(&leveled(), 6144, 64, 10.0, 400.0);
    assert!(leveled.chain_mean > 1000, "{leveled:?}");
    for (table, phi, debt, chain_of_leveled, good) in
        [(8, 32, 0, 5, 0.85), (8, 16, 0, 6, 0.9), (8, 8, 0, 7, 0.99), (2, 32, 0, 17, 0.85)]
    {
        let cost = load(&vlsm(table, phi, debt), 6144, table, 10.0, 400.0);
        let is_short = cost.chain_mean * chain_of_leveled <= leveled.chain_mean
            && cost.chain_p99 * chain_of_leveled <= leveled.chain_p99;
        assert!(is_short && cost.good >= good, "tables of {table} MiB, phi {phi}: {cost:?}");
    }
    // Φ beyond f²: nearly all tables of S_m lie over more than f of level 2 (the paper's limit of 64).
    let wide = load(&vlsm(8, 128, 0), 12288, 8, 10.0, 400.0);
    assert!(wide.good < 0.5, "{wide:?}");
}

#[test]
fn debt_writes_less_and_makes_chains_longer() {
    // A worker that does not keep up, so that there is a debt.
    let (without, with) = (load(&vlsm(8, 32, 0), 4096, 8, 40.0, 400.0), load(&vlsm(8, 32, 64), 4096, 8, 40.0, 400.0));
    assert!(with.amplification * 1.8 < without.amplification, "{with:?} {without:?}");
    assert!(with.chain_mean > without.chain_mean * 2 && with.stalled < without.stalled / 5.0, "{with:?} {without:?}");
}
