//! Splits of partitions on real files: nothing is lost or given twice, whoever reads or writes meanwhile; memory and
//! files stay bounded; what was split is so after a reopen.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database, Keyspace};

const KEYS: u32 = 30_000;
const MEMTABLE_BYTES: usize = 64 << 10;
/// Pairs that a writer writes while readers look on.
const WRITES: u64 = 15_000;

fn builder(directory: &TempDir) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(MEMTABLE_BYTES)
        .table_bytes(32 << 10)
        .level1_bytes(128 << 10)
        .growth_factor(4)
        .partitions_max(16)
        .compression(Compression::None)
}

fn key(number: u32) -> [u8; 4] {
    (u64::from(number) * 7919 % u64::from(KEYS)).to_be_bytes()[4..].try_into().unwrap()
}

fn value(key: &[u8], generation: u32) -> Vec<u8> {
    [key, &generation.to_le_bytes()].concat().repeat(12)
}

fn fill(keyspace: &Keyspace, generation: u32) {
    for number in 0..KEYS {
        let key = key(number);
        keyspace.insert(key, value(&key, generation)).unwrap();
    }
}

fn settle(database: &Database) {
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
}

/// Every key, of one generation, once, in both directions and by `get`.
fn verify(keyspace: &Keyspace, generation: u32) {
    let (mut next, mut back) = (0_u32, KEYS);
    for entry in keyspace.iter() {
        let (key, found) = entry.unwrap();
        assert_eq!((&*key, &*found), (&next.to_be_bytes()[..], &*value(&key, generation)));
        next += 1;
    }
    for entry in keyspace.iter().rev() {
        back -= 1;
        assert_eq!(&*entry.unwrap().0, &back.to_be_bytes()[..]);
    }
    assert_eq!((next, back), (KEYS, 0));
    let some: Vec<[u8; 4]> = (0..KEYS).step_by(97).map(u32::to_be_bytes).collect();
    for (key, found) in some.iter().zip(keyspace.multi_get(&some).unwrap()) {
        assert_eq!(found.unwrap(), value(key, generation)[..]);
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value(key, generation)[..]);
    }
}

fn partitions(database: &Database) -> u64 {
    database.statistics().keyspaces[0].partitions
}

#[test]
fn a_partition_that_has_grown_is_split_and_stays_so() {
    for policy in [CompactionPolicy::Leveled, CompactionPolicy::VLSM] {
        let directory = tempfile::tempdir().unwrap();
        let open = || builder(&directory).compaction_policy(policy).open().unwrap();
        let database = open();
        for generation in 1..3 {
            fill(&database.keyspace("data").unwrap(), generation);
            settle(&database);
            verify(&database.keyspace("data").unwrap(), generation);
        }
        let statistics = database.statistics();
        let (count, levels) = (partitions(&database), &statistics.keyspaces[0].levels);
        assert!((8..=16).contains(&count) && statistics.splits == count - 1, "{count} after {}", statistics.splits);
        // Tables that partitions share count once.
        let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
        assert!(bytes < 3 * u64::from(KEYS) * 110, "{bytes} in {levels:?}");

        let checkpoint = tempfile::tempdir().unwrap();
        database.checkpoint(checkpoint.path()).unwrap();
        database.close().unwrap();
        for place in [&directory, &checkpoint] {
            let mut faults = Vec::new();
            builder(place).check(&mut |fault| faults.push(fault)).unwrap();
            assert!(faults.is_empty(), "{faults:?}");
            let database = builder(place).compaction_policy(policy).open().unwrap();
            assert_eq!(partitions(&database), count);
            verify(&database.keyspace("data").unwrap(), 2);
        }
        let database = open();
        fill(&database.keyspace("data").unwrap(), 3);
        settle(&database);
        verify(&database.keyspace("data").unwrap(), 3);
    }
}

#[test]
fn partitions_max_bounds_splits_and_1_forbids_them() {
    for partitions_max in [1, 3] {
        let directory = tempfile::tempdir().unwrap();
        let database = builder(&directory).partitions_max(partitions_max).open().unwrap();
        database.create_keyspace("data", &[&[0, 0, 58, 0]]).unwrap();
        fill(&database.keyspace("data").unwrap(), 1);
        settle(&database);
        assert_eq!(partitions(&database), 2 * partitions_max as u64);
        verify(&database.keyspace("data").unwrap(), 1);
    }
    let directory = tempfile::tempdir().unwrap();
    for partitions_max in [0, 1025] {
        let refused = builder(&directory).partitions_max(partitions_max).open().map(drop).unwrap_err();
        assert!(refused.to_string().contains("partitions_max"), "{refused}");
    }
}

#[test]
fn readers_and_writers_notice_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    // An even and an odd key of a pair are always written together, so any state has both alike.
    let (ended, scans) = (AtomicBool::new(false), std::sync::atomic::AtomicU32::new(0));
    let mut written = BTreeMap::new();
    std::thread::scope(|scope| {
        let reader = |backwards: bool| {
            let (ended, scans, keyspace) = (&ended, &scans, keyspace.clone());
            move || {
                while !ended.load(Ordering::Relaxed) {
                    let range = keyspace.iter();
                    let mut entries: Vec<_> = if backwards { range.rev().collect() } else { range.collect() };
                    if backwards {
                        entries.reverse();
                    }
                    let entries: Vec<_> = entries.into_iter().map(Result::unwrap).collect();
                    assert!(entries.len() % 2 == 0 && entries.is_sorted_by(|a, b| a.0 < b.0));
                    for ((a, first), (b, second)) in entries.iter().zip(entries.iter().skip(1)).step_by(2) {
                        assert_eq!((a[3] & 1, b[3] & 1, &first[..16]), (0, 1, &second[..16]));
                    }
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let readers = [scope.spawn(reader(false)), scope.spawn(reader(true))];
        let writer = |seed: u64| {
            let (database, keyspace) = (&database, keyspace.clone());
            move || {
                let (mut random, mut model) = (Rng::with_seed(seed), BTreeMap::new());
                // Batches made long before they are committed have routes from before splits.
                let mut kept = Vec::new();
                for number in 0..WRITES {
                    if number == WRITES / 2 {
                        // However pressed compactions were: now partitions are split, while some batches wait.
                        settle(database);
                    }
                    // Each writer has keys of its own, so that its last write of one stands.
                    let pair = (random.usize(..1 << 19) as u32) << 2 | (seed as u32) << 1;
                    let mut batch = database.batch();
                    for key in [pair, pair + 1] {
                        let value = [number.to_le_bytes(), seed.to_le_bytes()].concat();
                        batch.insert(&keyspace, key.to_be_bytes(), value.repeat(8)).unwrap();
                    }
                    if number % 7 == 0 {
                        kept.push((batch, pair, number));
                    } else {
                        batch.commit().unwrap();
                        model.insert(pair, number);
                    }
                    if kept.len() > 300 || number + 1 == WRITES {
                        for (mut batch, pair, number) in kept.drain(..) {
                            batch.commit().unwrap();
                            model.insert(pair, number);
                        }
                    }
                }
                model
            }
        };
        let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
        for (writer, seed) in writers.into_iter().zip(0_u64..) {
            for (pair, number) in writer.join().unwrap() {
                let value = [number.to_le_bytes(), seed.to_le_bytes()].concat().repeat(8);
                written.extend([pair, pair + 1].map(|key| (key.to_be_bytes().to_vec(), value.clone())));
            }
        }
        ended.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let (count, scans) = (partitions(&database), scans.load(Ordering::Relaxed));
    assert!((3..=16).contains(&count) && scans > 2, "{count} partitions, {scans} scans");
    let found = |keyspace: &Keyspace| -> BTreeMap<Vec<u8>, Vec<u8>> {
        keyspace.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    };
    assert!(found(&keyspace) == written);
    database.close().unwrap();
    let database = builder(&directory).open().unwrap();
    assert!(found(&database.keyspace("data").unwrap()) == written);
}

#[test]
fn a_snapshot_and_a_range_from_before_a_split_see_what_they_saw() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    fill(&keyspace, 1);
    let (snapshot, mut range) = (database.snapshot(), keyspace.iter());
    let first = range.next().unwrap().unwrap();
    for generation in 2..5 {
        fill(&keyspace, generation);
    }
    settle(&database);
    assert!(partitions(&database) > 4);
    let rest: Vec<_> = std::iter::once(first).chain(range.map(Result::unwrap)).collect();
    let seen: Vec<_> = snapshot.iter(&keyspace).map(Result::unwrap).collect();
    assert!(rest == seen && seen.len() == KEYS as usize);
    assert!(seen.iter().all(|(key, found)| **found == value(key, 1)[..]));
}

#[test]
fn memtables_of_all_partitions_share_the_memory_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).sealed_memtables_max(1).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let mut most = 0;
    for generation in 1..4 {
        for number in 0..KEYS {
            let key = key(number);
            keyspace.insert(key, value(&key, generation)).unwrap();
            if number % 64 == 0 {
                most = most.max(database.statistics().memtable_bytes);
            }
        }
    }
    assert!(partitions(&database) > 8);
    // Active ones as many as one may have, and of sealed ones one a partition, each at most twice an equal share.
    let bound = (MEMTABLE_BYTES * 4) as u64;
    assert!(most < bound, "{most} bytes of memtables, {bound} at most");
}

#[test]
fn a_dropped_keyspace_leaves_no_shared_table_behind() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    fill(&database.keyspace("data").unwrap(), 1);
    settle(&database);
    assert!(partitions(&database) > 1);
    database.drop_keyspace("data").unwrap();
    // Before a close and an open, which removes whatever the manifest does not name.
    let start = std::time::Instant::now();
    while tables_in(&directory) > 0 {
        assert!(start.elapsed().as_secs() < 60, "{} files are left", tables_in(&directory));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_shared_table_goes_when_both_sides_have_replaced_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).settle_interval(std::time::Duration::from_millis(20)).open().unwrap();
    for generation in 1..4 {
        fill(&database.keyspace("data").unwrap(), generation);
        settle(&database);
    }
    assert!(partitions(&database) > 8);
    let live = || database.statistics().keyspaces[0].levels.iter().map(|level| level.tables).sum::<u64>();
    let start = std::time::Instant::now();
    while tables_in(&directory) as u64 > live() {
        let kept = tables_in(&directory) as u64 - live();
        assert!(start.elapsed().as_secs() < 30, "{kept} files beyond {}", live());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn tables_in(directory: &TempDir) -> usize {
    std::fs::read_dir(directory.path().join("tables")).unwrap().count()
}
