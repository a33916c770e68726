//! Compactions that a caller asks for: what is left afterwards, and what is not touched.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database, ErrorKind, Keyspace, KeyspaceStatistics, Readable};

/// Small tables, and level 0 gathers them as long as nobody asks.
fn builder(directory: &TempDir, policy: CompactionPolicy) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(64 << 10)
        .table_bytes(32 << 10)
        .level1_bytes(64 << 10)
        .compression(Compression::None)
        .compaction_policy(policy)
        .compaction_workers(2)
}

const POLICIES: [(&str, CompactionPolicy); 2] =
    [("leveled", CompactionPolicy::Leveled), ("vlsm", CompactionPolicy::VLSM)];

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// The only keyspace there is.
fn levels(database: &Database) -> KeyspaceStatistics {
    database.statistics().keyspaces.remove(0)
}

/// Entries and tombstones of all levels.
fn entries(database: &Database) -> (u64, u64) {
    let levels = levels(database).levels;
    (levels.iter().map(|level| level.entries).sum(), levels.iter().map(|level| level.tombstones).sum())
}

/// Writes and removes at random; returns what should be there.
fn write(keyspace: &Keyspace, random: &mut Rng, operations: u32) -> BTreeMap<u32, Vec<u8>> {
    let mut model = BTreeMap::new();
    for _ in 0..operations {
        let number = random.u32(..2000);
        if random.u32(..4) == 0 {
            keyspace.remove(key(number)).unwrap();
            model.remove(&number);
        } else {
            let value = vec![random.u8(..); random.usize(..200)];
            keyspace.insert(key(number), &value).unwrap();
            model.insert(number, value);
        }
    }
    model
}

fn assert_has(keyspace: &Keyspace, model: &BTreeMap<u32, Vec<u8>>) {
    let found: Vec<_> = keyspace.iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(found.len(), model.len());
    for ((number, value), (found_key, found_value)) in model.iter().zip(&found) {
        assert!(found_key[..] == key(*number) && found_value[..] == value[..], "{number}");
    }
}

#[test]
fn of_all_keys_the_newest_version_is_left_and_no_tombstone() {
    for (name, policy) in POLICIES {
        for partitions_max in [1, 4] {
            let directory = tempfile::tempdir().unwrap();
            let database = builder(&directory, policy).partitions_max(partitions_max).open().unwrap();
            let keyspace = database.keyspace("a").unwrap();
            let mut random = Rng::with_seed(1);
            // Twice: what a first call has brought to the last level is below what the second one brings.
            for _ in 0..2 {
                let model = write(&keyspace, &mut random, 20_000);
                let all: BTreeMap<u32, Vec<u8>> = (0..2000)
                    .filter_map(|number| Some((number, keyspace.get(key(number)).unwrap()?.to_vec())))
                    .collect();
                assert!(model.iter().all(|(number, value)| all.get(number) == Some(value)));
                keyspace.compact_range(..).unwrap();
                assert_eq!(entries(&database), (all.len() as u64, 0), "{name}, {partitions_max} partitions");
                assert_eq!(levels(&database).levels[0].tables, 0, "level 0 is empty");
                assert_has(&keyspace, &all);
            }
        }
    }
}

#[test]
fn tables_beside_the_range_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).partitions_max(1).open().unwrap();
    let keyspace = database.keyspace("a").unwrap();
    (0..2000).for_each(|number| keyspace.insert(key(number), [1; 100]).unwrap());
    keyspace.compact_range(..).unwrap();
    // New versions of the keys below 100, and of those from 1900 on, each in a table of level 0.
    for numbers in [0..100, 1900..2000] {
        numbers.for_each(|number| keyspace.insert(key(number), [2; 100]).unwrap());
        database.flush().unwrap();
    }
    let before = database.statistics();
    keyspace.compact_range(..key(100)).unwrap();
    let after = database.statistics();
    let written = after.compaction_written_bytes - before.compaction_written_bytes;
    assert!(written < 100 << 10, "{written} bytes written for 10 KB of 200 KB");
    assert_eq!(keyspace.get(key(1950)).unwrap().unwrap()[..], [2; 100]);

    // Nothing in it: nothing is done.
    keyspace.compact_range(key(5000)..).unwrap();
    keyspace.compact_range(key(9)..key(3)).unwrap();
    assert_eq!(database.statistics().compactions, after.compactions);
}

#[test]
fn what_a_snapshot_sees_stays_until_it_ends_and_a_second_call() {
    for (name, policy) in POLICIES {
        let directory = tempfile::tempdir().unwrap();
        let database = builder(&directory, policy).open().unwrap();
        let keyspace = database.keyspace("a").unwrap();
        (0..1000).for_each(|number| keyspace.insert(key(number), [1; 100]).unwrap());
        let snapshot = database.snapshot();
        (0..1000).for_each(|number| keyspace.remove(key(number)).unwrap());
        keyspace.compact_range(..).unwrap();
        assert_eq!(snapshot.keyspace(&keyspace).range(..).count(), 1000, "{name}");
        assert_eq!(entries(&database), (2000, 1000), "{name}");
        drop(snapshot);
        keyspace.compact_range(..).unwrap();
        assert_eq!(entries(&database), (0, 0), "{name}");
    }
}

#[test]
fn writers_go_on_and_it_ends_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).open().unwrap();
    let keyspace = database.keyspace("a").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Rng::with_seed(2);
            while !is_over.load(Ordering::Relaxed) {
                keyspace.insert(key(random.u32(..5000)), [3; 150]).unwrap();
            }
        });
        let calls: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| (0..3).for_each(|call| keyspace.compact_range(key(call * 1000)..).unwrap())))
            .collect();
        let ended: Vec<_> = calls.into_iter().map(|call| call.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|call| call.unwrap());
    });
}

#[test]
fn a_keyspace_that_is_dropped_meanwhile_is_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).open().unwrap();
    let (kept, dropped) = (database.keyspace("kept").unwrap(), database.keyspace("dropped").unwrap());
    write(&dropped, &mut Rng::with_seed(3), 5000);
    write(&kept, &mut Rng::with_seed(4), 5000);
    database.drop_keyspace("dropped").unwrap();
    assert_eq!(dropped.compact_range(..).unwrap_err().kind(), ErrorKind::NoKeyspace);
    kept.clear().unwrap();
    kept.compact_range(..).unwrap();
    assert_eq!(entries(&database), (0, 0));
    database.close().unwrap();
    assert_eq!(kept.compact_range(..).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_entries_of_a_directory_come_into_one_pack() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).open().unwrap();
    let files = database.directory_keyspace("files").unwrap();
    for name in 0..200_u32 {
        for folder in 0..20 {
            files.insert(folder, format!("name {name}"), [5; 40]).unwrap();
        }
    }
    files.remove(7, "name 3").unwrap();
    files.compact().unwrap();
    assert_eq!(entries(&database), (20 * 200 - 1, 0));
    let levels = levels(&database).levels;
    assert!(levels[0].tables == 0 && levels.iter().filter(|level| level.tables > 0).count() == 1, "{levels:?}");
    assert_eq!((files.list(7).count(), files.list(8).count()), (199, 200));
}
