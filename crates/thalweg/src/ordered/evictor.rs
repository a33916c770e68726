//! [`Evictor`]: the coroutines that compact in the fast tier and evict from it.
//!
//! Each does one piece of work at a time. While a caller waits for an empty tier, or a nearly full disk needs it, they
//! evict the partitions with the oldest records first. Otherwise they do what Algorithm 1 decides
//! ([`crate::fast_tier`]): evict partitions that pin too much of the log, evict partitions that are least worth their
//! room, and merge within the tier. Merges that a caller waits for come before the merges of Algorithm 1. One coroutine
//! runs beside the flushes, and one on each compaction worker, so a merge in one partition delays no eviction of
//! another.
//!
//! A partition that was chosen for eviction is on its way out until the eviction ends. Tables that a flush adds
//! meanwhile stay in the tier: they would make a small table of level 0.
//!
//! Locks: `leaving` is held for a look. A partition's `running` is held for a look, and while a claim is made on it.

use super::dependencies::Dependencies;
use super::description::{describe, describe_tier};
use super::eviction::FastMerger;
use super::partition::Partition;
use super::partitions::Partitions;
use super::splits::Splitter;
use super::tier::Tier;
use crate::compaction::RunningJob;
use crate::error::{Error, ErrorKind};
use crate::fast_tier::{self, Activity, Takes};
use crate::format::{LogPosition, SeqNo};
use crate::keyspaces::{IdleMemory, LogPins, Signals, SnapshotRegistry, SpaceWatch};
use crate::log::Log;
use crate::runtime::{Environment, Health};
use crate::sync::Mutex;
use crate::table::TableWriters;
use std::sync::Arc;

/// See the module.
pub(crate) struct Evictor {
    environment: Environment,
    health: Arc<Health>,
    log: Arc<Log>,
    partitions: Partitions,
    snapshots: Arc<SnapshotRegistry>,
    log_pins: Arc<LogPins>,
    merger: Arc<FastMerger>,
    splitter: Arc<Splitter>,
    space: Arc<SpaceWatch>,
    idle_memory: Arc<IdleMemory>,
    signals: Arc<Signals>,
    tier: Arc<Tier>,
    /// Partitions on their way out of the tier, in the order in which the model has chosen them.
    leaving: Mutex<Vec<Arc<Partition>>>,
}

/// The next work of a coroutine, in a partition that is free.
enum Work {
    Compact(Arc<Partition>, Takes),
    Evict(Arc<Partition>),
}

impl Work {
    fn partition(&self) -> &Arc<Partition> {
        match self {
            Work::Compact(partition, _) | Work::Evict(partition) => partition,
        }
    }
}

impl Evictor {
    pub(super) fn new(
        with: &Dependencies,
        tier: &Arc<Tier>,
        merger: &Arc<FastMerger>,
        splitter: &Arc<Splitter>,
    ) -> Arc<Self> {
        tier.set_wanted(&with.signals.compaction_wanted);
        Arc::new(Evictor {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            log: Arc::clone(&with.log),
            partitions: Partitions::new(&with.registry),
            snapshots: Arc::clone(&with.snapshots),
            log_pins: Arc::clone(&with.log_pins),
            merger: Arc::clone(merger),
            splitter: Arc::clone(splitter),
            space: Arc::clone(&with.space),
            idle_memory: Arc::clone(&with.idle_memory),
            signals: Arc::clone(&with.signals),
            tier: Arc::clone(tier),
            leaving: Mutex::default(),
        })
    }

    /// Runs until [`Signals::stop`], or until the database is poisoned. Several coroutines run this at once. `writers`
    /// belong to the worker of the coroutine.
    pub(crate) async fn run(self: Arc<Self>, writers: TableWriters) {
        let mut has_worked = false;
        loop {
            let ticket = self.signals.compaction_wanted.ticket();
            if self.signals.is_stopping() {
                return;
            }
            let room = self.health.room();
            let Some(work) = self.next_work() else {
                self.tier.maker.count_memory();
                if self.leaving.lock().is_empty() && self.health.evictions.clear() {
                    self.signals.progress.notify_all();
                }
                self.idle_memory.rest(&self.signals.compaction_wanted, ticket, &mut has_worked).await;
                continue;
            };
            if !claim(work.partition()) {
                // Another coroutine was faster, and notifies the event when its work ends.
                continue;
            }
            has_worked = true;
            let done = match &work {
                Work::Compact(partition, takes) => {
                    let done = self.merger.compact(&self.tier, partition, *takes).await;
                    done.inspect_err(|error| self.tier.note_full(error))
                }
                Work::Evict(partition) => self.merger.evict(&self.tier, &writers, partition).await,
            };
            self.give_back(&work);
            match done {
                Ok(()) => drop(self.health.evictions.clear()),
                Err(Error::Closed) => {}
                Err(_) if self.signals.is_stopping() => {}
                Err(error) => self.back_off(error, room).await,
            }
        }
    }

    /// Whether there is anything for the coroutines to do.
    pub(super) fn has_work(&self) -> bool {
        self.next_work().is_some()
    }

    /// Work in a partition that is free. A coroutine at work in another partition notifies the end of that work.
    fn next_work(&self) -> Option<Work> {
        if self.tier.room.live_bytes() == 0 {
            self.leaving.lock().clear();
            return None;
        }
        if self.tier.is_passed_by(self.space.space()) {
            return self.oldest().map(Work::Evict);
        }
        self.log_pins.look_at_tier();
        self.next_leaving().or_else(|| self.next_merge()).or_else(|| self.ask_the_model())
    }

    /// A merge that a caller waits for, in a free partition.
    fn next_merge(&self) -> Option<Work> {
        let is_unsorted = |partition: &Arc<Partition>| {
            let super_version = partition.super_version();
            super_version.fast.as_ref().is_some_and(|fast| !fast.unsorted.is_empty())
        };
        let mut free = self.known().filter(|partition| self.tier.room.is_to_be_merged() && is_free(partition));
        free.find(is_unsorted).map(|partition| Work::Compact(partition, Takes::Overlapped))
    }

    /// The free partition with the oldest record in the tier.
    fn oldest(&self) -> Option<Arc<Partition>> {
        let first = |partition: &Partition| -> Option<(Option<LogPosition>, SeqNo)> {
            let super_version = partition.super_version();
            let fast = super_version.fast.as_ref()?;
            Some((fast.first().map(|mark| mark.position), fast.first_seq()))
        };
        let free = self.known().filter(|partition| is_free(partition));
        let held = free.filter_map(|partition| Some((first(&partition)?, partition)));
        held.min_by_key(|(first, _)| *first).map(|(_, partition)| partition)
    }

    /// The next eviction that the model has chosen and that has not begun.
    fn next_leaving(&self) -> Option<Work> {
        let mut leaving = self.leaving.lock();
        leaving.retain(|partition| !partition.is_dropped() && !partition.is_out_of_tier());
        leaving.iter().find(|partition| is_free(partition)).cloned().map(Work::Evict)
    }

    /// Asks Algorithm 1 (PMB-8) for work. Evictions come first, because writers may wait for them.
    fn ask_the_model(&self) -> Option<Work> {
        self.tier.measure_once();
        let Tier { model, calibration, .. } = &*self.tier;
        let (partitions, described) = self.describe();
        let (tier, costs) = (describe_tier(&self.tier, partitions.len()), calibration.costs());
        let evictions = model.evictions(&costs, &tier, &described);
        let chosen = evictions.iter().map(|eviction| Arc::clone(&partitions[eviction.index]));
        self.leaving.lock().extend(chosen);
        self.next_leaving().or_else(|| {
            partitions.iter().zip(&described).find_map(|(partition, described)| {
                let compaction = model.compaction(&costs, &tier, described).filter(|_| is_free(partition))?;
                Some(Work::Compact(Arc::clone(partition), compaction.takes))
            })
        })
    }

    /// The partitions with something in the tier.
    fn describe(&self) -> (Vec<Arc<Partition>>, Vec<fast_tier::Partition>) {
        let leaving = self.leaving.lock().clone();
        let describe = |partition: Arc<Partition>| {
            let mut described = describe(&self.tier, &partition, &self.snapshots, &self.log)?;
            if leaving.iter().any(|other| Arc::ptr_eq(other, &partition)) {
                described.activity = Activity::Evicting;
            }
            Some((partition, described))
        };
        self.known().filter_map(describe).unzip()
    }

    /// The partitions that an edit may name. Replay fills the tier before the manifest knows a keyspace or a clear. A
    /// table that an edit adds before that would belong to no keyspace, or the clear would remove it.
    fn known(&self) -> impl Iterator<Item = Arc<Partition>> + '_ {
        self.partitions.iter().filter(|partition| self.partitions.is_known(partition))
    }

    /// The input and the decision of the models for each partition in the tier, in words.
    pub(crate) fn reports(&self) -> Vec<String> {
        let (partitions, described) = self.describe();
        let Tier { model, calibration, .. } = &*self.tier;
        let tier = describe_tier(&self.tier, partitions.len());
        let reports = model.reports(&calibration.costs(), &tier, &described);
        let name = |partition: &Partition| self.partitions.keyspace_of(partition).map(|keyspace| keyspace.name.clone());
        let line = |(partition, report): (&Arc<Partition>, fast_tier::Report)| {
            format!("{} {report}", name(partition).unwrap_or_default())
        };
        partitions.iter().zip(reports).map(line).collect()
    }

    fn give_back(&self, work: &Work) {
        let partition = work.partition();
        if let Work::Evict(_) = work {
            self.leaving.lock().retain(|other| !Arc::ptr_eq(other, partition));
        }
        {
            let mut running = partition.running();
            running.retain(|job| !job.is_fast());
            self.splitter.stop_to_split(partition, &partition.super_version(), &running);
        }
        if partition.generation.budget.has_grown() {
            // The partition may be small enough to be merged.
            self.signals.flush_wanted.notify_all();
        }
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    /// Waits until failed work is due again. The failed work has changed nothing. Writers that would have to wait for
    /// it get the error. `room` is [`Health::room`] from before the work began.
    async fn back_off(&self, error: Error, room: u64) {
        self.space.make_room_after(&error);
        let is_full = error.kind() == ErrorKind::NoSpace;
        let ticket = self.signals.flush_retry.ticket();
        let now_ns = self.environment.clock.now_ns();
        let trouble = self.health.evictions.record(error, now_ns);
        self.health.report(trouble.clone());
        self.signals.progress.notify_all();
        let delay_ns = trouble.retry_at_ns.unwrap_or(now_ns).saturating_sub(now_ns);
        // Room may have come since the work began.
        let is_due = is_full && self.health.room() != room;
        if !is_due && !self.signals.is_stopping() {
            self.environment.sleep_or(delay_ns, &self.signals.flush_retry, ticket).await;
        }
    }
}

/// Whether no merge of the partition's fast tables runs, and it is not about to be split, merged or dropped.
fn is_free(partition: &Partition) -> bool {
    may_merge(partition, &partition.running())
}

fn may_merge(partition: &Partition, running: &[RunningJob]) -> bool {
    !partition.is_reshaping() && !partition.is_dropped() && !running.iter().any(RunningJob::is_fast)
}

/// Claims a partition for a merge of its fast tables, if it is free.
fn claim(partition: &Partition) -> bool {
    let mut running = partition.running();
    let is_free = may_merge(partition, &running);
    if is_free {
        running.push(RunningJob::fast());
    }
    is_free
}
