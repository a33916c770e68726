//! Compaction coroutines: take a subtask that waits, or else the job a partition's shape asks for, merge, install.

use super::room::Step;
use super::view::View;
use super::{Partition, Workshop};
use crate::compaction::{Job, RunningJob};
use crate::error::{Error, ErrorKind, Result};
use crate::lineage::{Change, Edit};
use crate::table::TableWriters;
use crate::trace;
use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A job that failed, and waits for its next try.
pub(super) struct Parked {
    partition: Arc<Partition>,
    claim: RunningJob,
    retry_ns: u64,
    /// How often room had come when it began, if it found the disk full.
    room: Option<u64>,
}

impl Parked {
    fn is_due(&self, now_ns: u64, room: u64) -> bool {
        // A keyspace is dropped only once none of its jobs is taken.
        now_ns >= self.retry_ns || self.room.is_some_and(|then| then != room) || self.partition.is_dropped()
    }
}

/// Of so many looks for a job one takes the partitions in turn.
const PLAIN_TURNS: usize = 8;

impl Workshop {
    /// Runs until [`Workshop::stop`], or until the database is poisoned. Several run at once; `writers` are of its
    /// worker.
    pub(crate) async fn run_compactor(self: Arc<Self>, writers: TableWriters) {
        let mut has_worked = false;
        loop {
            let ticket = self.compaction_wanted.ticket();
            if self.is_stopping() {
                return;
            }
            if let Some(subtask) = self.subtasks.take() {
                self.run_subtask(&writers, subtask).await;
                has_worked = true;
                continue;
            }
            let retry_ns = self.give_back_parked();
            let Some((partition, job)) = self.take_job() else {
                match retry_ns {
                    None => self.rest(&self.compaction_wanted, ticket, &mut has_worked).await,
                    Some(retry_ns) => {
                        let delay_ns = retry_ns.saturating_sub(self.environment.clock.now_ns());
                        self.environment.sleep_or(delay_ns, &self.compaction_wanted, ticket).await;
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
                self.run_job(&writers, &partition, job)
            );
            match done {
                Ok(()) => partition.compaction_done(&claim.tables),
                Err(Error::Closed) => {}
                Err(_) if self.is_stopping() => {}
                Err(error) => {
                    self.park(partition, claim, error, room);
                    continue;
                }
            }
            self.give_back(&partition, &claim);
        }
    }

    /// Puts a job that failed aside until it is tried again. It stays taken, so that nobody runs into the same error
    /// meanwhile, and no coroutine waits with it: other jobs go on, of its partition too. `room`: how often room had
    /// come when it began.
    fn park(&self, partition: Arc<Partition>, claim: RunningJob, error: Error, room: u64) {
        self.make_room_after(&error);
        let room = (error.kind() == ErrorKind::NoSpace).then_some(room);
        let now_ns = self.environment.clock.now_ns();
        {
            // Held for both, so that who asks for a retry finds the job with its trouble.
            let mut parked = self.parked();
            let trouble = partition.compaction_failed(&claim.tables, error, now_ns);
            let retry_ns = trouble.retry_at_ns.unwrap_or(now_ns);
            self.health.report(trouble);
            parked.push(Parked { partition, claim, retry_ns, room });
        }
        self.progress.notify_all();
        // Who waits for a job has a time to wait for now.
        self.compaction_wanted.notify_all();
    }

    /// Gives the parked jobs back that may be tried again; when the next of the others is due.
    fn give_back_parked(&self) -> Option<u64> {
        let (due, next_ns) = {
            let mut parked = self.parked();
            if parked.is_empty() {
                return None;
            }
            let (now_ns, room) = (self.environment.clock.now_ns(), self.health.room());
            let due: Vec<Parked> = parked.extract_if(.., |parked| parked.is_due(now_ns, room)).collect();
            (due, parked.iter().map(|parked| parked.retry_ns).min())
        };
        due.iter().for_each(|parked| self.give_back(&parked.partition, &parked.claim));
        next_ns
    }

    /// Makes every parked job due.
    pub(super) fn retry_parked(&self) {
        {
            let mut parked = self.parked();
            self.partitions().for_each(|partition| partition.ask_for_compactions());
            parked.iter_mut().for_each(|parked| parked.retry_ns = 0);
        }
        self.compaction_wanted.notify_all();
    }

    fn parked(&self) -> MutexGuard<'_, Vec<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a compaction, a split or a merge runs or is wanted.
    pub(crate) fn compaction_pending(&self) -> bool {
        let reshaped = self.metrics.reshaped();
        let is_pending = |partition: Arc<Partition>| {
            let running = partition.running();
            let view = partition.view();
            let is_wanted = || {
                partition.is_reshaping()
                    || self.is_to_split(&partition, &view, &running)
                    || self.policy_of(&partition).wants_job(&view.levels, &running)
            };
            !running.is_empty() || !partition.is_dropped() && is_wanted()
        };
        // A split or a merge meanwhile may have put a job where nobody looked.
        self.partitions().any(is_pending) || self.is_to_merge() || self.metrics.reshaped() != reshaped
    }

    fn take_job(&self) -> Option<(Arc<Partition>, Job)> {
        self.take_job_of(|partition, view, running| self.policy_of(partition).pick(&view.levels, running)).or_else(
            || {
                let is_time =
                    (self.log.is_quiet() && !self.flush_pending()) || self.tidying.load(Ordering::Relaxed) > 0;
                let tidy = |partition: &Partition, view: &View, running: &[RunningJob]| {
                    self.policy_of(partition).pick_tidy(&view.levels, running)
                };
                if is_time { self.take_job_of(tidy) } else { None }
            },
        )
    }

    fn take_job_of(
        &self,
        pick: impl Fn(&Partition, &View, &[RunningJob]) -> Option<Job>,
    ) -> Option<(Arc<Partition>, Job)> {
        for partition in &self.partitions_by_need() {
            let mut running = partition.running();
            if partition.is_dropped() {
                continue;
            }
            let view = partition.pinned_view();
            if self.stop_to_split(partition, &view, &running) {
                continue;
            }
            if let Some(job) = pick(partition, &view, &running) {
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

    /// All partitions: those with the longest level 0 first, whose writers would be the first to wait, if it is due.
    /// The others in turn, and now and then all, so that none starves.
    fn partitions_by_need(&self) -> Vec<Arc<Partition>> {
        let mut partitions: Vec<_> = self.partitions().collect();
        let first = self.next_partition.fetch_add(1, Ordering::Relaxed);
        let count = partitions.len().max(1);
        if first.is_multiple_of(PLAIN_TURNS) {
            // Plain turns count for themselves: each partition is the first of one.
            partitions.rotate_left(first / PLAIN_TURNS % count);
            return partitions;
        }
        partitions.rotate_left(first % count);
        let trigger = self.options.policy.level0_trigger();
        partitions.sort_by_key(|partition| Reverse(partition.level0_tables().max(trigger)));
        partitions
    }

    fn give_back(&self, partition: &Partition, ended: &RunningJob) {
        {
            let mut running = partition.running();
            running.retain(|running| running.tables != ended.tables);
            // Now and not only when a job is looked for: after a job of level 0 there is little in it.
            self.stop_to_split(partition, &partition.view(), &running);
        }
        self.watch_short_space();
        if partition.share.has_grown() {
            // It may be small enough now to be merged.
            self.flush_wanted.notify_all();
        }
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
    }

    async fn run_job(&self, writers: &TableWriters, partition: &Arc<Partition>, job: Job) -> Result<()> {
        if job.trivial_move {
            return self.move_table(partition, &job).await;
        }
        let mut steps = self.steps_of(job).into_iter().peekable();
        while let Some(step) = steps.next() {
            self.run_step(writers, partition, step).await?;
            if let Some(next) = steps.peek() {
                self.until_room(next.job.lower.iter().map(|table| table.meta().bytes).sum()).await;
            }
        }
        Ok(())
    }

    /// Merges the keys of a step, and installs its outputs.
    async fn run_step(&self, writers: &TableWriters, partition: &Arc<Partition>, step: Step) -> Result<()> {
        let Step { job, range, is_last } = step;
        let job = Arc::new(job);
        let outputs = self.merge_in_subtasks(writers, partition, &job, &range).await?;
        let (keyspace, id) = (partition.keyspace, partition.id);
        let level = level_number(job.level);
        let lower = level_number(job.level + 1);
        let replaced_above = if is_last { job.upper.as_slice() } else { &[] };
        let mut edit = Edit::default();
        for (tables, level) in [(replaced_above, level), (&job.lower, lower)] {
            for table in tables {
                edit.changes.push(Change::Remove { keyspace, partition: id, level, table: table.meta().id });
            }
        }
        for meta in &outputs {
            self.metrics.compaction_written_bytes.add(meta.bytes);
            edit.changes.push(Change::Add { keyspace, partition: id, level: lower, meta: meta.clone() });
        }
        let ids: Vec<_> = outputs.iter().map(|meta| meta.id).collect();
        if partition.is_dropped() {
            self.discard_outputs(ids);
            return Err(Error::Closed);
        }
        let tables = outputs.iter().map(|meta| self.tables.open_written(meta.clone())).collect();
        let inputs: Vec<_> = replaced_above.iter().chain(&job.lower).cloned().collect();
        let replaced: Vec<_> = inputs.iter().map(|table| table.meta().id).collect();
        let apply = || partition.replace(&replaced, job.level + 1, tables);
        if let Err(error) = self.lineage.install(edit, inputs, || None, apply).await {
            self.discard_outputs(ids);
            return Err(error);
        }
        trace::event!(
            INFO,
            "thalweg::compaction",
            "compacted",
            tables = outputs.len(),
            read_bytes = job.tables().map(|table| table.meta().bytes).sum::<u64>(),
            written_bytes = outputs.iter().map(|meta| meta.bytes).sum::<u64>(),
        );
        if let Some((good, poor)) = job.cut.judge(&outputs) {
            self.metrics.tables_good.add(good);
            self.metrics.tables_poor.add(poor);
        }
        if is_last {
            self.metrics.compactions.increment();
            self.metrics.picks_poor.add(u64::from(job.is_poor));
            self.count_chain(partition, &job, job.tables().map(|table| table.meta().bytes).sum());
        }
        Ok(())
    }

    /// The job, which has read `bytes`, is part of the chain that memtables of the partition wait for. What it gives
    /// back of level 0 lets writers go faster.
    fn count_chain(&self, partition: &Partition, job: &Job, bytes: u64) {
        if job.level > 0 {
            return partition.chain.moved(job.level, bytes);
        }
        partition.chain.freed(&self.metrics.chains, job.upper.len() as u64, bytes);
        let given = job.upper.iter().map(|table| table.meta().bytes).sum();
        let has_more = partition.level0_tables() >= self.options.policy.level0_trigger();
        partition.pacer.level0_gave(self.environment.clock.now_ns(), given, has_more);
        self.pace(partition);
    }

    async fn move_table(&self, partition: &Arc<Partition>, job: &Job) -> Result<()> {
        let Some(table) = job.upper.first() else { return Ok(()) };
        let edit = Edit {
            changes: vec![Change::Move {
                keyspace: partition.keyspace,
                partition: partition.id,
                from: level_number(job.level),
                to: level_number(job.level + 1),
                table: table.meta().id,
            }],
            ..Edit::default()
        };
        let moved = vec![Arc::clone(table)];
        self.lineage.install(edit, Vec::new(), || None, || partition.install_job(job, moved)).await?;
        self.metrics.trivial_moves.increment();
        trace::event!(INFO, "thalweg::compaction", "moved", bytes = table.meta().bytes);
        self.count_chain(partition, job, 0);
        Ok(())
    }
}

fn level_number(level: usize) -> u8 {
    u8::try_from(level).unwrap_or(u8::MAX)
}
