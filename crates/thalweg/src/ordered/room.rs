//! What writers and compactions do where the file system has little room ([`crate::runtime::Space`]).
//!
//! While room is short memtables are small, and large jobs go on in steps, each an edit of its own, so that what a step
//! has replaced goes before the next one needs room. A put that finds no room has the memtables flushed and level 0
//! compacted, and waits for what gives room back; when nothing does it is refused with `NoSpace`. Removals go on, out
//! of what was left free, and at last out of the reserve.
//!
//! **Steps.** A job merges its upper tables with its lower ones. A step merges the keys of some lower tables, and its
//! edit replaces these alone; the edit of the last one takes the upper tables out. Until then the versions that a step
//! has written down are in both levels. That is sound: no newer version can get below the upper tables, which the job
//! has reserved, and readers look there first; a version that is there twice is one. After a crash between two steps
//! the next job that takes the upper tables merges again what is in both.

use super::{Partition, Workshop};
use crate::compaction::{Job, Policy};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{LogMark, SeqNo};
use crate::log::{Operation, Record, Reservation};
use crate::runtime::Room;
use crate::table::{KeyRange, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Who waits for room looks again after this time, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// And no longer than this in all: what should give room back may wait for a reader or a checkpoint.
const WAIT_MAX_NS: u64 = 5_000_000_000;

/// A step may take this part of what is free.
const STEP_PART: u64 = 4;

impl Workshop {
    /// Looks at the room of the file system, if the log has a segment more or less since somebody did.
    pub(crate) fn watch_space(&self) {
        let backlog = self.log.backlog_bytes();
        if self.seen_backlog.load(Ordering::Relaxed) != backlog {
            self.seen_backlog.store(backlog, Ordering::Relaxed);
            self.look_at_space();
        }
    }

    /// After a flush or a compaction: looks again, where room was short.
    pub(super) fn watch_short_space(&self) {
        if self.options.space.is_short() {
            self.look_at_space();
        }
    }

    /// Looks at the room that is left beside what flushes and level 0 will take.
    pub(super) fn look_at_space(&self) -> Room {
        let of = |partition: Arc<Partition>| {
            let view = partition.view();
            let memory: usize = view.slots().map(|slot| slot.memtable.bytes()).sum();
            let level0 = view.levels.first().into_iter().flatten();
            memory as u64 + level0.map(|table| table.meta().bytes).sum::<u64>()
        };
        self.options.space.look(self.partitions().map(of).sum())
    }

    /// Before a write, where room is short: waits for what gives some back. `NoSpace` when nothing does.
    pub(crate) fn wait_for_space(&self, record: &Record) -> Result<()> {
        let is_refused = |record: &Record| {
            let room = self.look_at_space();
            room.bytes == 0 && !(room.for_removals && only_removes(record))
        };
        if !is_refused(record) {
            return Ok(());
        }
        let (start_ns, clock) = (self.environment.clock.now_ns(), &self.environment.clock);
        self.seal_all();
        loop {
            let ticket = self.progress.ticket();
            self.health.check()?;
            self.lineage.settle_for_space();
            self.compaction_wanted.notify_all();
            if !is_refused(record) {
                break;
            }
            let now_ns = clock.now_ns();
            if !self.may_give_room() || now_ns.saturating_sub(start_ns) > WAIT_MAX_NS {
                if only_removes(record) {
                    // What is left is for removals, and the reserve, if that was given up before.
                    self.options.space.give_up_reserve();
                    break;
                }
                return Err(Error::NoSpace { path: Arc::from(self.options.space.root()) });
            }
            self.environment.scheduler.wait(&self.progress, ticket, Some(now_ns.saturating_add(LOOK_NS)));
        }
        self.metrics.stalls_log.record(clock.now_ns().saturating_sub(start_ns));
        Ok(())
    }

    /// Reserves log space. Removals, which may free space in the end, take what was set aside for them.
    pub(crate) fn reserve(&self, record: &Record) -> Result<Reservation<'_>> {
        self.reserve_and(record, |_, _| ())
    }

    /// As [`Workshop::reserve`], and runs `granted` as [`Log::reserve_and`](crate::log::Log::reserve_and) does.
    pub(crate) fn reserve_and(
        &self,
        record: &Record,
        mut granted: impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        match self.log.reserve_and(record, &mut granted) {
            Err(error)
                if error.kind() == ErrorKind::NoSpace
                    && only_removes(record)
                    && self.options.space.give_up_reserve() =>
            {
                self.log.reserve_and(record, granted)
            }
            reserved => reserved,
        }
    }

    /// Whether something is under way that gives room back, and does not fail.
    fn may_give_room(&self) -> bool {
        let fails = self.flush_trouble().is_some() || self.partitions().any(|partition| partition.trouble().is_some());
        !fails
            && (self.flush_pending()
                || self.compaction_pending()
                || self.lineage.unsettled().0 > 0
                || self.lineage.removing_bytes() > 0)
    }

    /// The policy of a partition: where there is no room level 0 is due with its first table.
    pub(super) fn policy_of(&self, partition: &Partition) -> Policy {
        let policy = partition.policy(&self.options);
        if self.options.space.is_full() { policy.eager() } else { policy }
    }

    /// The steps in which a job is to run: one, unless it might not find room for all of its outputs at once.
    pub(super) fn steps_of(&self, job: Job) -> Vec<Step> {
        let space = &self.options.space;
        let bytes = |tables: &[Arc<Table>]| tables.iter().map(|table| table.meta().bytes).sum::<u64>();
        let free = space.free_bytes().filter(|_| space.is_short()).unwrap_or(u64::MAX);
        if job.trivial_move || (bytes(&job.upper) + bytes(&job.lower)).saturating_mul(2) <= free {
            return vec![Step { job, range: KeyRange::default(), is_last: true }];
        }
        let mut groups: Vec<Vec<Arc<Table>>> = vec![Vec::new()];
        for table in &job.lower {
            let last = groups.last().map_or(&[][..], Vec::as_slice);
            if !last.is_empty() && bytes(last) + table.meta().bytes > free / STEP_PART {
                groups.push(Vec::new());
            }
            if let Some(last) = groups.last_mut() {
                last.push(Arc::clone(table));
            }
        }
        let mut steps = Vec::with_capacity(groups.len());
        let mut groups = groups.into_iter().peekable();
        let mut from = None;
        while let Some(lower) = groups.next() {
            // A step has the keys up to the first lower table of the next one.
            let next = groups.peek().and_then(|next| next.first());
            let to = next.map(|table| table.meta().key_min.clone());
            let range = KeyRange { from: std::mem::replace(&mut from, to.clone()), to };
            steps.push(Step { is_last: range.to.is_none(), job: job.part(lower), range });
        }
        steps
    }

    /// Between two steps: what the last one has replaced is to go before the next one needs room.
    pub(super) async fn until_room(&self, bytes: u64) {
        let until_ns = self.environment.clock.now_ns().saturating_add(WAIT_MAX_NS);
        while self.options.space.free_bytes().is_some_and(|free| free < bytes.saturating_mul(2)) {
            let is_waiting = self.lineage.unsettled().0 > 0 || self.lineage.removing_bytes() > 0;
            if !is_waiting || self.is_stopping() || self.environment.clock.now_ns() > until_ns {
                return;
            }
            self.lineage.settle_for_space();
            let ticket = self.stopped.ticket();
            self.environment.sleep_or(LOOK_NS, &self.stopped, ticket).await;
        }
    }
}

/// Some keys of a job.
pub(super) struct Step {
    /// Its upper tables, and the lower ones that the step replaces.
    pub(super) job: Job,
    pub(super) range: KeyRange,
    /// Its edit takes the upper tables out.
    pub(super) is_last: bool,
}

/// Whether a record does nothing but remove.
fn only_removes(record: &Record) -> bool {
    let removes = |operation| {
        matches!(operation, Operation::Remove { .. } | Operation::DropKeyspace { .. } | Operation::ClearKeyspace { .. })
    };
    record.operations().all(removes)
}
