//! Counters that many threads add to: each adds up in memory, and one thread writes the sums now and then.
//!
//! A read, an addition and a write of one key are three calls, so that two threads could undo each other's additions.
//! Here only one thread writes. A crash takes what was added since it wrote last, never a part of what it wrote.
//!
//! ```text
//! cargo run -p thalweg --example counters
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use thalweg::{Database, Keyspace};

const THREADS: u64 = 4;
const ADDITIONS: u64 = 20_000;
const WRITE_INTERVAL: Duration = Duration::from_millis(20);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let counters = db.keyspace("counters")?;
    counters.insert("page 0", 1_000_u64.to_le_bytes())?;
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let sender = sender.clone();
            scope.spawn(move || {
                (0..ADDITIONS).try_for_each(|number| sender.send(format!("page {}", (thread + number) % 5)))
            });
        }
        drop(sender);
        write_sums(&db, &counters, &receiver)
    })?;

    let mut sum = 0;
    for page in 0..5 {
        let count = value_of(&counters, &format!("page {page}"))?;
        println!("page {page}: {count}");
        sum += count;
    }
    assert_eq!(sum, 1_000 + THREADS * ADDITIONS);
    Ok(db.close()?)
}

/// Until every sender is gone.
fn write_sums(db: &Database, counters: &Keyspace, receiver: &mpsc::Receiver<String>) -> Outcome<()> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut written = Instant::now();
    loop {
        let received = receiver.recv();
        let is_last = received.is_err();
        if let Ok(name) = received {
            *sums.entry(name).or_default() += 1;
        }
        if is_last || written.elapsed() >= WRITE_INTERVAL {
            let mut batch = db.batch();
            for (name, sum) in std::mem::take(&mut sums) {
                batch.insert(counters, &name, (value_of(counters, &name)? + sum).to_le_bytes())?;
            }
            batch.commit()?;
            written = Instant::now();
        }
        if is_last {
            return Ok(());
        }
    }
}

fn value_of(counters: &Keyspace, name: &str) -> Outcome<u64> {
    Ok(match counters.get(name)? {
        Some(value) => u64::from_le_bytes(value.as_ref().try_into()?),
        None => 0,
    })
}
