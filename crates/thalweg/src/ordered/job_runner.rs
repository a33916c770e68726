//! [`JobRunner`]: runs one compaction job: merges its tables and installs the outputs.

use super::dependencies::Dependencies;
use super::flush::discard_outputs;
use super::indexing::Indexing;
use super::partition::Partition;
use super::steps::{Step, steps_of};
use super::subtasks::Subtasks;
use crate::compaction::Job;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::keyspaces::{Backpressure, Signals, SpaceWatch, WriteBuffer};
use crate::lineage::{Change, Edit, Handle, Lineage};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use crate::table::{Table, TableStore, TableWriters};
use crate::trace;
use std::sync::Arc;

/// Between two steps, the room is looked at again after this time, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// The next step waits for room for at most this time, in nanoseconds: room may come only after a reader or a
/// checkpoint.
const WAIT_MAX_NS: u64 = 5_000_000_000;

/// See the module.
pub(super) struct JobRunner {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    lineage: Arc<Lineage>,
    tables: Arc<TableStore>,
    backpressure: Arc<Backpressure>,
    space: Arc<SpaceWatch>,
    signals: Arc<Signals>,
    /// The subtasks that compaction coroutines may take before they look for a job.
    pub(super) subtasks: Subtasks,
}

impl JobRunner {
    pub(super) fn new(with: &Dependencies) -> Self {
        JobRunner {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            metrics: Arc::clone(&with.metrics),
            lineage: Arc::clone(&with.lineage),
            tables: Arc::clone(&with.tables),
            backpressure: Arc::clone(&with.backpressure),
            space: Arc::clone(&with.space),
            signals: Arc::clone(&with.signals),
            subtasks: Subtasks::new(with),
        }
    }

    /// Runs a job, in steps if room is short.
    pub(super) async fn run(&self, writers: &TableWriters, partition: &Arc<Partition>, job: Job) -> Result<()> {
        if job.trivial_move {
            return self.move_tables(partition, &job).await;
        }
        let mut steps = steps_of(job, self.space.space()).into_iter().peekable();
        while let Some(step) = steps.next() {
            self.run_step(writers, partition, step).await?;
            if let Some(next) = steps.peek() {
                self.until_room(partition, next.job.lower.iter().map(|table| table.meta().bytes).sum()).await;
            }
        }
        Ok(())
    }

    /// Merges the keys of a step, and installs its outputs.
    async fn run_step(&self, writers: &TableWriters, partition: &Arc<Partition>, step: Step) -> Result<()> {
        let Step { job, range, is_last } = step;
        let job = Arc::new(job);
        let outputs = self.subtasks.merge(writers, partition, &job, &range).await?;
        let (keyspace, id) = (partition.keyspace, partition.id);
        let level = level_number(job.level);
        let lower = level_number(job.output_level);
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
            discard_outputs(&self.health, &self.lineage, &self.tables, (ids, Vec::new()));
            return Err(Error::Closed);
        }
        let tables: Vec<_> = outputs.iter().map(|meta| self.tables.open_written(meta.clone())).collect();
        let inputs: Vec<_> = replaced_above.iter().chain(&job.lower).cloned().collect();
        let replaced: Vec<_> = inputs.iter().map(|table| table.meta().id).collect();
        let index = partition.generation.directories.as_ref();
        let indexing = Indexing::new(index, &tables, replaced.clone());
        if let Err(error) = indexing.begin().await {
            drop(tables);
            return Err(self.discard(ids, indexing, error));
        }
        let apply = || {
            partition.replace(&replaced, job.output_level, tables);
            indexing.applied();
        };
        if let Err(error) =
            self.lineage.install(edit, inputs.into_iter().map(Handle::from).collect(), || None, apply).await
        {
            return Err(self.discard(ids, indexing, error));
        }
        indexing.finish().await?;
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

    /// Removes outputs that no edit names; returns the error.
    fn discard(&self, outputs: Vec<TableId>, indexing: Indexing<'_>, error: Error) -> Error {
        discard_outputs(&self.health, &self.lineage, &self.tables, (outputs, indexing.undo()));
        error
    }

    /// Counts a job that has read `bytes` in the chain that memtables of the partition wait for, unless it writes in
    /// place. The room that the job frees in level 0 lets writers go faster.
    fn count_chain(&self, partition: &Partition, job: &Job, bytes: u64) {
        if job.is_in_place() {
            return;
        }
        if job.level > 0 {
            return partition.chain.moved(job.level, bytes);
        }
        partition.chain.freed(&self.metrics.chains, job.upper.len() as u64, bytes);
        let given = job.upper.iter().map(|table| table.meta().bytes).sum();
        let has_more = partition.level0_tables() >= partition.compaction_debt().due_at;
        partition.pacer.compaction_gave(self.environment.clock.now_ns(), given, has_more);
        self.backpressure.pace(partition);
    }

    async fn move_tables(&self, partition: &Arc<Partition>, job: &Job) -> Result<()> {
        let moved_down = |table: &Arc<Table>| Change::Move {
            keyspace: partition.keyspace,
            partition: partition.id,
            from: level_number(job.level),
            to: level_number(job.output_level),
            table: table.meta().id,
        };
        let edit = Edit { changes: job.upper.iter().map(moved_down).collect(), ..Edit::default() };
        let (tables, moved) = (job.upper.len(), job.upper.clone());
        self.lineage.install(edit, Vec::new(), || None, || partition.install_job(job, moved)).await?;
        self.metrics.trivial_moves.add(tables as u64);
        trace::event!(INFO, "thalweg::compaction", "moved", tables = tables);
        self.count_chain(partition, job, 0);
        Ok(())
    }

    /// Waits between two steps until there is room for `bytes` twice, as long as tables that the last step has replaced
    /// may still give some back.
    async fn until_room(&self, partition: &Partition, bytes: u64) {
        let until_ns = self.environment.clock.now_ns().saturating_add(WAIT_MAX_NS);
        while self.space.space().free_bytes().is_some_and(|free| free < bytes.saturating_mul(2)) {
            let is_waiting = self.lineage.unsettled().0 > 0 || self.lineage.removing_bytes() > 0;
            let is_over = self.signals.is_stopping() || partition.is_dropped();
            if !is_waiting || is_over || self.environment.clock.now_ns() > until_ns {
                return;
            }
            self.lineage.settle_for_space();
            let ticket = self.signals.stopped.ticket();
            self.environment.sleep_or(LOOK_NS, &self.signals.stopped, ticket).await;
        }
    }
}

fn level_number(level: usize) -> u8 {
    u8::try_from(level).unwrap_or(u8::MAX)
}
