//! Batches that remove something and insert a little, on a full disk: as a file system removes a file.

use std::path::Path;
use std::sync::Arc;
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::{Compression, Database, ErrorKind, Keyspace, WriteBatch, WriteOptions};
use thalweg_sim::{World, environment};

const CAPACITY_BYTES: u64 = 12 << 20;

/// The most records that fit on the disk.
const RECORDS_MAX: u32 = 12 << 10;

struct Full {
    world: Arc<World>,
    db: Database,
    files: Keyspace,
    rows: Keyspace,
    /// Files on the disk: as many as it took.
    count: u32,
}

/// A database on a disk that it has filled.
fn full() -> Full {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(Some(CAPACITY_BYTES));
    let world = World::new(1, false);
    world.begin_phase(None);
    let db = Database::builder(Path::new("/db"))
        .environment(environment(&world, Arc::new(disk), 0))
        .compression(Compression::None)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(256 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .level1_bytes(256 << 10)
        .open()
        .unwrap();
    let (files, rows) = (db.keyspace("files").unwrap(), db.keyspace("rows").unwrap());
    rows.insert("parent", "before").unwrap();
    let is_refused = |number: &u32| {
        world.begin_phase(None);
        files.insert(number.to_be_bytes(), [7; 1000]).is_err_and(|error| error.kind() == ErrorKind::NoSpace)
    };
    let count = (0..RECORDS_MAX).find(is_refused).unwrap();
    Full { world, db, files, rows, count }
}

/// Removes a file and writes the row of its directory anew.
fn unlink(full: &Full, number: u32, row: &[u8]) -> WriteBatch {
    let mut batch = full.db.batch();
    batch.remove(&full.files, number.to_be_bytes()).unwrap();
    batch.insert(&full.rows, "parent", row).unwrap();
    batch
}

fn kind(outcome: thalweg::Result<()>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

#[test]
fn batches_that_free_space_are_accepted_on_a_full_disk_until_puts_are() {
    let full = full();
    let frees = WriteOptions::new().frees_space(true);
    assert_eq!(kind(unlink(&full, 0, b"after").commit()), Some(ErrorKind::NoSpace));
    for number in 0..full.count / 2 {
        full.world.begin_phase(None);
        unlink(&full, number, &number.to_be_bytes()).commit_with(frees).unwrap();
    }
    assert_eq!(full.rows.get("parent").unwrap().unwrap(), (full.count / 2 - 1).to_be_bytes());
    full.db.flush().unwrap();
    full.db.wait_for_compactions().unwrap();
    full.db.settle().unwrap();
    full.world.sleep(5_000_000_000);
    full.files.insert("new", [7; 1000]).unwrap();
    assert_eq!(full.files.iter().count() as u32, full.count - full.count / 2 + 1);
    let Full { world, db, files, rows, .. } = full;
    drop((files, rows));
    db.close().unwrap();
    world.clear();
}

#[test]
fn only_small_batches_that_remove_something_free_space() {
    let full = full();
    let frees = WriteOptions::new().frees_space(true);
    let large = unlink(&full, 0, &vec![7; 81 << 10]).commit_with(frees);
    let mut inserts = full.db.batch();
    inserts.insert(&full.rows, "parent", "after").unwrap();
    let inserts = inserts.commit_with(frees);
    let insert = full.rows.insert_with("parent", "after", frees);
    assert_eq!([large, inserts, insert].map(kind), [Some(ErrorKind::NoSpace); 3]);
    assert_eq!(full.rows.get("parent").unwrap().unwrap(), b"before");
    unlink(&full, 0, b"after").commit_with(frees).unwrap();
    let Full { world, db, files, rows, .. } = full;
    drop((files, rows));
    db.close().unwrap();
    world.clear();
}
