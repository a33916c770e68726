//! An index that is rebuilt: one record clears the old one, and readers with a snapshot still see it.
//!
//! `Keyspace::clear` costs the same however many entries there are. What is written after it belongs to the new index.
//!
//! ```text
//! cargo run -p thalweg --example rebuild_index
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Keyspace};

const DOCUMENTS: u32 = 20_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let (documents, by_length) = (db.keyspace("documents")?, db.keyspace("by length")?);
    for number in 0..DOCUMENTS {
        documents.insert(number.to_be_bytes(), "x".repeat(number as usize % 50))?;
    }
    build(&db, &documents, &by_length)?;

    // A report runs on the old index while the documents change and the index is rebuilt.
    let report = db.snapshot();
    for number in 0..DOCUMENTS / 2 {
        documents.remove(number.to_be_bytes())?;
    }
    by_length.clear()?;
    assert!(by_length.is_empty()?);
    build(&db, &documents, &by_length)?;

    let (before, after) = (report.iter(&by_length).try_count()?, by_length.iter().try_count()?);
    assert_eq!((before, after), (u64::from(DOCUMENTS), u64::from(DOCUMENTS / 2)));
    println!("the report sees {before} entries of the index, everybody else {after}");
    drop(report);
    Ok(db.close()?)
}

/// Writes an entry of the index for each document, in batches.
fn build(db: &Database, documents: &Keyspace, by_length: &Keyspace) -> Outcome<()> {
    let mut batch = db.batch();
    for entry in documents.iter() {
        let (number, text) = entry?;
        let length = u32::try_from(text.len())?;
        batch.insert(by_length, [&length.to_be_bytes(), &number[..]].concat(), "")?;
        if batch.len() == 1_000 {
            batch.commit()?;
        }
    }
    Ok(batch.commit()?)
}
