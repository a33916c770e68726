//! Compaction policies on real files: what each does to the levels, that each takes over what another has left, and
//! what is counted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use thalweg::{Builder, CompactionPolicy, Compression, Database, Keyspace, Statistics};

const KEYS: u32 = 20_000;

fn builder(directory: &TempDir, policy: CompactionPolicy) -> Builder {
    Database::builder(directory.path())
        .compaction_policy(policy)
        .memtable_bytes(32 << 10)
        .table_bytes(32 << 10)
        .level1_bytes(128 << 10)
        .growth_factor(4)
        .partitions_max(1)
        .compression(Compression::None)
}

/// Every key once, in an order that is neither theirs nor its reverse.
fn fill(keyspace: &Keyspace, generation: u32) {
    for number in 0..KEYS {
        let key = (u64::from(number) * 7919 % u64::from(KEYS)) as u32;
        keyspace.insert(key.to_be_bytes(), value(key, generation)).unwrap();
    }
}

fn value(key: u32, generation: u32) -> Vec<u8> {
    [key.to_le_bytes(), generation.to_le_bytes()].concat().repeat(12)
}

/// Reads everything back, in both ways, and gives the statistics.
fn verify(database: &Database, generation: u32) -> Statistics {
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let mut next = 0_u32;
    for entry in keyspace.iter() {
        let (key, found) = entry.unwrap();
        assert_eq!((&*key, &*found), (&next.to_be_bytes()[..], &*value(next, generation)));
        next += 1;
    }
    assert_eq!(next, KEYS);
    for key in (0..KEYS).step_by(97) {
        assert_eq!(keyspace.get(key.to_be_bytes()).unwrap().unwrap(), value(key, generation)[..]);
    }
    database.statistics()
}

const VLSM: CompactionPolicy = CompactionPolicy::Vlsm { phi: 4, debt_bytes: 0 };

#[test]
fn vlsm_keeps_its_levels_small_and_most_of_level_1_good() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, VLSM).open().unwrap();
    fill(&database.keyspace("data").unwrap(), 1);
    let statistics = verify(&database, 1);
    let levels = &statistics.keyspaces[0].levels;
    assert_eq!(levels[0].tables, 0, "level 0 gives every table away at once");
    assert!(levels[1].bytes <= 4 * (32 << 10) && levels[2].bytes <= 16 * (32 << 10), "{levels:?}");
    assert!(levels[3].bytes > 32 * (32 << 10), "{levels:?}");
    assert!(statistics.tables_good > 100, "{} good", statistics.tables_good);
    assert!(statistics.tables_good > 3 * statistics.tables_poor, "{} poor", statistics.tables_poor);
}

#[test]
fn a_policy_takes_over_what_another_has_left() {
    let directory = tempfile::tempdir().unwrap();
    let policies = [CompactionPolicy::Leveled, VLSM, CompactionPolicy::VLSM, CompactionPolicy::Leveled];
    for (policy, generation) in policies.into_iter().zip(1..) {
        let database = builder(&directory, policy).open().unwrap();
        if generation > 1 {
            verify(&database, generation - 1);
        }
        fill(&database.keyspace("data").unwrap(), generation);
        verify(&database, generation);
        database.close().unwrap();
        let mut faults = Vec::new();
        builder(&directory, policy).check(&mut |fault| faults.push(fault)).unwrap();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[test]
fn every_byte_that_compactions_read_belongs_to_a_chain() {
    let chain = |policy| {
        let directory = tempfile::tempdir().unwrap();
        let database = builder(&directory, policy).level0_trigger(if policy == VLSM { 1 } else { 4 }).open().unwrap();
        fill(&database.keyspace("data").unwrap(), 1);
        verify(&database, 1)
    };
    let (leveled, vlsm) = (chain(CompactionPolicy::Leveled), chain(VLSM));
    for statistics in [&leveled, &vlsm] {
        let chains = &statistics.chains;
        assert!(chains.memtables > 0 && chains.memtables <= statistics.flushes);
        assert!(chains.bytes_mean <= chains.bytes_max as f64 && chains.bytes_p50 <= chains.bytes_p99);
        assert!(chains.stages_mean >= 1.0 && chains.stages_max >= 2, "{chains:?}");
        let stages: f64 = chains.stage_bytes.iter().map(|(mean, _)| mean).sum();
        assert!((stages - chains.bytes_mean).abs() < 1.0, "{chains:?}");
    }
    // One table a job: a chain for each memtable. What the levels below did after the last is in none.
    let counted = vlsm.chains.bytes_mean * vlsm.chains.memtables as f64;
    assert!(counted <= vlsm.compaction_read_bytes as f64 * 1.15 && counted >= vlsm.compaction_read_bytes as f64 * 0.8);
    assert!(vlsm.chains.bytes_max < leveled.chains.bytes_max, "{:?} {:?}", vlsm.chains, leveled.chains);
}

#[test]
fn writers_that_are_faster_than_compactions_are_slowed_down() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(&directory, CompactionPolicy::Leveled).level0_trigger(1).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let slowed = |statistics: Statistics| {
        statistics.stalls.iter().find(|stall| stall.cause == "pacing").map_or(0, |stall| stall.count)
    };
    // Nothing bounds the writer but room. Its partition is pressed from the second sealed memtable on, and from a
    // quarter of the way to the stop of level 0.
    for generation in 1..200 {
        fill(&keyspace, generation);
        if slowed(database.statistics()) > 0 {
            return;
        }
    }
    panic!("nobody was slowed down");
}

#[test]
fn options_of_vlsm_out_of_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for phi in [0, 1025] {
        let policy = CompactionPolicy::Vlsm { phi, debt_bytes: 0 };
        let refused = Database::builder(directory.path()).compaction_policy(policy).open().map(drop).unwrap_err();
        assert!(refused.to_string().contains("phi"), "{refused}");
    }
}
