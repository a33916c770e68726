//! [`Subtasks`]: cuts a large compaction into subtasks by key range, which idle compaction coroutines take (the task
//! manager of PM-Blade, PMB-16).
//!
//! Invariants:
//! - A job's outputs become visible together, in one edit, or none does. The owner of the job waits for all subtasks.
//!   When one fails the others give up, and their outputs are removed.
//! - Every subtask ends exactly once: a [`Subtask`] that is dropped before its end counts as failed, so the owner never
//!   waits for one that is lost.
//! - All subtasks of a job keep what the same snapshots see: those of the moment at which the job was cut.
//! - The owner runs the subtasks that no other coroutine took, so a job never waits for a free coroutine.
//!
//! Locks: `waiting` and `Merging::state` are each held for a push, a pop or a look, never together.

use super::dependencies::Dependencies;
use super::options::OrderedOptions;
use super::partition::Partition;
use crate::compaction::{self, Job, Steps};
use crate::error::{Error, Result};
use crate::format::SeqNo;
use crate::keyspaces::{Backpressure, Signals, SnapshotRegistry};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Event, Task, yield_now};
use crate::sync::{Mutex, MutexGuard};
use crate::table::{KeyRange, PackWriters, TableMeta, TableWriters};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A subtask has at least this many times the bytes of a table, as each subtask may leave one table that is not full.
const SUBTASK_TABLES_MIN: u64 = 2;

/// See the module.
pub(super) struct Subtasks {
    environment: Environment,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
    snapshots: Arc<SnapshotRegistry>,
    signals: Arc<Signals>,
    backpressure: Arc<Backpressure>,
    options: Arc<OrderedOptions>,
    /// Subtasks that nobody has taken yet, oldest first.
    waiting: Mutex<VecDeque<Subtask>>,
}

/// The merge of one job.
struct Merging {
    partition: Arc<Partition>,
    job: Arc<Job>,
    snapshots: Vec<SeqNo>,
    /// A subtask has failed, so the others need not go on.
    failed: AtomicBool,
    state: Mutex<MergingState>,
    /// A subtask has ended.
    ended: Event,
}

struct MergingState {
    /// Subtasks that have not ended.
    left: usize,
    /// The outputs of the subtasks that have ended, by number.
    outputs: BTreeMap<usize, Vec<TableMeta>>,
    /// The first error. [`Error::Closed`] only when there is no other: subtasks that give up end with it.
    error: Option<Error>,
}

/// The part of a job that one coroutine merges.
pub(super) struct Subtask {
    merging: Arc<Merging>,
    number: usize,
    range: Arc<KeyRange>,
    outcome: Option<Result<Vec<TableMeta>>>,
}

impl Subtasks {
    pub(super) fn new(with: &Dependencies) -> Self {
        Subtasks {
            environment: with.environment.clone(),
            metrics: Arc::clone(&with.metrics),
            log: Arc::clone(&with.log),
            snapshots: Arc::clone(&with.snapshots),
            signals: Arc::clone(&with.signals),
            backpressure: Arc::clone(&with.backpressure),
            options: Arc::clone(&with.options),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn take(&self) -> Option<Subtask> {
        self.waiting().pop_front()
    }

    fn take_of(&self, merging: &Arc<Merging>) -> Option<Subtask> {
        let mut waiting = self.waiting();
        let index = waiting.iter().position(|subtask| Arc::ptr_eq(&subtask.merging, merging))?;
        waiting.remove(index)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Subtask>> {
        self.waiting.lock()
    }

    /// Merges the keys of a job in `within`, in subtasks when it is large. Returns its outputs in key order. On an
    /// error no output is left.
    pub(super) async fn merge(
        &self,
        writers: &TableWriters,
        partition: &Arc<Partition>,
        job: &Arc<Job>,
        within: &KeyRange,
    ) -> Result<Vec<TableMeta>> {
        let parts = self.parts_of(partition, job);
        if parts > 1 {
            for table in job.tables() {
                // Opening a table reads from it: give way between two.
                yield_now().await;
                table.ensure_open()?;
            }
        }
        let mut ranges = compaction::clip(job.split(parts)?, within);
        // The partition is not split while the job runs, so its range stays as it is.
        let super_version = partition.pinned_super_version();
        if job.tables().any(|table| super_version.sticks_out(table.meta())) {
            ranges = compaction::clip(ranges, &super_version.range);
        }
        drop(super_version);
        self.metrics.subtasks.add(ranges.len() as u64);
        let merging = Arc::new(Merging {
            partition: Arc::clone(partition),
            job: Arc::clone(job),
            snapshots: self.snapshots.boundaries(|| self.log.visible()),
            failed: AtomicBool::new(false),
            state: Mutex::new(MergingState { left: ranges.len(), outputs: BTreeMap::new(), error: None }),
            ended: Event::default(),
        });
        let is_shared = ranges.len() > 1;
        let subtasks = ranges.into_iter().enumerate();
        let subtask = |(number, range)| Subtask { merging: Arc::clone(&merging), number, range, outcome: None };
        self.waiting().extend(subtasks.map(subtask));
        if is_shared {
            self.signals.compaction_wanted.notify_all();
        }
        while let Some(subtask) = self.take_of(&merging) {
            self.run(writers, subtask).await;
        }
        self.environment.until(&merging.ended, || (merging.state().left == 0).then_some(())).await;
        let (outputs, error) = {
            let mut state = merging.state();
            (std::mem::take(&mut state.outputs), state.error.take())
        };
        let outputs = outputs.into_values().flatten();
        let Some(error) = error else { return Ok(outputs.collect()) };
        for meta in outputs {
            // No edit names it; a file that cannot be removed now is removed as an orphan by the next open.
            let _ = writers.remove(meta.id);
        }
        Err(error)
    }

    /// Merges the subtask's range, through the queue of the worker that runs it.
    pub(super) async fn run(&self, writers: &TableWriters, mut subtask: Subtask) {
        let merging = Arc::clone(&subtask.merging);
        let steps = self.steps_of(&merging);
        let Merging { job, snapshots, .. } = &*merging;
        if steps.is_cancelled() {
            return;
        }
        let range = Arc::clone(&subtask.range);
        // In memory of its own, or every idle coroutine would hold the memory of a merge.
        let merge = Box::pin(async {
            match &merging.partition.generation.directories {
                None => compaction::merge(job, &range, writers, snapshots, &steps).await,
                Some(index) => {
                    let writers = PackWriters { writers, hash_key: index.hash_key };
                    compaction::merge_packs(job, &range, &writers, snapshots, &steps).await
                }
            }
        });
        subtask.outcome = Some(self.environment.sliced(&self.metrics.merge_slices, merge).await);
    }

    fn steps_of<'a>(&'a self, merging: &'a Merging) -> MergeSteps<'a> {
        let is_awaited = merging.job.is_awaited || merging.partition.policy().is_urgent(&merging.job);
        MergeSteps { subtasks: self, merging, is_awaited }
    }

    /// How many subtasks a job is cut into, at most one a coroutine. Only a job that writers may have to wait for, or
    /// that a caller waits for, is cut. Cutting any other job would take processors from flushes. It would also take
    /// less of level 0 at once, so that more is rewritten in all.
    fn parts_of(&self, partition: &Partition, job: &Job) -> usize {
        let policy = partition.policy();
        if !(job.is_awaited || policy.is_urgent(job)) || partition.generation.directories.is_some() {
            return 1;
        }
        let bytes: u64 = job.tables().map(|table| table.meta().bytes).sum();
        let least = policy.table_bytes().saturating_mul(SUBTASK_TABLES_MIN).max(1);
        usize::try_from(bytes / least).unwrap_or(usize::MAX).clamp(1, self.options.compactors.max(1))
    }
}

/// Whether a subtask goes on, and how fast.
struct MergeSteps<'a> {
    subtasks: &'a Subtasks,
    merging: &'a Merging,
    is_awaited: bool,
}

impl Steps for MergeSteps<'_> {
    fn is_cancelled(&self) -> bool {
        let Merging { partition, failed, .. } = self.merging;
        self.subtasks.signals.is_stopping() || partition.is_dropped() || failed.load(Ordering::Relaxed)
    }

    fn rest(&self, bytes: u64) -> Option<Task> {
        let Subtasks { environment, metrics, backpressure, signals, .. } = self.subtasks;
        let now_ns = environment.clock.now_ns();
        let is_awaited = self.is_awaited || signals.has_waiting() || self.is_cancelled();
        let rest_ns = backpressure.compaction_pace.merged(now_ns, bytes, is_awaited)?;
        metrics.compactions_rested_ns.add(rest_ns);
        if self.merging.job.level == 0 {
            self.merging.partition.pacer.compaction_rested(rest_ns);
        }
        Some(environment.scheduler.sleep_until(now_ns.saturating_add(rest_ns)))
    }
}

impl Merging {
    fn state(&self) -> MutexGuard<'_, MergingState> {
        self.state.lock()
    }
}

impl Drop for Subtask {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or(Err(Error::Closed));
        {
            let mut state = self.merging.state();
            state.left -= 1;
            match outcome {
                Ok(outputs) => drop(state.outputs.insert(self.number, outputs)),
                Err(error) => {
                    if state.error.as_ref().is_none_or(|first| matches!(first, Error::Closed)) {
                        state.error = Some(error);
                    }
                    self.merging.failed.store(true, Ordering::Relaxed);
                }
            }
        }
        self.merging.ended.notify_all();
    }
}
