//! The numbers of directories: in memtables, in packs, removed, at a snapshot, and resumed.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use thalweg::{Builder, Database, DirectoryKeyspace, Result};

fn builder(path: &std::path::Path) -> Builder {
    Database::builder(path).memtable_bytes(64 << 10).level0_trigger(1).level1_bytes(16 << 10).table_bytes(32 << 10)
}

fn numbers(files: &DirectoryKeyspace) -> Vec<u64> {
    files.directories().map(Result::unwrap).collect()
}

/// The numbers in pages of three, each page from a call of its own.
fn in_pages(files: &DirectoryKeyspace) -> Vec<u64> {
    let (mut all, mut first) = (Vec::new(), Some(0));
    while let Some(from) = first {
        let page: Vec<u64> = files.directories_from(from).take(3).map(Result::unwrap).collect();
        first = page.last().and_then(|last| last.checked_add(1));
        all.extend(page);
    }
    all
}

#[test]
fn directories_are_numbered_wherever_their_entries_lie() {
    let dir = tempfile::tempdir().unwrap();
    let db = builder(dir.path()).open().unwrap();
    let files = db.directory_keyspace("files").unwrap();
    assert_eq!(numbers(&files), []);
    // In packs only: 0, 5 and the greatest. All entries removed: 6 (in packs) and 7 (the tombstone in the memtable).
    for directory in [u64::MAX, 5, 0, 6, 7] {
        files.insert(directory, "a", "1").unwrap();
        files.insert(directory, "b", "1").unwrap();
    }
    db.flush().unwrap();
    files.remove(6, "a").unwrap();
    files.remove(6, "b").unwrap();
    db.flush().unwrap();
    let before = db.snapshot();
    files.remove(7, "a").unwrap();
    files.remove(7, "b").unwrap();
    // In the memtable only: 3. In both: 5. There and gone: 4.
    files.insert(3, "a", "1").unwrap();
    files.insert(5, "c", "1").unwrap();
    files.insert(4, "a", "1").unwrap();
    files.remove(4, "a").unwrap();
    assert_eq!(numbers(&files), [0, 3, 5, u64::MAX]);
    assert_eq!(in_pages(&files), [0, 3, 5, u64::MAX]);
    let older = before.directory_keyspace(&files).unwrap();
    let old = || older.directories().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(old(), [0, 5, 7, u64::MAX]);
    // The snapshot keeps its directories through flushes, merges and a clear.
    db.flush().unwrap();
    db.tidy().unwrap();
    assert_eq!((numbers(&files), old()), (vec![0, 3, 5, u64::MAX], vec![0, 5, 7, u64::MAX]));
    files.clear().unwrap();
    files.insert(9, "a", "1").unwrap();
    assert_eq!((numbers(&files), old()), (vec![9], vec![0, 5, 7, u64::MAX]));
    drop((older, before));
    db.close().unwrap();
    let db = builder(dir.path()).open().unwrap();
    assert_eq!(numbers(&db.directory_keyspace("files").unwrap()), [9]);
}

#[test]
fn many_directories_are_numbered_through_flushes_merges_and_reopens() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut model: BTreeSet<(u64, u32)> = BTreeSet::new();
    for life in 0..3 {
        let db = builder(dir.path()).open().unwrap();
        let files = db.directory_keyspace("files").unwrap();
        for _ in 0..4000 {
            let entry = (random.u64(..600) << random.u32(..50), random.u32(..3));
            if random.bool() {
                files.insert(entry.0, format!("{}", entry.1), "v").unwrap();
                model.insert(entry);
            } else {
                files.remove(entry.0, format!("{}", entry.1)).unwrap();
                model.remove(&entry);
            }
        }
        let expected: Vec<u64> =
            model.iter().map(|(directory, _)| *directory).collect::<BTreeSet<_>>().into_iter().collect();
        assert!(expected.len() > 500, "a simulation reads them in several parts");
        assert_eq!(numbers(&files), expected, "life {life}");
        assert_eq!(in_pages(&files), expected, "life {life}");
        db.close().unwrap();
    }
}
