//! A partition in memory under random flushes, snapshots and parallel jobs: both policies, the flush and the merge
//! together, against a model that keeps every version for ever.
//!
//! A job merges when it starts and installs when it ends, as in the engine, and anything may happen in between. After
//! each step every key is read at every pinned sequence number, the way the engine reads: the first place that has a
//! version at or below it answers.

use super::fakes::{FakeEntry, FakeMemtable, FakeStore, FakeTable, block_on};
use crate::compaction::flush::flush_to;
use crate::compaction::job::RunningJob;
use crate::compaction::leveled::Targets;
use crate::compaction::look_ahead::{Cut, LookAhead, Overlap};
use crate::compaction::merge::{merge_runs, retention, runs};
use crate::compaction::outputs::Outputs;
use crate::compaction::plan::Plan;
use crate::compaction::retention::Retention;
use crate::compaction::runs::Run;
use crate::compaction::shape::Shape;
use crate::compaction::split::split;
use crate::compaction::{LeveledOptions, Policy, VlsmOptions};
use crate::format::{EntryKind, SeqNo};
use crate::table::TableMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % bound as u64) as usize
    }
}

const KEYS: usize = 30;

/// A sequence number, and the value written at it or `None` for a removal.
type Written = (SeqNo, Option<Vec<u8>>);

struct RunningMerge {
    job: RunningJob,
    outputs: Vec<FakeTable>,
}

struct World {
    policy: Policy,
    store: FakeStore,
    levels: Vec<Vec<FakeTable>>,
    running: Vec<RunningMerge>,
    /// Every version ever written, by key, the newest last.
    model: BTreeMap<Vec<u8>, Vec<Written>>,
    seq: u64,
    visible: u64,
    pinned: Vec<u64>,
    /// Counts of events, to see that the test reaches them.
    moves: usize,
    merges: usize,
    rewrites: usize,
    subtasks: usize,
    bottoms: usize,
    parallel_max: usize,
    /// Tables cut by looking ahead that are good, and those that are not.
    good: u64,
    poor: u64,
}

/// Any policy.
fn policy(random: &mut Random) -> Policy {
    let (table_bytes, levels_max) = (40 + random.below(120) as u64, 2 + random.below(4));
    let (growth_factor, level0_trigger) = (2 + random.below(3) as u64, 1 + random.below(4));
    if random.below(2) == 0 {
        let level1_bytes = 100 + random.below(400) as u64;
        return Policy::Leveled(LeveledOptions {
            level0_trigger,
            level0_patience: level0_trigger,
            level0_urgent: 4 * level0_trigger,
            level1_bytes,
            growth_factor,
            table_bytes,
            table_bytes_max: table_bytes << random.below(3),
            job_bytes_max: [300, 1000, u64::MAX][random.below(3)],
            levels_max,
        });
    }
    Policy::Vlsm(VlsmOptions {
        table_bytes,
        growth_factor,
        phi: 1 + random.below(9) as u64,
        overlap: if random.below(2) == 0 { Overlap::Count } else { Overlap::Ratio },
        debt_bytes: random.below(3) as u64 * table_bytes,
        level0_trigger: 1 + random.below(2),
        levels_max,
    })
}

impl World {
    fn new(random: &mut Random) -> Self {
        World {
            policy: policy(random),
            store: FakeStore::default(),
            levels: Vec::new(),
            running: Vec::new(),
            model: BTreeMap::new(),
            seq: 0,
            visible: 0,
            pinned: Vec::new(),
            moves: 0,
            merges: 0,
            rewrites: 0,
            subtasks: 0,
            bottoms: 0,
            parallel_max: 0,
            good: 0,
            poor: 0,
        }
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(12) {
            0..=2 => self.flush(random),
            3 => self.visible += random.below((self.seq - self.visible) as usize + 1) as u64,
            4 => self.pinned.push(self.visible),
            5 if !self.pinned.is_empty() => {
                let index = random.below(self.pinned.len());
                self.pinned.swap_remove(index);
            }
            6..=9 => {
                self.start();
            }
            _ if !self.running.is_empty() => {
                let index = random.below(self.running.len());
                self.finish(index);
            }
            _ => {}
        }
    }

    fn snapshots(&self) -> Vec<SeqNo> {
        let all: BTreeSet<u64> = self.pinned.iter().copied().chain([self.visible]).collect();
        all.into_iter().map(SeqNo).collect()
    }

    /// Writes a memtable of some keys near each other, mostly removing them at times, and flushes it.
    fn flush(&mut self, random: &mut Random) {
        let (base, spread) = (random.below(KEYS), 1 + random.below(KEYS));
        let removes_in_10 = [1, 4, 9][random.below(3)];
        let mut entries = Vec::new();
        for _ in 0..1 + random.below(12) {
            self.seq += 1;
            let key = format!("{:02}", (base + random.below(spread)) % KEYS).into_bytes();
            let removes = random.below(10) < removes_in_10;
            let kind = if removes { EntryKind::Remove } else { EntryKind::Put };
            let value = if removes { Vec::new() } else { vec![b'v'; random.below(12)] };
            let version = (SeqNo(self.seq), (!removes).then(|| value.clone()));
            self.model.entry(key.clone()).or_default().push(version);
            entries.push(FakeEntry { key, seq: SeqNo(self.seq), kind, value });
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
        let snapshots = self.snapshots();
        let mut memtable = FakeMemtable { entries, next: 0 };
        let meta = block_on(flush_to(&mut memtable, &&self.store, &snapshots)).0.unwrap().unwrap();
        let table = self.store.table(&meta);
        self.level(0).push(table);
    }

    fn level(&mut self, level: usize) -> &mut Vec<FakeTable> {
        while self.levels.len() <= level {
            self.levels.push(Vec::new());
        }
        &mut self.levels[level]
    }

    fn metas(&self) -> Vec<Vec<TableMeta>> {
        self.levels.iter().map(|level| level.iter().map(|table| TableMeta::clone(&table.meta)).collect()).collect()
    }

    /// Starts the job that is wanted most; whether there was one.
    fn start(&mut self) -> bool {
        let oldest = self.snapshots()[0];
        let metas = self.metas();
        let shape = Shape::of_metas(&metas);
        let busy: Vec<RunningJob> = self.running.iter().map(|running| running.job.clone()).collect();
        let Some(plan) = self.policy.plan(&shape, &busy, &|seq| seq <= oldest) else { return false };
        let (job, cut) = (plan.running(&shape), self.policy.cut(&shape, &plan));
        assert!(job.output_level < self.policy.levels_max());
        for other in &busy {
            assert!(job.tables.is_disjoint(&other.tables), "{job:?} shares a table with {other:?}");
        }
        let Plan { level, output_level, upper, lower, trivial_move, bottom } = plan;
        let upper = self.level(level)[upper].to_vec();
        let lower = self.level(output_level)[lower].to_vec();
        let outputs = if trivial_move {
            assert!((upper.len() == 1 || level > 0) && lower.is_empty());
            self.moves += 1;
            upper
        } else {
            self.merges += 1;
            self.rewrites += usize::from(output_level == level);
            self.bottoms += usize::from(bottom);
            let snapshots = self.snapshots();
            // One to three subtasks, whichever the job.
            let parts = 1 + self.merges % 3;
            let ranges = split(upper.iter().chain(&lower), parts).unwrap();
            self.subtasks += ranges.len();
            let retention = || retention(&snapshots, bottom);
            let whole = self.merge(runs(level, &upper, &lower, &Arc::default()), &cut, retention());
            let merge = |range| self.merge(runs(level, &upper, &lower, range), &cut, retention());
            let outputs: Vec<FakeTable> = ranges.iter().flat_map(merge).collect();
            if let Cut::LookAhead(ahead) = &cut {
                let (good, poor) = ahead.judge(outputs.iter().map(|table| &*table.meta));
                self.good += good;
                self.poor += poor;
            }
            assert_eq!(entries_of(&outputs), entries_of(&whole), "the same entries, however it is cut");
            let in_place = output_level == level;
            assert!(!in_place || outputs.iter().all(|table| table.meta.dead() == 0), "rewritten for nothing");
            outputs
        };
        self.running.push(RunningMerge { job, outputs });
        self.parallel_max = self.parallel_max.max(self.running.len());
        true
    }

    fn merge(&self, runs: Vec<Run<FakeTable>>, cut: &Cut, retention: Retention<'_>) -> Vec<FakeTable> {
        let store = &self.store;
        let outputs = Outputs::new(&store, 1, cut.clone());
        let merged = block_on(merge_runs(runs, retention, outputs, &|| false)).0;
        let tables: Vec<FakeTable> = merged.unwrap().iter().map(|meta| self.store.table(meta)).collect();
        if let Cut::LookAhead(ahead) = cut {
            check_cuts(ahead, &tables);
        }
        tables
    }

    fn finish(&mut self, index: usize) {
        let RunningMerge { job, outputs } = self.running.swap_remove(index);
        let mut removed = 0;
        for level in &mut self.levels {
            removed += level.extract_if(.., |table| job.tables.contains(&table.meta.id)).count();
        }
        assert_eq!(removed, job.tables.len(), "an input went away under a running job");
        let level = self.level(job.output_level);
        level.extend(outputs);
        level.sort_by(|a, b| a.meta.key_min.cmp(&b.meta.key_min));
    }

    fn check(&self) {
        for level in self.levels.iter().skip(1) {
            for pair in level.windows(2) {
                assert!(pair[0].meta.key_max < pair[1].meta.key_min, "tables of a level overlap");
            }
        }
        for (key, versions) in &self.model {
            let places = self.places(key);
            assert!(places.concat().is_sorted_by(|a, b| a.0 > b.0), "a newer version below an older: {places:?}");
            // Any later number may be pinned later.
            for reader in self.pinned.iter().copied().chain(self.visible..=self.seq) {
                let wanted = versions.iter().rev().find(|(seq, _)| seq.0 <= reader).and_then(|(_, v)| v.clone());
                let found = places.iter().flatten().find(|(seq, _)| seq.0 <= reader).and_then(|(_, v)| v.clone());
                assert_eq!(found, wanted, "key {} read at {reader}", key.escape_ascii());
            }
        }
    }

    /// The versions of a key in each table, in the order in which a read looks.
    fn places(&self, key: &[u8]) -> Vec<Vec<Written>> {
        let level0 = self.levels.first().into_iter().flat_map(|level| level.iter().rev());
        let tables = level0.chain(self.levels.iter().skip(1).flatten());
        let versions = tables.map(|table| {
            let entries = table.entries.iter().filter(|entry| entry.key == key);
            entries.map(|e| (e.seq, (e.kind == EntryKind::Put).then(|| e.value.clone()))).collect()
        });
        versions.collect()
    }

    /// Lets everything run to its end.
    fn settle(&mut self, random: &mut Random) {
        for _ in 0..10_000 {
            let started = self.start();
            if self.running.is_empty() {
                assert!(!started);
                return;
            }
            if !started || random.below(2) == 0 {
                let index = random.below(self.running.len());
                self.finish(index);
                self.check();
            }
        }
        panic!("the policy never comes to rest");
    }

    fn check_shape(&self) {
        let metas = self.metas();
        assert_eq!(self.policy.debt_of(&Shape::of_metas(&metas)), 0);
        let bytes = |level: usize| metas.get(level).map_or(0, |level| level.iter().map(|table| table.bytes).sum());
        let tables = self.levels.first().map_or(0, Vec::len);
        match &self.policy {
            Policy::Leveled(options) => {
                assert!(tables < options.level0_trigger);
                let all: u64 = (1..metas.len()).map(bytes).sum();
                let targets = Targets::of(options, &Shape::of_metas(&metas));
                let level1_max = options.level1_bytes.max((all / 4).min(options.level1_bytes * 3));
                assert!((options.level1_bytes..=level1_max).contains(&targets.bytes(1)));
                for level in 1..options.levels_max - 1 {
                    assert!(bytes(level) < targets.bytes(level));
                    assert!(targets.bytes(level + 1) <= targets.bytes(level) * options.growth_factor.max(2));
                }
            }
            Policy::Vlsm(options) => {
                assert!(tables < options.level0_trigger);
                for level in 1..options.levels_max - 1 {
                    assert!(bytes(level) <= options.target_bytes(level));
                }
            }
        }
    }
}

/// VLSM-7: tables cut by looking ahead, from one end of a range of keys to the other.
fn check_cuts(ahead: &LookAhead, tables: &[FakeTable]) {
    let (min, max) = ahead.sizes();
    for (index, table) in tables.iter().enumerate() {
        let key_bytes = |key: &[u8]| -> u64 {
            let of_key = table.entries.iter().filter(|entry| entry.key == key);
            of_key.map(|entry| (entry.key.len() + entry.value.len() + 10) as u64).sum()
        };
        let last = key_bytes(&table.meta.key_max);
        assert!(table.meta.bytes - last < max, "larger than S_M before its last key");
        let is_good = ahead.judge(std::iter::once(&*table.meta)).1 == 0;
        assert!(is_good || table.meta.bytes - last < min, "a poor table ends at S_m");
        let ends_early = index + 1 < tables.len() && table.meta.bytes < max;
        assert!(!ends_early || table.meta.bytes >= min, "smaller than S_m");
        if let Some(next) = tables.get(index + 1).filter(|_| ends_early && is_good) {
            let longer = TableMeta { key_max: next.meta.key_min.clone(), ..TableMeta::clone(&table.meta) };
            assert_eq!(ahead.judge(std::iter::once(&longer)).1, 1, "closed though the next key had room");
        }
    }
}

fn entries_of(tables: &[FakeTable]) -> Vec<FakeEntry> {
    tables.iter().flat_map(|table| table.entries.iter().cloned()).collect()
}

fn simulate(seed: u64) -> World {
    let mut random = Random(seed);
    let mut world = World::new(&mut random);
    for _ in 0..250 {
        world.step(&mut random);
        world.check();
    }
    world.settle(&mut random);
    world.check_shape();
    world
}

#[test]
fn reads_never_change_and_the_shape_is_reached() {
    let (mut moves, mut merges, mut rewrites, mut subtasks, mut bottoms) = (0, 0, 0, 0, 0);
    let (mut parallel, mut good, mut poor) = (0, 0, 0);
    for seed in 0..300 {
        let world = simulate(seed);
        moves += world.moves;
        merges += world.merges;
        rewrites += world.rewrites;
        subtasks += world.subtasks;
        bottoms += world.bottoms;
        parallel = parallel.max(world.parallel_max);
        good += world.good;
        poor += world.poor;
    }
    assert!(moves > 300 && merges > 3000 && bottoms > 300, "{moves} moves, {merges} merges, {bottoms} at the bottom");
    assert!(rewrites > 300, "{rewrites} tables were rewritten in place");
    assert!(subtasks > merges * 3 / 2, "{subtasks} subtasks of {merges} merges");
    assert!(parallel >= 3, "at most {parallel} jobs ran side by side");
    assert!(good > 1000 && poor > 300, "{good} good and {poor} poor tables");
}

#[test]
fn what_is_removed_is_gone_once_all_is_at_the_bottom() {
    let mut random = Random(1);
    let mut world = World::new(&mut random);
    world.policy = Policy::Leveled(LeveledOptions {
        level0_trigger: 1,
        level0_patience: 1,
        level0_urgent: 4,
        level1_bytes: 300,
        growth_factor: 2,
        table_bytes: 100,
        table_bytes_max: 100,
        job_bytes_max: u64::MAX,
        levels_max: 2,
    });
    for _ in 0..50 {
        world.flush(&mut random);
        world.settle(&mut random);
    }
    for key in 0..KEYS {
        world.seq += 1;
        let (key, seq) = (format!("{key:02}"), world.seq);
        world.model.entry(key.clone().into()).or_default().push((SeqNo(seq), None));
        let table = FakeTable::new(1_000_000 + seq, vec![FakeEntry::remove(&key, seq)]);
        world.level(0).push(table);
    }
    world.visible = world.seq;
    world.settle(&mut random);
    world.check();
    assert!(world.levels.iter().all(Vec::is_empty), "{:?}", world.metas());
}
