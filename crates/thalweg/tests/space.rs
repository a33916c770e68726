//! What a small database takes on the disk, with the defaults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::Database;

/// How long a database that nobody writes to has to give back what it does not need.
const QUIET_WITHIN: Duration = Duration::from_secs(20);

/// Bytes of a record, key and value.
const RECORD_BYTES: u64 = 224;

fn bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes(&entry.path()),
        Ok(found) => found.len(),
        // It was removed meanwhile.
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// Writes `records` records that no codec makes shorter; `turn` decides their values.
fn load(database: &Database, records: u64, turn: u64) {
    let keyspace = database.keyspace("default").unwrap();
    for number in 0..records {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut state = (number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ turn;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let value: Vec<u8> = (0..RECORD_BYTES / 8 - 1).flat_map(|_| next()).collect();
        keyspace.insert(key, value).unwrap();
    }
}

/// Waits until the database in `path` takes no more than `most` bytes.
fn expect_at_most(path: &Path, most: u64) {
    let start = Instant::now();
    while bytes(path) > most {
        assert!(start.elapsed() < QUIET_WITHIN, "{} bytes, {most} are allowed", bytes(path));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_new_database_with_a_thousand_records_takes_less_than_a_mib() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    assert!(bytes(directory.path()) < 400 << 10, "{} bytes at once", bytes(directory.path()));
    load(&database, 1000, 1);
    expect_at_most(directory.path(), 1 << 20);
    database.close().unwrap();
    assert!(bytes(directory.path()) < 1 << 20, "{} bytes after the close", bytes(directory.path()));
}

#[test]
fn what_was_overwritten_goes_when_nobody_writes() {
    let (directory, records) = (tempfile::tempdir().unwrap(), 300_000);
    let database = Database::open(directory.path()).unwrap();
    (1..=2).for_each(|turn| load(&database, records, turn));
    // Of the log the segment in use, which may be of the largest size; and the reserve.
    let live = records * RECORD_BYTES;
    expect_at_most(directory.path(), live / 10 * 11 + (16 << 20) + live / 16);
}

#[test]
fn a_tidy_database_is_small_at_once() {
    let (directory, records) = (tempfile::tempdir().unwrap(), 100_000);
    let database = Database::open(directory.path()).unwrap();
    (1..=3).for_each(|turn| load(&database, records, turn));
    database.tidy().unwrap();
    database.settle().unwrap();
    let tables: u64 = database.statistics().keyspaces[0].levels.iter().map(|level| level.bytes).sum();
    assert!(tables < records * RECORD_BYTES / 10 * 11, "{tables} bytes in tables");
}
