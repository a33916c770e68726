//! Clearing a keyspace: what is gone, what stays, who still sees it, and what comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory;

use directory::Directory;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg::{Compression, Database, ErrorKind, Keyspace, Readable};

fn count(keyspace: &Keyspace) -> u64 {
    keyspace.iter().try_count().unwrap()
}

fn fill(keyspace: &Keyspace, from: u32, to: u32) {
    for number in from..to {
        keyspace.insert(number.to_be_bytes(), vec![7; 500]).unwrap();
    }
}

fn tables(directory: &Directory) -> usize {
    std::fs::read_dir(directory.0.join("tables")).unwrap().count()
}

fn spin_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn tables_and_memtables_are_empty_for_every_handle_and_writes_go_on() {
    let directory = Directory::new("clear");
    let database = Database::open(&directory.0).unwrap();
    let keyspace = database.create_keyspace("k", &[&[0, 0, 1]]).unwrap();
    let (other, again) = (keyspace.clone(), database.keyspace("k").unwrap());
    fill(&keyspace, 0, 300);
    database.flush().unwrap();
    fill(&keyspace, 300, 600);
    keyspace.clear().unwrap();
    for handle in [&keyspace, &other, &again, &database.keyspace("k").unwrap()] {
        assert!(handle.is_empty().unwrap());
        assert_eq!(handle.get(5_u32.to_be_bytes()).unwrap(), None);
        assert_eq!(handle.multi_get(&[400_u32.to_be_bytes()]).unwrap(), [None]);
    }
    fill(&other, 290, 310);
    assert_eq!(count(&keyspace), 20);
    again.clear().unwrap();
    assert_eq!(count(&keyspace), 0);
    fill(&again, 0, 3);
    database.flush().unwrap();
    drop((keyspace, other, again));
    database.close().unwrap();
    let database = Database::open(&directory.0).unwrap();
    assert_eq!(count(&database.keyspace("k").unwrap()), 3);
    spin_until("one table a partition at most", || tables(&directory) <= 2);
    let faults = Database::check(&directory.0, &mut |fault| panic!("{fault}"));
    assert_eq!(faults.unwrap_err().kind(), ErrorKind::Locked);
    database.close().unwrap();
    Database::check(&directory.0, &mut |fault| panic!("{fault}")).unwrap();
}

#[test]
fn a_checkpoint_right_after_has_nothing_of_before() {
    let directory = Directory::new("clear-checkpoint");
    let database = Database::open(&directory.0).unwrap();
    let keyspace = database.keyspace("k").unwrap();
    fill(&keyspace, 0, 200);
    database.flush().unwrap();
    fill(&keyspace, 200, 300);
    keyspace.clear().unwrap();
    keyspace.insert("after", "the clear").unwrap();
    let copy = Directory::new("clear-checkpoint-copy");
    database.checkpoint(copy.0.join("checkpoint")).unwrap();
    let copied = Database::builder(copy.0.join("checkpoint")).open_read_only().unwrap();
    assert_eq!(copied.keyspace("k").unwrap().iter().try_count().unwrap(), 1);
}

#[test]
fn snapshots_and_ranges_of_before_still_see_what_was_there() {
    let directory = Directory::new("clear-snapshot");
    let database = Database::builder(&directory.0).compression(Compression::None).open().unwrap();
    let keyspace = database.keyspace("k").unwrap();
    fill(&keyspace, 0, 100);
    database.flush().unwrap();
    fill(&keyspace, 100, 200);
    let before = database.snapshot();
    let mut range = keyspace.iter();
    range.next().unwrap().unwrap();
    keyspace.clear().unwrap();
    fill(&keyspace, 1000, 1005);
    let between = database.snapshot();
    keyspace.clear().unwrap();
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    assert_eq!(before.iter(&keyspace).try_count().unwrap(), 200);
    assert_eq!(before.get(&keyspace, 150_u32.to_be_bytes()).unwrap().unwrap().len(), 500);
    assert_eq!(before.multi_get(&keyspace, &[3_u32.to_be_bytes(), 1001_u32.to_be_bytes()]).unwrap()[1], None);
    assert_eq!(between.iter(&keyspace).try_count().unwrap(), 5);
    assert!(!between.contains_key(&keyspace, 3_u32.to_be_bytes()).unwrap());
    assert_eq!(count(&keyspace), 0);
    assert_eq!(range.try_count().unwrap(), 199);
    assert_eq!(tables(&directory), 1, "the first snapshot needs it");
    drop(before);
    spin_until("an empty tables/", || tables(&directory) == 0);
    assert_eq!(between.iter(&keyspace).try_count().unwrap(), 5);
}

#[test]
fn a_batch_filled_before_is_written_after() {
    let directory = Directory::new("clear-batch");
    let database = Database::open(&directory.0).unwrap();
    let (keyspace, gone) = (database.keyspace("k").unwrap(), database.keyspace("gone").unwrap());
    let mut batch = database.batch();
    batch.insert(&keyspace, "a", "1").unwrap();
    let mut lost = database.batch();
    lost.insert(&gone, "a", "1").unwrap();
    keyspace.clear().unwrap();
    gone.clear().unwrap();
    batch.commit().unwrap();
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    database.drop_keyspace("gone").unwrap();
    assert_eq!(lost.commit().unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(gone.clear().unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(gone.get("a").unwrap_err().kind(), ErrorKind::NoKeyspace);
}

/// Every write that returned after a clear began is there, or was cleared: none is lost that began after it ended.
#[test]
fn writers_beside_clears_lose_nothing_that_they_wrote_since() {
    let directory = Directory::new("clear-writers");
    let database = Database::builder(&directory.0).memtable_bytes(64 << 10).open().unwrap();
    let keyspace = database.keyspace("k").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (keyspace, stop) = (&keyspace, &stop);
            scope.spawn(move || {
                let mut number = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    keyspace.insert(((thread << 24) | (number % 5000)).to_be_bytes(), vec![1; 200]).unwrap();
                    keyspace.get(number.to_be_bytes()).unwrap();
                    number += 1;
                }
            });
        }
        for round in 0..100_u32 {
            keyspace.clear().unwrap();
            let mine = (9 << 24 | round).to_be_bytes();
            keyspace.insert(mine, "mine").unwrap();
            assert!(keyspace.contains_key(mine).unwrap());
            assert!(!keyspace.contains_key((9 << 24 | round.wrapping_sub(1)).to_be_bytes()).unwrap());
        }
        stop.store(true, Ordering::Relaxed);
    });
    let there = count(&keyspace);
    database.flush().unwrap();
    assert_eq!(count(&keyspace), there);
    drop(keyspace);
    database.close().unwrap();
    let database = Database::open(&directory.0).unwrap();
    assert_eq!(count(&database.keyspace("k").unwrap()), there);
}
