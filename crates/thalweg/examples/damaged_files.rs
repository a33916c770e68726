//! A damaged log: how an application finds out, and how it opens what was written before the damage.
//!
//! The default refuses to open, and changes nothing. `DamagePolicy::PointInTime` opens the state before the damage. It
//! reports what it dropped, and copies that to the folder `lost/`.
//!
//! ```text
//! cargo run -p thalweg --example damaged_files
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{DamagePolicy, Database, Durability, ErrorKind};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let letters = db.keyspace("letters")?;
    for number in 0..100 {
        letters.insert_with(format!("letter {number:02}"), "dear reader".repeat(20), Durability::Sync)?;
    }
    db.close()?;
    damage_the_log(path)?;

    // A check reads all that the database uses, and goes on behind a fault.
    let mut faults = Vec::new();
    Database::check(path, &mut |fault| faults.push(fault.to_string()))?;
    assert!(!faults.is_empty());
    println!("the check found: {}", faults[0]);

    let refused = Database::open(path).err().ok_or("a damaged database does not open")?;
    assert_eq!(refused.kind(), ErrorKind::Corruption);

    let db = Database::builder(path).damage_policy(DamagePolicy::PointInTime).open()?;
    let kept = db.keyspace("letters")?.iter().try_count()?;
    println!("{kept} of 100 letters are left; dropped: {}", db.dropped_by_recovery().join(", "));
    assert!((1..100).contains(&kept) && !db.dropped_by_recovery().is_empty());
    assert!(path.join("lost").is_dir());
    db.close()?;

    // The database is sound again.
    assert_eq!(Database::check(path, &mut |_| ())?.faults, 0);
    Ok(())
}

/// Changes a byte in the middle of the letters, as a failing disk does.
fn damage_the_log(path: &Path) -> Outcome<()> {
    for entry in std::fs::read_dir(path.join("log"))? {
        let log = entry?.path();
        let mut bytes = std::fs::read(&log)?;
        let letters: Vec<usize> =
            bytes.windows(9).enumerate().filter(|(_, b)| *b == b"letter 50").map(|(at, _)| at).collect();
        for at in letters {
            bytes[at] ^= 1;
            std::fs::write(&log, &bytes)?;
        }
    }
    Ok(())
}
