//! The write-ahead log: one for the whole database; it carries the promise (DESIGN 5, `docs/format/log.md`).

use crate::error::Result;
use crate::format::{KeyspaceId, LogMark, LogPosition, SeqNo};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How the log is laid out and synced.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// Bytes of a segment file; a multiple of 32 KiB, at least 64 KiB.
    pub(crate) segment_bytes: u32,
    /// How often published records are made durable without being asked; `None`: never.
    pub(crate) sync_interval: Option<Duration>,
}

/// What to do about damage when a database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagePolicy {
    /// Refuse to open, change nothing (the default).
    #[default]
    Strict,
    /// Open with what was written before the damage; what came after is copied to `lost/` and reported.
    PointInTime,
}

/// One operation of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Put { keyspace: KeyspaceId, key: &'a [u8], value: &'a [u8] },
    Remove { keyspace: KeyspaceId, key: &'a [u8] },
    CreateKeyspace { keyspace: KeyspaceId, name: &'a str, splits: Vec<&'a [u8]> },
    DropKeyspace { keyspace: KeyspaceId },
}

/// The encoded body of one record: one or more operations that are visible and durable together.
pub(crate) struct RecordBuilder;

#[allow(unused_variables, clippy::unimplemented, clippy::new_without_default)]
impl RecordBuilder {
    pub(crate) fn new() -> Self {
        unimplemented!()
    }
    pub(crate) fn push(&mut self, operation: &Operation<'_>) {
        unimplemented!()
    }
    /// Operations so far; each takes one sequence number.
    pub(crate) fn operations(&self) -> u32 {
        unimplemented!()
    }
    /// Bytes of the body so far.
    pub(crate) fn bytes(&self) -> usize {
        unimplemented!()
    }
    /// Computes the checksum of the body: all that can be done before space is reserved.
    pub(crate) fn finish(self) -> Record {
        unimplemented!()
    }
}

/// A record ready to be appended, or as replay gives it.
pub(crate) struct Record;

#[allow(unused_variables, clippy::unimplemented)]
impl Record {
    /// The operations in order. From replay they are already verified to decode.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        unimplemented!() as std::iter::Empty<_>
    }
}

/// A place in the log and in the order of writes. Must be published; dropping it unpublished poisons the database.
pub(crate) struct Reservation;

#[allow(clippy::unimplemented)]
impl Reservation {
    /// The sequence number of the record's first operation; the others follow.
    pub(crate) fn first_seq(&self) -> SeqNo {
        unimplemented!()
    }
    /// Where the record begins: the log is needed from here while an operation of it is only in a memtable.
    pub(crate) fn mark(&self) -> LogMark {
        unimplemented!()
    }
    /// Where the record ends: `sync` to here makes it durable.
    pub(crate) fn end(&self) -> LogPosition {
        unimplemented!()
    }
}

/// The log of an open database.
pub(crate) struct Log;

#[allow(unused_variables, clippy::unimplemented)]
impl Log {
    /// A new log in an empty `directory`, or a recovered one that goes on after `end` (see [`Scan`]): seals the valid
    /// end of the old segments, syncs, and begins a new segment. Call it only when the recovered state is durable in
    /// a new manifest.
    pub(crate) fn begin(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        directory: PathBuf,
        options: LogOptions,
        recovered: Option<Scan>,
    ) -> Result<Arc<Self>> {
        unimplemented!()
    }
    /// The background coroutines (segment preparation, interval sync), to be spawned on `Lane::Log`; they end
    /// after [`Log::close`] or when the health is bad and `stop` was called.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<crate::runtime::Task> {
        unimplemented!()
    }
    /// Reserves space and sequence numbers. Waits for a free segment; `NoSpace` when none can be prepared.
    pub(crate) fn reserve(self: &Arc<Self>, record: &Record) -> Result<Reservation> {
        unimplemented!()
    }
    /// Copies the record into its place. An error poisons the database.
    pub(crate) fn copy_in(&self, reservation: &Reservation, record: &Record) -> Result<()> {
        unimplemented!()
    }
    /// Makes the record visible, in sequence order: returns once it and all earlier records are.
    pub(crate) fn publish(&self, reservation: Reservation) -> Result<()> {
        unimplemented!()
    }
    /// Runs `seal` with the last sequence number reserved so far, while nothing can be reserved.
    pub(crate) fn at_seal_point<T>(&self, seal: impl FnOnce(SeqNo) -> T) -> T {
        unimplemented!()
    }
    /// The last sequence number up to which every record is published.
    pub(crate) fn visible(&self) -> SeqNo {
        unimplemented!()
    }
    /// The boundary after the last record of the contiguous published prefix.
    pub(crate) fn published(&self) -> LogMark {
        unimplemented!()
    }
    /// Ends once everything up to `seq` is published.
    pub(crate) async fn until_visible(&self, seq: SeqNo) -> Result<()> {
        unimplemented!()
    }
    /// Everything before this position survives a power cut.
    pub(crate) fn durable(&self) -> LogPosition {
        unimplemented!()
    }
    /// Makes everything before `end` durable (`end` must be published): group commit, at most two syncs in flight.
    pub(crate) fn sync(&self, end: LogPosition) -> Result<()> {
        unimplemented!()
    }
    /// The same for a coroutine, up to a sequence number.
    pub(crate) async fn sync_to_seq(&self, seq: SeqNo) -> Result<()> {
        unimplemented!()
    }
    /// Records before `mark` are not needed any more, and the edit that says so is settled: recycles segments.
    pub(crate) fn let_go(&self, mark: LogMark) {
        unimplemented!()
    }
    /// The last settled edit, for the headers of new segments.
    pub(crate) fn set_settled(&self, edit: crate::format::EditId) {
        unimplemented!()
    }
    /// Bytes of segments in use (not yet let go).
    pub(crate) fn backlog_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Syncs everything and writes the clean-close seal naming the manifest's end.
    pub(crate) fn close(&self, manifest_number: u64, manifest_end: u64) -> Result<()> {
        unimplemented!()
    }
    /// Ends the background coroutines.
    pub(crate) fn stop(&self) {
        unimplemented!()
    }
    /// Copies the segments that hold `[from, to)` to `directory` (a checkpoint), durable except for its name.
    pub(crate) fn copy_to(&self, from: LogMark, to: LogMark, directory: &std::path::Path) -> Result<()> {
        unimplemented!()
    }
}

/// What recovery found in the log, from a mark that the manifest gave.
pub(crate) struct Scan {
    /// Where the last complete record ends.
    pub(crate) end: LogMark,
    /// The last settled edit that a segment header tells of (0: none).
    pub(crate) settled: crate::format::EditId,
    /// `Some((manifest number, manifest bytes))` when a clean-close seal ends the log.
    pub(crate) closed: Option<(u64, u64)>,
    /// For `PointInTime`: what is dropped, in words.
    pub(crate) dropped: Vec<String>,
}

#[allow(unused_variables, clippy::unimplemented)]
impl Scan {
    /// Makes every segment file durable (an error refuses the open), then reads the log from `start` past the page
    /// cache, up to the last complete record. Read-only: syncs nothing, reads through the cache. Damage below the last
    /// recorded synced offset is corruption, or with `PointInTime` the end.
    pub(crate) fn run(
        environment: &Environment,
        directory: &std::path::Path,
        start: LogMark,
        policy: DamagePolicy,
        read_only: bool,
    ) -> Result<Scan> {
        unimplemented!()
    }
    /// Gives every record from `start` to the end, with the mark at which it begins and its first sequence number.
    pub(crate) fn replay(&self, each: &mut dyn FnMut(LogMark, SeqNo, &Record) -> Result<()>) -> Result<()> {
        unimplemented!()
    }
}
