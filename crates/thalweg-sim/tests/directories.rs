//! Directory keyspaces on the simulated disk: what must hold through merges and power cuts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use thalweg::simulation::simulated::{SimulatedDisk, Strictness};
use thalweg::{Builder, Database, DirectoryKeyspace, Durability, ErrorKind};
use thalweg_sim::{World, environment};

/// A builder for the database on a disk, in a world of its own.
fn builder(disk: &SimulatedDisk, seed: u64) -> (Arc<World>, Builder) {
    let world = World::new(seed, false);
    world.begin_phase(None);
    let builder = Database::builder(Path::new("/db")).environment(environment(&world, Arc::new(disk.clone()), 0));
    (world, builder)
}

/// Hashes of four bits, and everything so small that a few hundred entries reach several levels.
fn open_small(disk: &SimulatedDisk, seed: u64) -> (Arc<World>, Database, DirectoryKeyspace) {
    let (world, builder) = builder(disk, seed);
    let db = builder
        .name_hash_bits(4, 0)
        .pack_block_bytes(300)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(128 << 10)
        .memtable_bytes(4 << 10)
        .table_bytes(2 << 10)
        .directory_level0_trigger(2)
        .level1_bytes(4 << 10)
        .growth_factor(2)
        .open()
        .unwrap();
    let files = db.directory_keyspace("files").unwrap();
    (world, db, files)
}

/// Levels with packs, and how many tombstones these have.
fn levels(db: &Database) -> Vec<u64> {
    let statistics = db.statistics();
    let files = statistics.keyspaces.iter().find(|keyspace| keyspace.name == "files").unwrap();
    files.levels.iter().filter(|level| level.tables > 0).map(|level| level.tombstones).collect()
}

fn merge(db: &Database) {
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
}

/// What a power cut leaves.
fn cut_power(disk: &SimulatedDisk, strictness: Strictness, db: Database, files: DirectoryKeyspace) -> SimulatedDisk {
    let left = disk.crash(strictness);
    drop(files);
    drop(db);
    left
}

const NAMES: u64 = 240;

fn check_deleted(files: &DirectoryKeyspace, is_left: impl Fn(u64) -> bool) {
    for directory in 0..3 {
        let mut listed: Vec<Vec<u8>> =
            files.list(directory).map(|entry| entry.unwrap().name().to_vec()).filter(|name| name[0] == b'n').collect();
        listed.sort();
        let left = (0..NAMES).filter(|number| number % 3 == directory && is_left(*number));
        assert_eq!(listed, left.map(|number| format!("n{number:03}").into_bytes()).collect::<Vec<_>>());
    }
    for number in 0..NAMES {
        let found = files.get(number % 3, format!("n{number:03}")).unwrap();
        assert_eq!(found.is_some(), is_left(number), "n{number:03}");
    }
}

/// Old versions are in deep levels, tombstones above them go down step by step, and the power is cut after each step.
#[test]
fn a_deleted_name_stays_deleted_through_merges_and_power_cuts() {
    for (seed, strictness) in Strictness::ALL.into_iter().enumerate() {
        let seed = seed as u64;
        let mut disk = SimulatedDisk::new(seed);
        let (mut world, mut db, mut files) = open_small(&disk, seed);
        for round in 0..3 {
            for number in 0..NAMES {
                files.insert(number % 3, format!("n{number:03}"), vec![round; 75]).unwrap();
            }
            merge(&db);
        }
        assert!(levels(&db).len() >= 2, "{}", db.draw_levels());
        let is_left = |number: u64| number.is_multiple_of(5);
        for number in (0..NAMES).filter(|number| !is_left(*number)) {
            files.remove(number % 3, format!("n{number:03}")).unwrap();
        }
        db.persist().unwrap();
        let mut tombstones = 0;
        for step in 0..6_u64 {
            for number in 0..40 {
                files.insert(number % 3, format!("other {step} {number}"), vec![9; 75]).unwrap();
            }
            merge(&db);
            tombstones += levels(&db).iter().skip(1).sum::<u64>();
            check_deleted(&files, is_left);
            disk = cut_power(&disk, strictness, db, files);
            world.clear();
            (world, db, files) = open_small(&disk, seed * 100 + step);
            check_deleted(&files, is_left);
        }
        assert!(tombstones > 0, "no merge kept a tombstone");
        db.tidy().unwrap();
        let left = levels(&db).iter().sum::<u64>();
        assert!(left < NAMES / 10, "{left} tombstones are left by a tidy");
        check_deleted(&files, is_left);
        drop(files);
        db.close().unwrap();
        world.clear();
    }
}

/// The entries of the test below: name and value, in the order in which they are written.
fn long_and_short() -> Vec<(String, Vec<u8>)> {
    let bytes = |number: usize| match number {
        7 => 64 << 20,
        13 => (5 << 20) + 3,
        number => number * 300,
    };
    (0..20).map(|number| (format!("name {number}"), vec![number as u8 + 1; bytes(number)])).collect()
}

/// Writes all entries durably, until one fails. Returns how many were acknowledged.
fn write_all(disk: &SimulatedDisk, entries: &[(String, Vec<u8>)]) -> usize {
    let (world, builder) = builder(disk, 1);
    let Ok(db) = builder.memtable_bytes(1 << 20).open() else { return 0 };
    let Ok(files) = db.directory_keyspace("files") else { return 0 };
    let mut acknowledged = 0;
    for (name, value) in entries {
        let written = files.insert_with(1, name, value, Durability::Sync).is_ok();
        if !written || db.flush().is_err() {
            acknowledged += usize::from(written);
            break;
        }
        acknowledged += 1;
    }
    let _ = db.tidy();
    drop(files);
    drop(db);
    world.clear();
    acknowledged
}

#[test]
fn values_of_64_mib_among_small_ones_survive_power_cuts() {
    let entries = long_and_short();
    let disk = SimulatedDisk::new(1);
    assert_eq!(write_all(&disk, &entries), entries.len());
    let operations = disk.operations();
    drop(disk);
    let mut partial = 0;
    for cut in 1..=8 {
        let disk = SimulatedDisk::new(1);
        disk.crash_at(operations * cut / 9);
        let acknowledged = write_all(&disk, &entries);
        partial += usize::from((8..entries.len()).contains(&acknowledged));
        let left = disk.crash(Strictness::ALL[cut as usize % 5]);
        drop(disk);
        let (world, builder) = builder(&left, 2);
        let db = builder.open().unwrap();
        let files = db.directory_keyspace("files").unwrap();
        let found: Vec<_> = entries.iter().map(|(name, _)| files.get(1, name).unwrap()).collect();
        assert!(found.iter().take(acknowledged).all(Option::is_some), "{acknowledged} were acknowledged");
        // The next one may be there: all of it.
        assert!(found.iter().skip(acknowledged + 1).all(Option::is_none));
        for (found, (name, value)) in found.iter().zip(&entries) {
            assert!(found.as_ref().is_none_or(|found| found[..] == value[..]), "{name} after the cut at {cut}/9");
        }
        let listed: usize = files.list(1).map(|entry| entry.unwrap().value().unwrap().len()).sum();
        assert_eq!(listed, found.iter().flatten().map(|value| value.len()).sum::<usize>());
        drop((found, files));
        db.close().unwrap();
        world.clear();
    }
    assert!(partial > 0, "no cut came after the long value");
    let (world, builder) = builder(&SimulatedDisk::new(1), 1);
    let db = builder.open().unwrap();
    let files = db.directory_keyspace("files").unwrap();
    let error = files.insert(1, "longer", vec![0; (64 << 20) + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    drop(files);
    drop(db);
    world.clear();
}

#[test]
fn a_buffered_put_makes_no_operation_of_the_disk_and_waits_for_no_sync() {
    let disk = SimulatedDisk::new(1);
    let (world, builder) = builder(&disk, 1);
    // Coroutines run on this thread too.
    let operations = || SimulatedDisk::operations_of_this_thread() - world.task_operations();
    let unopened = operations();
    let db = builder.open().unwrap();
    assert!(operations() > unopened, "an open makes some itself");
    let files = db.directory_keyspace("files").unwrap();
    let (before, by_tasks) = ((operations(), db.statistics().syncs_waited_for), world.task_operations());
    for number in 0..20_000_u64 {
        files.insert(number % 9, format!("name {number}"), [7; 100]).unwrap();
    }
    assert_eq!((operations(), db.statistics().syncs_waited_for), before);
    assert!(world.task_operations() > by_tasks, "others have worked meanwhile");
    files.insert_with(1, "synced", "value", Durability::Sync).unwrap();
    assert!(db.statistics().syncs_waited_for > before.1);
    drop(files);
    db.close().unwrap();
    world.clear();
}
