//! The memory budget: memtables, cached blocks, filters and indexes of all keyspaces stay within one number.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
use thalweg::{Database, FastTier, Statistics};

const BUDGET: u64 = 16 << 20;

/// Memtables may have twice their quarter before writers wait, and each may take a block of 2 MiB by then.
const SLACK: u64 = BUDGET / 4 + 12 * (2 << 20);

fn used(statistics: &Statistics) -> u64 {
    statistics.memtable_memory_bytes + statistics.cached_bytes + statistics.index_memory_bytes
}

#[test]
fn a_database_of_many_keyspaces_keeps_to_its_budget() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Database::builder(dir.path()).memory_budget(BUDGET).open().unwrap();
    let db = open();
    let ordered: Vec<_> = (0..8).map(|number| db.keyspace(&format!("ordered {number}")).unwrap()).collect();
    let directories: Vec<_> =
        (0..4).map(|number| db.directory_keyspace(&format!("directories {number}")).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut most, mut most_of_memtables) = (0, 0);
    for step in 0..200_000_u64 {
        let key = random.u64(..100_000).to_be_bytes();
        // Each keyspace grows as fast as the others: none would seal by itself before all have 24 MiB.
        ordered[random.usize(..8)].insert(key, [step as u8; 200]).unwrap();
        directories[random.usize(..4)].insert(random.u64(..5000), key, [step as u8; 200]).unwrap();
        ordered[random.usize(..8)].get(random.u64(..100_000).to_be_bytes()).unwrap();
        directories[random.usize(..4)].get(random.u64(..5000), key).unwrap();
        if step % 1000 == 0 {
            let statistics = db.statistics();
            assert_eq!(statistics.memory_budget_bytes, BUDGET);
            most = most.max(used(&statistics));
            most_of_memtables = most_of_memtables.max(statistics.memtable_memory_bytes);
        }
    }
    assert!(most_of_memtables <= BUDGET / 4 + SLACK, "{most_of_memtables} bytes of memtables");
    assert!(most <= BUDGET + SLACK, "{most} bytes of {BUDGET}");
    assert!(db.statistics().flushes > 20, "memtables were flushed for the budget");
    db.tidy().unwrap();
    drop((ordered, directories));
    db.close().unwrap();
    // What an open keeps of its tables counts, too.
    let db = open();
    let before = db.statistics().index_memory_bytes;
    assert!(before > 0, "the index of a directory keyspace");
    for number in 0..8 {
        let keyspace = db.keyspace(&format!("ordered {number}")).unwrap();
        assert!(keyspace.iter().count() > 15_000);
    }
    let statistics = db.statistics();
    assert!(statistics.index_memory_bytes > before, "filters and indexes of tables");
    assert!(used(&statistics) <= BUDGET, "{statistics:?}");
}

#[test]
fn the_buffers_of_a_fast_tier_count_until_it_is_idle() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Database::builder(dir.path()).memory_budget(64 << 20).memtable_bytes(4 << 20);
    let db = builder.fast_tier(FastTier::Memory, 64 << 20).open().unwrap();
    let keyspace = db.keyspace("all").unwrap();
    for number in 0..16_000_u64 {
        keyspace.insert(number.to_be_bytes(), [1; 1000]).unwrap();
    }
    let within = |is_so: &dyn Fn(&Statistics) -> bool| {
        let begun = Instant::now();
        while !is_so(&db.statistics()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", db.statistics());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // No table is on the disk, so nothing else is charged.
    within(&|statistics| statistics.index_memory_bytes >= 1 << 20);
    assert_eq!(db.statistics().flushes, 0, "all tables are in the tier");
    within(&|statistics| statistics.index_memory_bytes == 0);
}

#[test]
fn a_budget_that_is_too_small_is_refused_and_explicit_sizes_win() {
    let dir = tempfile::tempdir().unwrap();
    let error = Database::builder(dir.path()).memory_budget(1 << 20).open().unwrap_err();
    assert!(error.to_string().contains("memory_budget: at least 4 MiB"), "{error}");
    let db = Database::builder(dir.path()).memory_budget(4 << 20).memtable_bytes(16 << 20).open().unwrap();
    let keyspace = db.keyspace("all").unwrap();
    for number in 0..100_000_u64 {
        keyspace.insert(number.to_be_bytes(), [1; 100]).unwrap();
    }
    let bytes = db.statistics().memtable_memory_bytes;
    assert!(bytes > 12 << 20, "{bytes}: a memtable of 16 MiB was asked for");
}

#[test]
fn memtables_of_cleared_generations_that_snapshots_read_do_not_make_the_next_ones_small() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).memory_budget(BUDGET).open().unwrap();
    let keyspace = db.keyspace("all").unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut write = |count: u32| {
        let flushes = db.statistics().flushes;
        for _ in 0..count {
            keyspace.insert(random.u64(..).to_be_bytes(), [1; 200]).unwrap();
        }
        db.statistics().flushes - flushes
    };
    let plain = write(40_000);
    // Each reads the memtable of its time, which the clear has left unflushed.
    let snapshots: Vec<_> = (0..8)
        .map(|_| {
            write(8000);
            let snapshot = db.snapshot();
            keyspace.clear().unwrap();
            db.flush().unwrap();
            snapshot
        })
        .collect();
    let before = db.statistics();
    assert!(before.memtable_memory_bytes > BUDGET / 2, "{before:?}");
    let held = write(40_000);
    assert!(held <= 2 * plain.max(2), "{held} flushes, and {plain} without snapshots");
    drop(snapshots);
    db.close().unwrap();
}

#[test]
fn memtables_that_ranges_hold_do_not_make_the_next_ones_small() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).memory_budget(BUDGET).open().unwrap();
    let keyspace = db.keyspace("all").unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut write = || {
        let flushes = db.statistics().flushes;
        for _ in 0..40_000 {
            keyspace.insert(random.u64(..).to_be_bytes(), [1; 200]).unwrap();
        }
        db.statistics().flushes - flushes
    };
    let plain = write();
    // Each holds the memtables of its time: together more than all memtables may have.
    let ranges: Vec<_> = (0..16)
        .map(|_| {
            write();
            let mut range = keyspace.iter();
            range.next().unwrap().unwrap();
            range
        })
        .collect();
    assert!(db.statistics().memtable_memory_bytes > 3 * BUDGET / 4, "{:?}", db.statistics());
    let held = write();
    assert!(held <= 2 * plain.max(2), "{held} flushes, and {plain} without ranges");
    drop(ranges);
    db.close().unwrap();
}
