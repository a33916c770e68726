//! An open after a kill takes no more memory than memtables may have, however long the log is: what does not fit goes
//! to tables on the way. An open for reading that would take more than it may is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tiered;

use fastrand::Rng;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use thalweg::{Builder, Database, Error, FastTier, Keyspace, Readable};
use tiered::{MEMTABLE_BYTES, Model, TIER_BYTES, builder, copied, verify, write};

/// Of which memtables may have a quarter.
const BUDGET_BYTES: u64 = 4 << 20;
const MEMTABLES_BYTES: u64 = BUDGET_BYTES / 4;

fn tiered(path: &Path) -> Builder {
    builder(path).fast_tier(FastTier::Memory, 4 * TIER_BYTES)
}

fn small(path: &Path) -> Builder {
    builder(path).memory_budget(BUDGET_BYTES)
}

/// A copy of a database that is open and that nobody writes to: as if its process were killed at that moment. The
/// background has come to rest, so that files do not change while they are copied.
fn killed(database: &Database, from: &Path) -> TempDir {
    database.wait_for_compactions().unwrap();
    let is_at_rest = || {
        let statistics = database.statistics();
        statistics.unsettled_edits == 0 && statistics.retained_bytes == 0
    };
    while !is_at_rest() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let copy = tempfile::tempdir().unwrap();
    copied(from, copy.path());
    copy
}

/// A database that was killed while its tier pinned a long log, and what it had.
fn with_a_long_log(seed: u64) -> (TempDir, Model) {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(seed));
    write(&keyspace, &mut model, &mut random, 50_000);
    let log_bytes = database.statistics().fast_tier.unwrap().log_bytes;
    assert!(log_bytes > 5 * MEMTABLES_BYTES, "{log_bytes} bytes of log");
    (killed(&database, directory.path()), model)
}

fn data(database: &Database) -> Keyspace {
    database.keyspace("data").unwrap()
}

/// Checks that the open has flushed on its way, and what memtables had meanwhile.
fn expect_flushes(database: &Database) {
    let statistics = database.statistics();
    // A memtable grows by as much as it has, and each has 4 KiB while it is empty.
    let most = MEMTABLES_BYTES + 8 * MEMTABLE_BYTES as u64;
    let (flushes, bytes) = (statistics.replay_flushes, statistics.replay_memory_bytes);
    assert!(flushes > 0 && bytes <= most, "{flushes} flushes, {bytes} bytes of memtables, which may have {most}");
}

#[test]
fn an_open_without_the_tier_takes_the_memory_of_memtables_and_has_everything() {
    let (directory, mut model) = with_a_long_log(1);
    let database = small(directory.path()).open().unwrap();
    expect_flushes(&database);
    verify(&data(&database), &model);
    let again = killed(&database, directory.path());
    write(&data(&database), &mut model.clone(), &mut Rng::with_seed(2), 2_000);
    drop(database);
    // What the first open has flushed is not replayed by the next one.
    let database = small(again.path()).open().unwrap();
    verify(&data(&database), &model);
    write(&data(&database), &mut model, &mut Rng::with_seed(3), 5_000);
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    verify(&data(&database), &model);
    database.close().unwrap();
    verify(&data(&small(again.path()).open().unwrap()), &model);
}

#[test]
fn a_partition_has_no_more_sealed_memtables_than_it_may() {
    let (directory, model) = with_a_long_log(4);
    let one = |path: &Path| builder(path).partitions_max(1).sealed_memtables_max(1);
    let copy = tempfile::tempdir().unwrap();
    copied(directory.path(), copy.path());
    let unbounded = builder(copy.path()).sealed_memtables_max(1_000_000).open().unwrap();
    let statistics = unbounded.statistics();
    let partitions = statistics.keyspaces[0].partitions;
    let of_one = statistics.replay_memory_bytes / partitions;
    assert!(statistics.replay_flushes == 0 && of_one > 6 * MEMTABLE_BYTES as u64, "{of_one} bytes a partition");
    let database = one(directory.path()).open().unwrap();
    let statistics = database.statistics();
    // One that is filled, one that waits, and the one that was sealed and is flushed.
    let most = partitions * 4 * MEMTABLE_BYTES as u64;
    assert!(statistics.replay_flushes > 0 && statistics.replay_memory_bytes <= most, "{statistics:?}");
    verify(&data(&database), &model);
}

#[test]
fn what_does_not_fit_into_a_smaller_tier_goes_to_level_0() {
    let (directory, model) = with_a_long_log(5);
    let less = TIER_BYTES / 4;
    let open = |path: &Path| small(path).fast_tier(FastTier::Memory, less).open().unwrap();
    let database = open(directory.path());
    expect_flushes(&database);
    verify(&data(&database), &model);
    let again = killed(&database, directory.path());
    let tier = database.statistics().fast_tier.unwrap();
    assert!(tier.bytes <= less && tier.evictions > 0, "{tier:?}");
    drop(database);
    let database = open(again.path());
    verify(&data(&database), &model);
    database.flush().unwrap();
    verify(&data(&database), &model);
}

#[test]
fn a_tier_that_is_large_enough_takes_it_all() {
    let (directory, model) = with_a_long_log(6);
    let database = tiered(directory.path()).memory_budget(64 << 20).open().unwrap();
    assert_eq!(database.statistics().replay_flushes, 0);
    verify(&data(&database), &model);
}

#[test]
fn keyspaces_that_the_log_creates_clears_and_drops_are_as_the_log_says() {
    let directory = tempfile::tempdir().unwrap();
    let database = tiered(directory.path()).open().unwrap();
    let (data, dropped) = (data(&database), database.keyspace("dropped").unwrap());
    let (mut model, mut random) = (Model::new(), Rng::with_seed(7));
    let files = database.directory_keyspace("files").unwrap();
    for round in 0..10_u32 {
        write(&data, &mut Model::new(), &mut random, 2_000);
        write(&dropped, &mut Model::new(), &mut random, 2_000);
        for file in 0..500_u32 {
            files.insert(u64::from(round), file.to_be_bytes(), vec![round as u8; 100]).unwrap();
        }
        if round == 3 {
            files.clear().unwrap();
        }
        if round == 6 {
            data.clear().unwrap();
            model.clear();
        }
        let late = database.keyspace(&format!("late {round}")).unwrap();
        write(&late, &mut Model::new(), &mut Rng::with_seed(u64::from(round)), 500);
        if round % 2 == 1 {
            database.drop_keyspace(&format!("late {round}")).unwrap();
        }
    }
    database.drop_keyspace("dropped").unwrap();
    data.clear().unwrap();
    write(&data, &mut model, &mut random, 3_000);
    let copy = killed(&database, directory.path());
    for _ in 0..2 {
        let database = small(copy.path()).sealed_memtables_max(1).open().unwrap();
        assert!(database.existing_keyspace("dropped").unwrap().is_none());
        verify(&database.keyspace("data").unwrap(), &model);
        for round in 0..10_u32 {
            let late = database.existing_keyspace(&format!("late {round}")).unwrap();
            assert_eq!(late.is_some(), round % 2 == 0);
            if let Some(late) = late {
                let mut expected = Model::new();
                let scratch = database.keyspace("scratch").unwrap();
                write(&scratch, &mut expected, &mut Rng::with_seed(u64::from(round)), 500);
                verify(&late, &expected);
                database.drop_keyspace("scratch").unwrap();
            }
        }
        let files = database.existing_directory_keyspace("files").unwrap().unwrap();
        for round in 0..10_u32 {
            let found = files.list(u64::from(round)).map(Result::unwrap).count();
            assert_eq!(found, if round > 3 { 500 } else { 0 }, "directory {round}");
        }
    }
}

#[test]
fn an_open_for_reading_that_would_take_too_much_memory_says_how_much() {
    let (directory, model) = with_a_long_log(8);
    let read = |path: &Path, budget| builder(path).memory_budget(budget).open_read_only();
    let refused = read(directory.path(), BUDGET_BYTES).err().unwrap();
    let Error::NotEnoughMemory { needed_bytes, allowed_bytes, .. } = refused else { panic!("{refused}") };
    assert_eq!(allowed_bytes, BUDGET_BYTES);
    let text = refused.to_string();
    assert!(text.contains("open the database for writing once") && text.contains(&needed_bytes.to_string()), "{text}");
    let enough = read(directory.path(), needed_bytes).unwrap();
    let taken = enough.statistics().replay_memory_bytes;
    assert!((needed_bytes / 3..=needed_bytes).contains(&taken), "{taken} bytes, not {needed_bytes}");
    let found = enough.keyspace("data").unwrap();
    assert!(found.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).eq(model.clone()));
    drop((found, enough));
    let database = small(directory.path()).open().unwrap();
    let copy = killed(&database, directory.path());
    drop(database);
    let found = read(copy.path(), BUDGET_BYTES).unwrap();
    assert_eq!(found.keyspace("data").unwrap().iter().count(), model.len());
}
