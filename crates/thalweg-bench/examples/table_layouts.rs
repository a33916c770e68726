//! Compares the layouts of tables: time of a flush, bytes, lookups in one to eight overlapping tables, scans (PMB-E1,
//! PMB-E4). Prints tables in Markdown.
//!
//!     cargo run --release -p thalweg-bench --example table_layouts -- [MEBIBYTES]
//!
//! The data set is indexes of orders: keys of 120 bytes (number of the table, number of the index, names of a city and
//! of one of its twenty shops, day, row id), values of 8 bytes. The paper says of its keys no more than their length.
//! Lookups are of present keys, in random order; all tables have the same range of keys. Files lie in `/dev/shm`, and
//! their blocks are in the block cache. So all figures are of memory, none of persistent memory. Times are
//! processor time of the one thread that does all the work, and layouts take turns: other work on the machine shows
//! less.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::path::Path;
use std::time::Duration;
use thalweg::{LoneTable, LoneTables, TableLayout};

const KEY_BYTES: usize = 120;
const LOOKUPS: usize = 100_000;
const SCAN_ENTRIES: usize = 100;
const REPEATS: usize = 5;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// splitmix64 of a number.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A name of 44 letters.
fn name(kind: u64, number: u64) -> impl Iterator<Item = u8> {
    (0..44).map(move |at| b'a' + (mixed(mixed(kind << 32 | number) + at) % 26) as u8)
}

/// A key of an index of orders by city, shop and day.
fn key(number: u64) -> Vec<u8> {
    let hash = mixed(number);
    let (table, index, shop, day) = (hash % 10, hash / 10 % 3, hash / 30 % 1000, mixed(hash) % 365);
    let mut key = format!("t{table:04}/i{index:02}/").into_bytes();
    key.extend(name(1, shop % 50));
    key.push(b'/');
    key.extend(name(2, shop));
    key.extend(format!("/{day:03}/{number:016}").into_bytes());
    assert_eq!(key.len(), KEY_BYTES);
    key
}

/// Every `of`-th entry from `part` on, in order.
fn entries(count: u64, part: u64, of: u64) -> Entries {
    let numbers = (part..count).step_by(of as usize);
    let mut entries: Entries = numbers.map(|number| (key(number), mixed(number).to_le_bytes().to_vec())).collect();
    entries.sort_unstable();
    entries
}

/// The processor time of the calling thread.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time of each of `count` operations, in nanoseconds.
fn timed_ns(count: usize, work: impl FnOnce()) -> f64 {
    let start = now();
    work();
    (now() - start).as_nanos() as f64 / count as f64
}

/// Calls `measure` for each of `things` in turn, and returns the median of each.
fn medians<T>(things: &[T], mut measure: impl FnMut(&T) -> f64) -> Vec<f64> {
    let mut times = vec![Vec::new(); things.len()];
    for _ in 0..REPEATS {
        things.iter().zip(&mut times).for_each(|(thing, times)| times.push(measure(thing)));
    }
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times.into_iter().map(median).collect()
}

/// The time of a lookup of a key that one of the tables has, for each set of tables.
fn lookups_ns(sets: &[Vec<LoneTable>], count: u64) -> Vec<f64> {
    let keys: Vec<Vec<u8>> = (0..LOOKUPS as u64).map(|at| key(mixed(at) % count)).collect();
    let all = |set: &Vec<LoneTable>| keys.iter().for_each(|key| assert!(LoneTable::get(set, key).unwrap().is_some()));
    // Once to verify checksums and to fill the cache.
    sets.iter().for_each(all);
    medians(sets, |set| timed_ns(LOOKUPS, || all(set)))
}

/// PMB-E4: one table of all entries.
fn flushes(directory: &Path, count: u64) {
    let all = entries(count, 0, 1);
    let [with, without] = [10, 0].map(|bits| LoneTables::new(directory, bits).unwrap());
    let flush = |layout: &TableLayout| timed_ns(1, || drop(with.build(*layout, &all, 1).unwrap())) / 1e6;
    let flushes = medians(&TableLayout::ALL, flush);
    let built = |makes: &LoneTables| TableLayout::ALL.map(|layout| vec![makes.build(layout, &all, 1).unwrap()]);
    let (filtered, unfiltered) = (built(&with), built(&without));
    let (lookups, no_filter) = (lookups_ns(&filtered, count), lookups_ns(&unfiltered, count));
    let starts: Vec<Vec<u8>> = (0..5_000).map(|at| key(mixed(at) % count)).collect();
    let scans = medians(&filtered, |tables| {
        let mut cursor = tables[0].cursor();
        let scan = |key: &Vec<u8>| assert!(cursor.scan(key, SCAN_ENTRIES).unwrap() > 0);
        timed_ns(starts.len(), || starts.iter().for_each(scan)) / 1e3
    });
    println!("\n| layout | flush ms | MiB | lookup ns | lookup ns, no filter | scan of {SCAN_ENTRIES} µs |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (at, layout) in TableLayout::ALL.iter().enumerate() {
        let (flush, mib) = (flushes[at], filtered[at][0].bytes() as f64 / (1 << 20) as f64);
        let (lookup, bare, scan) = (lookups[at], no_filter[at], scans[at]);
        println!("| {layout:?} | {flush:.1} | {mib:.1} | {lookup:.0} | {bare:.0} | {scan:.1} |");
    }
    clear(directory);
}

/// PMB-E1: the entries over one, two, four and eight tables, whose keys interleave.
fn overlaps(directory: &Path, count: u64, bits: u32) {
    let mut columns = Vec::new();
    for tables in [1, 2, 4, 8] {
        let parts: Vec<Entries> = (0..tables).map(|part| entries(count, part, tables)).collect();
        let makes = LoneTables::new(directory, bits).unwrap();
        let set = |layout| parts.iter().map(|part| makes.build(layout, part, 1).unwrap()).collect();
        columns.push(lookups_ns(&TableLayout::ALL.map(set), count));
        clear(directory);
    }
    println!("\n| layout, {bits} filter bits a key | 1 table ns | 2 | 4 | 8 |");
    println!("|---|---:|---:|---:|---:|");
    for (at, layout) in TableLayout::ALL.iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|column| format!("{:.0}", column[at])).collect();
        println!("| {layout:?} | {} |", cells.join(" | "));
    }
}

fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn main() {
    let mebibytes: u64 = std::env::args().nth(1).map_or(32, |argument| argument.parse().unwrap());
    let count = (mebibytes << 20) / (KEY_BYTES as u64 + 8);
    let directory = Path::new("/dev/shm").join(format!("table-layouts-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    println!("{count} entries: keys of {KEY_BYTES} bytes, values of 8; medians of {REPEATS} runs");
    flushes(&directory, count);
    overlaps(&directory, count, 10);
    overlaps(&directory, count, 0);
    std::fs::remove_dir_all(&directory).unwrap();
}
