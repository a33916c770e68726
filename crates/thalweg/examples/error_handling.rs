//! What to do about each kind of error: what the caller can mend, what passes by itself, what ends the database.
//!
//! ```text
//! cargo run -p thalweg --example error_handling
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::Duration;
use thalweg::{Database, Durability, ErrorKind, Keyspace, WriteBatch};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

/// What a program may do about an error.
#[derive(Debug, PartialEq, Eq)]
enum Advice {
    /// The call was wrong: nothing was changed, and to call again gives the same.
    MendTheCall,
    /// It passes: nothing was changed, and the call may be made again.
    TryAgain,
    /// Writes are refused until the database is opened again; reads go on.
    OpenAgain,
    /// A file is not what was written: restore it, or open with `DamagePolicy::PointInTime`.
    Restore,
    /// Look at what the operating system says.
    AskTheSystem,
}

fn advice(error: &thalweg::Error) -> Advice {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::NoKeyspace | ErrorKind::NoDatabase => Advice::MendTheCall,
        ErrorKind::NoSpace | ErrorKind::Locked => Advice::TryAgain,
        ErrorKind::Poisoned | ErrorKind::Closed => Advice::OpenAgain,
        ErrorKind::Corruption => Advice::Restore,
        _ => Advice::AskTheSystem,
    }
}

fn run(path: &Path) -> Outcome<()> {
    let missing = error_of(Database::builder(path).create_if_missing(false).open())?;
    assert_eq!((missing.kind(), advice(&missing)), (ErrorKind::NoDatabase, Advice::MendTheCall));

    let db = Database::open(path)?;
    let second = error_of(Database::open(path))?;
    assert_eq!((second.kind(), advice(&second)), (ErrorKind::Locked, Advice::TryAgain));

    let orders = db.keyspace("orders")?;
    assert_eq!(advice(&error_of(orders.insert("", "an empty key"))?), Advice::MendTheCall);

    let mut batch = db.batch();
    fill(&mut batch, &orders)?;
    commit(&mut batch)?;
    assert!(orders.contains_key("1")?);

    // The batch keeps its writes when a commit fails.
    let archive = db.keyspace("archive")?;
    batch.insert(&archive, "1", "one thalweg")?;
    db.drop_keyspace("archive")?;
    let gone = error_of(batch.commit())?;
    assert_eq!((gone.kind(), batch.len()), (ErrorKind::NoKeyspace, 1));
    println!("a commit failed: {gone}");
    batch.clear();

    // An error of a range is its last item; a count that could hide it is not the one to take.
    let entries = orders.iter();
    db.close()?;
    let closed = error_of(entries.try_count())?;
    assert_eq!((closed.kind(), advice(&closed)), (ErrorKind::Closed, Advice::OpenAgain));
    Ok(())
}

/// The error of a call that must fail.
fn error_of<T>(result: thalweg::Result<T>) -> Outcome<thalweg::Error> {
    Ok(result.err().ok_or("the call was to fail")?)
}

fn fill(batch: &mut WriteBatch, orders: &Keyspace) -> thalweg::Result<()> {
    batch.insert(orders, "1", "one thalweg")?;
    batch.insert(orders, "2", "two thalwegs")
}

/// A full disk passes: the same batch is committed again, for a while.
fn commit(batch: &mut WriteBatch) -> thalweg::Result<()> {
    for wait_ms in [10, 100, 1_000] {
        match batch.commit_with(Durability::Sync) {
            Err(error) if advice(&error) == Advice::TryAgain => thread::sleep(Duration::from_millis(wait_ms)),
            committed => return committed,
        }
    }
    batch.commit_with(Durability::Sync)
}
