//! A queue that survives crashes: jobs wait in order, workers take one each, and a job whose worker died is taken
//! again.
//!
//! A taken job moves from the keyspace `waiting` to `taken` in one batch, so it is always in exactly one of them. What
//! is in `taken` after a start was being worked on when the process ended.
//!
//! ```text
//! cargo run -p thalweg --example queue
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use thalweg::{Database, Durability, Keyspace, Slice};

const JOBS: u64 = 200;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

struct Queue {
    db: Database,
    waiting: Keyspace,
    taken: Keyspace,
    /// Held while a job is put in or taken: two workers must not take the same one.
    turn: Mutex<()>,
}

fn run(path: &Path) -> Outcome<()> {
    let queue = Queue::open(path)?;
    for number in 0..JOBS {
        queue.push(&format!("job {number}"))?;
    }
    let (first, job) = queue.take()?.ok_or("there are jobs")?;
    assert_eq!(job, "job 0");
    // The worker of `first` dies, and the process with it.
    drop(queue);

    let queue = Queue::open(path)?;
    assert_eq!(queue.take()?.ok_or("there are jobs")?.0, first, "a job that was not finished comes first");
    queue.finish(&first)?;
    let done: Result<u64, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| work(&queue).map_err(|error| error.to_string()))).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked".to_string())?).sum()
    });
    assert_eq!(done?, JOBS - 1, "every job was done once");
    assert!(queue.waiting.is_empty()? && queue.taken.is_empty()?);
    println!("{JOBS} jobs are done");
    Ok(queue.db.close()?)
}

fn work(queue: &Queue) -> Outcome<u64> {
    let mut done = 0;
    while let Some((number, _job)) = queue.take()? {
        queue.finish(&number)?;
        done += 1;
    }
    Ok(done)
}

impl Queue {
    fn open(path: &Path) -> Outcome<Queue> {
        let db = Database::open(path)?;
        let queue = Queue { waiting: db.keyspace("waiting")?, taken: db.keyspace("taken")?, db, turn: Mutex::new(()) };
        let mut batch = queue.db.batch();
        for job in queue.taken.iter() {
            let (number, job) = job?;
            batch.insert(&queue.waiting, &number, job)?;
            batch.remove(&queue.taken, number)?;
        }
        batch.commit_with(Durability::Sync)?;
        Ok(queue)
    }

    fn push(&self, job: &str) -> Outcome<()> {
        let _turn = self.turn.lock().map_err(|_| "a worker panicked")?;
        let mut last = 0;
        for (number, _) in [self.waiting.last()?, self.taken.last()?].into_iter().flatten() {
            last = last.max(u64::from_be_bytes(number.as_ref().try_into()?));
        }
        Ok(self.waiting.insert((last + 1).to_be_bytes(), job)?)
    }

    /// The oldest job, and its number, by which it is finished.
    fn take(&self) -> Outcome<Option<(Slice, Slice)>> {
        let _turn = self.turn.lock().map_err(|_| "a worker panicked")?;
        let Some((number, job)) = self.waiting.first()? else { return Ok(None) };
        let mut batch = self.db.batch();
        batch.remove(&self.waiting, &number)?;
        batch.insert(&self.taken, &number, &job)?;
        batch.commit()?;
        Ok(Some((number, job)))
    }

    fn finish(&self, number: &Slice) -> Outcome<()> {
        Ok(self.taken.remove(number)?)
    }
}
