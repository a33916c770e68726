//! Compactions by each scheduler do the same, on the threads that they should have.

#![cfg(feature = "experiments")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{Builder, CompactionScheduling, Compression, Database, TableWrites};

const SCHEDULERS: [CompactionScheduling; 3] =
    [CompactionScheduling::PmBlade, CompactionScheduling::Coroutines, CompactionScheduling::Threads];

const KEYS: u32 = 20_000;

/// Two workers, three compactions each; level 0 gathers all until somebody asks.
fn builder(directory: &TempDir, scheduling: CompactionScheduling) -> Builder {
    Database::builder(directory.path())
        .compaction_scheduling(scheduling)
        .compaction_workers(2)
        .compactions_a_worker(3)
        .io_depth(4)
        .memtable_bytes(512 << 10)
        .table_bytes(256 << 10)
        .level0_trigger(1000)
        .partitions_max(1)
        .table_writes(TableWrites::Direct)
        .compression(Compression::None)
}

/// The names of this process's threads that begin with `thalweg-compact`.
fn compaction_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("thalweg-compact")).count()
}

/// A new thread has its name only once it runs, and one that was joined may be seen for a moment.
fn assert_compaction_threads(expected: usize) {
    let since = Instant::now();
    while compaction_threads() != expected {
        assert!(since.elapsed() < Duration::from_secs(10), "{} threads, not {expected}", compaction_threads());
    }
}

#[test]
fn every_scheduler_cuts_a_job_and_leaves_the_same() {
    for scheduling in SCHEDULERS {
        for is_pinned in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let database = builder(&directory, scheduling).pin_compaction_workers(is_pinned).open().unwrap();
            let threads = if scheduling == CompactionScheduling::Threads { 6 } else { 2 };
            assert_compaction_threads(threads);
            let keyspace = database.keyspace("a").unwrap();
            for round in 0..2_u8 {
                for number in 0..KEYS {
                    let number = number.wrapping_mul(7919) % KEYS;
                    keyspace.insert(number.to_be_bytes(), [round; 100]).unwrap();
                }
            }
            keyspace.compact_range(..).unwrap();
            let statistics = database.statistics();
            assert!(statistics.subtasks > 1, "{scheduling:?}: {} subtasks", statistics.subtasks);
            let levels = &statistics.keyspaces[0].levels;
            assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), u64::from(KEYS), "{scheduling:?}");
            assert!(keyspace.iter().values().all(|value| value.unwrap()[..] == [1; 100]));
            let (reads, writes) = (&statistics.background_reads, &statistics.background_writes);
            assert!(reads.count > 0 && writes.count > 0 && statistics.merge_slices.count > 0, "{scheduling:?}");
            assert!(reads.total_ns > 0 && reads.p50_ns <= reads.max_ns && writes.p99_ns >= writes.p50_ns);
            if scheduling != CompactionScheduling::PmBlade {
                assert_eq!((statistics.gate_waits, statistics.write_queue_waits), (0, 0), "{scheduling:?}");
            }
            database.close().unwrap();
            assert_compaction_threads(0);
        }
    }
}

#[test]
fn how_many_compactions_a_worker_may_have_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    for compactions in [0, 65] {
        let refused = Database::builder(directory.path()).compactions_a_worker(compactions).open().unwrap_err();
        assert!(refused.to_string().contains("compactions_a_worker"), "{refused}");
    }
}
