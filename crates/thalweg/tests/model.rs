//! Random operations of the whole API against a `BTreeMap`, on real files, with options so small that every level and
//! every kind of compaction is reached.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database, Durability, Keyspace};
use thalweg::{ReadOnlyDatabase, Readable, Slice, Snapshot};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type World = BTreeMap<String, Map>;

fn options(path: &Path, random: &mut Rng) -> Builder {
    let segment = 64 << 10 << random.usize(..2);
    Database::builder(path)
        .memtable_bytes(4 << 10 << random.usize(..3))
        .sealed_memtables_max(1 + random.usize(..3))
        .log_segment_bytes(segment)
        .log_bytes_max(u64::from(segment) * (2 + random.usize(..4) as u64))
        .log_sync_interval((random.usize(..3) > 0).then(|| Duration::from_millis(1 + random.usize(..20) as u64)))
        .block_cache_bytes([0, 4 << 10, 1 << 20][random.usize(..3)])
        .block_bytes([64, 256, 1024, 4096][random.usize(..4)])
        .compression([Compression::None, Compression::Lz4][random.usize(..2)])
        .filter_bits_per_key([0, 4, 10][random.usize(..3)])
        .table_bytes(2 << 10 << random.usize(..3))
        .level0_trigger(1 + random.usize(..4))
        .level1_bytes(8 << 10)
        .growth_factor(2 + random.usize(..3) as u64)
        .partitions_max(1 << (2 * random.usize(..3)))
        .compaction_workers(1 + random.usize(..3))
        .compaction_policy(match random.usize(..2) {
            0 => CompactionPolicy::Leveled,
            _ => CompactionPolicy::Vlsm { phi: 1 << random.usize(..6), debt_bytes: [0, 16 << 10][random.usize(..2)] },
        })
        .durability([Durability::Buffered, Durability::Sync][usize::from(random.usize(..8) == 0)])
}

struct Run {
    random: Rng,
    directory: TempDir,
    database: Database,
    world: World,
    snapshots: Vec<(Snapshot, World)>,
}

fn splits(random: &mut Rng) -> Vec<Vec<u8>> {
    let mut splits: Vec<Vec<u8>> = (0..random.usize(..4)).map(|_| key(random)).collect();
    splits.sort();
    splits.dedup();
    splits
}

/// Keys from a small space, some sharing long prefixes, some binary.
fn key(random: &mut Rng) -> Vec<u8> {
    let number = random.usize(..300);
    match random.usize(..10) {
        0 => vec![0xff; 1 + number % 5],
        1 => [vec![b'p'; 40], number.to_string().into_bytes()].concat(),
        2 => vec![0, number as u8],
        _ => format!("key{number:03}").into_bytes(),
    }
}

fn value(random: &mut Rng) -> Vec<u8> {
    let len = match random.usize(..50) {
        0 => 0,
        1 => 5_000 + random.usize(..90_000),
        _ => random.usize(..120),
    };
    let byte = random.usize(..256) as u8;
    (0..len).map(|index| byte.wrapping_add((index / 7) as u8)).collect()
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let directory = tempfile::tempdir().unwrap();
        let database = options(directory.path(), &mut random).open().unwrap();
        Run { random, directory, database, world: World::new(), snapshots: Vec::new() }
    }

    fn step(&mut self) {
        match self.random.usize(..100) {
            0..50 => self.write_batch(),
            50..65 => self.read_point(),
            65..85 => self.read_range(),
            85..90 => self.take_or_drop_snapshot(),
            90..93 => self.change_keyspaces(),
            93 => self.database.flush().unwrap(),
            94 => self.compact(),
            95 => self.database.persist().unwrap(),
            96 => self.check_checkpoint(),
            97 => self.reopen(),
            _ => self.multi_get(),
        }
    }

    fn compact(&mut self) {
        match self.some_keyspace() {
            Some((_, keyspace)) if self.random.bool() => {
                let from = key(&mut self.random);
                let compacted =
                    if self.random.bool() { keyspace.compact_range(..) } else { keyspace.compact_range(from..) };
                compacted.unwrap();
            }
            _ => self.database.wait_for_compactions().unwrap(),
        }
    }

    fn some_keyspace(&mut self) -> Option<(String, Keyspace)> {
        if self.world.is_empty() {
            self.change_keyspaces();
        }
        let index = self.random.usize(..self.world.len().max(1));
        let name = self.world.keys().nth(index)?.clone();
        let keyspace = self.database.existing_keyspace(&name).unwrap().unwrap();
        Some((name, keyspace))
    }

    fn write_batch(&mut self) {
        let mut batch = self.database.batch();
        let mut changed = self.world.clone();
        for _ in 0..1 + self.random.usize(..12) {
            let Some((name, keyspace)) = self.some_keyspace() else { return };
            let key = key(&mut self.random);
            let map = changed.entry(name).or_default();
            if self.random.usize(..4) == 0 {
                batch.remove(&keyspace, &key).unwrap();
                map.remove(&key);
            } else {
                let value = value(&mut self.random);
                batch.insert(&keyspace, &key, &value).unwrap();
                map.insert(key, value);
            }
        }
        if self.random.usize(..10) == 0 {
            return; // Dropped uncommitted: nothing happens.
        }
        if self.random.usize(..10) == 0 {
            batch.commit_with(Durability::Sync).unwrap();
        } else {
            batch.commit().unwrap();
        }
        assert!(batch.is_empty());
        self.world = changed;
    }

    fn change_keyspaces(&mut self) {
        let name = format!("keyspace-{}", self.random.usize(..4));
        if self.world.contains_key(&name) {
            if self.world.len() > 1 && self.random.usize(..3) == 0 {
                let old = self.database.existing_keyspace(&name).unwrap().unwrap();
                self.database.drop_keyspace(&name).unwrap();
                assert!(old.get("key001").is_err(), "a handle of a dropped keyspace is refused");
                self.world.remove(&name);
                for (_, world) in &mut self.snapshots {
                    world.remove(&name);
                }
            } else {
                assert!(self.database.create_keyspace(&name, &[]).is_err(), "the name is taken");
            }
            return;
        }
        let splits = splits(&mut self.random);
        let splits: Vec<&[u8]> = splits.iter().map(Vec::as_slice).collect();
        self.database.create_keyspace(&name, &splits).unwrap();
        self.world.insert(name.clone(), Map::new());
        for (_, world) in &mut self.snapshots {
            world.insert(name.clone(), Map::new());
        }
    }

    fn read_point(&mut self) {
        let Some((name, keyspace)) = self.some_keyspace() else { return };
        let key = key(&mut self.random);
        let expected = self.world[&name].get(&key);
        assert_eq!(keyspace.get(&key).unwrap().as_deref(), expected.map(Vec::as_slice), "{name} {key:?}");
        assert_eq!(keyspace.contains_key(&key).unwrap(), expected.is_some());
        for (snapshot, world) in &self.snapshots {
            let expected = world[&name].get(&key);
            assert_eq!(snapshot.get(&keyspace, &key).unwrap().as_deref(), expected.map(Vec::as_slice));
        }
    }

    fn multi_get(&mut self) {
        let Some((name, keyspace)) = self.some_keyspace() else { return };
        let keys: Vec<Vec<u8>> = (0..self.random.usize(..20)).map(|_| key(&mut self.random)).collect();
        let found = keyspace.multi_get(&keys).unwrap();
        let expected: Vec<_> = keys.iter().map(|key| self.world[&name].get(key).map(Vec::as_slice)).collect();
        assert_eq!(found.iter().map(|value| value.as_deref()).collect::<Vec<_>>(), expected);
    }

    fn bounds(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let bound = |random: &mut Rng| match random.usize(..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key(random)),
            _ => Bound::Excluded(key(random)),
        };
        (bound(&mut self.random), bound(&mut self.random))
    }

    fn read_range(&mut self) {
        let Some((name, keyspace)) = self.some_keyspace() else { return };
        let bounds = self.bounds();
        let prefix: Option<Vec<u8>> = (self.random.usize(..3) == 0).then(|| {
            let key = key(&mut self.random);
            key[..self.random.usize(..key.len() + 1)].to_vec()
        });
        let which = self.random.usize(..self.snapshots.len() + 1);
        let (entries, map) = match self.snapshots.get(which) {
            Some((snapshot, world)) => match &prefix {
                Some(prefix) => (snapshot.prefix(&keyspace, prefix), &world[&name]),
                None => (snapshot.range(&keyspace, bounds.clone()), &world[&name]),
            },
            None => match &prefix {
                Some(prefix) => (keyspace.prefix(prefix), &self.world[&name]),
                None => (keyspace.range(bounds.clone()), &self.world[&name]),
            },
        };
        let inside = |key: &Vec<u8>| match &prefix {
            Some(prefix) => key.starts_with(prefix),
            None => std::ops::RangeBounds::contains(&bounds, key),
        };
        let expected: Vec<_> = map.iter().filter(|(key, _)| inside(key)).collect();
        drain(entries, &expected, &mut self.random);
    }

    fn take_or_drop_snapshot(&mut self) {
        if self.snapshots.len() < 3 && self.random.usize(..2) == 0 {
            self.snapshots.push((self.database.snapshot(), self.world.clone()));
        } else if !self.snapshots.is_empty() {
            let index = self.random.usize(..self.snapshots.len());
            self.snapshots.swap_remove(index);
        }
    }

    fn check_checkpoint(&mut self) {
        let copy = tempfile::tempdir().unwrap();
        self.database.checkpoint(copy.path()).unwrap();
        let read_only = Database::builder(copy.path()).open_read_only().unwrap();
        compare(&read_only, &self.world);
        drop(read_only);
        compare(&options(copy.path(), &mut self.random).open().unwrap().into(), &self.world);
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        let builder = options(self.directory.path(), &mut self.random);
        // The old handle first, or the lock refuses the new one.
        let placeholder = tempfile::tempdir().unwrap();
        let old = std::mem::replace(&mut self.database, Database::open(placeholder.path()).unwrap());
        old.close().unwrap();
        let mut faults = Vec::new();
        Database::check(self.directory.path(), &mut |fault| faults.push(fault.to_string())).unwrap();
        assert_eq!(faults, Vec::<String>::new());
        self.database = builder.open().unwrap();
        compare(&self.database.clone().into(), &self.world);
    }
}

/// Takes the entries from both ends in random turns.
fn drain(mut entries: thalweg::Range, expected: &[(&Vec<u8>, &Vec<u8>)], random: &mut Rng) {
    let (mut front, mut back) = (0, expected.len());
    let style = random.usize(..3);
    loop {
        let forward = style == 0 || style == 2 && random.usize(..2) == 0;
        let found = if forward { entries.next() } else { entries.next_back() };
        let Some(found) = found else { break };
        let (key, value): (Slice, Slice) = found.unwrap();
        assert!(front < back, "unexpected entry {key:?}");
        let index = if forward { front } else { back - 1 };
        assert_eq!((&*key, &*value), (expected[index].0.as_slice(), expected[index].1.as_slice()));
        if forward { front += 1 } else { back -= 1 }
    }
    assert_eq!(front, back, "entries are missing");
    assert!(entries.next().is_none() && entries.next_back().is_none(), "an ended range stays ended");
}

fn compare(database: &ReadOnlyDatabase, world: &World) {
    assert_eq!(database.keyspaces(), world.keys().cloned().collect::<Vec<_>>());
    for (name, map) in world {
        let keyspace = database.existing_keyspace(name).unwrap().unwrap();
        let found: Map = keyspace.iter().map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
        assert!(found == *map, "{name} differs");
    }
}

fn run(seeds: std::ops::Range<u64>, steps: usize) {
    for seed in seeds {
        let mut run = Run::new(seed);
        for _ in 0..steps {
            run.step();
        }
        run.reopen();
    }
}

#[test]
fn random_operations_agree_with_a_map_a() {
    run(0..6, 600);
}

#[test]
fn random_operations_agree_with_a_map_b() {
    run(100..106, 600);
}

#[test]
fn a_long_run_reaches_the_deep_levels() {
    let mut run = Run::new(7);
    for _ in 0..4_000 {
        run.step();
    }
    let statistics = run.database.statistics();
    let deepest = statistics.keyspaces.iter().map(|keyspace| keyspace.levels.len()).max();
    assert!(deepest >= Some(3), "only {deepest:?} levels were reached");
    run.reopen();
}
