//! The measured engine: any key-value engine, behind [`Engine`] and [`Session`].
//!
//! An adapter adds nothing to an engine. What the engine lacks, the adapter refuses ([`Error`]) or leaves
//! out of [`Counters`]; [`Description::ignored`] names the settings that mean nothing to the engine.
//!
//! - `thalweg`: the engine of this project; `tree_shape`: its settings for levels
//! - `directory_client`: a thread that uses a directory keyspace of it; `overlapped`: the lookups it has in flight;
//!   `translation`: words of both
//! - `terms`: what a reader must know of its settings; `ignored`: those that mean nothing
//! - `f_hashes`: what its hash tables of directories have done
//! - `null`: an engine that does nothing

mod directory_client;
mod f_hashes;
mod ignored;
mod null;
mod overlapped;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod thalweg;
mod translation;
mod tree_shape;

pub use self::null::Null;
pub use self::thalweg::Thalweg;

use crate::error::{Error, Result};
use crate::settings::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// An engine that can be opened, by name.
pub trait Factory: Sync {
    /// The name on the command line and in reports: `thalweg`, `rocksdb`.
    fn name(&self) -> &'static str;

    /// Refuses settings that [`Factory::open`] would refuse whatever the database is, before a run begins.
    ///
    /// # Errors
    /// `Usage`, naming the setting.
    fn check(&self, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    /// Opens the database in `path`, an existing and, the first time, empty directory. `splits` are the first keys of
    /// the partitions but the first, in order; empty: one partition.
    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>>;
}

/// The engine's own name in that of a variant of it: `thalweg` in `thalweg:backend=none`.
pub fn engine_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// An open database.
pub trait Engine: Send + Sync {
    /// The engine's name and settings, and what it does not do.
    fn describe(&self) -> Description;

    /// One thread's use of it.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Makes everything written so far durable.
    fn persist(&self) -> Result<()>;

    /// Flushes memtables and waits until no compaction is due. `false`: the engine has no way to wait for that.
    fn settle(&self) -> Result<bool>;

    /// The engine's counts since it was opened.
    fn counters(&self) -> Counters;

    /// The engine's gauges, by name with its unit last. They go up and down, and a step reports their greatest values.
    /// They are read some times a second while the engine works. Empty if it has none.
    fn gauges(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Bytes on disk of tables that were replaced and are about to be given back; `None`: it does not tell.
    fn replaced_bytes(&self) -> Option<u64> {
        None
    }

    /// Closes it in good order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's use of an engine. Keys and values are bytes; keys sort as bytes.
pub trait Session {
    /// Writes one entry. `sync`: it is durable when this returns.
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Writes many entries at once, all or nothing. An engine without batches refuses.
    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()>;

    /// Removes a key, whether it is there or not.
    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()>;

    /// Gives the value of `key` to `value`, in place where the engine can. `false`: there is none.
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Gives the values of `keys` to `value`, in whatever order, and says how many there were. An engine that cannot
    /// read several at once reads one after the other.
    fn multi_get(&mut self, keys: &[Vec<u8>], value: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut found = 0;
        for key in keys {
            found += u64::from(self.get(key, value)?);
        }
        Ok(found)
    }

    /// Begins to look up `key`, and gives `value` what a lookup of this thread has found that ended, this one or an
    /// earlier one; says whether it has found anything. `None`: fewer than `depth` are in flight, and none has ended.
    /// An engine that cannot have lookups in flight looks `key` up.
    fn get_overlapped(
        &mut self,
        key: &[u8],
        _in_flight: (LookupsBy, usize),
        value: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>> {
        self.get(key, value).map(Some)
    }

    /// Compacts everything down to the last level, and returns when that is done. An engine that cannot refuses.
    fn compact(&mut self) -> Result<()> {
        Err(Error::Usage("this engine has no compaction that a caller can ask for".into()))
    }

    /// Gives the entries from `from` on, in order, until `entry` says `false` or there are no more.
    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
}

/// How a thread has several lookups in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupsBy {
    /// The thread submits their reads itself.
    Reader,
    /// As futures; threads of the engine make their reads.
    Futures,
}

/// The description of an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Its name on the command line; in a report a variant's whole name: `thalweg:backend=none`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its settings as it took them, each with its value: the fairness table's row.
    pub settings: BTreeMap<String, String>,
    /// Settings that it has no counterpart for.
    pub ignored: Vec<String>,
    /// The terms of the comparison, by `durability`, `memory`, `space` and `tables`: a phrase each, in the words of the
    /// other engines'. Empty if the engine has nothing of the kind, or the report is an old one.
    #[serde(default)]
    pub terms: BTreeMap<String, String>,
}

/// The counts of an engine since it was opened; every number only grows. An engine that does not count something leaves
/// it out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Bytes written to storage, by cause: `log`, `flush`, `compaction`, `manifest` …
    pub written_bytes: BTreeMap<String, u64>,
    /// Bytes read from storage, by cause.
    pub read_bytes: BTreeMap<String, u64>,
    /// Syncs.
    pub syncs: Option<Syncs>,
    /// The same syncs by what was synced: `log`, `table`, `manifest`, `directory`. Empty: it does not tell them apart.
    pub syncs_by_kind: BTreeMap<String, u64>,
    /// Stalls that the engine itself counted, by cause: nanoseconds in all.
    pub stall_ns: BTreeMap<String, u64>,
    /// How many waits these were, by cause.
    pub stall_waits: BTreeMap<String, u64>,
    /// Those of them that were longer than a millisecond, by cause.
    pub stalls_over_1ms: BTreeMap<String, u64>,
    /// Whatever else it counts: `cache hits`, `flushes` …
    pub other: BTreeMap<String, u64>,
}

/// Syncs of files, and of directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncs {
    /// How many.
    pub count: u64,
    /// How long they took in all, in nanoseconds, where that is known.
    pub total_ns: Option<u64>,
    /// How many a foreground call waited for, where that is known.
    pub waited_for: Option<u64>,
}

impl Counters {
    /// The counts since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let map = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            now.iter().map(|(name, n)| (name.clone(), n - then.get(name).unwrap_or(&0).min(n))).collect()
        };
        let option = |now: Option<u64>, then: Option<u64>| now.map(|now| now.saturating_sub(then.unwrap_or(0)));
        Counters {
            written_bytes: map(&self.written_bytes, &earlier.written_bytes),
            read_bytes: map(&self.read_bytes, &earlier.read_bytes),
            syncs: self.syncs.map(|now| {
                let then = earlier.syncs.unwrap_or_default();
                Syncs {
                    count: now.count.saturating_sub(then.count),
                    total_ns: option(now.total_ns, then.total_ns),
                    waited_for: option(now.waited_for, then.waited_for),
                }
            }),
            syncs_by_kind: map(&self.syncs_by_kind, &earlier.syncs_by_kind),
            stall_ns: map(&self.stall_ns, &earlier.stall_ns),
            stall_waits: map(&self.stall_waits, &earlier.stall_waits),
            stalls_over_1ms: map(&self.stalls_over_1ms, &earlier.stalls_over_1ms),
            other: map(&self.other, &earlier.other),
        }
    }
}
