//! The space of what was removed comes back without another write, whatever level its tombstones have come to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database};

/// Has no factor in common with 7919.
const KEYS: u32 = 20_000;

fn builder(directory: &TempDir, policy: CompactionPolicy) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(1 << 20)
        .table_bytes(512 << 10)
        .level1_bytes(2 << 20)
        .compression(Compression::None)
        .compaction_policy(policy)
}

fn table_bytes(database: &Database) -> u64 {
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    database.statistics().keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.bytes).sum()
}

#[test]
fn when_all_is_removed_no_table_is_left_that_is_worth_the_name() {
    for (name, policy) in [("leveled", CompactionPolicy::Leveled), ("vlsm", CompactionPolicy::VLSM)] {
        for removed_percent in [100, 80] {
            let directory = tempfile::tempdir().unwrap();
            let database = builder(&directory, policy).open().unwrap();
            let keyspace = database.keyspace("a").unwrap();
            for number in 0..KEYS {
                keyspace.insert((number.wrapping_mul(7919) % KEYS).to_be_bytes(), [number as u8; 500]).unwrap();
            }
            let full = table_bytes(&database);
            assert!(full > u64::from(KEYS) * 500, "{full}");
            for number in (0..KEYS).filter(|number| number % 100 < removed_percent) {
                keyspace.remove(number.to_be_bytes()).unwrap();
            }
            let (left, most) = (table_bytes(&database), full * u64::from(100 - removed_percent) / 100);
            let levels = &database.statistics().keyspaces[0].levels;
            assert!(left <= most + most / 4 + (64 << 10), "{name}: {left} of {full} bytes: {levels:?}");
            assert_eq!(keyspace.iter().count(), KEYS as usize * (100 - removed_percent as usize) / 100);
        }
    }
}
