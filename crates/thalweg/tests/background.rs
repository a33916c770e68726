//! Background work that fails, lags or has nothing to do: whom it may harm, and what it must give back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{Compression, Database, Error, ErrorKind, Readable};

fn spin_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn tables(directory: &TempDir) -> usize {
    std::fs::read_dir(directory.path().join("tables")).unwrap().count()
}

#[test]
fn a_keyspace_with_a_damaged_table_does_not_fail_writes_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let builder = || Database::builder(directory.path()).memtable_bytes(64 << 10).compression(Compression::None);
    let database = builder().level0_trigger(1000).open().unwrap();
    let sick = database.keyspace("sick").unwrap();
    for number in 0..400_u32 {
        sick.insert((number * 7919 % 400).to_be_bytes(), vec![1; 1000]).unwrap();
    }
    database.keyspace("well").unwrap();
    database.flush().unwrap();
    drop(sick);
    database.close().unwrap();
    for entry in std::fs::read_dir(directory.path().join("tables")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        std::fs::write(path, bytes).unwrap();
    }

    let database = builder().level0_trigger(4).compaction_workers(2).open().unwrap();
    let well = database.keyspace("well").unwrap();
    for number in 0..5_000_u32 {
        well.insert(number.to_be_bytes(), vec![3; 1000]).unwrap();
    }
    database.flush().unwrap();
    let refused = database.wait_for_compactions().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
}

#[test]
fn creating_and_dropping_keyspaces_does_not_starve_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path()).memtable_bytes(64 << 10).open().unwrap();
    let data = database.keyspace("data").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (other, stopped) = (database.clone(), Arc::clone(&stop));
    let definer = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            other.create_keyspace("tmp", &[]).unwrap();
            other.drop_keyspace("tmp").unwrap();
        }
    });
    let (start, mut longest, mut number) = (Instant::now(), Duration::ZERO, 0_u32);
    while start.elapsed() < Duration::from_secs(3) {
        let before = Instant::now();
        data.insert(number.to_be_bytes(), vec![3; 1000]).unwrap();
        longest = longest.max(before.elapsed());
        number += 1;
    }
    stop.store(true, Ordering::Relaxed);
    definer.join().unwrap();
    assert!(longest < Duration::from_secs(2), "a write waited {longest:?}");
}

#[test]
fn opening_without_writing_does_not_make_the_log_grow() {
    let directory = tempfile::tempdir().unwrap();
    let builder = || Database::builder(directory.path()).log_segment_bytes(64 << 10).log_bytes_max(128 << 10);
    builder().open().unwrap().keyspace("k").unwrap().insert("key", "value").unwrap();
    for _ in 0..40 {
        let database = builder().open().unwrap();
        assert_eq!(database.keyspace("k").unwrap().get("key").unwrap().as_deref(), Some(b"value".as_slice()));
        database.close().unwrap();
    }
    let database = builder().open().unwrap();
    spin_until("a short log", || database.statistics().log_backlog_bytes <= 6 * (64 << 10));
    let segments = std::fs::read_dir(directory.path().join("log")).unwrap().count();
    assert!(segments <= 12, "{segments} files in log/");
}

#[test]
fn definitions_alone_do_not_make_the_log_grow() {
    let directory = tempfile::tempdir().unwrap();
    let database =
        Database::builder(directory.path()).log_segment_bytes(64 << 10).log_bytes_max(128 << 10).open().unwrap();
    let name = "n".repeat(250);
    for _ in 0..2_000 {
        database.create_keyspace(&name, &[]).unwrap();
        database.drop_keyspace(&name).unwrap();
    }
    spin_until("a short log", || database.statistics().log_backlog_bytes <= 6 * (64 << 10));
}

#[test]
fn a_dropped_keyspace_gives_its_space_back_though_a_handle_lives() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let keyspace = database.keyspace("large").unwrap();
    keyspace.insert("key", vec![7; 100_000]).unwrap();
    database.flush().unwrap();
    assert_eq!(tables(&directory), 1);
    database.drop_keyspace("large").unwrap();
    spin_until("an empty tables/", || tables(&directory) == 0);
    assert!(matches!(keyspace.get("key"), Err(Error::NoKeyspace(_))));
}

#[test]
fn a_range_keeps_its_tables_and_gives_them_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let keyspace = database.keyspace("k").unwrap();
    for number in 0..100_u32 {
        keyspace.insert(number.to_be_bytes(), vec![7; 1000]).unwrap();
    }
    database.flush().unwrap();
    let mut range = keyspace.iter();
    assert!(range.next().unwrap().is_ok());
    database.drop_keyspace("k").unwrap();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(range.by_ref().filter(|entry| entry.is_ok()).count(), 99);
    drop(range);
    spin_until("an empty tables/", || tables(&directory) == 0);
}

#[test]
fn a_range_ends_with_an_error_when_the_database_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let keyspace = database.keyspace("k").unwrap();
    keyspace.insert("a", "1").unwrap();
    keyspace.insert("b", "2").unwrap();
    let mut range = keyspace.iter();
    assert!(range.next().unwrap().is_ok());
    database.clone().close().unwrap();
    assert_eq!(range.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(range.next().is_none());
    for refused in [keyspace.get("a").map(drop), keyspace.insert("c", "3"), database.persist(), database.close()] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_checkpoint_excludes_a_writer_while_it_is_read() {
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Database::open(directory.path()).unwrap();
    database.keyspace("k").unwrap().insert("key", "value").unwrap();
    database.checkpoint(copy.path()).unwrap();
    let reader = Database::builder(copy.path()).open_read_only().unwrap();
    let second = Database::builder(copy.path()).open_read_only().unwrap();
    assert!(matches!(Database::open(copy.path()), Err(Error::Locked { .. })));
    let keyspace = second.keyspace("k").unwrap();
    assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(b"value".as_slice()));
    assert_eq!(second.keyspace("other").unwrap_err().kind(), ErrorKind::NoKeyspace);
    drop((reader, second, keyspace));
    Database::open(copy.path()).unwrap();
}

#[test]
fn a_relative_path_means_the_directory_it_meant_at_the_open() {
    // The working directory belongs to the whole process, so a process of its own changes it.
    if let Some(first) = std::env::var_os("THALWEG_TEST_FIRST") {
        std::env::set_current_dir(first).unwrap();
        let database = Database::builder("data").memtable_bytes(64 << 10).open().unwrap();
        std::env::set_current_dir("/").unwrap();
        let keyspace = database.keyspace("k").unwrap();
        for number in 0..2_000_u32 {
            keyspace.insert(number.to_be_bytes(), vec![1; 200]).unwrap();
        }
        database.flush().unwrap();
        return database.close().unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path()).unwrap();
    let name = "a_relative_path_means_the_directory_it_meant_at_the_open";
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env("THALWEG_TEST_FIRST", directory.path())
        .status()
        .unwrap();
    assert!(status.success());
    let database = Database::open(directory.path().join("data")).unwrap();
    assert_eq!(database.existing_keyspace("k").unwrap().unwrap().iter().count(), 2_000);
    assert!(matches!(Database::open(""), Err(Error::InvalidInput(_))));
}

#[test]
fn many_short_lives_leave_a_short_log() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..30_u32 {
        let database = Database::builder(directory.path()).log_segment_bytes(64 << 10).open().unwrap();
        database.keyspace("k").unwrap().insert(number.to_be_bytes(), "value").unwrap();
    }
    let segments = std::fs::read_dir(directory.path().join("log")).unwrap().count();
    assert!(segments <= 12, "{segments} files in log/");
    assert_eq!(Database::open(directory.path()).unwrap().keyspace("k").unwrap().iter().count(), 30);
}

#[test]
fn check_looks_at_every_table_though_two_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path()).level0_trigger(100).open().unwrap();
    let keyspace = database.keyspace("k").unwrap();
    for round in 0..4_u32 {
        keyspace.insert(round.to_be_bytes(), "value").unwrap();
        database.flush().unwrap();
    }
    drop(keyspace);
    database.close().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(directory.path().join("tables")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::remove_file(&files[2]).unwrap();
    let mut faults = Vec::new();
    let report = Database::check(directory.path(), &mut |fault| faults.push(fault.to_string())).unwrap();
    assert_eq!((report.tables, report.faults), (4, 2), "{faults:?}");
}

#[test]
fn each_level_is_compressed_as_its_own_option_says() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path())
        .level0_trigger(2)
        .compression(Compression::Lz4)
        .compression_per_level(vec![Compression::None, Compression::Lz4])
        .open()
        .unwrap();
    let data = database.keyspace("data").unwrap();
    let level_bytes = |level: usize| {
        let statistics = database.statistics();
        statistics.keyspaces[0].levels.get(level).map_or(0, |level| level.bytes)
    };
    for number in 0..200_u32 {
        data.insert(number.to_be_bytes(), vec![0; 1000]).unwrap();
    }
    database.flush().unwrap();
    assert!(level_bytes(0) > 200_000, "level 0 is compressed: {} bytes", level_bytes(0));
    // Overlaps the first table, so that the two are merged and not moved.
    data.insert(7_u32.to_be_bytes(), vec![0; 1000]).unwrap();
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    let (upper, lower) = (level_bytes(0), level_bytes(1));
    assert!(upper == 0 && lower > 0 && lower < 50_000, "level 1 is not compressed: {lower} bytes");
}

/// A keyspace of 400 values of 1000 bytes in several tables of level 0, each with keys from the whole range.
fn in_level0(directory: &TempDir) {
    let builder = Database::builder(directory.path()).memtable_bytes(64 << 10).compression(Compression::None);
    let database = builder.level0_trigger(1000).open().unwrap();
    let keyspace = database.keyspace("wide").unwrap();
    for number in 0..400_u32 {
        keyspace.insert((number * 7919 % 400).to_be_bytes(), vec![number as u8; 1000]).unwrap();
    }
    database.flush().unwrap();
    assert_eq!(database.statistics().compactions, 0);
    drop(keyspace);
    database.close().unwrap();
}

#[test]
fn a_large_compaction_is_cut_into_subtasks_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    in_level0(&directory);
    let builder = Database::builder(directory.path()).table_bytes(16 << 10).compression(Compression::None);
    let database = builder.level0_trigger(1).compaction_workers(2).open().unwrap();
    database.wait_for_compactions().unwrap();
    let statistics = database.statistics();
    assert!(statistics.subtasks > statistics.compactions, "{} subtasks", statistics.subtasks);
    let keyspace = database.keyspace("wide").unwrap();
    for number in 0..400_u32 {
        let value = keyspace.get((number * 7919 % 400).to_be_bytes()).unwrap().unwrap();
        assert_eq!(*value, [number as u8; 1000]);
    }
    assert_eq!(keyspace.range(..).try_count().unwrap(), 400);
    drop(keyspace);
    database.close().unwrap();
}

#[test]
fn a_subtask_that_fails_leaves_no_outputs_of_the_others() {
    let directory = tempfile::tempdir().unwrap();
    in_level0(&directory);
    let before = tables(&directory);
    for entry in std::fs::read_dir(directory.path().join("tables")).unwrap() {
        // Late in the data: only the last subtask reads it.
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let late = bytes.len() * 9 / 10;
        bytes[late] ^= 0xff;
        std::fs::write(path, bytes).unwrap();
    }
    let builder = Database::builder(directory.path()).table_bytes(16 << 10).compression(Compression::None);
    let database = builder.level0_trigger(1).compaction_workers(2).open().unwrap();
    let refused = database.wait_for_compactions().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    let statistics = database.statistics();
    assert!(statistics.subtasks > 1 && statistics.compactions == 0, "{} subtasks", statistics.subtasks);
    database.close().unwrap();
    assert_eq!(tables(&directory), before, "inputs stay and outputs go");
}

#[test]
fn a_compaction_rests_unless_somebody_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder(directory.path()).memtable_bytes(8 << 20).compression(Compression::None);
    let database = builder.level0_trigger(4).open().unwrap();
    let keyspace = database.keyspace("wide").unwrap();
    // Each table has keys from the whole range.
    let flush = |table: u32| {
        for number in 0..4_000_u32 {
            keyspace.insert((number.wrapping_mul(0x9e37_79b1) ^ table).to_be_bytes(), [table as u8; 1000]).unwrap();
        }
        database.flush().unwrap();
    };
    (0..4).for_each(flush);
    spin_until("a compaction", || database.statistics().compactions > 0);
    database.wait_for_compactions().unwrap();
    let rested_ns = database.statistics().compactions_rested_ns;
    assert!(rested_ns > 0, "16 MB are merged at 64 MB/s");
    (4..7).for_each(flush);
    keyspace.compact_range(..).unwrap();
    let statistics = database.statistics();
    assert_eq!(statistics.compactions_rested_ns, rested_ns, "nobody rests while a caller waits");
    assert!(statistics.compaction_read_bytes > 40_000_000, "all tables were merged again");
}
