//! Every engine behind the traits does the same. An engine whose library is missing is left out, with a message.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, and says what it left out")]

use std::path::Path;
use tempfile::TempDir;
use thalweg_bench::Settings;
use thalweg_bench::engine::{Engine, Factory, Session};
use thalweg_peers::FACTORIES;

/// Gives each engine that keeps what is written and can be opened here to `check`.
fn each(settings: &Settings, splits: &[Vec<u8>], check: impl Fn(&dyn Factory, &TempDir, Box<dyn Engine>)) -> usize {
    let mut opened = 0;
    for factory in FACTORIES.iter().filter(|factory| factory.name() != "null") {
        let directory = tempfile::tempdir().unwrap();
        match factory.open(directory.path(), settings, splits) {
            Ok(engine) => {
                check(*factory, &directory, engine);
                opened += 1;
            }
            Err(error) => {
                assert!(may_be_missing(factory.name()), "{error}");
                eprintln!("left out: {error}");
            }
        }
    }
    opened
}

/// Whether an engine's library is fetched apart, and is not here.
fn may_be_missing(engine: &str) -> bool {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("lib/librocksdbjni-linux64.so");
    match engine {
        "rocksdb" => !fetched.exists(),
        // From the system's packages; those that cannot be cut into partitions refuse them.
        "leveldb" | "lmdb" => true,
        _ => false,
    }
}

fn get(session: &mut dyn Session, key: &[u8]) -> Option<Vec<u8>> {
    let mut got = None;
    let found = session.get(key, &mut |value| got = Some(value.to_vec())).unwrap();
    assert_eq!(found, got.is_some());
    got
}

fn scan(session: &mut dyn Session, from: &[u8], most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    let mut entry = |key: &[u8], value: &[u8]| {
        entries.push((key.to_vec(), value.to_vec()));
        entries.len() < most
    };
    session.scan(from, &mut entry).unwrap();
    entries
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    format!("value {number} ").repeat(number as usize % 20).into_bytes()
}

#[test]
fn what_was_put_is_got_and_what_was_removed_is_not() {
    let opened = each(&Settings::default(), &[], |factory, _, engine| {
        let name = factory.name();
        let mut session = engine.session().unwrap();
        for sync in [false, true] {
            session.put(b"a", b"1", sync).unwrap();
            session.put(b"b", b"", sync).unwrap();
            session.put(b"a\0", &[0, 255, 0], sync).unwrap();
            assert_eq!(get(&mut *session, b"a"), Some(b"1".to_vec()), "{name}");
            assert_eq!(get(&mut *session, b"b"), Some(Vec::new()), "{name}");
            assert_eq!(get(&mut *session, b"a\0"), Some(vec![0, 255, 0]), "{name}");
            assert_eq!(get(&mut *session, b"c"), None, "{name}");
            session.put(b"a", b"2", sync).unwrap();
            assert_eq!(get(&mut *session, b"a"), Some(b"2".to_vec()), "{name}");
            session.remove(b"a", sync).unwrap();
            session.remove(b"never there", sync).unwrap();
            assert_eq!(get(&mut *session, b"a"), None, "{name}");
        }
        drop(session);
        engine.close().unwrap();
    });
    assert!(opened >= 2, "Thalweg and fjall are compiled in");
}

#[test]
fn a_batch_is_written_and_a_scan_goes_in_order() {
    each(&Settings::default(), &[], |factory, _, engine| {
        let name = factory.name();
        let mut session = engine.session().unwrap();
        let mut entries: Vec<_> = (0..1000).map(|number| (key(number * 7919 % 1000), value(number))).collect();
        session.put_batch(&entries[..500], false).unwrap();
        session.put_batch(&entries[500..], true).unwrap();
        session.remove(&key(501), false).unwrap();
        entries.sort();
        entries.remove(501);
        assert_eq!(scan(&mut *session, b"", usize::MAX), entries, "{name}");
        assert_eq!(scan(&mut *session, &key(500), 3), entries[500..503], "{name}");
        assert_eq!(scan(&mut *session, &key(501), 1)[0].0, key(502), "{name}");
        assert_eq!(scan(&mut *session, b"zzz", 1), [], "{name}");
        drop(session);
        engine.close().unwrap();
    });
}

#[test]
fn a_database_that_was_closed_holds_what_it_held() {
    // Memtables so small that tables are written and compacted.
    let settings = Settings {
        memtable_bytes: Some(1 << 20),
        table_bytes: Some(1 << 20),
        level1_bytes: Some(2 << 20),
        ..Settings::default()
    };
    each(&settings, &[], |factory, directory, engine| {
        let name = factory.name();
        let mut session = engine.session().unwrap();
        for number in 0..50_000 {
            session.put(&key(number), &value(number), false).unwrap();
        }
        drop(session);
        engine.persist().unwrap();
        engine.settle().unwrap();
        engine.close().unwrap();
        let engine = factory.open(directory.path(), &settings, &[]).unwrap();
        let mut session = engine.session().unwrap();
        for number in (0..50_000).step_by(997) {
            assert_eq!(get(&mut *session, &key(number)), Some(value(number)), "{name}");
        }
        assert_eq!(scan(&mut *session, b"", usize::MAX).len(), 50_000, "{name}");
        drop(session);
        engine.close().unwrap();
    });
}

#[test]
fn partitions_hold_their_ranges_and_scans_cross_them() {
    let splits = [key(100), key(200)];
    let opened = each(&Settings::default(), &splits, |factory, directory, engine| {
        let name = factory.name();
        let mut session = engine.session().unwrap();
        let entries: Vec<_> = (0..300).map(|number| (key(number), value(number))).collect();
        session.put_batch(&entries[50..], false).unwrap();
        for (key, value) in &entries[..50] {
            session.put(key, value, false).unwrap();
        }
        assert_eq!(scan(&mut *session, b"", usize::MAX), entries, "{name}");
        assert_eq!(scan(&mut *session, &key(99), 102), entries[99..201], "{name}");
        session.remove(&key(200), true).unwrap();
        drop(session);
        engine.settle().unwrap();
        engine.close().unwrap();
        let engine = factory.open(directory.path(), &Settings::default(), &splits).unwrap();
        let mut session = engine.session().unwrap();
        assert_eq!(get(&mut *session, &key(199)), Some(value(199)), "{name}");
        assert_eq!(get(&mut *session, &key(200)), None, "{name}");
        drop(session);
        engine.close().unwrap();
    });
    assert!(opened >= 2, "Thalweg and fjall are compiled in");
}

#[test]
fn an_engine_without_partitions_refuses_them() {
    for factory in FACTORIES.iter().filter(|factory| ["leveldb", "lmdb"].contains(&factory.name())) {
        let directory = tempfile::tempdir().unwrap();
        let refused = factory.open(directory.path(), &Settings::default(), &[key(1)]);
        assert!(matches!(refused, Err(thalweg_bench::Error::Usage(_))), "{}", factory.name());
    }
}

#[test]
fn each_description_names_the_engine_and_its_version() {
    each(&Settings::default(), &[], |factory, _, engine| {
        let description = engine.describe();
        assert_eq!(description.name, factory.name());
        assert!(description.version.starts_with(|first: char| first.is_ascii_digit()), "{description:?}");
        engine.close().unwrap();
    });
}
