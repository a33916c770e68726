//! [`MemtableFlusher`]: writes one sealed memtable to a level-0 table and installs it; or moves it into the fast tier.
//!
//! With a fast tier, a memtable bypasses it only if its partition has nothing there. Otherwise older fast tables would
//! lie above the new table of level 0, and the edit would say that their records are in tables.

use super::dependencies::Dependencies;
use super::indexing::Indexing;
use super::keyspace::OrderedKeyspace;
use super::partition::Partition;
use super::pins::Flushed;
use super::tier::Tier;
use crate::compaction;
use crate::error::{Error, Result};
use crate::fast_table::FastTable;
use crate::format::{LogMark, SeqNo, TableId};
use crate::keyspaces::{Backpressure, LogPins, Signals, SnapshotRegistry, SpaceWatch};
use crate::lineage::{Change, Edit, FastPlace, Handle, Lineage};
use crate::log::Log;
use crate::memtable::MemtableHandle;
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{Environment, Health};
use crate::table::{PackWriters, Table, TableStore, TableWriters};
use crate::trace;
use std::sync::Arc;

/// See the module.
pub(super) struct MemtableFlusher {
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

impl MemtableFlusher {
    pub(super) fn new(with: &Dependencies) -> Arc<Self> {
        Arc::new(MemtableFlusher {
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

    /// Flushes the oldest sealed memtable of a partition, into the fast tier if there is one.
    pub(super) async fn flush(
        &self,
        writers: &TableWriters,
        partition: &Arc<Partition>,
        handle: &Arc<MemtableHandle>,
    ) -> Result<()> {
        let tier = partition.generation.options.tier.as_ref().filter(|tier| {
            let is_bug = planted(Bug::FlushBypassesTier) && handle.last_seq().0.is_multiple_of(4);
            let passes = partition.is_out_of_tier() && tier.is_passed_by(self.space.space());
            !is_bug && !passes
        });
        self.backpressure.flush_begun();
        let done = match tier {
            Some(tier) => self.flush_to_tier(tier, partition, handle).await.inspect_err(|error| tier.note_full(error)),
            None => {
                // The next memtable tries again to find room there.
                partition.generation.options.tier.iter().for_each(|tier| tier.room.set_refused(false));
                self.flush_to_level0(writers, partition, handle).await
            }
        };
        done.inspect_err(|_| self.backpressure.flush_ended(0))
    }

    async fn flush_to_tier(&self, tier: &Tier, partition: &Arc<Partition>, handle: &Arc<MemtableHandle>) -> Result<()> {
        self.log.until_visible(handle.sealed_at()).await?;
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        let table = partition.make_fast_table(tier, handle, &boundaries).await?;
        let table_bytes = table.as_ref().map_or(0, |table| table.bytes());
        self.install_in_tier(tier, partition, handle, table).await?;
        self.metrics.minor_compactions.increment();
        self.metrics.minor_written_bytes.add(table_bytes);
        self.flushed(partition, handle, table_bytes);
        Ok(())
    }

    /// Replaces a memtable by a fast table, with an edit if the table is in a file.
    async fn install_in_tier(
        &self,
        tier: &Tier,
        partition: &Arc<Partition>,
        handle: &Arc<MemtableHandle>,
        table: Option<Arc<FastTable>>,
    ) -> Result<()> {
        let last = handle.last_seq();
        if !tier.is_persistent() || last == SeqNo(0) {
            partition.install_fast_table(tier, handle, table);
            return Ok(());
        }
        let (keyspace, id) = (partition.keyspace, partition.id);
        let mut edit = Edit { seq: last, ..Edit::default() };
        edit.changes.extend(table.as_ref().map(|table| Change::AddFast {
            keyspace,
            partition: id,
            place: FastPlace::Newest,
            meta: table.meta().clone(),
        }));
        edit.changes.push(Change::Flushed { keyspace, partition: id, seq: last });
        let made: Vec<_> = table.iter().map(|table| table.meta().id).collect();
        let log_start = || Some(self.log_start_without(partition, handle));
        let apply = || partition.install_fast_table(tier, handle, table);
        let installed = self.lineage.install(edit, Vec::new(), log_start, apply).await;
        installed.map(drop).inspect_err(|_| tier.discard(&self.health, &made))
    }

    /// Flushes the oldest sealed memtable of a partition that has nothing in the fast tier.
    async fn flush_to_level0(
        &self,
        writers: &TableWriters,
        partition: &Arc<Partition>,
        handle: &Arc<MemtableHandle>,
    ) -> Result<()> {
        self.log.until_visible(handle.sealed_at()).await?;
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        // A memtable that was sealed by a split has the other side's entries, too. The other side flushes those.
        let mut entries = handle.memtable.entries_in(&partition.super_version().range);
        let index = partition.generation.directories.as_ref();
        let meta = match index {
            None => compaction::flush(&mut entries, writers, &boundaries).await?,
            Some(index) => {
                let writers = PackWriters { writers, hash_key: index.hash_key };
                compaction::flush_pack(&mut entries, &writers, &boundaries).await?
            }
        };
        let last: SeqNo = handle.last_seq();
        if last == SeqNo(0) {
            // A split or a merge sealed it empty.
            partition.install_flush(handle, None);
            partition.pacer.flushed_in_part(self.environment.clock.now_ns(), partition.sealed_memtables() > 0);
            self.backpressure.flush_ended(0);
            self.backpressure.pace(&**partition);
            self.signals.progress.notify_all();
            return Ok(());
        }
        let mut edit = Edit { seq: last, ..Edit::default() };
        let (keyspace, id) = (partition.keyspace, partition.id);
        let table = meta.map(|meta| {
            self.metrics.flush_written_bytes.add(meta.bytes);
            edit.changes.push(Change::Add { keyspace, partition: id, level: 0, meta: meta.clone() });
            self.tables.open_written(meta)
        });
        // Not the number at which it was sealed: after a power cut that number may be given to another record.
        let replayed_to = self.log_pins.replayed_to().filter(|_| planted(Bug::ReplayFlushedTooFar));
        let last = replayed_to.map_or(last, |mark| last.max(mark.seq));
        edit.changes.push(Change::Flushed { keyspace, partition: id, seq: last });
        let (output, table_bytes) = table.as_ref().map(|table| (table.meta().id, table.meta().bytes)).unzip();
        let table_bytes = table_bytes.unwrap_or(0);
        let indexing = Indexing::new(index, table.as_slice(), Vec::new());
        if let Err(error) = indexing.begin().await {
            drop(table);
            return Err(self.discard(output, indexing, error));
        }
        let apply = || {
            partition.install_flush(handle, table);
            indexing.applied();
        };
        let log_start = || Some(self.log_start_without(partition, handle));
        if let Err(error) = self.lineage.install(edit, Vec::new(), log_start, apply).await {
            return Err(self.discard(output, indexing, error));
        }
        indexing.finish().await?;
        self.metrics.flushes.increment();
        self.flushed(partition, handle, table_bytes);
        Ok(())
    }

    /// Counts a flush, and lets writers and compactors know.
    fn flushed(&self, partition: &Arc<Partition>, handle: &MemtableHandle, table_bytes: u64) {
        self.space.watch_short();
        let memtable_bytes = handle.memtable.bytes() as u64;
        trace::event!(INFO, "thalweg::flush", "flushed", memtable_bytes = memtable_bytes, table_bytes = table_bytes);
        let (now_ns, has_more) = (self.environment.clock.now_ns(), partition.sealed_memtables() > 0);
        if handle.is_shared() {
            partition.pacer.flushed_in_part(now_ns, has_more);
        } else {
            partition.pacer.flushed(now_ns, memtable_bytes, table_bytes, has_more);
        }
        // The memory of a memtable that two partitions share is released once both have flushed it.
        self.backpressure.flush_ended(if handle.is_shared() { 0 } else { memtable_bytes });
        self.backpressure.pace(&**partition);
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    /// Removes an output that no edit names; returns the error.
    fn discard(&self, output: Option<TableId>, indexing: Indexing<'_>, error: Error) -> Error {
        discard_outputs(&self.health, &self.lineage, &self.tables, (output, indexing.undo()));
        error
    }

    /// Flushes the memtables of a partition that are sealed now.
    pub(super) async fn flush_sealed(&self, writers: &TableWriters, partition: &Arc<Partition>) -> Result<()> {
        let waiting = partition.super_version().sealed.clone();
        for handle in waiting {
            if self.signals.is_stopping() {
                return Err(Error::Closed);
            }
            self.flush(writers, partition, &handle).await?;
        }
        Ok(())
    }

    /// As [`MemtableFlusher::flush_sealed`], to level 0. The partition has nothing in the fast tier.
    pub(super) async fn flush_sealed_to_level0(
        &self,
        writers: &TableWriters,
        partition: &Arc<Partition>,
    ) -> Result<()> {
        let waiting = partition.super_version().sealed.clone();
        for handle in waiting {
            if self.signals.is_stopping() {
                return Err(Error::Closed);
            }
            self.flush_to_level0(writers, partition, &handle).await?;
        }
        Ok(())
    }

    /// Where the log is needed from once `flushed` is in a table.
    fn log_start_without(&self, partition: &Partition, flushed: &Arc<MemtableHandle>) -> LogMark {
        self.log_pins.start_after(|keyspace| match keyspace.downcast_ref::<OrderedKeyspace>() {
            Some(ordered) => ordered.oldest_mark_without(Some((partition, Flushed::Memtable(flushed)))),
            None => keyspace.oldest_mark(),
        })
    }
}

/// Removes tables that no edit names, because their edit was refused: all `outputs`, of which a reader may have `found`
/// some. If the database is poisoned they stay: the edit may be in the manifest, and recovery finds out.
pub(super) fn discard_outputs(
    health: &Health,
    lineage: &Lineage,
    tables: &TableStore,
    (outputs, found): (impl IntoIterator<Item = TableId>, Vec<Arc<Table>>),
) {
    if health.check().is_err() {
        return;
    }
    let held: Vec<Arc<Table>> = found.into_iter().filter(|table| Arc::strong_count(table) > 1).collect();
    for id in outputs {
        if !held.iter().any(|table| table.meta().id == id) {
            // A file that cannot be removed now is removed as an orphan by the next open.
            let _ = tables.remove(id);
        }
    }
    if !held.is_empty() {
        lineage.discard(held.into_iter().map(Handle::from).collect());
    }
}
