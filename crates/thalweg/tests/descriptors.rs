//! A process that may have few files open: a database of many tables and log segments works in it all the same.
//!
//! The limit is the whole process's, so this file has one test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use tempfile::TempDir;
use thalweg::{Builder, Compression, Database, ErrorKind, Readable};

const OPEN_MAX: u64 = 64;
const RECORDS: u32 = 8_000;

fn builder(directory: &TempDir) -> Builder {
    Database::builder(directory.path())
        .compression(Compression::None)
        .memtable_bytes(2 << 20)
        .table_bytes(32 << 10)
        .level0_trigger(2)
        .level1_bytes(128 << 10)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(16 << 20)
}

fn key(number: u32) -> [u8; 4] {
    // In no order.
    number.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    (0..250_u32).flat_map(|at| (number ^ at.wrapping_mul(0x85eb_ca6b)).to_le_bytes()).collect()
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

fn check(database: &Database) {
    check_keyspace(&database.keyspace("k").unwrap());
}

fn check_keyspace(keyspace: &impl Readable) {
    for number in 0..RECORDS {
        assert_eq!(keyspace.get(key(number)).unwrap().as_deref(), Some(&value(number)[..]), "{number}");
    }
    let keys: Vec<_> = (0..RECORDS).step_by(7).map(key).collect();
    for (found, number) in keyspace.multi_get(&keys).unwrap().iter().zip((0..RECORDS).step_by(7)) {
        assert_eq!(found.as_deref(), Some(&value(number)[..]), "{number}");
    }
    assert_eq!(keyspace.iter().map(Result::unwrap).count(), RECORDS as usize);
}

#[test]
fn a_hundred_tables_and_twenty_log_segments_work_with_64_descriptors_and_a_shortage_passes() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_MAX), maximum: limit.maximum }).unwrap();
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut segments = 0;
    {
        let database = builder(&directory).open().unwrap();
        let keyspace = database.keyspace("k").unwrap();
        for number in 0..RECORDS {
            keyspace.insert(key(number), value(number)).unwrap();
            if number % 100 == 0 {
                segments = segments.max(files(&directory.path().join("log")));
            }
        }
        database.wait_for_compactions().unwrap();
        check(&database);
        assert!(files(&directory.path().join("tables")) > 100, "{}", database.draw_levels());
        assert!(segments >= 20, "{segments}");
        database.checkpoint(copy.path()).unwrap();
        database.close().unwrap();
    }
    let database = builder(&directory).open().unwrap();
    check(&database);
    check_shortage(&database, &directory);
    drop(database);
    check_keyspace(&builder(&copy).open_read_only().unwrap().keyspace("k").unwrap());
}

/// With every descriptor taken, what needs one fails or does without; afterwards all goes on.
fn check_shortage(database: &Database, directory: &TempDir) {
    let keyspace = database.keyspace("k").unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open(directory.path()) {
        taken.push(file);
    }
    for number in 0..RECORDS {
        let written = keyspace.insert(key(number), value(number));
        match written.and_then(|()| keyspace.get(key(number ^ 1))) {
            Ok(found) => assert!(found.is_some()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("Too many open files"), "{error}");
            }
        }
    }
    drop(taken);
    // A flush or a compaction that failed is tried again after a while, or at once when somebody waits for it. Until
    // then a write that finds no room gets its error.
    let again = (0..100).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let is_retried = database.flush().is_ok() && database.wait_for_compactions().is_ok();
        is_retried && database.persist().is_ok() && keyspace.insert(key(0), value(0)).is_ok()
    });
    assert!(again.is_some(), "writes are taken again");
    (0..RECORDS).for_each(|number| keyspace.insert(key(number), value(number)).unwrap());
    database.flush().unwrap();
    check(database);
}
