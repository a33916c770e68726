//! The fast tier in memory, on real files: what it holds is read as if it were in tables, whoever splits, compacts or
//! evicts meanwhile; it is there after a kill, also for an open without a tier; memory and log stay within bounds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tiered;

use fastrand::Rng;
use std::path::Path;
use tempfile::TempDir;
use thalweg::{Builder, Database, FastTier, FastTierStatistics, Readable};
use tiered::{MEMTABLE_BYTES, Model, TIER_BYTES, builder, copied, verify, write};

fn tiered(path: &Path) -> Builder {
    builder(path).fast_tier(FastTier::Memory, TIER_BYTES)
}

fn tier(database: &Database) -> FastTierStatistics {
    database.statistics().fast_tier.unwrap()
}

/// A copy of a database that is open and that nobody writes to: as if its process were killed at that moment.
fn killed(from: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copied(from, copy.path());
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
fn a_range_that_goes_on_sees_its_moment_and_keeps_no_replaced_tables() {
    let directory = tempfile::tempdir().unwrap();
    // Of a table that two partitions share, the part of the one that has evicted it counts as held by readers.
    let database = tiered(directory.path()).partitions_max(1).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(8));
    write(&keyspace, &mut model, &mut random, 20_000);
    let expected: Vec<_> = model.clone().into_iter().collect();
    let (mut range, mut front, mut back) = (keyspace.iter(), Vec::new(), Vec::new());
    let held = || {
        let tier = tier(&database);
        tier.memory_bytes.saturating_sub(tier.bytes)
    };
    let mut held_most = 0;
    for round in 0..12 {
        write(&keyspace, &mut model, &mut random, 4_000);
        held_most = held_most.max(held());
        // The background may replace tables once more behind an entry.
        let mut entries = 0;
        while entries == 0 || held() > TIER_BYTES / 10 {
            database.wait_for_compactions().unwrap();
            let entry = if round % 3 == 2 { range.next_back() } else { range.next() };
            let (key, value) = entry.unwrap().unwrap();
            if round % 3 == 2 { &mut back } else { &mut front }.push((key.to_vec(), value.to_vec()));
            entries += 1;
            assert!(entries < 50, "{} bytes stay", held());
        }
    }
    assert!(held_most > TIER_BYTES / 10, "the range kept {held_most} bytes at most: nothing was seen");
    let (from, to) = (1_024u32.to_be_bytes(), 2_048u32.to_be_bytes());
    assert!(front.iter().all(|(key, _)| **key < from[..]) && back.iter().all(|(key, _)| **key > to[..]));
    range.seek(from);
    range.seek_back(to);
    let between = |key: &[u8]| *key >= from[..] && *key <= to[..];
    let rest: Vec<_> = range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
    assert!(front == expected[..front.len()] && expected.ends_with(&back.into_iter().rev().collect::<Vec<_>>()));
    assert!(rest.iter().eq(expected.iter().filter(|(key, _)| between(key))), "a range reads what there was");
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
    assert!(refused.to_string().contains("fast_tier: at least four times memtable_bytes"), "{refused}");
}

#[test]
fn a_compaction_of_the_tier_leaves_sorted_tables_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(12));
    let mut merged = 0;
    for _ in 0..10 {
        write(&keyspace, &mut model, &mut random, 1_500);
        database.wait_for_compactions().unwrap();
        let before = tier(&database);
        database.compact_fast_tier().unwrap();
        let after = tier(&database);
        merged += after.internal_compactions - before.internal_compactions;
        assert!(after.partitions.iter().all(|report| report.contains(": n 0, ")), "{:?}", after.partitions);
        verify(&keyspace, &model);
    }
    assert!(merged > 0, "some of them had something to merge");
    let without = builder(&directory.path().join("without")).open().unwrap();
    without.compact_fast_tier().unwrap();
}
