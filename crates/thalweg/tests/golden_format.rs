//! Databases written by format 1, in the tree under `tests/golden/`: every later version must open them.
//!
//! `THALWEG_BLESS=1 cargo test -p thalweg --test golden_format` writes them anew; do that only for a new format, beside
//! the old ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thalweg::{Compression, Database, ReadOnlyDatabase, Readable};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// The value of each directory and name.
type EntryMap = BTreeMap<(u64, Vec<u8>), Vec<u8>>;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What both databases hold: tables in several levels, a tombstone, a memtable only in the log, an empty keyspace, and
/// a keyspace that was dropped.
fn write(path: &Path, compression: Compression) -> (Database, BTreeMap<String, Map>) {
    let _ = std::fs::remove_dir_all(path);
    let database = Database::builder(path)
        .compression(compression)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(256 << 10)
        .memtable_bytes(16 << 10)
        .table_bytes(8 << 10)
        .level1_bytes(16 << 10)
        .growth_factor(2)
        .level0_trigger(2)
        .open()
        .unwrap();
    let mut world = BTreeMap::from([("plain".to_owned(), Map::new()), ("split".to_owned(), Map::new())]);
    let plain = database.keyspace("plain").unwrap();
    let split = database.create_keyspace("split", &[b"key100", b"key200"]).unwrap();
    database.keyspace("gone").unwrap().insert("key", "value").unwrap();
    database.drop_keyspace("gone").unwrap();
    database.keyspace("empty").unwrap();
    world.insert("empty".to_owned(), Map::new());
    for round in 0..3 {
        for number in (0..300).filter(|number| number % (round + 1) == 0) {
            let key = format!("key{number:03}").into_bytes();
            let value = format!("round {round} of {number}").repeat(1 + number % 5).into_bytes();
            for (name, keyspace) in [("plain", &plain), ("split", &split)] {
                keyspace.insert(&key, &value).unwrap();
                world.get_mut(name).unwrap().insert(key.clone(), value.clone());
            }
        }
        database.flush().unwrap();
        database.wait_for_compactions().unwrap();
    }
    plain.remove("key007").unwrap();
    world.get_mut("plain").unwrap().remove(b"key007".as_slice());
    plain.insert([0xff; 3], [0u8; 100]).unwrap();
    world.get_mut("plain").unwrap().insert(vec![0xff; 3], vec![0; 100]);
    database.persist().unwrap();
    (database, world)
}

/// A directory keyspace with merged packs, several blocks of a directory, tombstones, a value in an extent, and
/// entries only in the log.
fn write_directories(path: &Path) -> (Database, EntryMap) {
    let database = Database::builder(path)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(256 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(8 << 10)
        .level1_bytes(16 << 10)
        .growth_factor(2)
        .directory_level0_trigger(2)
        .open()
        .unwrap();
    let files = database.directory_keyspace("files").unwrap();
    let mut world = BTreeMap::new();
    for round in 0..4_u64 {
        for number in (0..300).filter(|number| number % (round + 1) == 0) {
            let (directory, name) = ([0, 1, 1, 1, u64::MAX][number as usize % 5], format!("name{number}"));
            if (number + round) % 11 == 0 {
                files.remove(directory, &name).unwrap();
                world.remove(&(directory, name.into_bytes()));
            } else {
                let value = format!("round {round} of {number}").repeat(number as usize % 5).into_bytes();
                files.insert(directory, &name, &value).unwrap();
                world.insert((directory, name.into_bytes()), value);
            }
        }
        files.insert(7, "long", vec![round as u8; 2500]).unwrap();
        world.insert((7, b"long".to_vec()), vec![round as u8; 2500]);
        if round < 3 {
            database.flush().unwrap();
            database.wait_for_compactions().unwrap();
        }
    }
    database.persist().unwrap();
    (database, world)
}

#[test]
fn a_database_with_packs_of_format_1_opens() {
    has_its_directories("format-1-directories");
}

#[test]
fn a_database_with_packs_of_format_2_opens() {
    let name = "format-2-directories";
    if std::env::var_os("THALWEG_BLESS").is_some() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = directory.path().join("blessed");
        let (database, _) = write_directories(&scratch);
        let _ = std::fs::remove_dir_all(golden(name));
        copy(&scratch, &golden(name));
        drop(database);
    }
    has_its_directories(name);
}

/// Checks and opens a golden database, reads it, and merges its packs, which makes packs of the newest format.
fn has_its_directories(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let world = write_directories(&directory.path().join("again")).1;
    let scratch = directory.path().join("database");
    copy(&golden(name), &scratch);
    let mut faults = Vec::new();
    Database::check(&scratch, &mut |fault| faults.push(fault.to_string())).unwrap();
    assert_eq!(faults, Vec::<String>::new());
    let database = Database::open(&scratch).unwrap();
    let files = database.existing_directory_keyspace("files").unwrap().unwrap();
    let has_all = || {
        let mut listed = BTreeMap::new();
        for directory in [0, 1, 7, u64::MAX] {
            for entry in files.list(directory).map(Result::unwrap) {
                listed.insert((directory, entry.name().to_vec()), entry.value().unwrap().to_vec());
            }
        }
        assert!(listed == world, "the listed entries differ");
        for ((directory, name), value) in &world {
            assert_eq!(files.get(*directory, name).unwrap().as_deref(), Some(&value[..]));
        }
    };
    has_all();
    let statistics = database.statistics();
    let levels = &statistics.keyspaces.iter().find(|keyspace| keyspace.name == "files").unwrap().levels;
    assert!(levels.iter().any(|level| level.tables > 0 && level.entries > 100), "{}", database.draw_levels());
    for round in 0..3 {
        files.insert(1, "again", format!("{round}")).unwrap();
        files.remove(1, "again").unwrap();
        database.flush().unwrap();
        database.tidy().unwrap();
        has_all();
    }
    database.close().unwrap();
    Database::check(&scratch, &mut |fault| faults.push(fault.to_string())).unwrap();
    assert_eq!(faults, Vec::<String>::new());
}

fn bless() {
    let (database, _) = write(&golden("format-1-closed"), Compression::Lz4);
    database.close().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("database");
    let (database, _) = write(&scratch, Compression::None);
    // The files as a power cut would leave them: nothing was closed.
    let _ = std::fs::remove_dir_all(golden("format-1-cut"));
    copy(&scratch, &golden("format-1-cut"));
    drop(database);
}

fn compare(database: &ReadOnlyDatabase, world: &BTreeMap<String, Map>) {
    assert_eq!(database.keyspaces(), world.keys().cloned().collect::<Vec<_>>());
    for (name, map) in world {
        let keyspace = database.existing_keyspace(name).unwrap().unwrap();
        let found: Map = keyspace.iter().map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
        assert!(found == *map, "{name} differs");
    }
}

fn opens(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("database");
    let (database, world) = write(&scratch, Compression::Lz4);
    drop(database);
    std::fs::remove_dir_all(&scratch).unwrap();

    let read_only = Database::builder(golden(name)).open_read_only().unwrap();
    compare(&read_only, &world);
    drop(read_only);

    copy(&golden(name), &scratch);
    let mut faults = Vec::new();
    Database::check(&scratch, &mut |fault| faults.push(fault.to_string())).unwrap();
    assert_eq!(faults, Vec::<String>::new());
    let database = Database::open(&scratch).unwrap();
    compare(&database.clone().into(), &world);
    database.keyspace("plain").unwrap().insert("new", "entry").unwrap();
    database.close().unwrap();
    let database = Database::open(&scratch).unwrap();
    assert_eq!(database.keyspace("plain").unwrap().get("new").unwrap().as_deref(), Some(b"entry".as_slice()));
    drop(database);
}

#[test]
fn databases_of_format_1_open() {
    if std::env::var_os("THALWEG_BLESS").is_some() {
        bless();
    }
    opens("format-1-closed");
    opens("format-1-cut");
}
