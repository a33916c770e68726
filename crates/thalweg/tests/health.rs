//! Background work that fails is heard, backs off, and is done when its cause is gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{BackgroundFailure, BackgroundWork, Builder, Compression, Database, ErrorKind};

fn builder(directory: &TempDir) -> Builder {
    Database::builder(directory.path()).memtable_bytes(64 << 10).compression(Compression::None)
}

/// Turns over the bits of the byte in the middle of a file, whoever has it open.
fn flip(path: &Path) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[!byte[0]], middle).unwrap();
}

/// A database with more tables in level 0 than the next open lets be, the first of them damaged; its path.
fn damaged(directory: &TempDir) -> std::path::PathBuf {
    let database = builder(directory).level0_trigger(1000).open().unwrap();
    let keyspace = database.keyspace("sick").unwrap();
    for number in 0..400_u32 {
        keyspace.insert((number * 7919 % 400).to_be_bytes(), vec![1; 1000]).unwrap();
    }
    database.flush().unwrap();
    assert!(database.health().is_sound() && database.health().last_failure.is_none());
    database.close().unwrap();
    let mut tables: Vec<_> =
        std::fs::read_dir(directory.path().join("tables")).unwrap().map(|e| e.unwrap().path()).collect();
    tables.sort();
    flip(&tables[0]);
    tables.swap_remove(0)
}

fn compaction(database: &Database) -> Option<BackgroundFailure> {
    database.health().failing.into_iter().find(|failure| failure.work == BackgroundWork::Compaction)
}

#[test]
fn a_compaction_that_hits_damage_is_heard_backs_off_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let table = damaged(&directory);
    let (start, database) = (Instant::now(), builder(&directory).level0_trigger(4).open().unwrap());
    while compaction(&database).is_none_or(|failure| failure.times < 4) {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is heard: {:?}", database.health());
        std::thread::sleep(Duration::from_millis(10));
    }
    let heard = compaction(&database).unwrap();
    assert_eq!(heard.error.kind(), ErrorKind::Corruption);
    assert!(heard.error.to_string().contains(table.to_str().unwrap()), "{}", heard.error);
    assert_eq!(heard.partition, Some(("sick".to_owned(), 0)));
    assert!(heard.to_string().starts_with("compaction in partition 0 of keyspace \"sick\" failed "), "{heard}");
    std::thread::sleep(Duration::from_secs(3));
    let later = compaction(&database).unwrap();
    // 50 ms, doubled each time, is six tries in 3.15 s; every 50 ms would be sixty.
    assert!(later.times <= 9, "{later}");
    assert!(later.since >= Duration::from_secs(3) && later.since > later.last, "{later:?}");
    assert!(later.retry_in.unwrap() <= Duration::from_secs(10), "{later}");
    assert_eq!(database.statistics().health.failing.len(), 1);
    // Who asks does not wait for the next try, and hears of what comes of it.
    let asked = database.wait_for_compactions().unwrap_err();
    assert_eq!(asked.kind(), ErrorKind::Corruption);
    assert!(compaction(&database).unwrap().times > later.times);

    flip(&table);
    let asked = Instant::now();
    database.wait_for_compactions().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(database.health().is_sound());
    assert_eq!(database.health().last_failure.unwrap().work, BackgroundWork::Compaction);
    assert!(database.statistics().compactions > 0);
}

#[test]
fn a_job_that_waits_for_its_next_try_holds_up_neither_its_partition_nor_a_drop_of_its_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    damaged(&directory);
    // One coroutine compacts.
    let database = builder(&directory).level0_trigger(4).compaction_workers(1).open().unwrap();
    let start = Instant::now();
    while compaction(&database).is_none_or(|failure| failure.times < 7) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", database.health());
        std::thread::sleep(Duration::from_millis(10));
    }
    // The next try is seconds away.
    let well = database.keyspace("well").unwrap();
    let start = Instant::now();
    for number in 0..1_500_u32 {
        well.insert((number * 7919 % 1_500).to_be_bytes(), vec![3; 1000]).unwrap();
    }
    while database.statistics().compactions == 0 {
        assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", database.health());
        std::thread::sleep(Duration::from_millis(10));
    }
    database.drop_keyspace("sick").unwrap();
    let dropped = Instant::now();
    database.wait_for_compactions().unwrap();
    while !database.health().is_sound() {
        assert!(dropped.elapsed() < Duration::from_secs(2), "{:?}", database.health());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_closed_database_says_that_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory).open().unwrap();
    let other = database.clone();
    database.close().unwrap();
    assert_eq!(other.health().writes_refused.map(|error| error.kind()), Some(ErrorKind::Closed));
}
