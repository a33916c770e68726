//! A damaged pack of a directory keyspace: its keyspace says so, and the rest of the database goes on.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use thalweg::{Database, Error, ErrorKind};

const NAMES: u64 = 300;

fn packs(root: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(root.join("tables")).unwrap();
    let mut packs: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    packs.retain(|path| std::fs::read(path).unwrap().ends_with(b"thalwegP"));
    packs
}

/// Reads everything: what is not damaged, and whether anything was.
fn read(db: &Database) -> Result<(), Error> {
    let files = db.directory_keyspace("files")?;
    for number in 0..NAMES {
        let (directory, name) = (number % 7, format!("name {number}"));
        assert_eq!(files.get(directory, &name)?.as_deref(), Some(name.as_bytes()), "a wrong value");
    }
    for directory in 0..7 {
        let mut count = 0;
        for entry in files.list(directory) {
            count += u64::from(!entry?.name().is_empty());
        }
        assert_eq!(count, NAMES / 7 + u64::from(directory < NAMES % 7), "a listing that lacks entries");
    }
    Ok(())
}

#[test]
fn a_damaged_pack_is_named_and_keeps_nothing_else_from_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (files, others) = (db.directory_keyspace("files").unwrap(), db.keyspace("others").unwrap());
    for number in 0..NAMES {
        let name = format!("name {number}");
        files.insert(number % 7, &name, &name).unwrap();
        others.insert(&name, &name).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    db.close().unwrap();
    let pack = packs(dir.path()).pop().unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let mut refused = 0;
    // All of the end, where contents, filter, properties and footer are; of the blocks some bytes.
    let places = (0..whole.len()).filter(|at| at % 97 == 0 || whole.len() - at < 1200 && at % 7 == 0);
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&pack, &damaged).unwrap();
        let db = Database::open(dir.path()).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let others = db.keyspace("others").unwrap();
        assert!((0..NAMES).all(|number| others.get(format!("name {number}")).unwrap().is_some()), "byte {at}");
        if let Err(error) = read(&db) {
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            assert!(error.to_string().contains(".table"), "byte {at}: {error}");
            refused += 1;
        }
        // New entries go on to be written, also to the damaged keyspace.
        db.directory_keyspace("files").unwrap().insert(0, "new", "1").unwrap();
        db.directory_keyspace("files").unwrap().remove(0, "new").unwrap();
        db.close().unwrap();
    }
    assert!(refused > 100, "only {refused} flips were found");
    std::fs::write(&pack, &whole).unwrap();
    read(&Database::open(dir.path()).unwrap()).unwrap();
}

#[test]
fn a_pack_of_another_keyspace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = |name: &str| dir.path().join(name);
    for name in ["one", "two"] {
        let db = Database::open(root(name)).unwrap();
        let files = db.directory_keyspace("files").unwrap();
        for number in 0..NAMES {
            let name = format!("name {number}");
            files.insert(number % 7, &name, &name).unwrap();
        }
        db.flush().unwrap();
        db.settle().unwrap();
        db.close().unwrap();
    }
    // The same number, size and entries; other hashes.
    let (one, two) = (packs(&root("one")).pop().unwrap(), packs(&root("two")).pop().unwrap());
    std::fs::copy(two, one).unwrap();
    let error = match Database::open(root("one")) {
        Ok(db) => read(&db).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}
