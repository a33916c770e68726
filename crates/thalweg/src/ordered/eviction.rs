//! [`FastMerger`]: merges of the fast tables of one partition: the internal compaction, which stays in the tier, and
//! the eviction, which writes all that the partition has there to level 0.
//!
//! **Eviction.** A single number says up to which record a partition is flushed. So an eviction takes every fast table
//! of the partition, and its edit says `Flushed` up to the last record of these. Newer records are in memtables, or in
//! fast tables that a flush has added since. If only some keys were evicted, replay would have to skip some records
//! below that number and not others. Tables in files are evicted together, too.
//!
//! The caller has a claim on the partition: no other merge of its fast tables runs, and no split or merge of it.

use super::dependencies::Dependencies;
use super::fast_level::FastLevel;
use super::flush::discard_outputs;
use super::keyspace::OrderedKeyspace;
use super::partition::Partition;
use super::pins::Flushed;
use super::tier::Tier;
use crate::compaction;
use crate::error::{Error, Result};
use crate::fast_table::FastTable;
use crate::fast_tier::Takes;
use crate::format::{LogMark, SeqNo};
use crate::keyspaces::{Backpressure, LogPins, Signals, SnapshotRegistry, SpaceWatch};
use crate::lineage::{Change, Edit, FastPlace, Lineage};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use crate::table::{TableStore, TableWriters};
use crate::trace;
use std::sync::Arc;

/// See the module.
pub(super) struct FastMerger {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    tables: Arc<TableStore>,
    log_pins: Arc<LogPins>,
    snapshots: Arc<SnapshotRegistry>,
    backpressure: Arc<Backpressure>,
    space: Arc<SpaceWatch>,
    signals: Arc<Signals>,
}

impl FastMerger {
    pub(super) fn new(with: &Dependencies) -> Arc<Self> {
        Arc::new(FastMerger {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            metrics: Arc::clone(&with.metrics),
            log: Arc::clone(&with.log),
            lineage: Arc::clone(&with.lineage),
            tables: Arc::clone(&with.tables),
            log_pins: Arc::clone(&with.log_pins),
            snapshots: Arc::clone(&with.snapshots),
            backpressure: Arc::clone(&with.backpressure),
            space: Arc::clone(&with.space),
            signals: Arc::clone(&with.signals),
        })
    }

    /// Merges unsorted tables of a partition: with all sorted ones (PMB-7), with those that they overlap (PMB-A5), or
    /// with none.
    pub(super) async fn compact(&self, tier: &Tier, partition: &Partition, takes: Takes) -> Result<()> {
        let Some(fast) = partition.super_version().fast.clone() else { return Ok(()) };
        let inputs = match takes {
            Takes::Newest => fast.newest_unsorted(),
            Takes::Overlapped => fast.unsorted_and_overlapped(),
            Takes::All => fast.whole(),
        };
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        let cancelled = || self.signals.is_stopping() || partition.is_dropped();
        let merge = Box::pin(partition.merge_in_tier(tier, (&inputs, takes), &boundaries, &cancelled));
        let start_ns = tier.now_ns();
        let made = self.environment.sliced(&self.metrics.merge_slices, merge).await?;
        let made_bytes = made.iter().map(|table| table.bytes()).sum();
        self.install_merged(tier, partition, (&inputs, takes), made).await?;
        tier.calibration.measured_internal(inputs.entries(), seconds_since(tier, start_ns));
        compacted(tier, partition);
        self.metrics.internal_compactions.increment();
        self.metrics.internal_written_bytes.add(made_bytes);
        trace::event!(INFO, "thalweg::fast_tier", "compacted in the tier", made_bytes = made_bytes);
        self.backpressure.pace(partition);
        self.signals.progress.notify_all();
        Ok(())
    }

    /// Replaces `inputs` by the outputs of their merge, with an edit if the tables are in files.
    async fn install_merged(
        &self,
        tier: &Tier,
        partition: &Partition,
        (inputs, takes): (&FastLevel, Takes),
        made: Vec<Arc<FastTable>>,
    ) -> Result<()> {
        if !tier.is_persistent() {
            partition.install_merged(tier, (inputs, takes), made);
            return Ok(());
        }
        let ids: Vec<_> = made.iter().map(|table| table.meta().id).collect();
        if partition.is_dropped() {
            tier.discard(&self.health, &ids);
            return Err(Error::Closed);
        }
        let mut changes = removals(partition, inputs);
        let place = match takes {
            Takes::Newest => FastPlace::Inputs,
            Takes::Overlapped | Takes::All => FastPlace::Oldest,
        };
        // In reverse order, because each goes below those that are already there.
        changes.extend(made.iter().rev().map(|table| Change::AddFast {
            keyspace: partition.keyspace,
            partition: partition.id,
            place,
            meta: table.meta().clone(),
        }));
        let edit = Edit { changes, ..Edit::default() };
        let apply = || partition.install_merged(tier, (inputs, takes), made);
        let installed = self.lineage.install(edit, inputs.handles(), || None, apply).await;
        installed.map(drop).inspect_err(|_| tier.discard(&self.health, &ids))
    }

    /// Writes everything that a partition has in the tier to a table of level 0, and releases the fast tables.
    pub(super) async fn evict(&self, tier: &Tier, writers: &TableWriters, partition: &Partition) -> Result<()> {
        let super_version = partition.pinned_super_version();
        let (fast, range) = (super_version.fast.clone(), Arc::clone(&super_version.range));
        drop(super_version);
        let Some(fast) = fast else { return Ok(()) };
        let start_ns = tier.now_ns();
        let running = tier.room.begin_eviction(start_ns, fast.bytes());
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        // Called after each step.
        let cancelled = || {
            running.advance(compaction::STEP_BYTES as u64);
            self.signals.is_stopping() || partition.is_dropped()
        };
        let inputs = fast.inputs();
        let merge = Box::pin(compaction::evict(&inputs, &range, writers, &boundaries, &cancelled));
        let meta = self.environment.sliced(&self.metrics.merge_slices, merge).await?;
        let output = meta.as_ref().map(|meta| meta.id);
        if partition.is_dropped() {
            self.discard(output);
            return Err(Error::Closed);
        }
        let (keyspace, id, seq) = (partition.keyspace, partition.id, fast.last_seq());
        let mut edit = Edit { seq, ..Edit::default() };
        let table = meta.map(|meta| {
            self.metrics.flush_written_bytes.add(meta.bytes);
            edit.changes.push(Change::Add { keyspace, partition: id, level: 0, meta: meta.clone() });
            self.tables.open_written(meta)
        });
        let mut gone = Vec::new();
        if tier.is_persistent() {
            // The manifest has known since their flush that these records are in tables.
            edit.seq = SeqNo(0);
            edit.changes.extend(removals(partition, &fast));
            gone = fast.handles();
        } else {
            edit.changes.push(Change::Flushed { keyspace, partition: id, seq });
        }
        let log_start = || (!tier.is_persistent()).then(|| self.log_start_without(partition, &fast));
        let apply = || partition.install_eviction(&fast, table);
        if let Err(error) = self.lineage.install(edit, gone, log_start, apply).await {
            self.discard(output);
            return Err(error);
        }
        tier.calibration.measured_major(fast.entries(), seconds_since(tier, start_ns));
        compacted(tier, partition);
        running.finish(self.environment.clock.now_ns());
        // There may be room again.
        tier.room.set_refused(false);
        self.evicted(partition, fast.bytes());
        Ok(())
    }

    /// Counts an eviction, and lets writers and compactors know.
    fn evicted(&self, partition: &Partition, bytes: u64) {
        self.metrics.evictions.increment();
        self.metrics.evicted_bytes.add(bytes);
        self.space.watch_short();
        trace::event!(INFO, "thalweg::fast_tier", "evicted", bytes = bytes);
        self.log_pins.look_at_tier();
        self.backpressure.pace(partition);
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    fn discard(&self, output: Option<crate::format::TableId>) {
        discard_outputs(&self.health, &self.lineage, &self.tables, (output, Vec::new()));
    }

    /// Where the log is needed from once `evicted` is in a table.
    fn log_start_without(&self, partition: &Partition, evicted: &FastLevel) -> LogMark {
        self.log_pins.start_after(|keyspace| match keyspace.downcast_ref::<OrderedKeyspace>() {
            Some(ordered) => ordered.oldest_mark_without(Some((partition, Flushed::Fast(evicted)))),
            None => keyspace.oldest_mark(),
        })
    }
}

/// The changes that remove fast tables of a partition.
fn removals(partition: &Partition, fast: &FastLevel) -> Vec<Change> {
    let remove = |table| Change::RemoveFast { keyspace: partition.keyspace, partition: partition.id, table };
    fast.tables().map(|handle| remove(handle.meta().id)).collect()
}

fn seconds_since(tier: &Tier, start_ns: u64) -> f64 {
    tier.now_ns().saturating_sub(start_ns) as f64 / 1e9
}

/// Lets the models know that fast tables of the partition were merged.
fn compacted(tier: &Tier, partition: &Partition) {
    if let Some(reads) = partition.tier_reads() {
        reads.statistics.compacted(tier.now_ns());
    }
}
