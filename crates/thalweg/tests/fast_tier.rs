//! The fast tier in memory, on real files: what it holds is read as if it were in tables, whoever splits, compacts or
//! evicts meanwhile; it is there after a kill, also for an open without a tier; memory and log stay within bounds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fastrand::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use thalweg::{Builder, Compression, Database, FastTier, FastTierStatistics, Keyspace, Readable};

const KEYS: u32 = 5_000;
const TIER_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: usize = 32 << 10;

fn builder(path: &Path) -> Builder {
    Database::builder(path)
        .memtable_bytes(MEMTABLE_BYTES)
        .table_bytes(64 << 10)
        .level1_bytes(256 << 10)
        .growth_factor(4)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(256 << 10)
        .compression(Compression::None)
}

fn tiered(path: &Path) -> Builder {
    builder(path).fast_tier(FastTier::Memory, TIER_BYTES)
}

fn tier(database: &Database) -> FastTierStatistics {
    database.statistics().fast_tier.unwrap()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes and removes random keys, also to the model.
fn write(keyspace: &Keyspace, model: &mut Model, random: &mut Rng, times: u32) {
    for _ in 0..times {
        let key = random.u32(..KEYS).to_be_bytes().to_vec();
        if random.u32(..5) == 0 {
            keyspace.remove(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![random.u8(..); random.usize(..300)];
            keyspace.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

fn entries(keyspace: &Keyspace) -> Model {
    keyspace.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn verify(keyspace: &Keyspace, model: &Model) {
    assert!(entries(keyspace) == *model, "ranges differ");
    let backwards: Vec<_> = keyspace.iter().rev().map(Result::unwrap).map(|(key, _)| key.to_vec()).collect();
    assert!(backwards.iter().eq(model.keys().rev()), "ranges backwards differ");
    let keys: Vec<[u8; 4]> = (0..KEYS).step_by(7).map(u32::to_be_bytes).collect();
    let together = keyspace.multi_get(&keys).unwrap();
    for (key, found) in keys.iter().zip(together) {
        assert_eq!(found.as_deref(), model.get(&key[..]).map(Vec::as_slice));
        assert_eq!(keyspace.get(key).unwrap().as_deref(), model.get(&key[..]).map(Vec::as_slice));
        assert_eq!(keyspace.contains_key(key).unwrap(), model.contains_key(&key[..]));
    }
}

/// Copies a database that is open and that nobody writes to: as if its process were killed at that moment.
fn killed(from: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for directory in ["", "log", "tables"] {
        std::fs::create_dir_all(copy.path().join(directory)).unwrap();
        for entry in std::fs::read_dir(from.join(directory)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
                // A file of the background may be gone by now.
                let _ = std::fs::copy(entry.path(), copy.path().join(directory).join(entry.file_name()));
            }
        }
    }
    copy
}

#[test]
fn it_reads_as_a_map_through_compactions_splits_and_evictions() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(1));
    for round in 0..20 {
        write(&keyspace, &mut model, &mut random, 2_000);
        if round % 5 == 4 {
            verify(&keyspace, &model);
        }
    }
    let (snapshot, then) = (database.snapshot(), model.clone());
    write(&keyspace, &mut model, &mut random, 20_000);
    let seen = snapshot.keyspace(&keyspace);
    let found: Model = seen.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(found == then, "a snapshot reads what there was");
    drop((seen, snapshot));
    verify(&keyspace, &model);
    let statistics = database.statistics();
    let tier = statistics.fast_tier.clone().unwrap();
    assert!(tier.minor_compactions > 20 && tier.evictions > 3 && tier.internal_compactions > 0, "{tier:?}");
    assert!(statistics.splits > 0, "the tier counts for splits");
    assert!(tier.bytes <= TIER_BYTES && tier.memory_bytes <= TIER_BYTES + TIER_BYTES / 4, "{tier:?}");
    assert!(!tier.partitions.is_empty() && tier.partitions[0].starts_with("data partition "), "{tier:?}");
    drop(keyspace);
    database.close().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    verify(&database.keyspace("data").unwrap(), &model);
}

#[test]
fn after_a_kill_an_open_with_the_tier_or_without_it_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(2));
    write(&keyspace, &mut model, &mut random, 30_000);
    assert!(tier(&database).bytes > TIER_BYTES / 4, "{:?}", tier(&database));
    for open in [tiered, builder] {
        let copy = killed(directory.path());
        let reopened = open(copy.path()).open().unwrap();
        verify(&reopened.keyspace("data").unwrap(), &model);
        reopened.flush().unwrap();
        reopened.wait_for_compactions().unwrap();
        verify(&reopened.keyspace("data").unwrap(), &model);
        drop(reopened);
        let read = builder(copy.path()).open_read_only().unwrap();
        let found = read.existing_keyspace("data").unwrap().unwrap();
        assert!(found.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).eq(model.clone()));
    }
    let copy = killed(directory.path());
    let read = tiered(copy.path()).open_read_only().unwrap();
    assert_eq!(read.existing_keyspace("data").unwrap().unwrap().iter().count(), model.len());
}

#[test]
fn a_close_and_a_flush_leave_nothing_in_it_nor_much_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(3));
    write(&keyspace, &mut model, &mut random, 10_000);
    assert!(tier(&database).bytes > 0);
    database.flush().unwrap();
    assert_eq!((tier(&database).bytes, tier(&database).log_bytes), (0, 0));
    verify(&keyspace, &model);
    write(&keyspace, &mut model, &mut random, 10_000);
    assert!(tier(&database).bytes > 0, "a flush does not turn it off");
    drop(keyspace);
    database.close().unwrap();
    let database = builder(directory.path()).open().unwrap();
    let log = database.statistics().log_backlog_bytes;
    assert!(log <= 512 << 10, "{log} bytes of log were left by the close");
    verify(&database.keyspace("data").unwrap(), &model);
}

#[test]
fn a_checkpoint_has_what_is_in_it() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(4));
    write(&keyspace, &mut model, &mut random, 10_000);
    let target = elsewhere.path().join("copy");
    database.checkpoint(&target).unwrap();
    let then = model.clone();
    write(&keyspace, &mut model, &mut random, 2_000);
    let copy = builder(&target).open().unwrap();
    verify(&copy.keyspace("data").unwrap(), &then);
    verify(&keyspace, &model);
}

#[test]
fn writers_of_a_full_tier_go_on_while_a_range_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).fast_tier_log_bytes_max(4 << 20).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(5));
    write(&keyspace, &mut model, &mut random, 10_000);
    let mut range = keyspace.iter();
    range.next().unwrap().unwrap();
    for _ in 0..10 {
        write(&keyspace, &mut model, &mut random, 4_000);
        let tier = tier(&database);
        assert!(tier.bytes <= TIER_BYTES + 4 * MEMTABLE_BYTES as u64, "{tier:?}");
        assert!(tier.log_bytes <= tier.log_bytes_max + tier.log_bytes_max / 4, "{tier:?}");
    }
    assert!(range.all(|entry| entry.is_ok()));
    verify(&keyspace, &model);
}

#[test]
fn drops_and_clears_give_its_memory_and_its_log_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let (kept, dropped) = (database.keyspace("kept").unwrap(), database.keyspace("dropped").unwrap());
    let (mut model, mut random) = (Model::new(), Rng::with_seed(6));
    write(&dropped, &mut Model::new(), &mut random, 3_000);
    write(&kept, &mut Model::new(), &mut random, 3_000);
    let snapshot = database.snapshot();
    kept.clear().unwrap();
    database.drop_keyspace("dropped").unwrap();
    write(&kept, &mut model, &mut random, 20_000);
    verify(&kept, &model);
    drop(snapshot);
    database.flush().unwrap();
    verify(&kept, &model);
    let tier = tier(&database);
    assert_eq!((tier.bytes, tier.log_bytes), (0, 0), "{tier:?}");
}

#[test]
fn without_it_there_are_no_statistics_of_it_and_small_ones_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(directory.path()).open().unwrap();
    assert!(database.statistics().fast_tier.is_none());
    drop(database);
    let refused = builder(directory.path()).fast_tier(FastTier::Memory, 64 << 10).open().unwrap_err();
    assert!(refused.to_string().contains("fast_tier: at least the bytes of four memtables"), "{refused}");
}
