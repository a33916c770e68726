//! Power cuts must meet partitions that split and merge: so the workload grows and shrinks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use thalweg::{Durability, DurabilityBackend};
use thalweg_powercut::options::{Choice, builder};
use thalweg_powercut::workload::Workload;
use thalweg_powercut::writer::Keyspaces;

/// Splits and merges of the first `writes` writes of `seed`.
fn reshaped(seed: u64, writes: u64) -> (u64, u64) {
    let directory = Directory(std::env::temp_dir().join(format!("thalweg-shrink-phase-{seed}-{}", std::process::id())));
    let database =
        builder(&directory.0, seed, &Choice { backend: DurabilityBackend::SettleRounds, ..Choice::default() })
            .open()
            .unwrap();
    let keyspaces = Keyspaces::open(&database).unwrap();
    let workload = Workload { seed };
    for number in 1..=writes {
        let mut write = workload.write(number);
        write.durability = Durability::Buffered;
        keyspaces.apply(&database, workload, &write).unwrap();
        // As a disk that is busy with syncs would.
        if number % 512 == 0 {
            database.wait_for_compactions().unwrap();
        }
    }
    database.wait_for_compactions().unwrap();
    let statistics = database.statistics();
    database.close().unwrap();
    (statistics.splits, statistics.merges)
}

#[test]
fn with_every_other_seed_partitions_split_and_merge() {
    let (splits, merges) = [1, 3, 5, 7]
        .map(|seed| reshaped(seed, 12_000))
        .into_iter()
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert!(splits > 5 && merges > 0, "{splits} splits, {merges} merges");
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
