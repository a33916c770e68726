//! Runs a mixed load for hours and judges it: nothing may grow, nothing may be slow, every answer must be right.
//!
//!     cargo run --release -p thalweg-bench --example soak -- DIR [MINUTES [CYCLE_SECONDS]]
//!
//! The database has default sizes and no compression; records have 16 + 1,024 bytes. Two threads drive it in an open
//! loop:
//!
//! - The *tide* inserts [`TIDE_RATE`] records a second for half a cycle, and removes them in the other half. So
//!   partitions are split and merged. Every second tide goes in the order of keys. A range that was begun with the
//!   flood is read on slowly until the ebb.
//! - The *mix* does [`MIX_RATE`] operations a second on [`BASE`] records that stay, zipfian: half gets, 40 % updates,
//!   5 % scans of 50 records, 5 % gets of the tide's records. It compares every answer with what was written.
//!
//! A *canary* sleeps for 5 ms at a time and notes how late it wakes: what the machine itself is late by. What a host
//! has stolen of the processors is beside it.
//!
//! Prints two lines a minute and a table of cycles. Exits with 1 if an operation took longer than [`SLOWEST_MS`],
//! counted from the moment it was meant to begin, if the later cycles need more of anything than the earlier ones, or
//! if the files are damaged at the end, which then stay. A wrong answer ends the run at once, with 101. A second does
//! not count for the longest operation if the host took [`STOLEN_PERCENT`] of the processors in it or in the one
//! before; nine of ten must count.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

#[path = "shared/need.rs"]
mod need;
#[path = "shared/values.rs"]
mod values;

use need::Need;
use procfs::{CurrentSI, KernelStats};
use rand_xoshiro::rand_core::RngCore;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use thalweg::{Compression, Database, Keyspace, Range};
use thalweg_bench::distribution::{Random, ScrambledZipfian, random, scrambled};
use values::{VALUE_BYTES, Values};

/// Operations of the tide a second.
const TIDE_RATE: u64 = 20_000;
/// Operations of the mix a second.
const MIX_RATE: u64 = 5_000;
/// Records that stay.
const BASE: u64 = 500_000;
/// No operation may take longer.
const SLOWEST_MS: u64 = 100;
/// Seconds in which the host took this part of the processors, in percent, tell nothing about how long operations take.
const STOLEN_PERCENT: u64 = 10;
/// What an operation must take, and a second be late by, to be reported by itself.
const NOTED_MS: u64 = 50;
/// The later cycles may need this much more than the earlier ones, in percent: space depends on where compactions are
/// when it is looked at.
const GROWTH_PERCENT_MAX: f64 = 5.0;

/// What threads tell each other.
struct Shared {
    start: Instant,
    is_done: AtomicBool,
    /// The tide's records `removed..inserted` of this cycle are there.
    inserted: AtomicU64,
    removed: AtomicU64,
    cycle: AtomicU64,
    /// The longest since the last look, in nanoseconds: of the tide, of the mix, of the canary.
    longest: [AtomicU64; 3],
    /// What the mix has done since the last look.
    kinds: [KindTime; 4],
    /// Operations that took longer than [`NOTED_MS`] themselves.
    noted: Mutex<Vec<String>>,
}

const NAMES: [&str; 3] = ["tide", "mix", "canary"];

/// The kinds of operations of the mix.
const KINDS: [&str; 4] = ["get", "update", "scan", "get of the tide"];

/// Operations of one kind, and the time that they took.
#[derive(Default)]
struct KindTime {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Shared {
    /// Notes how long an operation took that was meant to begin at `due` and did at `begun`.
    fn note(&self, who: usize, due: Instant, begun: Instant, what: &str) {
        self.longest[who].fetch_max(u64::try_from(due.elapsed().as_nanos()).unwrap(), Relaxed);
        let took = begun.elapsed();
        if took > Duration::from_millis(NOTED_MS) {
            let (at, ms) = (self.start.elapsed().as_secs_f64(), took.as_millis());
            self.noted.lock().unwrap().push(format!("{at:.2} s: {} {what}: {ms} ms", NAMES[who]));
        }
    }

    /// Returns which part of the time the mix was busy, and how long operations of each kind took on average. Forgets
    /// it.
    fn take_kinds(&self, time: Duration) -> String {
        let times = self.kinds.each_ref().map(|kind| (kind.count.swap(0, Relaxed), kind.ns.swap(0, Relaxed)));
        let busy_ns: u64 = times.iter().map(|(_, ns)| ns).sum();
        let mean = |(name, (count, ns)): (&str, (u64, u64))| format!("{name} {} µs", ns / count.max(1) / 1000);
        let means: Vec<String> = KINDS.into_iter().zip(times).map(mean).collect();
        format!("mix busy {:.0} %: {}", 100.0 * busy_ns as f64 / time.as_nanos() as f64, means.join(", "))
    }
}

/// The times at which operations are due.
struct Pace {
    start: Instant,
    rate: u64,
    done: u64,
}

impl Pace {
    fn new(rate: u64) -> Pace {
        Pace { start: Instant::now(), rate, done: 0 }
    }

    /// Waits until the next operation is due. Returns when it was, and the time.
    fn next(&mut self) -> (Instant, Instant) {
        let due = self.start + Duration::from_nanos(self.done * 1_000_000_000 / self.rate);
        self.done += 1;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        (due, Instant::now())
    }
}

/// The key of a record. Those that stay and those of the tides have other prefixes.
fn key(prefix: u8, number: u64, in_order: bool) -> [u8; 16] {
    let mut key = [0; 16];
    let place = if in_order { number } else { scrambled(number) };
    key[0] = prefix;
    key[1..9].copy_from_slice(&place.to_be_bytes());
    key[9..].copy_from_slice(&number.to_be_bytes()[1..]);
    key
}

fn base_key(number: u64) -> [u8; 16] {
    key(b'b', number, false)
}

fn tide_key(cycle: u64, number: u64) -> [u8; 16] {
    key(b't', number, cycle % 2 == 1)
}

/// Inserts and removes, cycle after cycle.
fn tide(keyspace: &Keyspace, shared: &Shared, half: u64) {
    let (mut pace, mut values) = (Pace::new(TIDE_RATE), Values::new());
    for cycle in 0.. {
        // In this order: see `Mix::get_tide`.
        shared.inserted.store(0, SeqCst);
        shared.removed.store(0, SeqCst);
        shared.cycle.store(cycle, SeqCst);
        let mut slow: Option<Range> = Some(keyspace.range(b"b".as_slice()..b"c".as_slice()));
        let mut slow_last = Vec::new();
        for number in 0..2 * half {
            if shared.is_done.load(Relaxed) {
                return;
            }
            let (due, begun) = pace.next();
            if number < half {
                keyspace.insert(tide_key(cycle, number), values.of(number, cycle)).unwrap();
                shared.inserted.store(number + 1, SeqCst);
            } else {
                slow = None;
                // Before the removal: whoever finds the number below this afterwards may not rely on the record.
                shared.removed.store(number - half + 1, SeqCst);
                keyspace.remove(tide_key(cycle, number - half)).unwrap();
            }
            shared.note(0, due, begun, if number < half { "insert" } else { "remove" });
            let next = slow.as_mut().filter(|_| number % 100 == 0).and_then(Range::next);
            if let Some((key, value)) = next.map(Result::unwrap) {
                assert!(*key > *slow_last && value.len() == VALUE_BYTES, "the slow range is out of order");
                slow_last = key.to_vec();
            }
        }
    }
}

/// The mix's state.
struct Mix<'a> {
    keyspace: &'a Keyspace,
    shared: &'a Shared,
    /// The version of each record.
    versions: Vec<u32>,
    /// All records in the order of their keys, and the place of each there.
    order: Vec<u64>,
    places: Vec<usize>,
    values: Values,
}

impl Mix<'_> {
    /// Writes the records that stay.
    fn load<'a>(keyspace: &'a Keyspace, shared: &'a Shared) -> Mix<'a> {
        let (mut order, mut places) = ((0..BASE).collect::<Vec<_>>(), vec![0; BASE as usize]);
        order.sort_by_key(|number| base_key(*number));
        order.iter().enumerate().for_each(|(place, number)| places[*number as usize] = place);
        let mut mix = Mix { keyspace, shared, versions: vec![0; BASE as usize], order, places, values: Values::new() };
        (0..BASE).for_each(|number| mix.update(number));
        mix
    }

    fn update(&mut self, number: u64) {
        let version = &mut self.versions[number as usize];
        *version += 1;
        self.keyspace.insert(base_key(number), self.values.of(number, u64::from(*version))).unwrap();
    }

    fn get(&mut self, number: u64) {
        let version = u64::from(self.versions[number as usize]);
        let found = self.keyspace.get(base_key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(self.values.of(number, version)), "record {number} of version {version}");
    }

    /// Gets a record of the tide, which is there unless the ebb has come to it meanwhile; or, one time of four, one
    /// that the ebb has removed.
    fn get_tide(&mut self, random: &mut Random) {
        let (cycle, inserted) = (self.shared.cycle.load(SeqCst), self.shared.inserted.load(SeqCst));
        let removed = self.shared.removed.load(SeqCst);
        if removed > 1 && random.next_u64().is_multiple_of(4) {
            // The last of them may not be gone yet.
            let number = random.next_u64() % (removed - 1);
            let found = self.keyspace.get(tide_key(cycle, number)).unwrap();
            assert!(found.is_none() || self.shared.cycle.load(SeqCst) != cycle, "record {number} was removed");
            return;
        }
        if inserted <= removed {
            return;
        }
        let number = removed + random.next_u64() % (inserted - removed);
        let found = self.keyspace.get(tide_key(cycle, number)).unwrap();
        let is_sure = self.shared.removed.load(SeqCst) <= number && self.shared.cycle.load(SeqCst) == cycle;
        if is_sure && self.shared.inserted.load(SeqCst) >= inserted {
            assert_eq!(found.as_deref(), Some(self.values.of(number, cycle)), "record {number} of tide {cycle}");
        }
    }

    fn scan(&mut self, number: u64) {
        let place = self.places[number as usize];
        let from = base_key(number);
        let mut range = self.keyspace.range(from.as_slice()..b"c".as_slice());
        for number in self.order[place..].iter().take(50) {
            let (key, value) = range.next().unwrap().unwrap();
            let version = u64::from(self.versions[*number as usize]);
            assert_eq!(*key, base_key(*number));
            assert_eq!(*value, *self.values.of(*number, version), "record {number} of version {version}");
        }
    }
}

fn run_mix(mut mix: Mix) {
    let (mut zipfian, mut random, shared) = (ScrambledZipfian::new(BASE), random(2, "mix", 0), mix.shared);
    let mut pace = Pace::new(MIX_RATE);
    while !shared.is_done.load(Relaxed) {
        let number = zipfian.next(&mut random);
        let kind = random.next_u64() % 100;
        let (due, begun) = pace.next();
        let kind = match kind {
            0..50 => (mix.get(number), 0).1,
            50..90 => (mix.update(number), 1).1,
            90..95 => (mix.scan(number), 2).1,
            _ => (mix.get_tide(&mut random), 3).1,
        };
        shared.kinds[kind].count.fetch_add(1, Relaxed);
        shared.kinds[kind].ns.fetch_add(u64::try_from(begun.elapsed().as_nanos()).unwrap(), Relaxed);
        shared.note(1, due, begun, KINDS[kind]);
    }
}

fn canary(shared: &Shared) {
    while !shared.is_done.load(Relaxed) {
        let due = Instant::now() + Duration::from_millis(5);
        std::thread::sleep(Duration::from_millis(5));
        shared.note(2, due, due, "woke late");
    }
}

/// What the host has taken of the processors until the last look, and all their time, in ticks.
#[derive(Default)]
struct Stolen {
    ticks: u64,
    of: u64,
}

impl Stolen {
    /// Looks, and returns what the host took since the last look, in percent.
    fn percent(&mut self) -> u64 {
        let total = KernelStats::current().unwrap().total;
        let waiting = total.idle + total.iowait.unwrap_or(0);
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        let ticks = total.steal.unwrap_or(0);
        let of = total.user + total.nice + total.system + waiting + interrupts + ticks;
        // The kernel may correct a count downwards.
        let percent = 100 * ticks.saturating_sub(self.ticks) / of.saturating_sub(self.of).max(1);
        *self = Stolen { ticks, of };
        percent
    }
}

const FIGURES: [&str; 5] = ["memory, MiB", "descriptors", "threads", "files", "space, MiB"];

/// The longest operation of all seconds, of the seconds that count, and how many these are.
#[derive(Clone, Copy, Default)]
struct Longest {
    ms_of_all: u64,
    ms: u64,
    counted: u64,
    seconds: u64,
    was_stolen: bool,
}

impl Longest {
    fn add(&mut self, ms: u64, stolen_percent: u64) {
        let is_stolen = stolen_percent >= STOLEN_PERCENT;
        self.seconds += 1;
        self.ms_of_all = self.ms_of_all.max(ms);
        if !is_stolen && !self.was_stolen {
            self.counted += 1;
            self.ms = self.ms.max(ms);
        }
        self.was_stolen = is_stolen;
    }

    fn is_good(self) -> bool {
        self.ms <= SLOWEST_MS && 10 * self.counted >= 9 * self.seconds
    }
}

/// Looks once a second, until `end`. Returns what each whole cycle needed, and the longest operation.
fn watch(database: &Database, directory: &Path, shared: &Shared, end: Instant) -> (Vec<Need>, Longest) {
    let (mut cycles, mut longest_of_all, mut minute) = (vec![Need::default()], Longest::default(), [0; 3]);
    let (mut stolen, mut stolen_of_minute) = (Stolen::default(), Stolen::default());
    stolen.percent();
    stolen_of_minute.percent();
    for second in 1.. {
        std::thread::sleep((shared.start + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        let (need, cycle) = (Need::now(directory), shared.cycle.load(SeqCst) as usize);
        cycles.resize(cycle + 1, Need::default());
        cycles[cycle] = cycles[cycle].with(need);
        let late = shared.longest.each_ref().map(|longest| longest.swap(0, Relaxed) / 1_000_000);
        minute = std::array::from_fn(|who| late[who].max(minute[who]));
        let stolen_percent = stolen.percent();
        longest_of_all.add(late[0].max(late[1]), stolen_percent);
        if late.iter().any(|ms| *ms > NOTED_MS) {
            let [tide, mix, canary] = late;
            let line =
                format!("{second} s: tide {tide} ms, mix {mix} ms, canary {canary} ms late, stolen {stolen_percent} %");
            shared.noted.lock().unwrap().push(line);
        }
        if second % 60 == 0 {
            let [tide, mix, canary] = minute;
            let stolen_percent = stolen_of_minute.percent();
            let statistics = database.statistics();
            let [memory, descriptors, threads, files, space] = need.means();
            let counted = [
                statistics.memtable_memory_bytes,
                statistics.cached_bytes,
                statistics.index_memory_bytes,
                statistics.memory_budget_bytes,
            ];
            let [memtables, cached, indexes, budget] = counted.map(|bytes| bytes >> 20);
            println!(
                "{:4} min, cycle {cycle}: longest tide {tide} ms, mix {mix} ms, canary {canary} ms, stolen \
                 {stolen_percent} %; memory {memory:.0} MiB (memtables {memtables}, cache {cached}, indexes {indexes}; \
                 budget {budget}), {descriptors} descriptors, {threads} threads, {files} files, space {space:.0} MiB; \
                 {} splits, {} merges, {} compactions",
                second / 60,
                statistics.splits,
                statistics.merges,
                statistics.compactions,
            );
            println!("       {}", shared.take_kinds(Duration::from_secs(60)));
            shared.noted.lock().unwrap().drain(..).for_each(|line| println!("       {line}"));
            for stall in statistics.stalls.iter().filter(|stall| stall.longest_ns > NOTED_MS * 1_000_000) {
                println!("       longest wait so far for {}: {} ms", stall.cause, stall.longest_ns / 1_000_000);
            }
            minute = [0; 3];
        }
        if Instant::now() >= end {
            break;
        }
    }
    cycles.pop(); // The last one is not whole.
    (cycles, longest_of_all)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// Prints the cycles, and returns whether the last third of them needs no more than the second. They count in pairs: a
/// tide in the order of keys needs other things than one that is not.
fn judge(cycles: &[Need], longest: Longest) -> bool {
    println!("\n| cycle | {} |\n|--:|--:|--:|--:|--:|--:|", FIGURES.join(" | "));
    for (number, need) in cycles.iter().enumerate() {
        println!("| {number} | {} |", need.means().map(|figure| format!("{figure:.0}")).join(" | "));
    }
    let Longest { ms_of_all, ms, counted, seconds, .. } = longest;
    println!(
        "\nlongest operation: {ms} ms (at most {SLOWEST_MS}) in {counted} of {seconds} seconds; {ms_of_all} ms in all"
    );
    let pairs: Vec<Need> = cycles.chunks_exact(2).map(|pair| pair[0].with(pair[1])).collect();
    let third = pairs.len() / 3;
    let mut is_good = longest.is_good() && third > 0;
    for (at, name) in FIGURES.iter().enumerate() {
        let of = |pairs: &[Need]| median(pairs.iter().map(|need| need.means()[at]).collect());
        let (earlier, later) = (of(&pairs[third..2 * third]), of(&pairs[2 * third..]));
        let percent = 100.0 * (later / earlier - 1.0);
        println!("{name}: {earlier:.0}, later {later:.0}: {percent:+.1} % (at most {GROWTH_PERCENT_MAX})");
        is_good &= percent <= GROWTH_PERCENT_MAX;
    }
    is_good
}

fn main() -> ExitCode {
    // A wrong answer ends the run at once.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| panic!("the directory to run in"))).join("soak");
    let minutes = arguments.next().map_or(120, |minutes| minutes.parse().unwrap());
    let half = TIDE_RATE * arguments.next().map_or(300, |seconds| seconds.parse::<u64>().unwrap()) / 2;
    std::fs::remove_dir_all(&directory).ok();
    let database = Database::builder(&directory).compression(Compression::None).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let start = Instant::now();
    let shared = Shared {
        start,
        is_done: AtomicBool::new(false),
        inserted: AtomicU64::new(0),
        removed: AtomicU64::new(0),
        cycle: AtomicU64::new(0),
        longest: Default::default(),
        kinds: Default::default(),
        noted: Mutex::default(),
    };
    let mix = Mix::load(&keyspace, &shared);
    let end = start + Duration::from_secs(60 * minutes);
    let (cycles, longest) = std::thread::scope(|scope| {
        scope.spawn(|| tide(&keyspace, &shared, half));
        scope.spawn(|| run_mix(mix));
        scope.spawn(|| canary(&shared));
        let watched = watch(&database, &directory, &shared, end);
        shared.is_done.store(true, Relaxed);
        watched
    });
    drop(keyspace);
    database.close().unwrap();
    let report = Database::check(&directory, &mut |error| println!("damage: {error}")).unwrap();
    println!("checked: {report:?}");
    let is_sound = report.faults == 0;
    if is_sound {
        std::fs::remove_dir_all(&directory).ok();
    }
    if judge(&cycles, longest) && is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
