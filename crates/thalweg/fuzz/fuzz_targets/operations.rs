//! Operations on a database of real files against a `BTreeMap`: what the fuzzer finds interesting, in any order, with
//! options so small that flushes and compactions happen after a few writes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use thalweg::{Database, Keyspace, Range, Snapshot};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Arbitrary, Debug)]
enum Operation {
    Insert { key: Key, value: u8, bytes: u16 },
    Remove { key: Key },
    Batch { writes: Vec<(Key, Option<u8>)> },
    Get { key: Key },
    Scan { from: Bound<Key>, to: Bound<Key>, turns: u64, at_snapshot: bool },
    Prefix { prefix: Vec<u8>, turns: u64 },
    Snapshot,
    Release,
    Flush,
    Compact,
    Reopen,
}

/// A key from a small space, so that operations meet; some long ones that share a prefix.
#[derive(Arbitrary, Debug)]
struct Key {
    number: u8,
    is_long: bool,
}

impl Key {
    fn bytes(&self) -> Vec<u8> {
        let number = self.number % 32;
        if self.is_long { [&[b'k'; 40], &[number][..]].concat() } else { vec![number] }
    }
}

struct Open {
    db: Database,
    keyspace: Keyspace,
}

impl Open {
    fn new(path: &Path) -> Open {
        let db = Database::builder(path)
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10)
            .memtable_bytes(4 << 10)
            .table_bytes(2 << 10)
            .block_bytes(128)
            .level0_trigger(2)
            .level1_bytes(4 << 10)
            .growth_factor(2)
            .log_sync_interval(None)
            .open()
            .expect("the database opens");
        let keyspace = db.create_keyspace("k", &[&[16]]).or_else(|_| db.keyspace("k")).expect("the keyspace opens");
        Open { db, keyspace }
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut open = Open::new(&path);
    let mut model = Map::new();
    let mut snapshot: Option<(Snapshot, Map)> = None;
    for operation in &operations {
        if matches!(operation, Operation::Reopen) {
            snapshot = None;
            drop(open.keyspace);
            open.db.close().expect("the database closes");
            open = Open::new(&path);
        } else {
            apply(operation, &open, &mut model, &mut snapshot).expect("no operation fails");
        }
    }
    compare(open.keyspace.iter(), &model, (Bound::Unbounded, Bound::Unbounded), 0);
});

fn apply(
    operation: &Operation,
    Open { db, keyspace }: &Open,
    model: &mut Map,
    snapshot: &mut Option<(Snapshot, Map)>,
) -> thalweg::Result<()> {
    match operation {
        Operation::Insert { key, value, bytes } => {
            let value = vec![*value; usize::from(bytes % 1024)];
            keyspace.insert(key.bytes(), &value)?;
            model.insert(key.bytes(), value);
        }
        Operation::Remove { key } => {
            keyspace.remove(key.bytes())?;
            model.remove(&key.bytes());
        }
        Operation::Batch { writes } => {
            let mut batch = db.batch();
            for (key, value) in writes {
                let key = key.bytes();
                if let Some(value) = value {
                    batch.insert(keyspace, &key, [*value; 9])?;
                    model.insert(key, vec![*value; 9]);
                } else {
                    batch.remove(keyspace, &key)?;
                    model.remove(&key);
                }
            }
            batch.commit()?;
        }
        Operation::Get { key } => {
            assert_eq!(keyspace.get(key.bytes())?.as_deref(), model.get(&key.bytes()).map(Vec::as_slice))
        }
        Operation::Scan { from, to, turns, at_snapshot } => {
            let bounds = || (from.as_ref().map(Key::bytes), to.as_ref().map(Key::bytes));
            match snapshot {
                Some((snapshot, then)) if *at_snapshot => {
                    compare(snapshot.range(keyspace, bounds()), then, bounds(), *turns)
                }
                _ => compare(keyspace.range(bounds()), model, bounds(), *turns),
            }
        }
        Operation::Prefix { prefix, turns } => {
            let matching = model.iter().filter(|(key, _)| key.starts_with(prefix));
            let matching = matching.map(|(key, value)| (key.clone(), value.clone())).collect();
            compare(keyspace.prefix(prefix), &matching, (Bound::Unbounded, Bound::Unbounded), *turns);
        }
        Operation::Snapshot => *snapshot = Some((db.snapshot(), model.clone())),
        Operation::Release => *snapshot = None,
        Operation::Flush => db.flush()?,
        Operation::Compact => db.wait_for_compactions()?,
        Operation::Reopen => {}
    }
    Ok(())
}

/// Reads from both ends, as the bits of `turns` say.
fn compare(mut range: Range, model: &Map, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>), mut turns: u64) {
    let mut expected: Vec<_> = model
        .iter()
        .filter(|(key, _)| match &bounds.0 {
            Bound::Included(from) => *key >= from,
            Bound::Excluded(from) => *key > from,
            Bound::Unbounded => true,
        })
        .filter(|(key, _)| match &bounds.1 {
            Bound::Included(to) => *key <= to,
            Bound::Excluded(to) => *key < to,
            Bound::Unbounded => true,
        })
        .collect();
    expected.reverse();
    loop {
        let is_backward = turns & 1 == 1;
        turns = turns.rotate_right(1);
        let (found, right) = if is_backward {
            (range.next_back(), (!expected.is_empty()).then(|| expected.remove(0)))
        } else {
            (range.next(), expected.pop())
        };
        let found = found.map(|entry| entry.expect("no read fails"));
        assert_eq!(
            found.as_ref().map(|(key, value)| (key.to_vec(), value.to_vec())),
            right.map(|(k, v)| (k.clone(), v.clone()))
        );
        if right.is_none() {
            return;
        }
    }
}
