//! The public face: [`Database`], [`Builder`], [`Keyspace`], [`WriteBatch`], [`Snapshot`], iterators, statistics.
#![allow(unused_variables, clippy::unimplemented, missing_docs)]

use crate::error::Result;
use crate::format::Slice;
pub use crate::lineage::DurabilityBackend;
pub use crate::log::DamagePolicy;
pub use crate::table::Compression;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is published: it survives the death of the process, and a power cut `log_sync_interval` later.
    #[default]
    Buffered,
    /// When it survives a power cut.
    Sync,
}

/// A key and its value, as iterators give them.
pub type Entry = (Slice, Slice);

#[derive(Clone)]
pub struct Database;
#[derive(Clone)]
pub struct Builder;
#[derive(Clone)]
pub struct Keyspace;
pub struct WriteBatch;
/// A consistent state of all keyspaces.
#[derive(Clone)]
pub struct Snapshot;
/// Double-ended iterator over entries of a keyspace, `Result<Entry>`.
pub struct Range;

impl Builder {
    pub fn create_if_missing(self, yes: bool) -> Self {
        unimplemented!()
    }
    /// What a write does that does not say.
    pub fn durability(self, durability: Durability) -> Self {
        unimplemented!()
    }
    /// `None`: published records are made durable only when asked.
    pub fn log_sync_interval(self, interval: Option<Duration>) -> Self {
        unimplemented!()
    }
    pub fn log_segment_bytes(self, bytes: u32) -> Self {
        unimplemented!()
    }
    pub fn log_bytes_max(self, bytes: u64) -> Self {
        unimplemented!()
    }
    pub fn memtable_bytes(self, bytes: usize) -> Self {
        unimplemented!()
    }
    /// Sealed memtables a partition may have waiting for their flush before writers wait.
    pub fn sealed_memtables_max(self, count: usize) -> Self {
        unimplemented!()
    }
    pub fn block_cache_bytes(self, bytes: u64) -> Self {
        unimplemented!()
    }
    pub fn block_bytes(self, bytes: usize) -> Self {
        unimplemented!()
    }
    pub fn compression(self, compression: Compression) -> Self {
        unimplemented!()
    }
    pub fn filter_bits_per_key(self, bits: u32) -> Self {
        unimplemented!()
    }
    pub fn table_bytes(self, bytes: u64) -> Self {
        unimplemented!()
    }
    pub fn level0_trigger(self, tables: usize) -> Self {
        unimplemented!()
    }
    pub fn level1_bytes(self, bytes: u64) -> Self {
        unimplemented!()
    }
    pub fn growth_factor(self, factor: u64) -> Self {
        unimplemented!()
    }
    /// Compactions that may run at once.
    pub fn compaction_workers(self, count: usize) -> Self {
        unimplemented!()
    }
    pub fn damage_policy(self, policy: DamagePolicy) -> Self {
        unimplemented!()
    }
    #[cfg(feature = "simulation")]
    pub fn environment(self, environment: crate::runtime::Environment) -> Self {
        unimplemented!()
    }
    pub fn open(self) -> Result<Database> {
        unimplemented!()
    }
    pub fn open_read_only(self) -> Result<Database> {
        unimplemented!()
    }
}

impl Database {
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        unimplemented!()
    }
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        unimplemented!()
    }
    /// The keyspace of that name, created with one partition if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        unimplemented!()
    }
    /// The keyspace of that name, if there is one.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        unimplemented!()
    }
    /// Creates a keyspace with a partition for each range between split points (ascending); an error if the name exists.
    pub fn create_keyspace(&self, name: &str, splits: &[&[u8]]) -> Result<Keyspace> {
        unimplemented!()
    }
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        unimplemented!()
    }
    /// Names, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        unimplemented!()
    }
    pub fn batch(&self) -> WriteBatch {
        unimplemented!()
    }
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    /// Returns once everything visible at the call is durable.
    pub fn persist(&self) -> Result<()> {
        unimplemented!()
    }
    /// Flushes all memtables and waits until the tables are live.
    pub fn flush(&self) -> Result<()> {
        unimplemented!()
    }
    /// Waits until no compaction is wanted any more.
    pub fn wait_for_compactions(&self) -> Result<()> {
        unimplemented!()
    }
    /// A consistent, openable copy in the new directory `path`.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        unimplemented!()
    }
    pub fn statistics(&self) -> Statistics {
        unimplemented!()
    }
    /// What `DamagePolicy::PointInTime` dropped when this database was opened, in words; empty when nothing was.
    pub fn dropped_by_recovery(&self) -> &[String] {
        unimplemented!()
    }
    /// The levels of all partitions, drawn (for golden tests and `stat`).
    pub fn draw_levels(&self) -> String {
        unimplemented!()
    }
    /// Reads and verifies every byte the database uses; each fault is one error. Changes nothing.
    pub fn check(path: impl AsRef<Path>, fault: &mut dyn FnMut(crate::Error)) -> Result<CheckReport> {
        unimplemented!()
    }
    /// Clean close; also done, without hearing of errors, when the last handle is dropped.
    pub fn close(self) -> Result<()> {
        unimplemented!()
    }
}

impl Keyspace {
    pub fn name(&self) -> &str {
        unimplemented!()
    }
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        unimplemented!()
    }
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        unimplemented!()
    }
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        unimplemented!()
    }
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        unimplemented!()
    }
    /// One consistent answer a key, in the order asked.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        unimplemented!()
    }
    pub fn iter(&self) -> Range {
        unimplemented!()
    }
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        unimplemented!()
    }
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        unimplemented!()
    }
}

impl Snapshot {
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        unimplemented!()
    }
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        unimplemented!()
    }
    pub fn iter(&self, keyspace: &Keyspace) -> Range {
        unimplemented!()
    }
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Range {
        unimplemented!()
    }
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        unimplemented!()
    }
}

impl WriteBatch {
    pub fn insert(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        unimplemented!()
    }
    pub fn remove(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        unimplemented!()
    }
    /// Operations so far.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// Bytes of the record so far.
    pub fn bytes(&self) -> usize {
        unimplemented!()
    }
    pub fn durability(&mut self, durability: Durability) {
        unimplemented!()
    }
    pub fn commit(self) -> Result<()> {
        unimplemented!()
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;
    fn next(&mut self) -> Option<Result<Entry>> {
        unimplemented!()
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        unimplemented!()
    }
}

/// What [`Database::check`] looked at.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    pub tables: u64,
    pub table_entries: u64,
    pub table_bytes: u64,
    pub log_records: u64,
    pub faults: u64,
}

/// Counters and gauges of an open database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    pub user_written_bytes: u64,
    pub log_written_bytes: u64,
    pub flush_written_bytes: u64,
    pub compaction_read_bytes: u64,
    pub compaction_written_bytes: u64,
    pub manifest_written_bytes: u64,
    pub flushes: u64,
    pub compactions: u64,
    pub trivial_moves: u64,
    pub log_syncs: u64,
    pub table_syncs: u64,
    pub manifest_syncs: u64,
    pub directory_syncs: u64,
    pub syncs_waited_for: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub filter_checks: u64,
    pub filter_negatives: u64,
    pub retained_bytes: u64,
    pub log_backlog_bytes: u64,
    pub memtable_bytes: u64,
    pub stalls: Vec<StallStatistics>,
    pub keyspaces: Vec<KeyspaceStatistics>,
}

/// Writers that waited, by cause.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StallStatistics {
    pub cause: &'static str,
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

/// One keyspace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyspaceStatistics {
    pub name: String,
    pub partitions: u64,
    /// Index: level.
    pub levels: Vec<LevelStatistics>,
}

/// One level of a keyspace, all partitions together.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LevelStatistics {
    pub tables: u64,
    pub bytes: u64,
    pub entries: u64,
    pub tombstones: u64,
}

/// `thalweg dump`: one file of a database (log segment, manifest, table) in readable form, a line at a time.
pub fn dump(path: &Path, line: &mut dyn FnMut(std::fmt::Arguments<'_>) -> std::io::Result<()>) -> Result<()> {
    unimplemented!()
}

#[allow(dead_code)]
fn unused(_: PathBuf) {}
