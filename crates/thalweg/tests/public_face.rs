//! The public face: what callers write compiles, and does what its documentation says.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use tempfile::TempDir;
use thalweg::{
    Builder, ChainStatistics, CheckReport, CommitTicket, CompactionPolicy, Compression, Corruption, DamagePolicy,
    Database, Durability, Error, ErrorKind, Keys, Keyspace, KeyspaceStatistics, LevelStatistics, Range,
    ReadOnlyDatabase, ReadOnlyKeyspace, Readable, Slice, Snapshot, SnapshotKeyspace, StallStatistics, Statistics,
    TableReads, TableWrites, UntilDurable, Values, WriteBatch, WriteOptions,
};

/// Compiles only if each type can be printed, moved to another thread and shared between threads.
#[test]
fn every_public_type_is_debug_and_send_and_sync() {
    fn is<T: Debug + Send + Sync>() {}
    macro_rules! all {
        ($($type:ty),* $(,)?) => { $(is::<$type>();)* };
    }
    all!(
        Builder,
        ChainStatistics,
        CheckReport,
        CommitTicket,
        CompactionPolicy,
        Compression,
        Corruption,
        DamagePolicy,
        Database,
        Durability,
        Error,
        ErrorKind,
        Keys,
        Keyspace,
        KeyspaceStatistics,
        LevelStatistics,
        Range,
        ReadOnlyDatabase,
        ReadOnlyKeyspace,
        Slice,
        Snapshot,
        SnapshotKeyspace,
        StallStatistics,
        Statistics,
        TableReads,
        TableWrites,
        UntilDurable,
        Values,
        WriteBatch,
        WriteOptions,
    );
}

fn letters() -> (TempDir, Database, Keyspace) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let keyspace = database.create_keyspace("letters", &[b"c", b"e"]).unwrap();
    for letter in ["aa", "bb", "cc", "dd", "ee"] {
        keyspace.insert(letter, letter.to_uppercase()).unwrap();
    }
    (directory, database, keyspace)
}

fn text(keys: Keys) -> String {
    keys.map(|key| String::from_utf8(key.unwrap().to_vec()).unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_range_can_be_written_in_every_way_without_naming_a_type() {
    let (_directory, _database, keyspace) = letters();
    let (vec, string, array) = (b"bb".to_vec(), "bb".to_string(), *b"bb");
    let slice: &[u8] = &vec;
    assert_eq!(text(keyspace.range(..).keys()), "aa bb cc dd ee");
    assert_eq!(text(keyspace.range(&vec..).keys()), "bb cc dd ee");
    assert_eq!(text(keyspace.range(vec.clone()..).keys()), "bb cc dd ee");
    assert_eq!(text(keyspace.range(&string..).keys()), "bb cc dd ee");
    assert_eq!(text(keyspace.range(slice..).keys()), "bb cc dd ee");
    assert_eq!(text(keyspace.range(array..).keys()), "bb cc dd ee");
    assert_eq!(text(keyspace.range(b"aa"..b"bb").keys()), "aa");
    assert_eq!(text(keyspace.range("aa"..="bb").keys()), "aa bb");
    assert_eq!(text(keyspace.range(.."c").keys()), "aa bb");
    assert_eq!(text(keyspace.range(..=slice).keys()), "aa bb");
    let pair: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Excluded(slice), Bound::Unbounded);
    assert_eq!(text(keyspace.range(pair).keys()), "cc dd ee");
    let pair: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Included(vec.clone()));
    assert_eq!(text(keyspace.range(pair).keys()), "aa bb");
    let last: Slice = keyspace.last().unwrap().unwrap().0;
    assert_eq!(text(keyspace.range(..&last).keys()), "aa bb cc dd");
    assert_eq!(text(keyspace.range("d".."b").keys()), "");
}

#[test]
fn keys_values_and_ends_are_those_of_the_entries() {
    let (_directory, database, keyspace) = letters();
    let values: Vec<Slice> = keyspace.iter().values().rev().collect::<Result<_, _>>().unwrap();
    assert_eq!(values, ["EE", "DD", "CC", "BB", "AA"]);
    assert_eq!(keyspace.first().unwrap().unwrap().0, "aa");
    assert_eq!(keyspace.last().unwrap().unwrap().0, "ee");
    assert_eq!(keyspace.iter().try_count().unwrap(), 5);
    assert!(keyspace.contains_key("cc").unwrap() && !keyspace.contains_key("c").unwrap());
    keyspace.remove_with("cc", Durability::Sync).unwrap();
    assert!(!keyspace.contains_key("cc").unwrap());
    database.flush().unwrap();
    assert!(!keyspace.contains_key("cc").unwrap() && keyspace.contains_key("dd").unwrap());
    let empty = database.keyspace("empty").unwrap();
    assert!(empty.is_empty().unwrap() && !keyspace.is_empty().unwrap());
    assert_eq!((empty.first().unwrap(), empty.last().unwrap()), (None, None));
}

#[test]
fn a_count_does_not_hide_an_error() {
    let (_directory, database, keyspace) = letters();
    let entries = keyspace.iter();
    database.close().unwrap();
    assert_eq!(entries.try_count().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn seeks_from_both_ends_agree_with_a_map() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let splits: Vec<[u8; 1]> = [20, 50, 51, 200].map(|split| [split]).to_vec();
    let splits: Vec<&[u8]> = splits.iter().map(|split| &split[..]).collect();
    let keyspace = database.create_keyspace("k", &splits).unwrap();
    let mut map = BTreeMap::new();
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        for _ in 0..20 {
            let key = random.usize(..256) as u8;
            if random.usize(..3) == 0 {
                keyspace.remove([key]).unwrap();
                map.remove(&key);
            } else {
                keyspace.insert([key], [seed as u8]).unwrap();
                map.insert(key, seed as u8);
            }
        }
        if seed % 20 == 0 {
            database.flush().unwrap();
        }
        let mut entries = keyspace.iter();
        let mut left: Vec<(u8, u8)> = map.iter().map(|(key, value)| (*key, *value)).collect();
        for _ in 0..40 {
            let at = random.usize(..256) as u8;
            let (found, expected) = match random.usize(..10) {
                0 => {
                    entries.seek([at]);
                    left.retain(|(key, _)| *key >= at);
                    continue;
                }
                1 => {
                    entries.seek_back([at]);
                    left.retain(|(key, _)| *key <= at);
                    continue;
                }
                2..6 => (entries.next_back(), left.pop()),
                _ => (entries.next(), (!left.is_empty()).then(|| left.remove(0))),
            };
            let found = found.transpose().unwrap().map(|(key, value)| (key[0], value[0]));
            assert_eq!(found, expected, "seed {seed}");
        }
        assert_eq!(entries.try_count().unwrap(), left.len() as u64, "seed {seed}");
    }
}

#[test]
fn a_batch_survives_a_commit_that_fails_and_is_empty_after_one_that_does_not() {
    let (_directory, database, keyspace) = letters();
    let gone = database.keyspace("gone").unwrap();
    let mut batch = database.batch();
    batch.insert(&keyspace, "ff", "FF").unwrap();
    batch.remove(&gone, "x").unwrap();
    database.drop_keyspace("gone").unwrap();
    for _ in 0..2 {
        let error = batch.commit().unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::NoKeyspace, r#"there is no keyspace named "gone""#.into())
        );
        assert_eq!(batch.len(), 2);
    }
    assert!(!keyspace.contains_key("ff").unwrap());
    batch.clear();
    batch.insert(&keyspace, "ff", "FF").unwrap();
    batch.commit_with(WriteOptions::new().durability(Durability::Sync)).unwrap();
    assert!(batch.is_empty() && keyspace.contains_key("ff").unwrap());
    batch.commit().unwrap();
    batch.remove(&keyspace, "ff").unwrap();
    batch.commit().unwrap();
    assert!(!keyspace.contains_key("ff").unwrap());
}

#[test]
fn code_that_reads_takes_a_live_keyspace_a_snapshot_and_one_opened_for_reading() {
    fn all(keyspace: &impl Readable) -> String {
        assert_eq!(keyspace.multi_get(&["aa", "zz"]).unwrap()[0], keyspace.get("aa").unwrap());
        assert_eq!(keyspace.is_empty().unwrap(), keyspace.first().unwrap().is_none());
        assert_eq!(keyspace.contains_key("aa").unwrap(), keyspace.get("aa").unwrap().is_some());
        assert_eq!(keyspace.prefix("a").try_count().unwrap(), keyspace.range("a".."b").try_count().unwrap());
        assert_eq!(keyspace.last().unwrap(), keyspace.iter().last().transpose().unwrap());
        text(keyspace.iter().keys())
    }
    let (directory, database, keyspace) = letters();
    let snapshot = database.snapshot();
    keyspace.insert("zz", "ZZ").unwrap();
    assert_eq!(all(&snapshot.keyspace(&keyspace)), "aa bb cc dd ee");
    assert_eq!(all(&keyspace), "aa bb cc dd ee zz");
    assert_eq!(all(&ReadOnlyKeyspace::from(keyspace.clone())), "aa bb cc dd ee zz");
    drop((snapshot, keyspace));
    database.close().unwrap();
    let database = Database::builder(directory.path()).open_read_only().unwrap();
    assert_eq!(all(&database.keyspace("letters").unwrap()), "aa bb cc dd ee zz");
    assert_eq!(database.keyspaces(), ["letters"]);
}

#[test]
fn a_checkpoint_into_the_directory_of_the_database_is_refused_by_name() {
    let (directory, database, _keyspace) = letters();
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &outside).unwrap();
    for inside in [
        directory.path().to_path_buf(),
        directory.path().join("copy"),
        directory.path().join("a/b"),
        outside.join("copy"),
    ] {
        let error = database.checkpoint(&inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let told = format!("{} lies in the directory of the database itself", inside.display());
        assert!(error.to_string().starts_with(&told), "{error}");
        assert!(!directory.path().join("copy").exists());
    }
    std::fs::remove_file(&outside).unwrap();
    database.checkpoint(&outside).unwrap();
}
