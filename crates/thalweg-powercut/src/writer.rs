//! The writer: writes the workload into a database, and reports every promise.
//!
//! One thread writes, in the order of the numbers. Another calls `persist` at random moments, so that two syncs are in
//! flight. Each promise is one line, `promised N`, written at once and only after the engine's call has returned: a
//! reader of the line may rely on it. The contents found at the start are promised too: the open made them durable.

use crate::judge::Found;
use crate::options::{Choice, builder};
use crate::random::Random;
use crate::workload::{Change, FILES, KEYSPACES, SPLITS, Workload, Write, entry_of};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg::{Database, DirectoryKeyspace, Durability, Keyspace};

/// The input of the writer.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides the writes and the options.
    pub seed: u64,
    /// How the database is opened.
    pub choice: Choice,
    /// The last write, after which the writer closes the database; `None`: it writes until it is killed.
    pub last: Option<u64>,
    /// The greatest number of writes a second; 0: unlimited.
    pub rate: u64,
}

/// The output of promises, in ascending order.
struct Report<'a, W> {
    lines: Mutex<(u64, &'a mut W)>,
}

impl<W: io::Write> Report<'_, W> {
    fn promised(&self, number: u64) -> Result<(), String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if number <= lines.0 {
            return Ok(());
        }
        lines.0 = number;
        // One write call, so that a reader sees the whole line or, at the end of a life, only its beginning.
        let line = format!("promised {number}\n");
        lines.1.write_all(line.as_bytes()).and_then(|()| lines.1.flush()).map_err(|e| format!("cannot report: {e}"))
    }
}

/// The keyspaces of the workload.
pub struct Keyspaces {
    ordered: Vec<Keyspace>,
    files: DirectoryKeyspace,
}

impl Keyspaces {
    /// Creates the missing keyspaces.
    ///
    /// # Errors
    /// The engine's error.
    pub fn open(database: &Database) -> thalweg::Result<Self> {
        let mut ordered = Vec::new();
        for (index, name) in KEYSPACES.into_iter().take(FILES).enumerate() {
            let splits: &[&[u8]] = if index == 0 { &SPLITS } else { &[] };
            ordered.push(match database.existing_keyspace(name)? {
                Some(keyspace) => keyspace,
                None => database.create_keyspace(name, splits)?,
            });
        }
        Ok(Keyspaces { ordered, files: database.directory_keyspace(KEYSPACES[FILES])? })
    }

    /// Makes one write.
    ///
    /// # Errors
    /// The engine's error.
    pub fn apply(&self, database: &Database, workload: Workload, write: &Write) -> thalweg::Result<()> {
        let (number, durability) = (write.number, write.durability);
        if let [Change { keyspace, key, length }] = write.changes.as_slice() {
            let value = length.map(|length| workload.value(number, 0, length));
            return match (self.ordered.get(*keyspace), value) {
                (Some(ordered), Some(value)) => ordered.insert_with(key, value, durability),
                (Some(ordered), None) => ordered.remove_with(key, durability),
                (None, value) => {
                    let (directory, name) = entry_of(key).ok_or(thalweg::Error::Closed)?;
                    match value {
                        Some(value) => self.files.insert_with(directory, name, value, durability),
                        None => self.files.remove_with(directory, name, durability),
                    }
                }
            };
        }
        let mut batch = database.batch();
        for (place, Change { keyspace, key, length }) in write.changes.iter().enumerate() {
            let value = length.map(|length| workload.value(number, place, length));
            match (self.ordered.get(*keyspace), value) {
                (Some(ordered), Some(value)) => batch.insert(ordered, key, value)?,
                (Some(ordered), None) => batch.remove(ordered, key)?,
                (None, value) => {
                    let (directory, name) = entry_of(key).ok_or(thalweg::Error::Closed)?;
                    match value {
                        Some(value) => batch.insert_entry(&self.files, directory, name, value)?,
                        None => batch.remove_entry(&self.files, directory, name)?,
                    }
                }
            }
        }
        batch.commit_with(durability)
    }
}

/// Continues after the last write in the database. Returns the number of the last write.
///
/// # Errors
/// What went wrong, with the number of the write.
pub fn run(path: &Path, plan: &Plan, output: &mut (impl io::Write + Send)) -> Result<u64, String> {
    let workload = Workload { seed: plan.seed };
    let database = builder(path, plan.seed, &plan.choice).open().map_err(|error| format!("open failed: {error}"))?;
    let first = Found::read(&database.clone().into(), workload)?.prefix(workload, 0)? + 1;
    let report = Report { lines: Mutex::new((0, output)) };
    report.promised(first - 1)?;
    let keyspaces = Keyspaces::open(&database).map_err(|error| format!("a keyspace cannot be made: {error}"))?;
    let made = AtomicU64::new(first - 1);
    let ended = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let persister = scope.spawn(|| persist_now_and_then(&database, plan.seed ^ first, &made, &ended, &report));
        let written = write_all(&database, &keyspaces, plan, first, &made, &report);
        ended.store(true, Ordering::Relaxed);
        let persisted = persister.join().unwrap_or_else(|_| Err("the thread that persists panicked".to_owned()));
        persisted.and(written)
    })?;
    drop(keyspaces);
    database.close().map_err(|error| format!("close failed: {error}"))?;
    report.promised(written)?;
    Ok(written)
}

fn write_all<W: io::Write>(
    database: &Database,
    keyspaces: &Keyspaces,
    plan: &Plan,
    first: u64,
    made: &AtomicU64,
    report: &Report<'_, W>,
) -> Result<u64, String> {
    let workload = Workload { seed: plan.seed };
    let begin = Instant::now();
    for number in first..=plan.last.unwrap_or(u64::MAX) {
        let write = workload.write(number);
        let failed = |error| format!("write {number} failed: {error}");
        keyspaces.apply(database, workload, &write).map_err(failed)?;
        made.store(number, Ordering::Release);
        if write.persist {
            database.persist().map_err(failed)?;
        }
        if write.persist || write.durability == Durability::Sync {
            report.promised(number)?;
        }
        if plan.rate > 0 {
            let due = begin + Duration::from_secs_f64((number - first) as f64 / plan.rate as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(plan.last.unwrap_or(u64::MAX).max(first - 1))
}

fn persist_now_and_then<W: io::Write>(
    database: &Database,
    seed: u64,
    made: &AtomicU64,
    ended: &AtomicBool,
    report: &Report<'_, W>,
) -> Result<(), String> {
    let mut random = Random::of(seed, 1);
    while !ended.load(Ordering::Relaxed) {
        // Some pauses are so long that only the engine's own syncs flush the disk.
        let pause_ms = random.pick(&[10, 60, 60, 1500]);
        for _ in 0..random.below(pause_ms) {
            if !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let number = made.load(Ordering::Acquire);
        database.persist().map_err(|error| format!("persist after write {number} failed: {error}"))?;
        report.promised(number)?;
    }
    Ok(())
}
