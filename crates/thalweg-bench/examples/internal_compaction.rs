//! Measures internal compactions by themselves: the room that they give back (PMB-E5), their time beside a compaction
//! on the disk (PMB-E6), and what they do to reads meanwhile (PMB-E7, figure 7b). Prints tables in Markdown.
//!
//!     cargo run --release -p thalweg-bench --example internal_compaction -- DIR [MEBIBYTES]
//!
//! The tier is in memory, and no model decides: it holds all that was written until the merge is asked for. The other
//! side has no tier: level 0 gathers all, and one compaction takes it to level 1. Keys have 16 bytes, values are random
//! and not compressed. DIR is a directory on the file system to be measured; its databases are removed. One worker
//! compacts, and times are of the clock: nothing else should run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use hdrhistogram::Histogram;
use rand_xoshiro::rand_core::RngCore;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use thalweg::{Compression, Database, FastTier, FastTierMode, Keyspace};
use thalweg_bench::distribution::{Random, fraction, random, scrambled};

const MIB: u64 = 1 << 20;

/// Where level 0 is.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Tier,
    Disk,
}

/// A database in a directory of its own, which goes with it.
struct Bench {
    directory: PathBuf,
    database: Option<Database>,
    keyspace: Option<Keyspace>,
}

impl Bench {
    /// With room for `bytes` in level 0, which stay there.
    fn new(directory: &Path, side: Side, bytes: u64) -> Bench {
        let directory = directory.join("internal-compaction");
        std::fs::remove_dir_all(&directory).ok();
        let builder = Database::builder(&directory)
            .compression(Compression::None)
            .memtable_bytes(8 << 20)
            .log_bytes_max(4 * bytes)
            .partitions_max(1)
            .compaction_workers(1)
            .level0_trigger(100_000);
        let database = match side {
            Side::Disk => builder.open().unwrap(),
            // Without the models it is evicted whole, at 0.85 of the capacity.
            Side::Tier => {
                let builder = builder.fast_tier(FastTier::Memory, 2 * bytes).fast_tier_log_bytes_max(8 * bytes);
                builder.fast_tier_mode(FastTierMode::Pm).open().unwrap()
            }
        };
        let keyspace = database.keyspace("data").unwrap();
        Bench { directory, database: Some(database), keyspace: Some(keyspace) }
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    fn keyspace(&self) -> &Keyspace {
        self.keyspace.as_ref().unwrap()
    }

    /// Writes `bytes` of updates of keys that `next` draws, and waits until they are in level 0.
    fn fill(&self, bytes: u64, value_bytes: usize, mut next: impl FnMut(&mut Random) -> u64) {
        let (mut random, mut value) = (random(1, "fill", 0), vec![0; value_bytes]);
        for _ in 0..bytes / (16 + value_bytes as u64) {
            value.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next_u64().to_le_bytes()));
            self.keyspace().insert(key(next(&mut random)), &value).unwrap();
        }
        self.database().wait_for_compactions().unwrap();
    }

    /// What is in memtables goes to level 0 on the disk. In a tier it stays: a flush would empty that.
    fn settle(&self, side: Side) {
        if side == Side::Disk {
            self.database().flush().unwrap();
        }
    }

    /// Merges level 0.
    fn compact(&self, side: Side) {
        match side {
            Side::Tier => self.database().compact_fast_tier().unwrap(),
            Side::Disk => self.keyspace().compact_range(..).unwrap(),
        }
    }

    fn tier_bytes(&self) -> u64 {
        self.database().statistics().fast_tier.unwrap().bytes
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.keyspace = None;
        self.database = None;
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scrambled(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Ranks of `0..n`, the k-th with a probability that goes with `1 / k^skew`.
struct Skewed(Vec<f64>);

impl Skewed {
    fn new(n: u64, skew: f64) -> Skewed {
        let mut sum = 0.0;
        Skewed((1..=n).map(|rank| (sum += (rank as f64).powf(-skew), sum).1).collect())
    }

    fn next(&self, random: &mut Random) -> u64 {
        let at = fraction(random) * self.0.last().unwrap();
        self.0.partition_point(|sum| *sum <= at) as u64
    }
}

/// PMB-E5. The paper does not say how many keys its 20 GB of updates have. Here a uniform update finds its key in 58 %
/// of the cases, as theirs release 58 % without skew.
fn released(directory: &Path, bytes: u64) {
    const VALUE_BYTES: usize = 1024;
    println!("| skew | written, MiB | in the tier | after the merge | released | paper |\n|--:|--:|--:|--:|--:|--:|");
    let writes = bytes / (16 + VALUE_BYTES as u64);
    let paper = ["58 %", "59 %", "61 %", "64 %", "71 %", "81 %"];
    for (skew, paper) in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0].into_iter().zip(paper) {
        let (bench, skewed) = (Bench::new(directory, Side::Tier, bytes), Skewed::new(writes * 10 / 22, skew));
        bench.fill(bytes, VALUE_BYTES, |random| skewed.next(random));
        let before = bench.tier_bytes();
        bench.compact(Side::Tier);
        let after = bench.tier_bytes();
        let part = 100.0 * (before - after) as f64 / before as f64;
        let [written, before, after] = [bytes, before, after].map(|bytes| bytes / MIB);
        println!("| {skew:.1} | {written} | {before} | {after} | {part:.0} % | {paper} |");
    }
}

/// PMB-E6.
fn durations(directory: &Path, bytes: u64) {
    println!("\n| value | in the tier, s | on the disk, s | ratio | paper |\n|--:|--:|--:|--:|--:|");
    let paper = ["0.53", "0.51", "0.56", "0.55", "0.50"];
    for (value_bytes, paper) in [512, 1 << 10, 4 << 10, 16 << 10, 64 << 10].into_iter().zip(paper) {
        let keys = bytes / (16 + value_bytes as u64);
        let seconds = [Side::Tier, Side::Disk].map(|side| {
            let bench = Bench::new(directory, side, bytes);
            bench.fill(bytes, value_bytes, |random| random.next_u64() % keys);
            bench.settle(side);
            let start = Instant::now();
            bench.compact(side);
            start.elapsed().as_secs_f64()
        });
        let [tier, disk] = seconds;
        println!("| {value_bytes} B | {tier:.2} | {disk:.2} | {:.2} | {paper} |", tier / disk);
    }
}

/// Reads of present keys until `is_done`, in nanoseconds.
fn reads(keyspace: &Keyspace, keys: &[u64], is_done: impl Fn(u64) -> bool) -> Histogram<u64> {
    let mut times = Histogram::new(3).unwrap();
    for at in 0.. {
        if is_done(at) {
            break;
        }
        let start = Instant::now();
        assert!(keyspace.get(key(keys[at as usize % keys.len()])).unwrap().is_some());
        times.record(u64::try_from(start.elapsed().as_nanos()).unwrap()).unwrap();
    }
    times
}

/// PMB-E7, figure 7b: reads of values of 1 KiB before the merge, while it runs, and after it.
fn meanwhile(directory: &Path, bytes: u64) {
    println!("\n| level 0 | | reads | mean, µs | P99.9, µs |\n|---|---|--:|--:|--:|");
    for (side, name) in [(Side::Tier, "in the tier"), (Side::Disk, "on the disk")] {
        let bench = Bench::new(directory, side, bytes);
        let (mut written, count) = (Vec::new(), bytes / 1040);
        bench.fill(bytes, 1024, |random| {
            written.push(random.next_u64() % count);
            *written.last().unwrap()
        });
        bench.settle(side);
        let mut shuffled = random(2, "reads", 0);
        let keys: Vec<u64> = (0..100_000).map(|_| written[shuffled.next_u64() as usize % written.len()]).collect();
        let show = |when: &str, times: &Histogram<u64>| {
            let (mean, high) = (times.mean() / 1e3, times.value_at_quantile(0.999) as f64 / 1e3);
            println!("| {name} | {when} | {} | {mean:.1} | {high:.0} |", times.len());
        };
        let quiet = || reads(bench.keyspace(), &keys, |at| at == 100_000);
        show("before", &quiet());
        let is_done = AtomicBool::new(false);
        let during = std::thread::scope(|scope| {
            scope.spawn(|| {
                bench.compact(side);
                is_done.store(true, Ordering::Relaxed);
            });
            reads(bench.keyspace(), &keys, |_| is_done.load(Ordering::Relaxed))
        });
        show("meanwhile", &during);
        show("after", &quiet());
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| panic!("the directory to measure in")));
    let bytes = arguments.next().map_or(256, |mebibytes| mebibytes.parse().unwrap()) * MIB;
    released(&directory, bytes);
    durations(&directory, bytes);
    meanwhile(&directory, bytes);
}
