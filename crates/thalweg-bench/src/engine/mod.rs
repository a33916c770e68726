//! The measured engine: any key-value engine, behind [`Engine`] and [`Session`].
//!
//! An adapter adds nothing to an engine. If the engine lacks an operation, the adapter refuses it ([`Error`]). If it
//! lacks a count, the adapter leaves it out of [`Counters`]. [`Description::ignored`] names the settings that mean
//! nothing to the engine.
//!
//! - `thalweg`: the engine of this project; `tree_shape`: its settings for levels
//! - `directory_client`: a thread that uses a directory keyspace of Thalweg; `overlapped`: its lookups in flight;
//!   `translation`: the conversions that both use
//! - `terms`: what a reader must know of Thalweg's settings; `ignored`: the settings that have no effect
//! - `f_hashes`: the counters of Thalweg's hash tables of directories
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

    /// Refuses, before a run begins, the settings that [`Factory::open`] would refuse for any database.
    ///
    /// # Errors
    /// `Usage`, naming the setting.
    fn check(&self, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    /// Opens the database in `path`, an existing directory, which is empty the first time. `splits` are the first keys
    /// of all partitions except the first, in order; empty: one partition.
    fn open(&self, path: &Path, settings: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>>;
}

/// Returns the engine's own name in the name of a variant: `thalweg` in `thalweg:backend=none`.
pub fn engine_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// An open database.
pub trait Engine: Send + Sync {
    /// The engine's name and settings, and the settings that it ignores.
    fn describe(&self) -> Description;

    /// Opens a session for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Makes everything written so far durable.
    fn persist(&self) -> Result<()>;

    /// Flushes memtables and waits until no compaction is due. `false`: the engine has no way to wait for that.
    fn settle(&self) -> Result<bool>;

    /// The engine's counts since it was opened.
    fn counters(&self) -> Counters;

    /// The engine's gauges, by name with its unit last. They go up and down, and a step reports their greatest values.
    /// They are read several times a second while the engine works. Empty if the engine has none.
    fn gauges(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Bytes on disk of replaced tables that the engine is about to free; `None`: the engine does not report them.
    fn replaced_bytes(&self) -> Option<u64> {
        None
    }

    /// Closes the database cleanly.
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

    /// Passes the value of `key` to `value`, in place if the engine can. `false`: there is none.
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes the values of `keys` to `value`, in any order, and returns how many there were. An engine that cannot
    /// read several keys at once reads one after the other.
    fn multi_get(&mut self, keys: &[Vec<u8>], value: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut found = 0;
        for key in keys {
            found += u64::from(self.get(key, value)?);
        }
        Ok(found)
    }

    /// Begins to look up `key`. If a lookup of this thread has ended, this one or an earlier one, passes its value to
    /// `value` and returns whether it found one. `None`: fewer than `depth` lookups are in flight, and none has ended.
    /// An engine that cannot have lookups in flight looks `key` up at once.
    fn get_overlapped(
        &mut self,
        key: &[u8],
        _in_flight: (LookupsBy, usize),
        value: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>> {
        self.get(key, value).map(Some)
    }

    /// Compacts everything down to the last level, and returns when this is done. An engine without such a call
    /// refuses.
    fn compact(&mut self) -> Result<()> {
        Err(Error::Usage("this engine has no compaction that a caller can ask for".into()))
    }

    /// Passes the entries from `from` on to `entry`, in order, until `entry` returns `false` or there are no more.
    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
}

/// How a thread has several lookups in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupsBy {
    /// The thread itself submits the reads of the lookups.
    Reader,
    /// As futures; threads of the engine make their reads.
    Futures,
}

/// The description of an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The engine's name on the command line; in a report a variant's whole name: `thalweg:backend=none`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The settings that the engine runs with, each with its value: its row of the fairness table.
    pub settings: BTreeMap<String, String>,
    /// Settings for which the engine has no counterpart.
    pub ignored: Vec<String>,
    /// The terms of the comparison, by `durability`, `memory`, `space` and `tables`: a phrase each, in the same words
    /// for all engines. Empty if the engine has no such terms, or the report is an old one.
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
    /// The same syncs by the kind of file: `log`, `table`, `manifest`, `directory`. Empty: the engine does not tell
    /// them apart.
    pub syncs_by_kind: BTreeMap<String, u64>,
    /// The total nanoseconds of the stalls that the engine itself counted, by cause.
    pub stall_ns: BTreeMap<String, u64>,
    /// The number of these stalls, by cause.
    pub stall_waits: BTreeMap<String, u64>,
    /// The number of these stalls that were longer than a millisecond, by cause.
    pub stalls_over_1ms: BTreeMap<String, u64>,
    /// Other counts of the engine: `cache hits`, `flushes` …
    pub other: BTreeMap<String, u64>,
}

/// Syncs of files, and of directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncs {
    /// The number of syncs.
    pub count: u64,
    /// The total duration of the syncs in nanoseconds, if it is known.
    pub total_ns: Option<u64>,
    /// The number of syncs that a foreground call waited for, if it is known.
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
