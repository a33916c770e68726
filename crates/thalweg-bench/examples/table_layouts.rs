//! Compares the layouts of tables: time of a flush, bytes, lookups in one to eight overlapping tables, scans (PMB-E1,
//! PMB-E4). Prints tables in Markdown.
//!
//!     cargo run --release -p thalweg-bench --example table_layouts -- [MEBIBYTES]
//!
//! The data set is indexes of orders: keys of 120 bytes (number of the table, number of the index, names of a city and
//! of one of its twenty shops, day, row id), values of 8 bytes. The paper says of its keys no more than their length.
//! Lookups are of present keys, in random order; all tables have the same range of keys. Files lie in `/dev/shm`, and
//! their blocks are in the block cache. So all figures are of memory, none of persistent memory.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::{LoneTable, LoneTables, TableLayout};

const KEY_BYTES: usize = 120;
const LOOKUPS: usize = 200_000;
const SCAN_ENTRIES: usize = 100;
const REPEATS: usize = 3;

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

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time of one of `count` lookups of keys that are there.
fn lookup_ns(tables: &[LoneTable], count: u64) -> f64 {
    let keys: Vec<Vec<u8>> = (0..LOOKUPS as u64).map(|at| key(mixed(at) % count)).collect();
    // Once to verify checksums and to fill the cache.
    keys.iter().for_each(|key| assert!(LoneTable::get(tables, key).unwrap().is_some()));
    let times = (0..REPEATS).map(|_| {
        let start = Instant::now();
        let found: usize = keys.iter().map(|key| LoneTable::get(tables, key).unwrap().map_or(0, |it| it.len())).sum();
        assert_eq!(found, 8 * LOOKUPS);
        start.elapsed()
    });
    median(times.collect()).as_nanos() as f64 / LOOKUPS as f64
}

/// The time of a scan of [`SCAN_ENTRIES`] entries from a random key on.
fn scan_us(table: &LoneTable, count: u64) -> f64 {
    let keys: Vec<Vec<u8>> = (0..5_000).map(|at| key(mixed(at) % count)).collect();
    let mut cursor = table.cursor();
    let mut once = || {
        let start = Instant::now();
        let bytes: usize = keys.iter().map(|key| cursor.scan(key, SCAN_ENTRIES).unwrap()).sum();
        assert!(bytes > 0);
        start.elapsed()
    };
    once();
    median((0..REPEATS).map(|_| once()).collect()).as_nanos() as f64 / 1e3 / keys.len() as f64
}

/// PMB-E4: one table of all entries.
fn flushes(directory: &Path, count: u64) {
    let all = entries(count, 0, 1);
    println!("\n| layout | flush ms | MiB | lookup ns | lookup ns, no filter | scan of {SCAN_ENTRIES} µs |");
    println!("|---|---:|---:|---:|---:|---:|");
    for layout in TableLayout::ALL {
        let [with, without] = [10, 0].map(|bits| LoneTables::new(directory, bits).unwrap());
        let mut times = Vec::new();
        let mut table = with.build(layout, &all, 1).unwrap();
        for _ in 0..REPEATS {
            let start = Instant::now();
            table = with.build(layout, &all, 1).unwrap();
            times.push(start.elapsed());
        }
        let (flush, mib) = (median(times), table.bytes() as f64 / (1 << 20) as f64);
        let scan = scan_us(&table, count);
        let lookup = lookup_ns(&[table], count);
        let unfiltered = lookup_ns(&[without.build(layout, &all, 1).unwrap()], count);
        let flush_ms = flush.as_secs_f64() * 1e3;
        println!("| {layout:?} | {flush_ms:.1} | {mib:.1} | {lookup:.0} | {unfiltered:.0} | {scan:.1} |");
        clear(directory);
    }
}

/// PMB-E1: the entries over one, two, four and eight tables, whose keys interleave.
fn overlaps(directory: &Path, count: u64, bits: u32) {
    let split = |tables: u64| (0..tables).map(|part| entries(count, part, tables)).collect();
    let parts: [Vec<Entries>; 4] = [1, 2, 4, 8].map(split);
    println!("\n| layout, {bits} filter bits a key | 1 table ns | 2 | 4 | 8 |");
    println!("|---|---:|---:|---:|---:|");
    for layout in TableLayout::ALL {
        let cells = parts.iter().map(|parts| {
            let makes = LoneTables::new(directory, bits).unwrap();
            let tables: Vec<LoneTable> = parts.iter().map(|part| makes.build(layout, part, 1).unwrap()).collect();
            let nanoseconds = lookup_ns(&tables, count);
            clear(directory);
            format!("{nanoseconds:.0}")
        });
        println!("| {layout:?} | {} |", cells.collect::<Vec<_>>().join(" | "));
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
