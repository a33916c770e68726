//! [`Splitter`]: makes two partitions of one that holds much more than its level 1 (vLSM's regions).
//!
//! Nothing is copied. An edit names the key; from then on each side has the tables with keys of its range. Both sides
//! share the tables with keys of both, and the memtables of that moment. A shared table goes when the last side has
//! replaced it.
//!
//! Why: all partitions of a keyspace share one budget of memory and of level 1 ([`super::budget`]). With n partitions a
//! memtable waits for an n-th of the bytes (VLSM-1), and no byte is written more often.
//!
//! The compactors find that a partition is too large, and begin no more jobs in it. When the last job has ended, the
//! flush coroutine splits it, so that no flush runs either.

use super::dependencies::Dependencies;
use super::flush::MemtableFlusher;
use super::options::OrderedOptions;
use super::partition::{Partition, SuperVersion};
use super::partitions::Partitions;
use super::reshape;
use crate::compaction::RunningJob;
use crate::error::Result;
use crate::keyspaces::{Backpressure, Signals, SpaceWatch};
use crate::lineage::{Change, Edit, Lineage};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use crate::table::{Table, TableWriters};
use std::sync::Arc;

/// A partition is split when it has this many times the bytes that a level 1 without splits would have, or what
/// [`super::tier::Tier::split_bytes`] gives if that is less.
const LEVEL1_TIMES: u64 = 2;

/// Each side of a split has at least 1/`SIDE_OF` of the bytes.
const SIDE_OF: u64 = 4;

/// How many keys are sampled in each fast table.
const SAMPLES: usize = 32;

/// See the module.
pub(super) struct Splitter {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    partitions: Partitions,
    flush: Arc<MemtableFlusher>,
    backpressure: Arc<Backpressure>,
    space: Arc<SpaceWatch>,
    signals: Arc<Signals>,
}

/// Whether level 0 is at most halfway between where it is due and where writers wait. While a large partition is
/// written to, its level 0 is rarely shorter than where it is due.
fn has_short_level0(partition: &Partition, super_version: &SuperVersion) -> bool {
    let options = &partition.generation.options;
    super_version.level0_tables() <= options.policy.level0_patience().midpoint(options.level0_stop)
}

impl Splitter {
    pub(super) fn new(with: &Dependencies, flush: &Arc<MemtableFlusher>) -> Arc<Self> {
        Arc::new(Splitter {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            metrics: Arc::clone(&with.metrics),
            log: Arc::clone(&with.log),
            lineage: Arc::clone(&with.lineage),
            partitions: Partitions::new(&with.registry),
            flush: Arc::clone(flush),
            backpressure: Arc::clone(&with.backpressure),
            space: Arc::clone(&with.space),
            signals: Arc::clone(&with.signals),
        })
    }

    /// Whether the partition is to be split once its running jobs have ended. A partition with a long level 0 is not:
    /// writers would wait for it, and both halves would have its tables.
    pub(super) fn outgrew(&self, partition: &Partition, super_version: &SuperVersion, running: &[RunningJob]) -> bool {
        let options = &partition.generation.options;
        let least = split_bytes(options);
        partition.generation.budget.may_grow(options.partitions_max)
            && has_short_level0(partition, super_version)
            && !running.iter().any(|job| job.level == 0)
            && bytes_of(super_version) >= least
            && split_point(super_version).is_some()
            // The split would wait for a parked job, and no other job would begin.
            && partition.trouble().is_none()
            && partition.may_reshape(self.environment.clock.now_ns())
    }

    /// As [`Splitter::outgrew`], and wakes the compactors: nothing else wakes them when a failed split may be tried
    /// again.
    pub(super) fn is_to_split(
        &self,
        partition: &Partition,
        super_version: &SuperVersion,
        running: &[RunningJob],
    ) -> bool {
        let outgrew = self.outgrew(partition, super_version, running);
        if outgrew {
            self.signals.compaction_wanted.notify_all();
        }
        outgrew
    }

    /// Stops new jobs of a partition that is to be split, and wakes the flush coroutine once the running ones have
    /// ended. Lets jobs begin again when level 0 becomes long before that: a job of level 0 can run beside the others.
    /// Returns whether new jobs are stopped. The caller holds the lock of `running`.
    pub(super) fn stop_to_split(
        &self,
        partition: &Partition,
        super_version: &SuperVersion,
        running: &[RunningJob],
    ) -> bool {
        let stops = if partition.is_reshaping() {
            // A parked job does not end soon.
            running.is_empty() || has_short_level0(partition, super_version) && partition.trouble().is_none()
        } else {
            !partition.is_dropped() && self.outgrew(partition, super_version, running)
        };
        partition.set_reshaping(running, stops);
        if stops && running.is_empty() {
            self.signals.flush_wanted.notify_all();
        }
        stops
    }

    /// Returns a partition that waits for its split and in which no job runs.
    pub(super) fn partition_to_split(&self) -> Option<Arc<Partition>> {
        self.partitions.iter().find(|partition| {
            let running = partition.running();
            partition.is_reshaping() && running.is_empty() && !partition.is_dropped()
        })
    }

    /// Splits a partition if that is still due. No job runs in it, or begins before the end. A split that fails has
    /// changed nothing and is not tried again for a while; no caller gets the error.
    pub(super) async fn split(&self, writers: &TableWriters, partition: &Arc<Partition>) {
        // Other partitions may have been split, and tables flushed, since this one was marked.
        let is_due = self.outgrew(partition, &partition.super_version(), &[]);
        if is_due && let Err(error) = self.split_in_two(writers, partition).await {
            self.space.make_room_after(&error);
            let now_ns = self.environment.clock.now_ns();
            if !self.signals.is_stopping() {
                reshape::report_failure(&self.health, error, now_ns);
            }
            partition.set_reshape_retry_at(reshape::retry_at_ns(now_ns));
        }
        let running = partition.running();
        partition.set_reshaping(&running, false);
        drop(running);
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    async fn split_in_two(&self, writers: &TableWriters, partition: &Arc<Partition>) -> Result<()> {
        // Writers on both sides would wait for sealed memtables until each side has flushed its part.
        self.flush.flush_sealed(writers, partition).await?;
        let Some(keyspace) = self.partitions.keyspace_of(partition) else { return Ok(()) };
        let Some(at) = split_point(&partition.super_version()) else { return Ok(()) };
        let into = keyspace.layout().next_partition();
        let change = Change::Split { keyspace: keyspace.id, partition: partition.id, at: Box::from(&*at), into };
        let edit = Edit { changes: vec![change], ..Edit::default() };
        let apply = || {
            self.log.at_seal_point(|last| keyspace.split(partition, &at, into, last));
            self.partitions.reshaped();
        };
        self.lineage.install(edit, Vec::new(), || None, apply).await?;
        self.metrics.splits.increment();
        self.backpressure.pace(&**partition);
        self.backpressure.pace(&**keyspace.layout().partition_for(&at));
        // Both sides have a memtable to flush.
        self.signals.flush_wanted.notify_all();
        Ok(())
    }
}

/// Bytes at which a partition is split.
pub(super) fn split_bytes(options: &OrderedOptions) -> u64 {
    let bytes = options.policy.level1_bytes().saturating_mul(LEVEL1_TIMES);
    options.tier.as_ref().map_or(bytes, |tier| tier.split_bytes(bytes))
}

/// Bytes of the partition below level 0, and in the fast tier. A table that it shares counts half.
fn bytes_of(super_version: &SuperVersion) -> u64 {
    let tables = super_version.levels.iter().skip(1).flatten().map(|table| table.meta());
    let below = tables.map(|meta| if super_version.sticks_out(meta) { meta.bytes / 2 } else { meta.bytes });
    below.sum::<u64>() + super_version.fast_bytes()
}

/// The key between two tables of the largest level that leaves about half of its bytes on each side.
fn split_point(super_version: &SuperVersion) -> Option<Box<[u8]>> {
    let level_bytes = |level: &Vec<Arc<Table>>| -> u64 { level.iter().map(|t| t.meta().bytes).sum() };
    let largest = super_version.levels.iter().skip(1).max_by_key(|level| level_bytes(level));
    let total = largest.map_or(0, level_bytes);
    if super_version.fast_bytes() > total {
        return fast_split_point(super_version);
    }
    let largest = largest?;
    let mut before = 0;
    let cuts = largest.windows(2).map(|pair| {
        before += pair[0].meta().bytes;
        (before, &pair[1].meta().key_min)
    });
    let (before, key) = cuts.min_by_key(|(before, _)| before.abs_diff(total / 2))?;
    (before >= total / SIDE_OF && total - before >= total / SIDE_OF).then(|| key.clone())
}

/// As [`split_point`], for the fast tables of the partition: a key between samples of them.
fn fast_split_point(super_version: &SuperVersion) -> Option<Box<[u8]>> {
    let fast = super_version.fast.as_ref()?;
    let samples = fast.tables().filter_map(|handle| handle.table.samples(SAMPLES).ok()).flatten();
    let mut samples: Vec<_> = samples.filter(|(key, _)| super_version.covers(key)).collect();
    samples.sort_by(|(a, _), (b, _)| a.cmp(b));
    let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let mut before = 0;
    let cuts = samples.iter().map(|(key, bytes)| {
        before += bytes;
        (before, key)
    });
    let (before, key) = cuts.min_by_key(|(before, _)| before.abs_diff(total / 2))?;
    // No key lies before the smallest one: a side would be empty.
    let is_first =
        samples.first().is_some_and(|(least, _)| least == key) || super_version.range.from.as_ref() == Some(key);
    let has_sides = before >= total / SIDE_OF && total - before >= total / SIDE_OF;
    (has_sides && !is_first).then(|| key.clone())
}
