//! Reports made up for tests: shaped like real ones, the same at each call.

use crate::engine::{Counters, Description, Syncs};
use crate::parameters::{Arrival, Parameters};
use crate::plan::{Limit, Pace};
use crate::report::{Cpu, DeviceIo, Io, Latency, Machine, Memory, Paper, PaperRow, ProcessIo};
use crate::report::{Report, Run, Sample, Second, StallPeriod, Stalls, Sustained, Usage};
use crate::workload::Class;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Numbers that look random.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal: 0 ± 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// An open loop at a rate.
pub fn open(rate: f64) -> Pace {
    Pace::Open { rate, arrival: Arrival::Uniform, percent: None }
}

/// A run of `ycsb-a` in a closed loop, 3 seconds long.
pub fn run(engine: &str, round: u32) -> Run {
    made(engine, 0, round, "ycsb-a", Pace::Closed, 3)
}

/// Rounds of these steps by these engines, each step for `seconds`.
pub fn report(engines: &[&str], steps: &[(&str, Pace)], rounds: u32, seconds: usize) -> Report {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for (place, engine) in engines.iter().enumerate() {
            for (workload, pace) in steps {
                runs.push(made(engine, place, round, workload, *pace, seconds));
            }
        }
    }
    let describe = |name: &&str| Description {
        name: (*name).to_owned(),
        version: "1.2.3".to_owned(),
        settings: [("memtable", "64 MiB"), ("filter bits a key", "10"), ("compression", "none")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ignored: if *name == "lmdb" { vec!["memtable-bytes".to_owned()] } else { Vec::new() },
        terms: [
            ("durability", "the log is synced every 100ms"),
            ("memory", "block cache 128 MiB"),
            ("tables", "of 64 MiB"),
        ]
        .map(|(name, is)| (name.to_owned(), is.to_owned()))
        .into(),
    };
    Report {
        schema: 1,
        version: "0.1.0".to_owned(),
        commit: None,
        started: "2026-01-02T03:04:05Z".to_owned(),
        command: "thalweg bench ycsb-a --engines thalweg,rocksdb --rounds 3".to_owned(),
        preset: None,
        machine: machine(),
        parameters: Parameters {
            workloads: steps.iter().map(|(workload, _)| (*workload).to_owned()).collect(),
            engines: engines.iter().map(|engine| (*engine).to_owned()).collect(),
            rounds,
            ..Parameters::default()
        },
        engines: engines.iter().map(describe).collect(),
        runs,
        overhead_ns: Some(61.4),
        sustained: Vec::new(),
        paper: None,
        notes: Vec::new(),
    }
}

/// Adds the result of a search for each engine, in each round.
pub fn sustained(report: &mut Report, workload: &str) {
    for (place, engine) in report.engines.iter().enumerate() {
        for round in 1..=report.parameters.rounds {
            let rate = 150e3 / (1.0 + place as f64 * 0.3) + f64::from(round) * 1e3;
            let probes = vec![(rate, true), (rate * 1.1, false)];
            let (engine, workload) = (engine.name.clone(), workload.to_owned());
            report.sustained.push(Sustained { engine, round, workload, rate, probes });
        }
    }
}

/// A paper's table.
pub fn paper() -> Paper {
    let row = |name: &str, cells: &[&str]| PaperRow {
        name: name.to_owned(),
        cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
    };
    Paper {
        source: "ABC-E1, table 3".to_owned(),
        title: "YCSB, 100 M records of 1 KiB".to_owned(),
        differs: "A tenth of the records, and 2 processors instead of 32.".to_owned(),
        columns: vec!["LevelDB".to_owned(), "RocksDB".to_owned(), "theirs".to_owned()],
        rows: vec![row("ycsb-a, kop/s", &["21", "87", "134"]), row("ycsb-c, kop/s", &["41", "152", "160"])],
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "Some Processor @ 2.40GHz".to_owned(),
        cpus: 2,
        memory_bytes: 8 << 30,
        kernel: "6.1.0".to_owned(),
        file_system: "ext4 (rw,noatime)".to_owned(),
        device: Some("vda".to_owned()),
        read_ahead_kb: Some(128),
    }
}

fn made(engine: &str, place: usize, round: u32, workload: &str, pace: Pace, seconds: usize) -> Run {
    let name = workload.bytes().map(u64::from).sum::<u64>();
    let mut chance = Chance(place as u64 * 7919 + u64::from(round) * 104_729 + name);
    let capacity = (220e3 / (1.0 + place as f64 * 0.35)) * (0.7 + name as f64 % 7.0 / 8.0);
    let rate = match pace {
        Pace::Open { rate, .. } => rate.min(capacity),
        _ => capacity,
    } * (1.0 + chance.normal() * 0.03);
    let load = match pace {
        Pace::Open { rate, .. } => (rate / capacity).min(1.2),
        _ => 0.7,
    };
    let writes_only = workload.starts_with("fill") || workload == "load";
    let reads_only = workload.starts_with("read") || workload == "ycsb-c";
    let classes = match (writes_only, reads_only) {
        (true, _) => vec![Class::Insert],
        (_, true) => vec![Class::Get],
        _ => vec![Class::Get, Class::Update],
    };
    let slow = 1.0 + place as f64 * 0.4 + load * load * 3.0 + if load > 1.0 { 400.0 } else { 0.0 };
    let operations = (rate * seconds as f64) as u64;
    let latency: BTreeMap<Class, Latency> = classes
        .iter()
        .map(|class| {
            let middle = if class.writes() { 4_000.0 } else { 9_000.0 } * slow;
            (*class, latency(&mut chance, middle, operations / classes.len() as u64, place))
        })
        .collect();
    let p99 = latency.values().map(|latency| latency.p99_ns).max().unwrap() as f64;
    let series = series(&mut chance, rate, p99, seconds, place);
    let user_written_bytes = if reads_only { 0 } else { operations * 140 };
    let usage = usage(&mut chance, operations, user_written_bytes, seconds, place);
    let drained = (!reads_only).then(|| {
        let mut drained = usage.clone();
        drained.cpu.user_seconds *= 1.2;
        drained
    });
    Run {
        engine: engine.to_owned(),
        round,
        attempt: 1,
        workload: workload.to_owned(),
        preparation: workload == "load",
        pace,
        limit: Limit { operations: None, seconds: Some(seconds as f64) },
        threads: 2,
        records: 1_000_000,
        seconds: seconds as f64,
        operations,
        operations_per_second: rate,
        missing: 0,
        background_operations: 0,
        user_written_bytes,
        user_read_bytes: operations * 140,
        client_faults: operations / 50,
        lateness: None,
        behind_ns: 0,
        abandoned: 0,
        stalls: Stalls {
            count: place as u64 * 3,
            total_ms: place as u64 * 300,
            longest_ms: 10 + place as u64 * 120,
            zero_seconds: series.iter().filter(|second| second.operations == 0).count() as u64,
        },
        intervals: Vec::new(),
        stall_periods: (0..place as u64).map(|n| StallPeriod { from_ms: 700 * n, ms: 120 }).collect(),
        samples: samples(seconds, usage.io.device.as_ref().map_or(0, |device| device.written_bytes)),
        space_by_kind: [("table".to_owned(), 120_000_000), ("log".to_owned(), 40_000_000)].into(),
        replaced_bytes: None,
        series,
        latency,
        usage,
        drained,
        drain_seconds: (!reads_only).then_some(1.5),
        space_bytes: 160_000_000 + place as u64 * 30_000_000,
        noisy: false,
    }
}

fn latency(chance: &mut Chance, middle: f64, count: u64, place: usize) -> Latency {
    let mut histogram = Histogram::new(3).unwrap();
    for _ in 0..20_000 {
        let tail = if chance.next() < 0.01 { 8.0 + 10.0 * place as f64 } else { 1.0 };
        let tail = if chance.next() < 0.0005 { tail * 40.0 } else { tail };
        histogram.record((middle * (chance.normal() * 0.35).exp() * tail) as u64 + 100).unwrap();
    }
    Latency { count, ..Latency::of(&histogram) }
}

fn series(chance: &mut Chance, rate: f64, p99: f64, seconds: usize, place: usize) -> Vec<Second> {
    (0..seconds)
        .map(|second| {
            let dip = place > 0 && second % (17 + place * 3) == 11;
            let factor = if dip { 0.3 / place as f64 } else { 1.0 + chance.normal() * 0.04 };
            let p99 = p99 * if dip { 6.0 } else { (chance.normal() * 0.15).exp() };
            Second {
                operations: if dip && place == 4 { 0 } else { (rate * factor) as u64 },
                p50_ns: (p99 / 9.0) as u64,
                p99_ns: p99 as u64,
                max_ns: (p99 * 20.0) as u64,
            }
        })
        .collect()
}

fn samples(seconds: usize, written_bytes: u64) -> Vec<Sample> {
    let sample = |n: u64| Sample {
        ms: n * 500,
        rss_bytes: (200 << 20) + n * (10 << 20),
        mapped_bytes: n * (5 << 20),
        page_cache_bytes: Some(n * (20 << 20)),
        read_bytes: n << 16,
        written_bytes: written_bytes * n / (2 * seconds as u64),
    };
    (0..=2 * seconds as u64).map(sample).collect()
}

fn usage(chance: &mut Chance, operations: u64, user: u64, seconds: usize, place: usize) -> Usage {
    let amplification = if place == 4 { 28.0 } else { 3.0 + place as f64 * 1.7 };
    let written_bytes = (user as f64 * amplification * (1.0 + chance.normal() * 0.01)) as u64;
    let cpu = operations as f64 * (6.0 + 2.5 * place as f64) * 1e-6;
    Usage {
        seconds: seconds as f64,
        cpu: Cpu {
            user_seconds: cpu * 0.8,
            system_seconds: cpu * 0.2,
            kernel_threads_seconds: 0.1,
            foreign_percent: 1.0 + chance.next(),
            steal_percent: 0.2,
        },
        memory: Memory { rss_bytes: 300 << 20, peak_bytes: (350 + 100 * place as u64) << 20, mapped_bytes: 100 << 20 },
        io: Io {
            process: ProcessIo { written_bytes, ..ProcessIo::default() },
            device: Some(DeviceIo {
                reads: operations * (place as u64 + 1) / 20,
                writes: written_bytes >> 17,
                written_bytes,
                ..DeviceIo::default()
            }),
        },
        counters: Counters {
            written_bytes: [("log".to_owned(), user), ("flush".to_owned(), user)].into(),
            syncs: Some(Syncs { count: 40 + 10 * place as u64, total_ns: None, waited_for: None }),
            other: if place < 2 { [("good tables".to_owned(), 91)].into() } else { BTreeMap::new() },
            ..Counters::default()
        },
        // The first two tell of their chains.
        peaks: if place < 2 { chains(place as u64) } else { BTreeMap::new() },
        gauges: BTreeMap::new(),
    }
}

fn chains(place: u64) -> BTreeMap<String, u64> {
    let mib = |bytes: u64| (bytes << 20) / (1 + 6 * place);
    let gauges = [
        ("chain_memtables", 120),
        ("chain_bytes_mean", mib(150)),
        ("chain_bytes_p99", mib(270)),
        ("chain_bytes_max", mib(300)),
        ("chain_stages_mean_100", 180),
        ("chain_stages_max", 3),
        ("chain_level0_bytes_mean", mib(60)),
        ("chain_level1_bytes_mean", mib(90)),
    ];
    gauges.map(|(name, value)| (name.to_owned(), value)).into()
}
