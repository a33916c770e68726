//! [`Compactor`]: the compaction coroutines. Each takes a waiting subtask, or else the job that the policy wants;
//! [`super::job_runner`] runs it.

use super::dependencies::Dependencies;
use super::job_runner::JobRunner;
use super::keyspace::OrderedKeyspace;
use super::merges::Merger;
use super::parked::{Parked, ParkedJobs};
use super::partition::{Partition, SuperVersion};
use super::partitions::Partitions;
use super::requests::{Progress, Requests};
use super::splits::Splitter;
use super::tidying::{has_looked, look_for_tidy, pick_tidy};
use crate::compaction::{Job, RunningJob};
use crate::error::{Error, ErrorKind};
use crate::keyspaces::{IdleMemory, Registry, Signals, SnapshotRegistry, SpaceWatch};
use crate::log::Log;
use crate::runtime::{Environment, Health};
use crate::table::{KeyRange, TableWriters};
use crate::trace;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One in this many looks for a job takes the partitions in turn.
const PLAIN_TURNS: usize = 8;

/// See the module.
pub(crate) struct Compactor {
    environment: Environment,
    health: Arc<Health>,
    log: Arc<Log>,
    registry: Arc<Registry>,
    partitions: Partitions,
    runner: JobRunner,
    splitter: Arc<Splitter>,
    merger: Arc<Merger>,
    space: Arc<SpaceWatch>,
    idle_memory: Arc<IdleMemory>,
    snapshots: Arc<SnapshotRegistry>,
    signals: Arc<Signals>,
    parked: ParkedJobs,
    requests: Requests,
    /// Callers that want small partitions compacted as in a quiet database.
    tidying: AtomicUsize,
    /// Where `take_job` begins to look, so that no partition starves.
    next_partition: AtomicUsize,
}

impl Compactor {
    pub(super) fn new(with: &Dependencies, splitter: &Arc<Splitter>, merger: &Arc<Merger>) -> Arc<Self> {
        with.options.wake.set(&with.signals.compaction_wanted);
        Arc::new(Compactor {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            log: Arc::clone(&with.log),
            registry: Arc::clone(&with.registry),
            partitions: Partitions::new(&with.registry),
            runner: JobRunner::new(with),
            splitter: Arc::clone(splitter),
            merger: Arc::clone(merger),
            space: Arc::clone(&with.space),
            idle_memory: Arc::clone(&with.idle_memory),
            snapshots: Arc::clone(&with.snapshots),
            signals: Arc::clone(&with.signals),
            parked: ParkedJobs::default(),
            requests: Requests::default(),
            tidying: AtomicUsize::new(0),
            next_partition: AtomicUsize::new(0),
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
            if let Some(subtask) = self.runner.subtasks.take() {
                self.runner.subtasks.run(&writers, subtask).await;
                has_worked = true;
                continue;
            }
            let retry_at_ns = self.give_back_parked();
            let Some((partition, job)) = self.take_job() else {
                match retry_at_ns {
                    None => self.idle_memory.rest(&self.signals.compaction_wanted, ticket, &mut has_worked).await,
                    Some(retry_at_ns) => {
                        let delay_ns = retry_at_ns.saturating_sub(self.environment.clock.now_ns());
                        self.environment.sleep_or(delay_ns, &self.signals.compaction_wanted, ticket).await;
                    }
                }
                continue;
            };
            has_worked = true;
            let (claim, room) = (job.running(), self.health.room());
            let done = trace::spanned!(
                "thalweg::compaction",
                "compaction",
                {
                    keyspace = partition.keyspace.0,
                    partition = partition.id.0,
                    level = job.level,
                    inputs = job.tables().count(),
                },
                self.runner.run(&writers, &partition, job)
            );
            if claim.level == 0 {
                partition.pacer.compaction_ended();
            }
            match done {
                Ok(()) => partition.compaction_done(&claim.tables),
                Err(Error::Closed) => {}
                Err(_) if self.signals.is_stopping() => {}
                Err(error) => {
                    self.park(partition, claim, error, room);
                    continue;
                }
            }
            self.give_back(&partition, &claim);
        }
    }

    /// Parks a job that failed. `room` is [`Health::room`] from before it began.
    fn park(&self, partition: Arc<Partition>, claim: RunningJob, error: Error, room: u64) {
        self.space.make_room_after(&error);
        let room = (error.kind() == ErrorKind::NoSpace).then_some(room);
        let now_ns = self.environment.clock.now_ns();
        {
            // Held for both changes, so that a retry finds the job together with its failure.
            let mut parked = self.parked.lock();
            let is_it = |job: &&mut RunningJob| job.tables == claim.tables;
            partition.running().iter_mut().filter(is_it).for_each(|job| job.is_parked = true);
            let trouble = partition.compaction_failed(&claim.tables, error, now_ns);
            let retry_at_ns = trouble.retry_at_ns.unwrap_or(now_ns);
            self.health.report(trouble);
            parked.push(Parked { partition, claim, retry_at_ns, room });
        }
        self.signals.progress.notify_all();
        // Coroutines that wait for a job must wake up at the retry time.
        self.signals.compaction_wanted.notify_all();
    }

    /// Gives the parked jobs back that may be tried again. Returns when the next of the others is due.
    fn give_back_parked(&self) -> Option<u64> {
        let now = || (self.environment.clock.now_ns(), self.health.room());
        let (due, next_at_ns) = self.parked.take_due(now);
        due.iter().for_each(|parked| self.give_back(&parked.partition, &parked.claim));
        next_at_ns
    }

    /// Makes every parked job due, because a caller waits for it.
    pub(crate) fn retry_parked(&self) {
        {
            let mut parked = self.parked.lock();
            self.partitions.iter().for_each(|partition| partition.ask_for_compactions());
            parked.iter_mut().for_each(|parked| parked.retry_at_ns = 0);
        }
        self.signals.compaction_wanted.notify_all();
    }

    /// Whether a compaction, a split or a merge runs or is wanted.
    pub(crate) fn is_pending(&self) -> bool {
        let is_pending = |partition: Arc<Partition>| {
            let running = partition.running();
            let super_version = partition.super_version();
            let is_wanted = || {
                partition.is_reshaping()
                    || self.splitter.is_to_split(&partition, &super_version, &running)
                    || self.wants_job(&partition, &super_version, &running)
            };
            !running.is_empty() || !partition.is_dropped() && is_wanted()
        };
        // A split or a merge meanwhile may have put a job into a partition that was not looked at.
        let is_none = || !self.partitions.iter().any(is_pending) && !self.merger.is_to_merge();
        !self.partitions.unchanged_while(is_none)
    }

    /// Whether there is a job for a partition. Wakes the compactors if so: reads may have paid for a job since their
    /// last look, and a few reads wake nobody.
    fn wants_job(&self, partition: &Partition, super_version: &SuperVersion, running: &[RunningJob]) -> bool {
        let (policy, levels, all_see) = (partition.policy(), &super_version.levels, |seq| self.snapshots.all_see(seq));
        let is_wanted = partition.no_job.wants_job(policy, levels, running, &all_see);
        if is_wanted && running.is_empty() {
            self.signals.compaction_wanted.notify_all();
        }
        is_wanted
    }

    /// Compacts small partitions as in a quiet database while `wait` runs. `wait` returns once little replaced data is
    /// left.
    pub(crate) fn tidy_while<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.tidying.fetch_add(1, Ordering::Relaxed);
        self.signals.compaction_wanted.notify_all();
        let result = wait();
        self.tidying.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Compacts the keys of a keyspace in `range` down while `wait` runs. `wait` gets a function that says whether all
    /// is done, and waits for that.
    pub(crate) fn compact_while<T>(
        &self,
        keyspace: &OrderedKeyspace,
        range: KeyRange,
        wait: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> T {
        let waiting = self.requests.begin(keyspace.generation(), range);
        wait(&|| {
            let progress = waiting.request.advance(&self.partitions, &|seq| self.snapshots.all_see(seq));
            if progress == Progress::Next {
                self.signals.compaction_wanted.notify_all();
            }
            progress == Progress::Done
        })
    }

    /// Whether there is nothing left to tidy, and no job runs.
    pub(crate) fn is_tidy(&self) -> bool {
        let is_untidy = |partition: Arc<Partition>| {
            look_for_tidy(&partition);
            let running = partition.running();
            let super_version = partition.super_version();
            let is_wanted = || {
                !has_looked(&partition, &super_version)
                    || self.pick_tidy(&partition, &super_version, &running, false).is_some()
            };
            !running.is_empty() || (!partition.is_dropped() && is_wanted())
        };
        !self.partitions.iter().any(is_untidy)
    }

    fn take_job(&self) -> Option<(Arc<Partition>, Job)> {
        let pick = |partition: &Partition, super_version: &SuperVersion, running: &[RunningJob]| {
            let all_see = |seq| self.snapshots.all_see(seq);
            let wanted = partition.no_job.pick(partition.policy(), &super_version.levels, running, &all_see);
            // A move costs nothing, and other jobs may wait behind it: the policy names one job at a time.
            if wanted.as_ref().is_some_and(|job| job.trivial_move || partition.policy().is_urgent(job)) {
                return wanted;
            }
            self.requests.pick(partition, super_version, running, &all_see).or(wanted)
        };
        self.take_job_of(pick).or_else(|| {
            let is_awaited = self.tidying.load(Ordering::Relaxed) > 0;
            let is_quiet = || self.log.is_quiet() && !self.registry.has_pending_flush();
            if !is_awaited && !is_quiet() {
                return None;
            }
            self.partitions.iter().for_each(|partition| look_for_tidy(&partition));
            // Not in large partitions while a caller waits: that would take long.
            self.take_job_of(|partition, super_version, running| {
                self.pick_tidy(partition, super_version, running, !is_awaited)
            })
        })
    }

    fn pick_tidy(
        &self,
        partition: &Partition,
        super_version: &SuperVersion,
        running: &[RunningJob],
        large: bool,
    ) -> Option<Job> {
        pick_tidy(partition, super_version, running, large, &|seq| self.snapshots.all_see(seq))
    }

    fn take_job_of(
        &self,
        pick: impl Fn(&Partition, &SuperVersion, &[RunningJob]) -> Option<Job>,
    ) -> Option<(Arc<Partition>, Job)> {
        for partition in &self.partitions_by_need() {
            let mut running = partition.running();
            if partition.is_dropped() {
                continue;
            }
            let super_version = partition.pinned_super_version();
            if self.splitter.stop_to_split(partition, &super_version, &running) {
                continue;
            }
            if let Some(job) = pick(partition, &super_version, &running) {
                if job.level == 0 {
                    let bytes = job.upper.iter().map(|table| table.meta().bytes).sum();
                    partition.pacer.compaction_begun(self.environment.clock.now_ns(), job.upper.len(), bytes);
                }
                running.push(job.running());
                drop(running);
                return Some((Arc::clone(partition), job));
            }
            if running.is_empty() {
                partition.no_compaction_wanted();
            }
        }
        None
    }

    /// All partitions. Those with the longest level 0 come first if it is due: their writers would be the first to
    /// wait. The others follow in turn. One look in [`PLAIN_TURNS`] takes all in turn, so that none starves.
    fn partitions_by_need(&self) -> Vec<Arc<Partition>> {
        let mut partitions: Vec<_> = self.partitions.iter().collect();
        let first = self.next_partition.fetch_add(1, Ordering::Relaxed);
        let count = partitions.len().max(1);
        if first.is_multiple_of(PLAIN_TURNS) {
            // These looks have a count of their own, so that each partition comes first in one of them.
            partitions.rotate_left(first / PLAIN_TURNS % count);
            return partitions;
        }
        partitions.rotate_left(first % count);
        let trigger = |partition: &Partition| partition.generation.options.policy.level0_trigger();
        partitions.sort_by_key(|partition| Reverse(partition.level0_tables().max(trigger(partition))));
        partitions
    }

    fn give_back(&self, partition: &Partition, ended: &RunningJob) {
        {
            let mut running = partition.running();
            running.retain(|running| running.tables != ended.tables);
            // Checked here and not only before a job: after a job of level 0 that level is short.
            self.splitter.stop_to_split(partition, &partition.super_version(), &running);
        }
        self.space.watch_short();
        if partition.generation.budget.has_grown() {
            // The partition may be small enough to be merged.
            self.signals.flush_wanted.notify_all();
        }
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }
}
