//! The flush coroutine: definitions to the manifest, sealed memtables to level-0 tables, and relief for a long log.

use super::workshop::DefinitionEdit;
use super::{Partition, Workshop};
use crate::compaction;
use crate::error::{Error, Result};
use crate::format::SeqNo;
use crate::lineage::{Change, Edit};
use crate::ordered::view::Slot;
use std::sync::{Arc, PoisonError};

/// How long a flush or compaction that failed waits before it is tried again, in nanoseconds.
pub(super) const RETRY_NS: u64 = 50_000_000;

impl Workshop {
    /// Runs until [`Workshop::stop`], or until the database is poisoned.
    pub(crate) async fn run_flusher(self: Arc<Self>) {
        loop {
            let ticket = self.flush_wanted.ticket();
            if self.is_stopping() {
                return;
            }
            self.relieve_log();
            let done = match self.next_flush() {
                Some(Work::Define) => self.install_definition().await,
                Some(Work::Flush(partition, slot)) => self.flush_slot(&partition, &slot).await,
                None => {
                    self.flush_wanted.listen(ticket).await;
                    continue;
                }
            };
            match done {
                Ok(()) => self.set_trouble(None),
                Err(error) => {
                    // Nothing was changed: tried again after a while, sooner when something else happens. Writers
                    // that would have to wait for it get the error.
                    self.set_trouble(Some(error));
                    let ticket = self.flush_wanted.ticket();
                    self.environment.sleep_or(RETRY_NS, &self.flush_wanted, ticket).await;
                }
            }
        }
    }

    fn next_flush(&self) -> Option<Work> {
        if !self.definitions.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Some(Work::Define);
        }
        // The memtable whose records are oldest first: it holds back the log.
        self.partitions()
            .filter(|partition| !partition.is_dropped())
            .filter_map(|partition| Some((partition.view().sealed.first().cloned()?, partition)))
            .min_by_key(|(slot, _)| slot.first().map(|mark| mark.position))
            .map(|(slot, partition)| Work::Flush(partition, slot))
    }

    /// Past `log_bytes_max` the memtables that pin the oldest segment are sealed, however small (DESIGN 5).
    fn relieve_log(&self) {
        if self.log.backlog_bytes() <= self.options.log_bytes_max {
            return;
        }
        let oldest = self.log_needed(None).position.segment();
        for partition in self.partitions() {
            let active = Arc::clone(&partition.view().active);
            if active.first().is_some_and(|first| first.position.segment() <= oldest) {
                self.seal(&partition, &active);
            }
        }
    }

    async fn install_definition(&self) -> Result<()> {
        let (edit, inputs) = {
            let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(definition) = definitions.front() else { return Ok(()) };
            (definition.edit.clone(), definition.dropped.clone())
        };
        if let Some(keyspace) = &inputs {
            // Its running jobs see that it is dropped and give up; no new ones begin.
            let quiet = || keyspace.partitions().iter().all(|partition| partition.running().is_empty());
            self.environment.until(&self.progress, || (quiet() || self.is_stopping()).then_some(())).await;
            if self.is_stopping() {
                return Err(Error::Closed);
            }
        }
        let inputs = inputs.map_or_else(Vec::new, |keyspace| Self::tables_of(&keyspace));
        let pop = || {
            let popped: Option<DefinitionEdit> =
                self.definitions.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            assert!(popped.is_some(), "only this coroutine takes definitions");
        };
        self.lineage.install(edit, inputs, || None, pop).await?;
        self.progress.notify_all();
        Ok(())
    }

    async fn flush_slot(&self, partition: &Arc<Partition>, slot: &Arc<Slot>) -> Result<()> {
        self.log.until_visible(slot.sealed_at()).await?;
        let boundaries = self.snapshots.boundaries(|| self.log.visible());
        let mut cursor = slot.memtable.cursor();
        let meta = compaction::flush(&mut cursor, &self.tables, &boundaries).await?;
        let last: SeqNo = slot.last_seq();
        let mut edit = Edit { seq: last, ..Edit::default() };
        let (keyspace, id) = (partition.keyspace, partition.id);
        let table = meta.map(|meta| {
            self.metrics.flush_written_bytes.add(meta.bytes);
            edit.changes.push(Change::Add { keyspace, partition: id, level: 0, meta: meta.clone() });
            self.tables.open(meta)
        });
        // Not the number it was sealed at: after a power cut that number may be given to another record.
        edit.changes.push(Change::Flushed { keyspace, partition: id, seq: last });
        let output = table.as_ref().map(|table| table.meta().id);
        let apply = || partition.install_flush(slot, table);
        let log_start = || Some(self.log_needed(Some(slot)));
        if let Err(error) = self.lineage.install(edit, Vec::new(), log_start, apply).await {
            self.discard_outputs(output);
            return Err(error);
        }
        self.metrics.flushes.increment();
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
        Ok(())
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
enum Work {
    Define,
    Flush(Arc<Partition>, Arc<Slot>),
}
