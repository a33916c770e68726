//! A bulk import: many records in batches, with a resume point that is written together with them.
//!
//! Each batch also says how many lines are in. An import that was ended anywhere goes on behind the last batch that
//! survived: no line is lost, and none is read twice.
//!
//! ```text
//! cargo run -p thalweg --example bulk_import
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Keyspace};

const LINES: u64 = 50_000;
const LINES_A_BATCH: usize = 1_000;
const RESUME: &str = "lines in";

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    // It ends in the middle of a batch.
    let imported = import(path, LINES / 2 + 17)?;
    assert_eq!(imported, LINES / 2);
    let imported = import(path, LINES)?;
    assert_eq!(imported, LINES);

    let db = Database::builder(path).create_if_missing(false).open()?;
    let lines = db.keyspace("lines")?;
    assert_eq!(lines.iter().try_count()?, LINES);
    assert_eq!(lines.get(41_u64.to_be_bytes())?.as_deref(), Some(line(41).as_bytes()));
    println!("{LINES} lines are in; the import was resumed once");
    Ok(db.close()?)
}

/// Imports up to line `end`; how many lines are in. What does not fill a batch is not written, as if it was killed.
fn import(path: &Path, end: u64) -> Outcome<u64> {
    let db = Database::open(path)?;
    let (lines, state) = (db.keyspace("lines")?, db.keyspace("import")?);
    let first = resume_point(&state)?;
    let mut batch = db.batch();
    for number in first..end {
        batch.insert(&lines, number.to_be_bytes(), line(number))?;
        if batch.len() == LINES_A_BATCH {
            batch.insert(&state, RESUME, (number + 1).to_be_bytes())?;
            batch.commit()?;
        }
    }
    // All of it at once, instead of a sync for each batch.
    db.persist()?;
    let imported = resume_point(&state)?;
    db.close()?;
    Ok(imported)
}

fn resume_point(state: &Keyspace) -> Outcome<u64> {
    Ok(match state.get(RESUME)? {
        Some(number) => u64::from_be_bytes(number.as_ref().try_into()?),
        None => 0,
    })
}

fn line(number: u64) -> String {
    format!("line {number} of a long file")
}
