//! A writer killed at random moments, a hundred times over the same database, loses nothing that it acknowledged.
//!
//! The test starts itself again as the writer. The writer commits batches of numbered records over two keyspaces,
//! alternately `Buffered` and `Sync`, and prints the last number of each batch once its commit returned. Whatever the
//! durability, a commit that returned survives the death of the process (not of the machine: that is the simulator's).
//! After each kill: every acknowledged record is there, no record is missing before a present one, batches are whole,
//! nothing else is there, and the key that every batch overwrites has the value of the last one.
//!
//! `THALWEG_KILL_SEED` fixes the moments as far as a scheduler can; the seed is printed with a failure.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use thalweg::{Builder, Compression, Database, Durability, ReadOnlyDatabase, Readable};

const KILLS: u32 = 100;
const LATEST: &[u8] = b"latest";
const WRITER: &str = "THALWEG_KILL_WRITER";
const SIGKILL: i32 = 9;

#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    if let Some(path) = std::env::var_os(WRITER) {
        write_until_killed(Path::new(&path));
    }
    let mut directory = tempfile::tempdir().unwrap();
    // What a failure found stays.
    directory.disable_cleanup(true);
    let seed = match std::env::var("THALWEG_KILL_SEED") {
        Ok(seed) => seed.parse().expect("THALWEG_KILL_SEED is no number"),
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut present = 0;
    for kill in 0..KILLS {
        // Now and then before the writer is even open, mostly in the middle of its work.
        let delay = Duration::from_micros(random.u64(..120_000));
        let acknowledged = killed_after(start_writer(directory.path()), delay).max(present);
        let found = records_found(directory.path(), kill % 2 == 0);
        let at = format!("kill {kill} of seed {seed}: acknowledged {acknowledged}");
        present = found.unwrap_or_else(|fault| panic!("{at}: {fault}"));
        assert!(present >= acknowledged, "{at}, found only {present}");
    }
    assert!(present > 1000, "only {present} records in {KILLS} lives: the writer had no time");
    directory.disable_cleanup(false);
}

/// Commits batches that go on after what is there, for ever. Batch: records `first..first + count`, each with `first`
/// and `count` in its value.
fn write_until_killed(path: &Path) -> ! {
    let database = options(path).open().unwrap();
    let keyspaces = [database.keyspace("even").unwrap(), database.keyspace("odd").unwrap()];
    let mut next = latest(&keyspaces[0]) + 1;
    let mut output = std::io::stdout();
    for batch_number in 0u64.. {
        let count = 1 + (next * 7 + batch_number) % 9;
        let mut batch = database.batch();
        for number in next..next + count {
            let value = value_of(number, next, count);
            batch.insert(keyspace_of(number, &keyspaces), number.to_be_bytes(), value).unwrap();
        }
        let last = next + count - 1;
        batch.insert(&keyspaces[0], LATEST, last.to_be_bytes()).unwrap();
        let sync = batch_number % 2 == 1;
        batch.commit_with(if sync { Durability::Sync } else { Durability::Buffered }).unwrap();
        // A line of its own, whatever the test harness has printed before.
        output.write_all(format!("\nacknowledged {last}\n").as_bytes()).unwrap();
        output.flush().unwrap();
        next += count;
    }
    unreachable!("there are more batch numbers than time")
}

/// Small everything, so that flushes, compactions and recycled log segments are under way at most kills.
fn options(path: &Path) -> Builder {
    Database::builder(path)
        .log_segment_bytes(256 << 10)
        .log_bytes_max(2 << 20)
        .memtable_bytes(128 << 10)
        .table_bytes(64 << 10)
        .level1_bytes(256 << 10)
        .growth_factor(4)
        .compression(Compression::Lz4)
}

fn keyspace_of<K>(number: u64, keyspaces: &[K; 2]) -> &K {
    let [even, odd] = keyspaces;
    if number.is_multiple_of(2) { even } else { odd }
}

fn value_of(number: u64, first: u64, count: u64) -> Vec<u8> {
    let mut value = [first.to_be_bytes(), count.to_be_bytes()].concat();
    let filler = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    value.extend(filler.iter().cycle().take((number % 400) as usize));
    value
}

fn latest(even: &impl Readable) -> u64 {
    even.get(LATEST).unwrap().map_or(0, |bytes| u64::from_be_bytes(bytes.as_ref().try_into().unwrap()))
}

fn start_writer(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_writer_loses_nothing_that_it_acknowledged", "--nocapture"])
        .env(WRITER, path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the writer after `delay`; gives the last number that it acknowledged (0: none).
fn killed_after(mut writer: Child, delay: Duration) -> u64 {
    let output = BufReader::new(writer.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        // A line cut short by the kill has no newline, and its number may be cut too.
        let mut line = Vec::new();
        let mut output = output;
        while output.read_until(b'\n', &mut line).unwrap() > 0 {
            let number = line.strip_prefix(b"acknowledged ").and_then(|rest| rest.strip_suffix(b"\n"));
            if let Some(number) = number {
                last = std::str::from_utf8(number).unwrap().parse().unwrap();
            }
            line.clear();
        }
        last
    });
    std::thread::sleep(delay);
    writer.kill().unwrap();
    let status = writer.wait().unwrap();
    assert_eq!(status.signal(), Some(SIGKILL), "the writer ended on its own: {status}");
    reader.join().unwrap()
}

/// How many records there are, or what is wrong with them.
fn records_found(path: &Path, read_only: bool) -> Result<u64, String> {
    let text = |error: thalweg::Error| error.to_string();
    let database: ReadOnlyDatabase = if read_only {
        match options(path).open_read_only() {
            // Killed before the database was there.
            Err(thalweg::Error::NoDatabase { .. }) => return Ok(0),
            opened => opened.map_err(text)?,
        }
    } else {
        options(path).open().map_err(text)?.into()
    };
    let (Some(even), Some(odd)) =
        (database.existing_keyspace("even").map_err(text)?, database.existing_keyspace("odd").map_err(text)?)
    else {
        return Ok(0);
    };
    let last = latest(&even);
    let mut batch = (0, 0);
    // The numbered keys sort before the other one.
    let mut entries = [even.iter(), odd.iter()];
    for number in 1..=last {
        let [even, odd] = &mut entries;
        let next = if number.is_multiple_of(2) { even.next() } else { odd.next() };
        let (key, value) = next.transpose().map_err(text)?.ok_or_else(|| format!("record {number} is missing"))?;
        if key != number.to_be_bytes() {
            return Err(format!("there is {key:?} where record {number} should be"));
        }
        let word = |at: usize| value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let (Some(first), Some(count)) = (word(0), word(8)) else { return Err(format!("record {number} is short")) };
        if value_of(number, first, count) != value.as_ref() {
            return Err(format!("record {number} has a value that nobody wrote"));
        }
        if number == first {
            batch = (first, count);
        }
        if batch != (first, count) || number >= first + count {
            return Err(format!("record {number} is not of the batch {batch:?}, but of {:?}", (first, count)));
        }
    }
    if batch.0 + batch.1 != last + 1 && last > 0 {
        return Err(format!("the last batch {batch:?} is not whole: the last record is {last}"));
    }
    // What is left is the key of the last number, and a point read finds the last record too.
    let mut left = entries.into_iter().flatten();
    match left.next().transpose().map_err(text)? {
        Some((key, _)) if last > 0 && key == LATEST => {}
        None if last == 0 => {}
        other => return Err(format!("{other:?} after record {last}")),
    }
    if let Some(other) = left.next() {
        return Err(format!("{other:?} after record {last}"));
    }
    let keyspaces = [even, odd];
    if last > 0 && !keyspace_of(last, &keyspaces).contains_key(last.to_be_bytes()).map_err(text)? {
        return Err(format!("a point read does not find record {last}"));
    }
    Ok(last)
}
