//! Databases that share the threads of a [`Runtime`]: each is closed, lives and ends for itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use thalweg::{Builder, Database, ErrorKind, Readable, Runtime};

fn builder(directory: &TempDir, name: &str) -> Builder {
    Database::builder(directory.path().join(name)).log_segment_bytes(64 << 10).memtable_bytes(64 << 10)
}

/// Writes enough for flushes and compactions, and reads it back.
fn work(database: &Database, round: u8) {
    let keyspace = database.keyspace("default").unwrap();
    for number in 0..2_000_u32 {
        keyspace.insert(number.to_be_bytes(), [round; 200]).unwrap();
    }
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    keyspace.insert("last", [round]).unwrap();
    database.persist().unwrap();
    assert_eq!(keyspace.get(7_u32.to_be_bytes()).unwrap().unwrap(), [round; 200]);
}

#[test]
fn closing_one_of_many_leaves_the_others_working() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(2).unwrap();
    let open = |number: usize| builder(&directory, &number.to_string()).runtime(&runtime).open().unwrap();
    let mut databases: Vec<Database> = (0..6).map(open).collect();
    std::thread::scope(|scope| {
        for database in &databases {
            scope.spawn(|| work(database, 1));
        }
        // Others are closed beside them, at any moment.
        for number in 6..10 {
            work(&open(number), 1);
        }
    });
    while let Some(database) = databases.pop() {
        database.close().unwrap();
        std::thread::scope(|scope| databases.iter().for_each(|left| drop(scope.spawn(|| work(left, 2)))));
    }
    for number in 0..10 {
        let database = open(number);
        assert!(database.keyspace("default").unwrap().get("last").unwrap().is_some());
    }
}

#[test]
fn runtime_and_database_may_be_dropped_in_either_order() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(1).unwrap();
    let database = builder(&directory, "a").runtime(&runtime).open().unwrap();
    drop(runtime);
    work(&database, 1);
    drop(database);
    let runtime = Runtime::new(1).unwrap();
    let database = builder(&directory, "a").runtime(&runtime).open().unwrap();
    work(&database, 2);
    drop(database);
    // Goes on with others.
    work(&builder(&directory, "b").runtime(&runtime).open().unwrap(), 3);
    drop(runtime);
}

#[test]
fn an_open_that_fails_leaves_the_others_working() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(1).unwrap();
    let database = builder(&directory, "a").runtime(&runtime).open().unwrap();
    let locked = builder(&directory, "a").runtime(&runtime).open().err().unwrap();
    assert_eq!(locked.kind(), ErrorKind::Locked);
    let missing = builder(&directory, "b").runtime(&runtime).create_if_missing(false).open().err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NoDatabase);
    work(&database, 1);
    database.close().unwrap();
    assert!(builder(&directory, "a").runtime(&runtime).check(&mut |fault| panic!("{fault}")).unwrap().tables > 0);
    let reader = builder(&directory, "a").runtime(&runtime).open_read_only().unwrap();
    assert_eq!(reader.keyspace("default").unwrap().get("last").unwrap().unwrap(), [1]);
}

#[test]
fn a_runtime_has_between_1_and_64_compaction_workers() {
    assert_eq!(Runtime::new(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Runtime::new(65).unwrap_err().kind(), ErrorKind::InvalidInput);
    let text = format!("{:?}", Runtime::new(1).unwrap());
    assert!(text.starts_with("Runtime {"), "{text}");
}
