//! The space of what was removed comes back without another write, whatever level its tombstones have come to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database};

/// Has no factor in common with 7919.
const KEYS: u32 = 20_000;

fn builder(directory: &TempDir, policy: CompactionPolicy) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(1 << 20)
        .table_bytes(512 << 10)
        .level1_bytes(2 << 20)
        .compression(Compression::None)
        .compaction_policy(policy)
}

fn table_bytes(database: &Database) -> u64 {
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    database.statistics().keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.bytes).sum()
}

#[test]
fn when_all_is_removed_no_table_is_left_that_is_worth_the_name() {
    for (name, policy) in [("leveled", CompactionPolicy::Leveled), ("vlsm", CompactionPolicy::VLSM)] {
        for removed_percent in [100, 80] {
            let directory = tempfile::tempdir().unwrap();
            let database = builder(&directory, policy).open().unwrap();
            let keyspace = database.keyspace("a").unwrap();
            for number in 0..KEYS {
                keyspace.insert((number.wrapping_mul(7919) % KEYS).to_be_bytes(), [number as u8; 500]).unwrap();
            }
            let full = table_bytes(&database);
            assert!(full > u64::from(KEYS) * 500, "{full}");
            for number in (0..KEYS).filter(|number| number % 100 < removed_percent) {
                keyspace.remove(number.to_be_bytes()).unwrap();
            }
            let (left, most) = (table_bytes(&database), full * u64::from(100 - removed_percent) / 100);
            let levels = &database.statistics().keyspaces[0].levels;
            assert!(left <= most + most / 4 + (64 << 10), "{name}: {left} of {full} bytes: {levels:?}");
            assert_eq!(keyspace.iter().count(), KEYS as usize * (100 - removed_percent as usize) / 100);
        }
    }
}

/// What a snapshot or a long range saw when it was replaced, and merged to the bottom, comes back when these end,
/// without another write.
#[test]
fn what_only_a_reader_kept_is_given_back_when_it_ends() {
    for (name, policy) in [("leveled", CompactionPolicy::Leveled), ("vlsm", CompactionPolicy::VLSM)] {
        for removes in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let database = builder(&directory, policy).open().unwrap();
            let keyspace = database.keyspace("a").unwrap();
            let write = |round: u32| {
                for number in 0..KEYS {
                    let number = number.wrapping_mul(7919) % KEYS;
                    if removes && round == 1 && !number.is_multiple_of(5) {
                        keyspace.remove(number.to_be_bytes()).unwrap();
                    } else {
                        keyspace.insert(number.to_be_bytes(), [number as u8; 500]).unwrap();
                    }
                }
            };
            write(0);
            let once = table_bytes(&database);
            let (snapshot, range) = (database.snapshot(), keyspace.iter());
            write(1);
            database.tidy().unwrap();
            let held = table_bytes(&database);
            assert!(held > once, "{name}: {held} bytes after {once}");
            drop(snapshot);
            assert!(table_bytes(&database) > once, "{name}: the range still sees what it did");
            assert_eq!(range.count(), KEYS as usize);
            let (left, most) = (table_bytes(&database), if removes { once / 5 } else { once });
            let levels = &database.statistics().keyspaces[0].levels;
            assert!(left <= most + most / 8 + (64 << 10), "{name}: {left} of {held} bytes: {levels:?}");
        }
    }
}

#[test]
fn what_only_a_snapshot_kept_of_directories_is_given_back_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).open().unwrap();
    let keyspace = database.directory_keyspace("d").unwrap();
    let write = |round: u32| {
        for number in 0..KEYS {
            let number = number.wrapping_mul(7919) % KEYS;
            let (directory, name) = (u64::from(number / 10), (number % 10).to_be_bytes());
            if round == 1 && !number.is_multiple_of(5) {
                keyspace.remove(directory, name).unwrap();
            } else {
                keyspace.insert(directory, name, [number as u8; 500]).unwrap();
            }
        }
    };
    write(0);
    let once = table_bytes(&database);
    let snapshot = database.snapshot();
    write(1);
    database.tidy().unwrap();
    let held = table_bytes(&database);
    assert!(held > once, "{held} bytes after {once}");
    drop(snapshot);
    let left = table_bytes(&database);
    let levels = &database.statistics().keyspaces[0].levels;
    assert!(left <= once / 5 + once / 20 + (64 << 10), "{left} of {held} bytes: {levels:?}");
}
