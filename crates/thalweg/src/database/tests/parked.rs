//! Tests of [`Database::drop_keyspace`] beside compactions that failed.

use crate::Database;
use crate::compaction::RunningJob;
use crate::format::TableId;
use crate::keyspaces::Keyspace;
use crate::ordered::OrderedKeyspace;
use std::time::{Duration, Instant};

#[test]
fn a_job_that_waits_for_its_next_try_does_not_hold_up_a_drop() {
    let root = std::env::temp_dir().join(format!("thalweg-parked-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let db = Database::builder(&root).open().unwrap();
    db.keyspace("a").unwrap().insert("1", "one").unwrap();
    db.flush().unwrap();
    let engine = db.engine();
    let writable = engine.writable().unwrap();
    // No coroutine gives it back: all might be busy for long.
    let job = |is_parked| RunningJob {
        level: 0,
        tables: [TableId(u64::MAX)].into(),
        key_min: Box::from(*b"1"),
        key_max: Box::from(*b"1"),
        output_level: 1,
        is_parked,
    };
    let partition = writable.ordered.partitions.iter().next().unwrap();
    partition.running().push(job(true));
    let keyspaces = engine.keyspaces();
    let keyspace = keyspaces.of_kind::<OrderedKeyspace>().next().unwrap();
    assert!(keyspace.is_idle());
    partition.running()[0] = job(false);
    assert!(!keyspace.is_idle(), "it runs");
    partition.running()[0] = job(true);
    db.drop_keyspace("a").unwrap();
    let start = Instant::now();
    while writable.lineage.state().tables().next().is_some() {
        assert!(start.elapsed() < Duration::from_secs(20), "the manifest was not told of the drop");
        std::thread::sleep(Duration::from_millis(5));
    }
    partition.running().clear();
    db.close().unwrap();
    let _ = std::fs::remove_dir_all(&root);
}
