//! The flush coroutine: definitions to the manifest, sealed memtables to level-0 tables, splits and merges, and
//! relief for a long log.

use super::merges::Pair;
use super::{OrderedKeyspace, Partition, Workshop};
use crate::compaction;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{LogMark, SeqNo};
use crate::lineage::{Change, Edit};
use crate::ordered::view::Slot;
use crate::table::TableWriters;
use crate::trace;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A log of a quiet database that is longer is let go.
const QUIET_LOG_BYTES: u64 = 4 << 20;

/// So many segments that nothing needs are worth an edit of their own.
const LET_GO_SEGMENTS: u32 = 4;

impl Workshop {
    /// Runs until [`Workshop::stop`], or until the database is poisoned.
    pub(crate) async fn run_flusher(self: Arc<Self>, writers: TableWriters) {
        let (mut defined_last, mut has_worked) = (false, false);
        loop {
            let ticket = self.flush_wanted.ticket();
            if self.is_stopping() {
                return;
            }
            let room = self.health.room();
            self.relieve_log();
            self.sweep_generations();
            self.tidy_when_quiet();
            let work = self.next_work(defined_last);
            defined_last = matches!(work, Some(Work::Define));
            has_worked |= work.is_some();
            let done = match work {
                Some(Work::Define) => self.install_definitions().await,
                Some(Work::Flush(partition, slot)) => trace::spanned!(
                    "thalweg::flush",
                    "flush",
                    { keyspace = partition.keyspace.0, partition = partition.id.0 },
                    self.flush_slot(&writers, &partition, &slot)
                ),
                Some(Work::Split(partition)) => {
                    self.split(&writers, &partition).await;
                    continue;
                }
                Some(Work::Merge(pair)) => {
                    self.merge(&writers, &pair).await;
                    continue;
                }
                Some(Work::LetLogGo) => self.let_log_go().await,
                None => {
                    if self.health.flushes.clear() {
                        self.progress.notify_all();
                    }
                    self.rest(&self.flush_wanted, ticket, &mut has_worked).await;
                    continue;
                }
            };
            match done {
                Ok(()) => {
                    self.health.flushes.clear();
                    self.progress.notify_all();
                }
                Err(error) if self.is_stopping() => drop(error),
                Err(error) => {
                    self.make_room_after(&error);
                    let is_full = error.kind() == ErrorKind::NoSpace;
                    // Nothing was changed: tried again after a while. Writers that would have to wait for it get the
                    // error.
                    let ticket = self.flush_retry.ticket();
                    let delay_ns = self.flush_failed(error);
                    // Room may have come since the work began.
                    let is_due = is_full && self.health.room() != room;
                    if !is_due && !self.is_stopping() {
                        self.environment.sleep_or(delay_ns, &self.flush_retry, ticket).await;
                    }
                }
            }
        }
    }

    /// Tells of a failure; how long to wait for the next try.
    fn flush_failed(&self, error: Error) -> u64 {
        let now_ns = self.environment.clock.now_ns();
        let trouble = self.health.flushes.record(error, now_ns);
        self.health.report(trouble.clone());
        self.progress.notify_all();
        trouble.retry_at_ns.unwrap_or(now_ns).saturating_sub(now_ns)
    }

    /// Definitions first, but not twice in a row before a flush, so that neither starves the other.
    pub(super) fn next_work(&self, defined_last: bool) -> Option<Work> {
        // The memtable whose records are oldest first: it holds back the log.
        let flush = self
            .partitions()
            .filter(|partition| !partition.is_dropped())
            .filter_map(|partition| Some((partition.view().sealed.first().cloned()?, partition)))
            .min_by_key(|(slot, _)| slot.first().map(|mark| mark.position));
        // Looked at after the registry: a keyspace found there has its definition here or in the manifest.
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |partition: &Partition| !definitions.iter().any(|queued| queued.creates(partition.keyspace));
        let may_flush = defined_last && flush.as_ref().is_some_and(|(_, partition)| is_known(partition));
        if !definitions.is_empty() && !may_flush {
            return Some(Work::Define);
        }
        drop(definitions);
        // No job begins in it until it is split.
        if let Some(partition) = self.partition_to_split() {
            return Some(Work::Split(partition));
        }
        if let Some((slot, partition)) = flush {
            return Some(Work::Flush(partition, slot));
        }
        if let Some(pair) = self.pair_to_merge() {
            return Some(Work::Merge(pair));
        }
        let needed = self.log_needed(None).position.segment();
        let told = self.log_start_segment.load(Ordering::Relaxed);
        (needed >= told.saturating_add(LET_GO_SEGMENTS)).then_some(Work::LetLogGo)
    }

    /// Past `log_bytes_max` the memtables that pin the oldest segment are sealed, however small (DESIGN 5). What only
    /// waits for an edit to settle does not count.
    fn relieve_log(&self) {
        if self.log.backlog_bytes() <= self.options.log_bytes_max {
            return;
        }
        let oldest = self.log_needed(None).position.segment();
        if self.log.bytes_from(oldest) <= self.options.log_bytes_max {
            return;
        }
        for partition in self.partitions() {
            let active = Arc::clone(&partition.view().active);
            if active.first().is_some_and(|first| first.position.segment() <= oldest) {
                self.seal(&partition, &active);
            }
        }
    }

    /// A log that nobody writes to is let go, if it is worth a flush, and compactions see to what was replaced.
    fn tidy_when_quiet(&self) {
        if !self.log.is_quiet() {
            return;
        }
        let needed = self.log_needed(None).position.segment();
        if self.log.bytes_from(needed) > QUIET_LOG_BYTES {
            self.seal_all();
        }
        self.compaction_wanted.notify_all();
    }

    /// Tells the manifest of all keyspaces created, dropped and cleared so far, in one edit.
    async fn install_definitions(&self) -> Result<()> {
        let (mut edit, mut dropped, mut count) = (Edit::default(), Vec::new(), 0);
        for definition in self.definitions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            edit.changes.extend(definition.edit.changes.iter().cloned());
            edit.seq = edit.seq.max(definition.edit.seq);
            dropped.extend(definition.dropped.clone());
            count += 1;
        }
        // Running jobs of dropped keyspaces see that and give up; no new ones begin.
        let partitions = || -> Vec<Arc<Partition>> {
            dropped.iter().flat_map(|keyspace: &Arc<OrderedKeyspace>| keyspace.layout().partitions().to_vec()).collect()
        };
        let quiet = || partitions().iter().all(|partition| partition.running().is_empty());
        self.environment.until(&self.progress, || (quiet() || self.is_stopping()).then_some(())).await;
        if self.is_stopping() {
            return Err(Error::Closed);
        }
        let inputs = dropped.iter().flat_map(|keyspace| Self::tables_of(keyspace)).collect();
        let pop = || {
            let mut definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(definitions.len() >= count, "only this coroutine takes definitions");
            for definition in definitions.drain(..count) {
                let cleared = definition.dropped.filter(|keyspace| keyspace.is_cleared());
                // Kept before it leaves the queue: readers find it without a gap.
                cleared.into_iter().for_each(|keyspace| self.keep_cleared(&keyspace, definition.edit.seq));
            }
        };
        self.lineage.install(edit, inputs, || self.new_log_start(None), pop).await?;
        // Handles may live on; what they hold need not.
        dropped.iter().filter(|keyspace| !keyspace.is_cleared()).for_each(|keyspace| keyspace.empty());
        self.sweep_generations();
        self.lineage.wake_cleanup();
        self.progress.notify_all();
        Ok(())
    }

    /// Tells the manifest that the log is needed only from a later segment on, when no flush is there to say so.
    async fn let_log_go(&self) -> Result<()> {
        self.lineage.install(Edit::default(), Vec::new(), || self.new_log_start(None), || ()).await?;
        self.progress.notify_all();
        Ok(())
    }

    fn new_log_start(&self, flushed: Option<(&Partition, &Arc<Slot>)>) -> Option<LogMark> {
        let needed = self.log_needed(flushed);
        self.log_start_segment.fetch_max(needed.position.segment(), Ordering::Relaxed);
        Some(needed)
    }

    pub(super) async fn flush_slot(
        &self,
        writers: &TableWriters,
        partition: &Arc<Partition>,
        slot: &Arc<Slot>,
    ) -> Result<()> {
        self.log.until_visible(slot.sealed_at()).await?;
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        // Sealed by a split it has the other side's entries too; those are for the other side to flush.
        let mut entries = slot.memtable.entries_in(&partition.view().range);
        let meta = compaction::flush(&mut entries, writers, &boundaries).await?;
        let last: SeqNo = slot.last_seq();
        if last == SeqNo(0) {
            // A split or a merge sealed it empty.
            partition.install_flush(slot, None);
            partition.pacer.flushed_in_part(self.environment.clock.now_ns(), partition.sealed_memtables() > 0);
            self.pace(partition);
            self.progress.notify_all();
            return Ok(());
        }
        let mut edit = Edit { seq: last, ..Edit::default() };
        let (keyspace, id) = (partition.keyspace, partition.id);
        let table = meta.map(|meta| {
            self.metrics.flush_written_bytes.add(meta.bytes);
            edit.changes.push(Change::Add { keyspace, partition: id, level: 0, meta: meta.clone() });
            self.tables.open_written(meta)
        });
        // Not the number it was sealed at: after a power cut that number may be given to another record.
        edit.changes.push(Change::Flushed { keyspace, partition: id, seq: last });
        let (output, table_bytes) = table.as_ref().map(|table| (table.meta().id, table.meta().bytes)).unzip();
        let table_bytes = table_bytes.unwrap_or(0);
        let apply = || partition.install_flush(slot, table);
        let log_start = || self.new_log_start(Some((partition, slot)));
        if let Err(error) = self.lineage.install(edit, Vec::new(), log_start, apply).await {
            self.discard_outputs(output);
            return Err(error);
        }
        self.metrics.flushes.increment();
        self.watch_short_space();
        let memtable_bytes = slot.memtable.bytes() as u64;
        trace::event!(INFO, "thalweg::flush", "flushed", memtable_bytes = memtable_bytes, table_bytes = table_bytes);
        let (now_ns, has_more) = (self.environment.clock.now_ns(), partition.sealed_memtables() > 0);
        if slot.is_shared() {
            partition.pacer.flushed_in_part(now_ns, has_more);
        } else {
            partition.pacer.flushed(now_ns, memtable_bytes, table_bytes, has_more);
        }
        self.pace(partition);
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
        Ok(())
    }

    /// Flushes the memtables of a partition that are sealed now.
    pub(super) async fn flush_sealed(&self, writers: &TableWriters, partition: &Arc<Partition>) -> Result<()> {
        let waiting = partition.view().sealed.clone();
        for slot in waiting {
            if self.is_stopping() {
                return Err(Error::Closed);
            }
            self.flush_slot(writers, partition, &slot).await?;
        }
        Ok(())
    }

    /// On a full disk what unsettled edits have replaced is let go as soon as may be, and the reserve with it.
    pub(super) fn make_room_after(&self, error: &Error) {
        if error.kind() == ErrorKind::NoSpace {
            self.options.space.give_up_reserve();
            self.lineage.settle_for_space();
        }
    }

    /// Removes outputs that no edit names, because their edit was refused. When the database is poisoned they stay:
    /// the edit may be in the manifest; recovery knows.
    pub(super) fn discard_outputs(&self, outputs: impl IntoIterator<Item = crate::format::TableId>) {
        if self.health.check().is_ok() {
            for id in outputs {
                // A file that cannot be removed now is removed as an orphan by the next open.
                let _ = self.tables.remove(id);
            }
        }
    }
}

/// What the flush coroutine does next.
pub(super) enum Work {
    Define,
    Flush(Arc<Partition>, Arc<Slot>),
    Split(Arc<Partition>),
    Merge(Pair),
    LetLogGo,
}
