//! Measurements that are kept for a week: old ones go day by day.
//!
//! Keys are big-endian times, so that everything older than a moment is one range at the front. It is removed in
//! batches of a bounded size, each of which is atomic: a crash in between leaves less to remove.
//!
//! ```text
//! cargo run -p thalweg --example retention
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Keyspace};

const DAY_S: u64 = 86_400;
const KEPT_S: u64 = 7 * DAY_S;
const INTERVAL_S: u64 = 600;
const REMOVALS_A_BATCH: usize = 100;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let measurements = db.keyspace("measurements")?;
    let start_s = 1_750_000_000_u64;
    for day in 0..20 {
        let from_s = start_s + day * DAY_S;
        for time_s in (from_s..from_s + DAY_S).step_by(INTERVAL_S as usize) {
            measurements.insert(time_s.to_be_bytes(), format!("{} mm", 2_000 + time_s % 97))?;
        }
        let removed = forget_before(&db, &measurements, (from_s + DAY_S).saturating_sub(KEPT_S))?;
        assert_eq!(removed, if day < 7 { 0 } else { DAY_S / INTERVAL_S });
    }

    let oldest = measurements.first()?.ok_or("nothing is left")?.0;
    assert_eq!(oldest, (start_s + 13 * DAY_S).to_be_bytes());
    assert_eq!(measurements.iter().try_count()?, KEPT_S / INTERVAL_S);
    println!("{} measurements are left", measurements.iter().try_count()?);
    Ok(db.close()?)
}

/// Removes everything older than `time_s`; how many there were.
fn forget_before(db: &Database, measurements: &Keyspace, time_s: u64) -> Outcome<u64> {
    let mut removed = 0;
    let mut batch = db.batch();
    for key in measurements.range(..time_s.to_be_bytes()).keys() {
        batch.remove(measurements, key?)?;
        removed += 1;
        if batch.len() == REMOVALS_A_BATCH {
            batch.commit()?;
        }
    }
    batch.commit()?;
    Ok(removed)
}
