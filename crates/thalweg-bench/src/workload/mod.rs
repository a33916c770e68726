//! Workloads, and the clients that execute them.
//!
//! A [`Definition`] is a workload by name. With parameters and a [`Dataset`] it makes a [`Workload`], which gives each
//! thread a [`Client`]. A client *prepares* an operation (draws a key, fills a value: not timed) and then *executes* it
//! (timed).
//!
//! - `catalogue`: all workloads, by name
//! - `values`: values of any size, made at no cost
//! - `touch`: reads a byte of every cache line of a value
//! - `mix`: the next kind of operation, by shares
//! - `acknowledgements`: the inserts that are done, with many threads
//! - `load`: puts every record once, in random order
//! - `numbered/`, `ycsb/`, `metadata/`, `retail/`, `prefix_dist`: the families of workloads

use crate::engine::Session;
use crate::error::Result;
use crate::parameters::Parameters;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod acknowledgements;
mod catalogue;
mod load;
mod metadata;
mod mix;
mod numbered;
mod prefix_dist;
mod retail;
#[cfg(test)]
mod tests;
mod touch;
mod values;
mod ycsb;

pub use catalogue::{all, expand, families, find};

/// The kind of records in a dataset; a workload runs on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// Numbered keys as `db_bench` makes them.
    Numbered,
    /// YCSB's user table.
    Ycsb,
    /// Directories of 20 entries (PHAT-E3).
    Metadata,
    /// Tables with indexes (PMB-E10).
    Retail,
    /// Keys in ranges of different heat (VLSM-E4).
    PrefixDist,
}

/// The records loaded so far, shared by the steps of a run.
#[derive(Debug)]
pub struct Dataset {
    /// Its kind.
    pub kind: DatasetKind,
    /// Records that a load writes, and from which keys are drawn.
    pub records: u64,
    /// The number of the next record to be inserted.
    pub next: AtomicU64,
    /// Records `0..acknowledged` are all written (an insert beyond a hole counts only when the hole is filled).
    pub acknowledged: AtomicU64,
}

impl Dataset {
    /// Claims up to `count` numbers of records for this thread, and returns the first. A load uses this to write each
    /// record below `limit` once, with any number of threads. `None`: all are claimed.
    pub fn claim(&self, count: u64, limit: u64) -> Option<u64> {
        let beyond = |next: u64| (next < limit).then(|| next.saturating_add(count).min(limit));
        self.next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, beyond).ok()
    }
}

/// Makes a workload for parameters and a dataset.
///
/// # Errors
/// `Usage` for parameters that make no sense with the workload.
pub type Make = fn(&Parameters, &Arc<Dataset>) -> Result<Box<dyn Workload>>;

/// A workload by name.
pub struct Definition {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for `bench list`.
    pub about: &'static str,
    /// The source of the workload: a paper's number, or a published specification.
    pub source: &'static str,
    /// The kind of data it runs on.
    pub dataset: DatasetKind,
    /// The name of the workload that loads such data. A load names itself: it begins with an empty database.
    pub load: &'static str,
    /// The values of parameters that are not given.
    pub defaults: Defaults,
    /// A load writes the dataset's records divided by this number: 1 means all of them.
    pub share: u64,
    /// Makes the workload.
    pub make: Make,
    /// The first keys of all partitions but the first, for a dataset of `records` records cut into `partitions`
    /// partitions of about equal size.
    pub splits: fn(&Parameters, u64, u32) -> Vec<Vec<u8>>,
}

/// The values of a workload's parameters that are not given, before `Parameters::scale`.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Records of the load.
    pub records: u64,
    /// Operations, if no time ends the workload; `None`: as many as records.
    pub operations: Option<u64>,
    /// Seconds; `None`: until the operations are done. Loads have none.
    pub seconds: Option<f64>,
    /// Whether the operations end the workload even if its time has not passed: after them it has nothing left to work
    /// on.
    pub bounded: bool,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
}

/// A workload on a dataset, ready to run.
pub trait Workload: Sync {
    /// The client of thread `thread`. Threads from `threads` on have background clients: see [`Workload::background`].
    fn client(&self, thread: usize, threads: usize, seed: u64) -> Box<dyn Client + '_>;

    /// The number of operations that one call of a client counts for: the entries of a batch, or of a stretch of
    /// `readseq`.
    fn operations_each(&self) -> u64 {
        1
    }

    /// Whether a call may return the result of an earlier one. Then no latency counts from the arrival of an operation,
    /// and there is no open loop.
    fn overlaps(&self) -> bool {
        false
    }

    /// The number of background clients, which run until the others are done (`readwhilewriting`'s writer).
    fn background(&self) -> usize {
        0
    }

    /// How often a background client acts, in operations a second. `None`: as fast as it can.
    fn background_rate(&self) -> Option<f64> {
        None
    }
}

/// The client that runs on one thread.
pub trait Client: Send {
    /// Chooses the next operation and makes its keys and values. `None`: there is nothing more to do.
    fn prepare(&mut self) -> Option<Class>;

    /// Executes the prepared operation.
    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome>;
}

/// The class of an operation in reports; each has its own latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A point read.
    Get,
    /// A range read.
    Scan,
    /// An index query: a short scan, then point reads.
    Query,
    /// A new key.
    Insert,
    /// A new value for a key.
    Update,
    /// A removal.
    Remove,
    /// A read and then a write of the same key.
    ReadModifyWrite,
    /// Several writes at once.
    Transaction,
    /// A compaction of everything.
    Compact,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Class; 9] = [
        Class::Get,
        Class::Scan,
        Class::Query,
        Class::Insert,
        Class::Update,
        Class::Remove,
        Class::ReadModifyWrite,
        Class::Transaction,
        Class::Compact,
    ];

    /// Whether the operation writes.
    pub fn writes(self) -> bool {
        !matches!(self, Class::Get | Class::Scan | Class::Query)
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The number of operations it counts for: 1, or the entries of a batch or of a stretch of `readseq`.
    pub operations: u64,
    /// Reads among them that found nothing.
    pub missing: u64,
    /// Bytes of keys and values given to the engine.
    pub written_bytes: u64,
    /// Bytes of keys and values that the engine returned.
    pub read_bytes: u64,
}
