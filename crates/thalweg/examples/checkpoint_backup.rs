//! Backups by checkpoints: a copy that opens as a database, taken while writes go on, and checked before it counts.
//!
//! A checkpoint links table files where the file system can, so that it takes little time and space. A backup elsewhere
//! is a copy of its directory, which nobody changes.
//!
//! ```text
//! cargo run -p thalweg --example checkpoint_backup
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use thalweg::{Database, ErrorKind, Readable};

const KEPT: usize = 2;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let backups = path.join("backups");
    let db = Database::open(path.join("database"))?;
    let orders = db.keyspace("orders")?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        // A pair of keys in each batch: a backup has both or neither.
        let writer = scope.spawn(|| {
            let mut number = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                let mut batch = db.batch();
                batch.insert(&orders, format!("order {number}"), "one thalweg")?;
                batch.insert(&orders, format!("paid {number}"), "yes")?;
                batch.commit()?;
                number += 1;
            }
            thalweg::Result::Ok(number)
        });
        let taken = (1..=4).try_for_each(|number| back_up(&db, &backups, number));
        ended.store(true, Ordering::Relaxed);
        let written = writer.join().map_err(|_| "the writer panicked")??;
        println!("{written} orders were written meanwhile");
        taken
    })?;

    let inside = db.checkpoint(path.join("database").join("backup")).err().ok_or("it is refused")?;
    assert_eq!(inside.kind(), ErrorKind::InvalidInput, "a backup inside of what it is a backup of");
    let left = backups_in(&backups)?;
    assert_eq!(left.len(), KEPT);

    // The database is lost; the newest backup takes its place.
    drop(orders);
    db.close()?;
    std::fs::remove_dir_all(path.join("database"))?;
    std::fs::rename(left.last().ok_or("there is a backup")?, path.join("database"))?;
    let db = Database::builder(path.join("database")).create_if_missing(false).open()?;
    let orders = db.keyspace("orders")?;
    assert_eq!(orders.prefix("order ").try_count()?, orders.prefix("paid ").try_count()?);
    Ok(db.close()?)
}

fn back_up(db: &Database, backups: &Path, number: u64) -> Outcome<()> {
    let path = backups.join(format!("{number:04}"));
    db.checkpoint(&path)?;
    let mut faults = 0;
    Database::check(&path, &mut |fault| {
        println!("backup {number}: {fault}");
        faults += 1;
    })?;
    if faults > 0 {
        return Err(format!("backup {number} is damaged").into());
    }
    let copy = Database::builder(&path).open_read_only()?;
    let (orders, paid) = (copy.keyspace("orders")?, "paid ");
    assert_eq!(orders.prefix("order ").try_count()?, orders.prefix(paid).try_count()?);
    // The oldest go once there is a newer one that is sound.
    let all = backups_in(backups)?;
    for old in all.iter().rev().skip(KEPT) {
        std::fs::remove_dir_all(old)?;
    }
    Ok(())
}

/// Oldest first.
fn backups_in(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    found.sort();
    Ok(found)
}
