//! How long level 0 may be: for as long as nobody reads it, longer than readers would have it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{Compression, Database, Keyspace};

const RECORDS: u32 = 40_000;

/// A keyspace with 40 MB in the levels and five to fifteen small tables in level 0, which no read has paid for.
fn with_a_long_level0(directory: &TempDir) -> (Database, Keyspace) {
    let builder = Database::builder(directory.path()).memtable_bytes(256 << 10).level1_bytes(4 << 20);
    let database = builder.partitions_max(1).compression(Compression::None).open().unwrap();
    let keyspace = database.keyspace("records").unwrap();
    for number in 0..RECORDS {
        put(&keyspace, number);
    }
    for number in RECORDS.. {
        database.flush().unwrap();
        database.wait_for_compactions().unwrap();
        if (5..=15).contains(&level0_tables(&database)) {
            break;
        }
        put(&keyspace, number);
    }
    (database, keyspace)
}

fn put(keyspace: &Keyspace, number: u32) {
    keyspace.insert((number.wrapping_mul(7919) % RECORDS).to_be_bytes(), [number as u8; 1000]).unwrap();
}

fn level0_tables(database: &Database) -> u64 {
    database.statistics().keyspaces[0].levels[0].tables
}

/// Whether level 0 becomes short, long before a database that nobody writes to is tidied.
fn becomes_short(database: &Database) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        if level0_tables(database) < 4 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_level_0_that_nobody_reads_stays_and_one_that_is_read_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = with_a_long_level0(&directory);
    assert!(!becomes_short(&database), "nobody reads");
    // The compaction of 5 to 50 MB costs as much as some 100 000 reads of five tables.
    for number in 0..200_000_u32 {
        assert!(keyspace.get((number % RECORDS).to_be_bytes()).unwrap().is_some());
    }
    assert!(becomes_short(&database), "many reads");
    database.close().unwrap();
}

#[test]
fn ranges_pay_for_a_short_level_0_sooner() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = with_a_long_level0(&directory);
    for number in 0..20_000_u32 {
        let from = (number % RECORDS).to_be_bytes();
        assert!(keyspace.range(from..).next().unwrap().is_ok());
    }
    assert!(becomes_short(&database), "many ranges");
    database.close().unwrap();
}
