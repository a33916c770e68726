//! A health check for a service: whether writes are accepted, and what the background cannot do.
//!
//! Background work that fails is retried. Until it succeeds the database reports it, and writers wait only where they
//! would have to wait for that work.
//!
//! ```text
//! cargo run -p thalweg --example health_check
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, ErrorKind};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The answer of a health check.
#[derive(Debug, PartialEq)]
enum Answer {
    Sound,
    /// Reads and writes work, but something needs attention.
    Degraded(Vec<String>),
    /// Only reads work, until the database is opened again.
    ReadOnly(String),
    Down,
}

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    db.keyspace("orders")?.insert("1", "one thalweg")?;
    let answer = health(&db);
    println!("health: {answer:?}");
    assert_eq!(answer, Answer::Sound);

    let handle = db.clone();
    db.close()?;
    assert_eq!(health(&handle), Answer::Down);
    Ok(())
}

fn health(db: &Database) -> Answer {
    let health = db.health();
    match health.writes_refused {
        Some(error) if error.kind() == ErrorKind::Closed => Answer::Down,
        Some(error) => Answer::ReadOnly(error.to_string()),
        None if health.failing.is_empty() => Answer::Sound,
        None => {
            let line = |failure: &thalweg::BackgroundFailure| {
                format!("{} failed {} times: {}", failure.work, failure.times, failure.error)
            };
            Answer::Degraded(health.failing.iter().map(line).collect())
        }
    }
}
