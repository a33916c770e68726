//! Overwrites records for minutes beside a fast tier in memory, kills itself, opens what is left, and judges all of it.
//!
//!     cargo run --release -p thalweg-bench --example fast_tier_soak -- DIR [MINUTES [TIER_MIB]]
//!
//! Keys have 16 bytes, values 1,024, which do not compress. The records take 2.5 times the tier. One thread overwrites
//! them as fast as it can, zipfian. Another holds a range open and reads it on slowly, a new one each minute. A third
//! gets 1,000 records a second, uniformly, so that the block cache is full. Every 50 ms the database is looked at.
//!
//! A child process writes. When the time is over and the tier pins much of the log, the child kills itself. Another
//! child opens the database, and notes how long that takes and how much memory. The same was done before, five times,
//! with a database without a tier, whose log is that of its memtables: that tells the rate of a replay.
//!
//! Exits with 1 if a write took longer than [`SLOWEST_MS`]; if the tier had more than its capacity, or pinned a tenth
//! more of the log than it may; if the process had more memory than the tier and the budget; if the open took a quarter
//! longer than the rate predicts, or more memory than the tier and two memtables; or if an acknowledged write is
//! missing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

#[path = "shared/values.rs"]
mod values;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thalweg::{Compression, Database, FastTier, Keyspace};
use thalweg_bench::distribution::{ScrambledZipfian, Uniform, random, scrambled};
use thalweg_bench::machine::memory_usage;
use values::{VALUE_BYTES, Values};

const MIB: u64 = 1 << 20;
const RECORD_BYTES: u64 = 16 + VALUE_BYTES as u64;
const MEMTABLE_BYTES: u64 = 16 * MIB;
const MEMORY_BUDGET: u64 = 256 * MIB;
/// No write may take longer.
const SLOWEST_MS: u64 = 50;
/// An open may take this many percent of the time that the rate predicts.
const OPEN_PERCENT: f64 = 125.0;
/// How many databases without a tier are opened after a kill; the rate of a replay is the median of theirs.
const REPLAYS: usize = 5;

/// Opens the database with a tier of `tier_mib`, or without one if that is 0.
fn open(directory: &Path, tier_mib: u64) -> Database {
    let builder = Database::builder(directory)
        .compression(Compression::None)
        .memtable_bytes(MEMTABLE_BYTES as usize)
        .memory_budget(MEMORY_BUDGET);
    let builder = if tier_mib > 0 { builder.fast_tier(FastTier::Memory, tier_mib * MIB) } else { builder };
    builder.open().unwrap()
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scrambled(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the number and the version of a record, after a look at the rest.
fn parsed(values: &mut Values, key: &[u8], value: &[u8]) -> (u64, u64) {
    let number = u64::from_be_bytes(key[8..].try_into().unwrap());
    let version = u64::from_le_bytes(value[8..16].try_into().unwrap());
    assert_eq!(value, values.of(number, version), "record {number}");
    (number, version)
}

/// Memory of this process without mapped files.
fn memory_mib() -> u64 {
    let used = memory_usage().unwrap();
    (used.rss_bytes - used.mapped_bytes) / MIB
}

/// Reads ranges slowly until the writer is done.
fn read_slowly(keyspace: &Keyspace, is_done: &AtomicBool) {
    let mut values = Values::new();
    while !is_done.load(Relaxed) {
        let begun = Instant::now();
        let (mut range, mut last) = (keyspace.range(..), Vec::new());
        while !is_done.load(Relaxed) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
            let Some((key, value)) = range.next().map(Result::unwrap) else { break };
            assert!(*key > *last, "the range is out of order");
            parsed(&mut values, &key, &value);
            last = key.to_vec();
        }
    }
}

/// Gets records until the writer is done.
fn get(keyspace: &Keyspace, records: u64, is_done: &AtomicBool) {
    let (mut values, mut source) = (Values::new(), random(3, "gets", 0));
    while !is_done.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        for _ in 0..10 {
            let number = Uniform::below(records, &mut source);
            let value = keyspace.get(key(number)).unwrap().unwrap();
            parsed(&mut values, &key(number), &value);
        }
    }
}

/// The most that was seen of anything.
#[derive(Default)]
struct Most {
    tier_bytes: u64,
    held_bytes: u64,
    log_bytes: u64,
    memory_mib: u64,
}

/// Looks at the database every 50 ms until the writer is done; says once a minute what was seen.
fn watch(database: &Database, is_done: &AtomicBool, longest_ns: &AtomicU64, writes: &AtomicU64) -> Most {
    let (mut most, start, mut minutes) = (Most::default(), Instant::now(), 0);
    let mut is_last = false;
    while !is_last {
        std::thread::sleep(Duration::from_millis(50));
        is_last = is_done.load(Relaxed);
        let tier = database.statistics().fast_tier.unwrap_or_default();
        most.tier_bytes = most.tier_bytes.max(tier.bytes);
        most.held_bytes = most.held_bytes.max(tier.memory_bytes);
        most.log_bytes = most.log_bytes.max(tier.log_bytes);
        most.memory_mib = most.memory_mib.max(memory_mib());
        if start.elapsed().as_secs() / 60 > minutes {
            minutes += 1;
            let longest = longest_ns.load(Relaxed) / 1_000_000;
            let [tier, held, log] = [most.tier_bytes, most.held_bytes, most.log_bytes].map(|bytes| bytes / MIB);
            let statistics = database.statistics();
            let counted = [statistics.memtable_memory_bytes, statistics.cached_bytes, statistics.index_memory_bytes];
            let [memtables, cached, indexes] = counted.map(|bytes| bytes / MIB);
            println!(
                "{minutes:3} min: {} M writes; the most so far: {longest} ms for one, {tier} MiB in the tier, {held} \
                 with what readers hold, {log} of the log, {} MiB of memory; now {} (memtables {memtables}, cache \
                 {cached}, indexes {indexes})",
                writes.load(Relaxed) / 1_000_000,
                most.memory_mib,
                memory_mib(),
            );
        }
    }
    most
}

/// Writes for `minutes`, then until the log is long; notes every version in `versions`, and kills itself.
fn write_and_die(directory: &Path, minutes: u64, tier_mib: u64) {
    let database = open(directory, tier_mib);
    let keyspace = database.keyspace("data").unwrap();
    let records = records(tier_mib);
    let (mut values, mut zipfian, mut source) =
        (Values::new(), ScrambledZipfian::new(records), random(2, "overwrites", 0));
    let mut versions = vec![0_u32; records as usize];
    let (is_done, longest_ns, writes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut write = |number: u64| {
        let begun = Instant::now();
        versions[number as usize] += 1;
        keyspace.insert(key(number), values.of(number, u64::from(versions[number as usize]))).unwrap();
        longest_ns.fetch_max(u64::try_from(begun.elapsed().as_nanos()).unwrap(), Relaxed);
        writes.fetch_add(1, Relaxed);
    };
    let most = std::thread::scope(|scope| {
        let most = scope.spawn(|| watch(&database, &is_done, &longest_ns, &writes));
        (0..records).for_each(&mut write);
        println!("loaded; the longest write: {} ms", longest_ns.load(Relaxed) / 1_000_000);
        scope.spawn(|| read_slowly(&keyspace, &is_done));
        scope.spawn(|| get(&keyspace, records, &is_done));
        let end = Instant::now() + Duration::from_secs(60 * minutes);
        while Instant::now() < end {
            (0..1000).for_each(|_| write(zipfian.next(&mut source)));
        }
        let is_long = || {
            let tier = database.statistics().fast_tier.unwrap_or_default();
            tier.log_bytes >= tier.log_bytes_max / 100 * 85
        };
        let give_up = Instant::now() + Duration::from_secs(60);
        while tier_mib > 0 && !is_long() && Instant::now() < give_up {
            (0..1000).for_each(|_| write(zipfian.next(&mut source)));
        }
        is_done.store(true, Relaxed);
        most.join().unwrap()
    });
    let tier = database.statistics().fast_tier.unwrap_or_default();
    let longest_ms = longest_ns.load(Relaxed) / 1_000_000;
    let mut is_good = true;
    let mut judge = |what: &str, is: u64, limit: u64| {
        println!("{what}: {is}, at most {limit}{}", if is > limit { ": TOO MUCH" } else { "" });
        is_good &= is <= limit;
    };
    judge("longest write, ms", longest_ms, SLOWEST_MS);
    if tier_mib > 0 {
        judge("tier, bytes", most.tier_bytes, tier.capacity_bytes);
        judge("log that it pins, bytes", most.log_bytes, tier.log_bytes_max / 10 * 11);
        judge("memory without mapped files, MiB", most.memory_mib, tier_mib + MEMORY_BUDGET / MIB);
    }
    // The process that opens it compares each record with this.
    let versions: Vec<u8> = versions.iter().flat_map(|version| version.to_le_bytes()).collect();
    std::fs::write(directory.with_extension("versions"), versions).unwrap();
    std::fs::write(directory.with_extension("judged"), if is_good { "good" } else { "bad" }).unwrap();
    for stall in &database.statistics().stalls {
        println!(
            "writers waited for {}: {} times, {} ms at most",
            stall.cause,
            stall.count,
            stall.longest_ns / 1_000_000
        );
    }
    println!("killed with {} MiB of the log pinned by the tier", tier.log_bytes / MIB);
    // No close, no flush: as `kill -9`.
    std::process::abort();
}

fn records(tier_mib: u64) -> u64 {
    tier_mib.max(64) * MIB * 5 / 2 / RECORD_BYTES
}

/// Opens what a kill has left, says how long that took and how much memory, and looks at each record.
fn open_and_look(directory: &Path, tier_mib: u64) {
    let before = memory_mib();
    let log = std::fs::read_dir(directory.join("log")).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    let log_bytes: u64 = log.map(|metadata| metadata.blocks() * 512).sum();
    let begun = Instant::now();
    let database = open(directory, tier_mib);
    let (seconds, memory) = (begun.elapsed().as_secs_f64(), memory_mib() - before);
    let keyspace = database.keyspace("data").unwrap();
    let (mut values, mut seen) = (Values::new(), 0);
    let versions = std::fs::read(directory.with_extension("versions")).unwrap();
    for entry in keyspace.range(..) {
        let (key, value) = entry.unwrap();
        let (number, version) = parsed(&mut values, &key, &value);
        let at = number as usize * 4;
        let expected = u32::from_le_bytes(versions[at..at + 4].try_into().unwrap());
        assert_eq!(version, u64::from(expected), "record {number}");
        seen += 1;
    }
    assert_eq!(seen, versions.len() / 4, "records");
    // Read by the parent.
    println!("{seconds} {memory} {log_bytes}");
    drop(keyspace);
    database.close().unwrap();
}

/// This program again, for one of the parts.
fn child(part: &str, directory: &Path, minutes: u64, tier_mib: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(directory).args([minutes.to_string(), tier_mib.to_string(), part.to_owned()]);
    command
}

/// Lets a child write until it kills itself. Returns whether it found nothing wrong.
fn written(directory: &Path, minutes: u64, tier_mib: u64) -> bool {
    child("write", directory, minutes, tier_mib).status().unwrap();
    let judged = std::fs::read_to_string(directory.with_extension("judged"));
    judged.unwrap_or_else(|_| panic!("the writer died before its end")) == "good"
}

/// Seconds, MiB of memory and bytes of log of an open after a kill.
fn opened(directory: &Path, tier_mib: u64) -> (f64, u64, u64) {
    let output = child("open", directory, 0, tier_mib).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the open: {}", output.status);
    let line = String::from_utf8(output.stdout).unwrap();
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap();
    (next().parse().unwrap(), next().parse().unwrap(), next().parse().unwrap())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(directory) = arguments.first() else { panic!("the directory to run in") };
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let (minutes, tier_mib) = (number(1, 10), number(2, 512));
    match arguments.get(3).map(String::as_str) {
        Some("write") => write_and_die(Path::new(directory), minutes, tier_mib),
        Some("open") => open_and_look(Path::new(directory), tier_mib),
        _ => {}
    }
    if arguments.len() > 3 {
        return ExitCode::SUCCESS;
    }
    let [plain, tier] = ["plain", "tier"].map(|name| Path::new(directory).join(name));
    let mut is_good = true;
    let mut of = |path: &Path, minutes: u64, tier_mib: u64| {
        std::fs::remove_dir_all(path).ok();
        is_good &= written(path, minutes, tier_mib);
        let (seconds, memory, bytes) = opened(path, tier_mib);
        let rate = bytes as f64 / seconds / MIB as f64;
        println!("opened in {seconds:.2} s: {} MiB of log, {rate:.0} MiB/s; {memory} MiB of memory", bytes / MIB);
        for kind in ["versions", "judged"] {
            std::fs::remove_file(path.with_extension(kind)).unwrap();
        }
        std::fs::remove_dir_all(path).unwrap();
        (rate, seconds, memory, bytes)
    };
    let mut rates: [f64; REPLAYS] = std::array::from_fn(|_| of(&plain, 0, 0).0);
    rates.sort_by(f64::total_cmp);
    let rate = rates[REPLAYS / 2];
    let (_, seconds, memory, bytes) = of(&tier, minutes, tier_mib);
    let predicted = bytes as f64 / MIB as f64 / rate;
    println!(
        "predicted: {predicted:.2} s; it took {:.0} % of that (at most {OPEN_PERCENT})",
        100.0 * seconds / predicted
    );
    is_good &= 100.0 * seconds / predicted <= OPEN_PERCENT;
    let limit = tier_mib + 2 * MEMTABLE_BYTES / MIB;
    println!("memory of the open: {memory} MiB, at most {limit}");
    is_good &= memory <= limit;
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
