//! Reads at a snapshot while writers go on: everything it gives is of one moment, however long the reading takes and
//! whatever is overwritten, flushed and compacted meanwhile.
//!
//! ```text
//! cargo run -p thalweg --example snapshot_reads
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use thalweg::{Database, Keyspace, Snapshot};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const GAUGES: u32 = 2_000;
/// Snapshots a second reader takes while the first is held.
const GLANCES: u32 = 20;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    // Small memtables and tables, so that flushes and compactions happen while we read.
    let db = Database::builder(path).memtable_bytes(64 << 10).table_bytes(64 << 10).level0_trigger(2).open()?;
    let gauges = db.keyspace("gauges")?;
    write_round(&db, &gauges, 0)?;
    let before = db.snapshot();
    println!("a snapshot is taken after round {}", only_round(&before, &gauges)?);

    let is_over = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                write_round(&db, &gauges, round)?;
            }
            Outcome::Ok(round)
        });
        let watched = watch(&db, &gauges, &before);
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|_| Err("the writer panicked".into()));
        watched?;
        written
    })?;

    let done = db.statistics();
    let (flushes, compactions) = (done.flushes, done.compactions + done.trivial_moves);
    println!("meanwhile: {rounds} rounds written, {flushes} flushes, {compactions} compactions");
    println!("the first snapshot still reads round {}", only_round(&before, &gauges)?);
    println!("a read without a snapshot finds round {}", only_round(&db.snapshot(), &gauges)?);
    drop((before, gauges));
    db.close()?;
    Ok(())
}

/// Looks at the old snapshot and at fresh ones, in turn.
fn watch(db: &Database, gauges: &Keyspace, before: &Snapshot) -> Outcome<()> {
    let mut latest = 0;
    for _ in 0..GLANCES {
        if only_round(before, gauges)? != 0 {
            return Err("the snapshot changed".into());
        }
        let now = only_round(&db.snapshot(), gauges)?;
        if now < latest {
            return Err("time went backwards".into());
        }
        latest = now;
    }
    println!("{GLANCES} newer snapshots went on to round {latest}, each with one round only");
    Ok(())
}

/// Overwrites every gauge, all in one batch.
fn write_round(db: &Database, gauges: &Keyspace, round: u32) -> Outcome<()> {
    let mut batch = db.batch();
    for gauge in 0..GAUGES {
        batch.insert(gauges, gauge.to_be_bytes(), round.to_be_bytes())?;
    }
    batch.commit()?;
    Ok(())
}

/// The round that all gauges are of; an error if there are two.
fn only_round(snapshot: &Snapshot, gauges: &Keyspace) -> Outcome<u32> {
    let mut round = None;
    for entry in snapshot.iter(gauges) {
        let found = u32::from_be_bytes(entry?.1.as_ref().try_into()?);
        if *round.get_or_insert(found) != found {
            return Err("a snapshot has two rounds".into());
        }
    }
    round.ok_or_else(|| "no gauges".into())
}
