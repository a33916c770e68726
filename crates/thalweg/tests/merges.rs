//! Merges of partitions on real files: what was split and emptied becomes fewer again, nothing is lost or given twice,
//! whoever reads or writes meanwhile, and it is so after a reopen.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use thalweg::{Builder, Compression, Database, Keyspace};

const KEYS: u32 = 12_000;

fn builder(directory: &TempDir) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(64 << 10)
        .table_bytes(32 << 10)
        .level1_bytes(128 << 10)
        // What is in level 0 does not count for a split.
        .level0_trigger(4)
        .growth_factor(4)
        .partitions_max(16)
        .compression(Compression::None)
}

fn fill(keyspace: &Keyspace, generation: u32) {
    for number in 0..KEYS {
        let key = (number.wrapping_mul(7919) % KEYS).to_be_bytes();
        keyspace.insert(key, [key, generation.to_le_bytes()].concat().repeat(18)).unwrap();
    }
}

/// Removes all keys but every `left`th.
fn empty(database: &Database, keyspace: &Keyspace, left: u32) {
    for number in (0..KEYS).filter(|number| number % left > 0) {
        keyspace.remove(number.to_be_bytes()).unwrap();
    }
    settle(database);
}

/// The same, down to the last level, and again until partitions have merged and there are `goal` or fewer.
fn empty_until(database: &Database, keyspace: &Keyspace, left: u32, goal: u64) -> u64 {
    let count = || database.statistics().keyspaces.iter().map(|keyspace| keyspace.partitions).max().unwrap();
    let enough = (0..60).find(|_| {
        empty(database, keyspace, left);
        keyspace.compact_range(..).unwrap();
        count() <= goal
    });
    assert!(enough.is_some(), "{} partitions, not {goal}: {:?}", count(), database.statistics().keyspaces);
    count()
}

fn settle(database: &Database) {
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
}

/// Waits a little. Always false.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(10));
    false
}

fn partitions(database: &Database) -> u64 {
    database.statistics().keyspaces[0].partitions
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(keyspace: &Keyspace) -> Entries {
    keyspace.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn what_was_emptied_merges_and_stays_so() {
    let directory = tempfile::tempdir().unwrap();
    let open = || builder(&directory).open().unwrap();
    let database = open();
    let keyspace = database.keyspace("data").unwrap();
    fill(&keyspace, 1);
    settle(&database);
    let grown = partitions(&database);
    assert!(grown > 4, "{grown}");
    let snapshot = database.snapshot();
    let mut range = keyspace.iter();
    let first = range.next().unwrap().unwrap();
    empty(&database, &keyspace, 1000);
    // The snapshot keeps what it sees, and so the partitions large.
    let seen: Vec<_> = std::iter::once(first).chain(range.map(Result::unwrap)).collect();
    assert!(seen.len() == KEYS as usize && snapshot.iter(&keyspace).map(Result::unwrap).eq(seen));
    drop(snapshot);
    fill(&keyspace, 2);
    let left = empty_until(&database, &keyspace, 1000, grown / 2);
    // More may merge meanwhile, and a merge is counted a moment after it is seen.
    let is_counted = || {
        let statistics = database.statistics();
        statistics.keyspaces[0].partitions == 1 + statistics.splits - statistics.merges
    };
    assert!((0..1000).any(|_| is_counted() || pause()), "{:?}", database.statistics());
    let before = entries(&keyspace);
    assert_eq!(before.len() as u32, KEYS / 1000);

    let checkpoint = tempfile::tempdir().unwrap();
    database.checkpoint(checkpoint.path()).unwrap();
    drop((keyspace, database));
    for place in [&directory, &checkpoint] {
        let mut faults = Vec::new();
        builder(place).check(&mut |fault| faults.push(fault)).unwrap();
        assert!(faults.is_empty(), "{faults:?}");
        let database = builder(place).open().unwrap();
        assert!(partitions(&database) <= left);
        assert!(entries(&database.keyspace("data").unwrap()) == before);
    }
    // What has merged can grow, and be split, again.
    let database = open();
    let keyspace = database.keyspace("data").unwrap();
    fill(&keyspace, 2);
    settle(&database);
    assert!(partitions(&database) > 4);
    assert!(entries(&keyspace).iter().all(|(key, value)| value[..4] == key[..] && value[4] == 2));
    assert_eq!(entries(&keyspace).len() as u32, KEYS);
}

#[test]
fn a_keyspace_keeps_as_many_as_it_was_created_with() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    let keyspace = database.create_keyspace("three", &[&[0, 0, 20, 0], &[0, 0, 50, 0]]).unwrap();
    for generation in 1..3 {
        fill(&keyspace, generation);
        settle(&database);
        let grown = database.statistics();
        assert!(grown.keyspaces.iter().any(|keyspace| keyspace.partitions > 6), "{grown:?}");
        let left = empty_until(&database, &keyspace, KEYS + 1, 5);
        assert!((3..=5).contains(&left), "{left}");
    }
    drop(keyspace);
    database.drop_keyspace("three").unwrap();
}

#[test]
fn readers_and_writers_notice_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (ended, scans) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut written = BTreeMap::new();
    std::thread::scope(|scope| {
        let reader = |backwards: bool| {
            let (ended, scans, keyspace) = (&ended, &scans, keyspace.clone());
            move || {
                while !ended.load(Ordering::Relaxed) {
                    let range = keyspace.iter();
                    let mut keys: Vec<u32> = Vec::new();
                    let mut see = |entry: thalweg::Result<thalweg::Entry>| {
                        let (key, value) = entry.unwrap();
                        assert_eq!(key[..], value[..4]);
                        keys.push(u32::from_be_bytes(key[..4].try_into().unwrap()));
                    };
                    if backwards {
                        range.rev().for_each(&mut see);
                        keys.reverse();
                    } else {
                        range.for_each(&mut see);
                    }
                    // Pairs are written and removed together.
                    assert!(keys.is_sorted_by(|a, b| a < b) && keys.len().is_multiple_of(2));
                    assert!(keys.chunks(2).all(|pair| pair[0] % 2 == 0 && pair[1] == pair[0] + 1));
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let readers = [scope.spawn(reader(false)), scope.spawn(reader(true))];
        // Each writer fills its keys and empties them again, while the other one goes on; routes of batches are old.
        let writer = |seed: u32| {
            let (database, keyspace) = (&database, keyspace.clone());
            move || {
                let (mut random, mut model, mut kept) = (Rng::with_seed(seed.into()), BTreeMap::new(), Vec::new());
                for wave in 0..3_u32 {
                    for step in 0..4 {
                        for number in 0..4_000_u32 {
                            let pair = (random.usize(..1 << 12) as u32) << 2 | seed << 1;
                            let is_put = step == 0 || number % 512 == 0;
                            let mut batch = database.batch();
                            for key in [pair, pair + 1].map(u32::to_be_bytes) {
                                if is_put {
                                    let value = [key, wave.to_le_bytes(), number.to_le_bytes()].concat();
                                    batch.insert(&keyspace, key, value.repeat(8)).unwrap();
                                } else {
                                    batch.remove(&keyspace, key).unwrap();
                                }
                            }
                            kept.push((batch, pair, is_put.then_some((wave, number))));
                            if number % 5 > 0 || kept.len() > 40 {
                                for (mut batch, pair, state) in kept.drain(..) {
                                    batch.commit().unwrap();
                                    model.insert(pair, state);
                                }
                            }
                        }
                        database.flush().unwrap();
                    }
                    settle(database);
                }
                for (mut batch, pair, state) in kept.drain(..) {
                    batch.commit().unwrap();
                    model.insert(pair, state);
                }
                model
            }
        };
        let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
        for writer in writers {
            for (pair, state) in writer.join().unwrap() {
                let Some((wave, number)) = state else { continue };
                for key in [pair, pair + 1].map(u32::to_be_bytes) {
                    let value = [key, wave.to_le_bytes(), number.to_le_bytes()].concat().repeat(8);
                    written.insert(key.to_vec(), value);
                }
            }
        }
        ended.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let (merges, scans) = (database.statistics().merges, scans.load(Ordering::Relaxed));
    assert!(merges > 0 && scans > 2, "{merges} merges, {scans} scans");
    let written: Entries = written.into_iter().collect();
    assert!(entries(&keyspace) == written);
    drop((keyspace, database));
    let database = builder(&directory).open().unwrap();
    assert!(entries(&database.keyspace("data").unwrap()) == written);
}
