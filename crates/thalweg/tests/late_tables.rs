//! Tables of the upper levels are written into the page cache, and to the device only if a settle round finds them in
//! use (`docs/io.md`, Late tables).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;
use tempfile::TempDir;
use thalweg::{Database, TableWrites};

const KEYS: u32 = 1000;
const ROUNDS: u32 = 40;

/// Overwrites a few keys until many memtables were flushed and merged, and nothing is settled yet.
fn written(directory: &TempDir, writes: TableWrites) -> Database {
    let builder = Database::builder(directory.path()).table_writes(writes).memtable_bytes(64 << 10).level0_trigger(2);
    let database = builder.settle_interval(Duration::from_secs(3600)).open().unwrap();
    let keyspace = database.keyspace("records").unwrap();
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            keyspace.insert(key.to_be_bytes(), value(round)).unwrap();
        }
    }
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    database
}

/// Whether the file system is ext4 or XFS: only there are tables late.
fn keeps_space_for_writes(directory: &TempDir) -> bool {
    [0xef53, 0x5846_5342].contains(&rustix::fs::statfs(directory.path()).unwrap().f_type)
}

fn value(round: u32) -> Vec<u8> {
    [round.to_le_bytes(); 25].concat()
}

#[test]
fn a_table_that_is_replaced_before_a_round_is_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let database = written(&directory, TableWrites::Automatic);
    let before = database.statistics();
    if !keeps_space_for_writes(&directory) {
        assert_eq!(before.tables_written_late, 0);
        return database.close().unwrap();
    }
    assert!(before.tables_written_late > 10, "{} are late", before.tables_written_late);
    assert_eq!(before.tables_never_written, 0, "no round has ended");
    database.settle().unwrap();
    let after = database.statistics();
    assert!(after.tables_never_written > 10, "{} were never written", after.tables_never_written);
    assert!(after.tables_never_written < after.tables_written_late, "what is in use was written");
    database.close().unwrap();
    let database = Database::builder(directory.path()).open().unwrap();
    let keyspace = database.keyspace("records").unwrap();
    for key in 0..KEYS {
        assert_eq!(*keyspace.get(key.to_be_bytes()).unwrap().unwrap(), *value(ROUNDS - 1));
    }
    database.close().unwrap();
}

#[test]
fn none_is_late_if_the_caller_says_how_tables_are_written() {
    for writes in [TableWrites::PageCache, TableWrites::Direct] {
        let directory = tempfile::tempdir().unwrap();
        let database = written(&directory, writes);
        database.settle().unwrap();
        let statistics = database.statistics();
        assert_eq!((statistics.tables_written_late, statistics.tables_never_written), (0, 0), "{writes:?}");
        database.close().unwrap();
    }
}
