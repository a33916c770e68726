//! [`Evictor`]: the coroutine that compacts in the fast tier and evicts from it.
//!
//! One piece of work at a time, in this order: what somebody waits for, or a nearly full disk needs, is evicted, the
//! oldest records first; then what Algorithm 1 decides ([`crate::fast_tier`]): partitions that pin too much of the log,
//! partitions that are least worth their room, and merges within the tier. The partitions that it has once chosen to
//! leave all do, so that the tier is full again only after a while.
//!
//! Locks: `chosen` is held for a look. A partition's `running` is held while a claim is made on it.

use super::dependencies::Dependencies;
use super::description::{describe, describe_tier};
use super::eviction::FastMerger;
use super::partition::Partition;
use super::partitions::Partitions;
use super::splits::Splitter;
use super::tier::Tier;
use crate::compaction::RunningJob;
use crate::error::{Error, ErrorKind};
use crate::fast_tier;
use crate::format::LogPosition;
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
    /// Partitions that the model has chosen to leave the tier, in order.
    chosen: Mutex<Vec<Arc<Partition>>>,
}

/// What the coroutine does next, in a partition that it has a claim on.
enum Work {
    Compact(Arc<Partition>),
    Evict(Arc<Partition>),
}

impl Work {
    fn partition(&self) -> &Arc<Partition> {
        match self {
            Work::Compact(partition) | Work::Evict(partition) => partition,
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
            chosen: Mutex::default(),
        })
    }

    /// Runs until [`Signals::stop`], or until the database is poisoned.
    pub(crate) async fn run(self: Arc<Self>, writers: TableWriters) {
        let mut has_worked = false;
        loop {
            let ticket = self.signals.compaction_wanted.ticket();
            if self.signals.is_stopping() {
                return;
            }
            let room = self.health.room();
            let Some(work) = self.next_work() else {
                if self.health.evictions.clear() {
                    self.signals.progress.notify_all();
                }
                self.idle_memory.rest(&self.signals.compaction_wanted, ticket, &mut has_worked).await;
                continue;
            };
            if !claim(work.partition()) {
                // Its split or merge ends soon, and tells.
                self.signals.compaction_wanted.listen(ticket).await;
                continue;
            }
            has_worked = true;
            let done = match &work {
                Work::Compact(partition) => self.merger.compact(&self.tier, partition).await,
                Work::Evict(partition) => self.merger.evict(&self.tier, &writers, partition).await,
            };
            self.give_back(work.partition());
            match done {
                Ok(()) => drop(self.health.evictions.clear()),
                Err(Error::Closed) => {}
                Err(_) if self.signals.is_stopping() => {}
                Err(error) => self.back_off(error, room).await,
            }
        }
    }

    /// Whether there is anything for the coroutine to do.
    pub(super) fn has_work(&self) -> bool {
        self.next_work().is_some()
    }

    fn next_work(&self) -> Option<Work> {
        if self.tier.room.live_bytes() == 0 {
            return None;
        }
        if self.tier.is_passed_by(self.space.space()) {
            return self.oldest().map(Work::Evict);
        }
        self.log_pins.look_at_tier();
        self.next_chosen().or_else(|| self.ask_the_model())
    }

    /// The partition with the oldest record in the tier.
    fn oldest(&self) -> Option<Arc<Partition>> {
        let first = |partition: &Partition| -> Option<LogPosition> {
            Some(partition.super_version().fast.as_ref()?.first()?.position)
        };
        let held = self.known().filter_map(|partition| Some((first(&partition)?, partition)));
        held.min_by_key(|(first, _)| *first).map(|(_, partition)| partition)
    }

    /// The next eviction that the model has chosen and that is still to be done.
    fn next_chosen(&self) -> Option<Work> {
        let mut chosen = self.chosen.lock();
        chosen.retain(|partition| !partition.is_dropped() && !partition.is_out_of_tier());
        chosen.first().cloned().map(Work::Evict)
    }

    /// Algorithm 1 (PMB-8): evictions first, because writers may wait for them.
    fn ask_the_model(&self) -> Option<Work> {
        let Tier { model, calibration, .. } = &*self.tier;
        let (partitions, described) = self.describe();
        let (tier, costs) = (describe_tier(&self.tier, partitions.len()), calibration.costs());
        let evictions = model.evictions(&costs, &tier, &described);
        *self.chosen.lock() = evictions.iter().map(|eviction| Arc::clone(&partitions[eviction.index])).collect();
        self.next_chosen().or_else(|| {
            let mut both = partitions.iter().zip(&described);
            let wanted = both.find(|(_, described)| model.compaction(&costs, &tier, described).is_some());
            wanted.map(|(partition, _)| Work::Compact(Arc::clone(partition)))
        })
    }

    /// The partitions with something in the tier.
    fn describe(&self) -> (Vec<Arc<Partition>>, Vec<fast_tier::Partition>) {
        let describe = |partition: Arc<Partition>| {
            let described = describe(&self.tier, &partition, &self.snapshots, &self.log)?;
            Some((partition, described))
        };
        self.known().filter_map(describe).unzip()
    }

    /// The partitions that an edit may name. Replay fills the tier before the manifest knows of a keyspace, or of a
    /// clear: a table that an edit adds before would be that of nobody, or go with the clear.
    fn known(&self) -> impl Iterator<Item = Arc<Partition>> + '_ {
        self.partitions.iter().filter(|partition| self.partitions.is_known(partition))
    }

    /// What the models see of each partition in the tier, and decide, in words.
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

    fn give_back(&self, partition: &Partition) {
        {
            let mut running = partition.running();
            running.retain(|job| !job.is_fast());
            self.splitter.stop_to_split(partition, &partition.super_version(), &running);
        }
        if partition.generation.budget.has_grown() {
            // It may be small enough now to be merged.
            self.signals.flush_wanted.notify_all();
        }
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    /// Waits until work that failed is due again: nothing was changed by it. Writers that would have to wait for it get
    /// the error. `room` is how often room had come when the work began.
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

/// Claims a partition for a merge of its fast tables, unless it is about to be split or merged, or dropped.
fn claim(partition: &Partition) -> bool {
    let mut running = partition.running();
    let is_free = !partition.is_reshaping() && !partition.is_dropped();
    if is_free {
        assert!(!running.iter().any(RunningJob::is_fast), "one coroutine merges fast tables");
        running.push(RunningJob::fast());
    }
    is_free
}
