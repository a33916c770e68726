//! [`Flusher`]: the flush coroutine. It writes definitions to the manifest and sealed memtables to level-0 tables,
//! splits and merges partitions, and relieves a long log.

use super::dependencies::Dependencies;
use super::flush::MemtableFlusher;
use super::merges::{Merger, Pair};
use super::partition::Partition;
use super::partitions::Partitions;
use super::sealer::Sealer;
use super::splits::Splitter;
use super::tier::Tier;
use crate::error::{Error, ErrorKind};
use crate::keyspaces::{ClearedGenerations, DefinitionInstaller, IdleMemory, LogPins, Registry, Signals, SpaceWatch};
use crate::log::Log;
use crate::memtable::MemtableHandle;
use crate::runtime::{Environment, Health};
use crate::table::TableWriters;
use crate::trace;
use std::sync::Arc;

/// A quiet database flushes its memtables if they pin more of the log than this.
const QUIET_LOG_BYTES: u64 = 4 << 20;

/// See the module.
pub(crate) struct Flusher {
    environment: Environment,
    health: Arc<Health>,
    log: Arc<Log>,
    registry: Arc<Registry>,
    partitions: Partitions,
    log_pins: Arc<LogPins>,
    installer: Arc<DefinitionInstaller>,
    cleared: Arc<ClearedGenerations>,
    sealer: Arc<Sealer>,
    flush: Arc<MemtableFlusher>,
    splitter: Arc<Splitter>,
    merger: Arc<Merger>,
    space: Arc<SpaceWatch>,
    idle_memory: Arc<IdleMemory>,
    signals: Arc<Signals>,
    tier: Option<Arc<Tier>>,
}

/// The next work of the flush coroutine.
enum Work {
    Define,
    Flush(Arc<Partition>, Arc<MemtableHandle>),
    Split(Arc<Partition>),
    Merge(Pair),
    LetLogGo,
}

impl Flusher {
    pub(super) fn new(
        with: &Dependencies,
        sealer: &Arc<Sealer>,
        flush: &Arc<MemtableFlusher>,
        splitter: &Arc<Splitter>,
        merger: &Arc<Merger>,
    ) -> Arc<Self> {
        Arc::new(Flusher {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            log: Arc::clone(&with.log),
            registry: Arc::clone(&with.registry),
            partitions: Partitions::new(&with.registry),
            log_pins: Arc::clone(&with.log_pins),
            installer: Arc::clone(&with.installer),
            cleared: Arc::clone(&with.cleared),
            sealer: Arc::clone(sealer),
            flush: Arc::clone(flush),
            splitter: Arc::clone(splitter),
            merger: Arc::clone(merger),
            space: Arc::clone(&with.space),
            idle_memory: Arc::clone(&with.idle_memory),
            signals: Arc::clone(&with.signals),
            tier: with.options.tier.clone(),
        })
    }

    /// Runs until [`Signals::stop`], or until the database is poisoned.
    pub(crate) async fn run(self: Arc<Self>, writers: TableWriters) {
        let (mut defined_last, mut has_worked) = (false, false);
        loop {
            let ticket = self.signals.flush_wanted.ticket();
            if self.signals.is_stopping() {
                return;
            }
            let room = self.health.room();
            self.relieve_log();
            self.cleared.sweep();
            self.tidy_when_quiet();
            let work = self.next_work(defined_last);
            defined_last = matches!(work, Some(Work::Define));
            has_worked |= work.is_some();
            let done = match work {
                Some(Work::Define) => {
                    let done = self.installer.install().await;
                    // Keyspaces that the manifest knows may be evicted.
                    self.tier.iter().for_each(|tier| tier.wake());
                    done
                }
                Some(Work::Flush(partition, handle)) => trace::spanned!(
                    "thalweg::flush",
                    "flush",
                    { keyspace = partition.keyspace.0, partition = partition.id.0 },
                    self.flush.flush(&writers, &partition, &handle)
                ),
                Some(Work::Split(partition)) => {
                    self.splitter.split(&writers, &partition).await;
                    continue;
                }
                Some(Work::Merge(pair)) => {
                    self.merger.merge(&writers, &pair).await;
                    continue;
                }
                Some(Work::LetLogGo) => self.installer.let_log_go().await,
                None => {
                    if self.health.flushes.clear() {
                        self.signals.progress.notify_all();
                    }
                    self.idle_memory.rest(&self.signals.flush_wanted, ticket, &mut has_worked).await;
                    continue;
                }
            };
            match done {
                Ok(()) => {
                    self.health.flushes.clear();
                    self.signals.progress.notify_all();
                }
                Err(error) if self.signals.is_stopping() => drop(error),
                Err(error) => self.back_off(error, room).await,
            }
        }
    }

    /// Waits until failed work is due again. The failed work has changed nothing. Writers that would have to wait for
    /// it get the error. `room` is [`Health::room`] from before the work began.
    async fn back_off(&self, error: Error, room: u64) {
        self.space.make_room_after(&error);
        let is_full = error.kind() == ErrorKind::NoSpace;
        let ticket = self.signals.flush_retry.ticket();
        let now_ns = self.environment.clock.now_ns();
        let trouble = self.health.flushes.record(error, now_ns);
        self.health.report(trouble.clone());
        self.signals.progress.notify_all();
        let delay_ns = trouble.retry_at_ns.unwrap_or(now_ns).saturating_sub(now_ns);
        // Room may have come since the work began.
        let is_due = is_full && self.health.room() != room;
        if !is_due && !self.signals.is_stopping() {
            self.environment.sleep_or(delay_ns, &self.signals.flush_retry, ticket).await;
        }
    }

    /// Whether there is anything for the coroutine to do.
    pub(crate) fn has_work(&self) -> bool {
        self.next_work(false).is_some()
    }

    /// The next work: definitions first, but not twice in a row before a flush, so that neither starves the other.
    fn next_work(&self, defined_last: bool) -> Option<Work> {
        // The memtable with the oldest records comes first: it holds back the log.
        let flush = self
            .partitions
            .iter()
            .filter(|partition| !partition.is_dropped())
            .filter_map(|partition| Some((partition.super_version().sealed.first().cloned()?, partition)))
            .min_by_key(|(handle, _)| handle.first().map(|mark| mark.position));
        // Looked at after the registry: a keyspace found there has its definition here or in the manifest.
        let definitions = self.registry.definitions();
        let is_known = |partition: &Partition| definitions.is_known(partition.keyspace);
        let may_flush = defined_last && flush.as_ref().is_some_and(|(_, partition)| is_known(partition));
        if !definitions.is_empty() && !may_flush {
            return Some(Work::Define);
        }
        // No job begins in a partition that is to be split until it is split.
        if let Some(partition) = self.splitter.partition_to_split().filter(|partition| is_known(partition)) {
            return Some(Work::Split(partition));
        }
        if let Some((handle, partition)) = flush {
            return Some(Work::Flush(partition, handle));
        }
        if let Some(pair) = self.merger.pair_to_merge() {
            return Some(Work::Merge(pair));
        }
        self.log_pins.are_segments_unneeded().then_some(Work::LetLogGo)
    }

    /// Seals the memtables that pin the oldest segment of a log that is too long.
    fn relieve_log(&self) {
        if let Some(segment) = self.log_pins.segment_to_relieve() {
            self.sealer.seal_pinning(segment);
        }
    }

    /// Flushes the memtables of a database that nobody writes to, if the log that they pin is worth it. Wakes the
    /// compactors to tidy replaced data.
    fn tidy_when_quiet(&self) {
        if !self.log.is_quiet() {
            return;
        }
        if self.log_pins.pinned_bytes() > QUIET_LOG_BYTES {
            self.sealer.seal_all();
        }
        self.signals.compaction_wanted.notify_all();
    }
}
