//! Splits: a partition that holds much more than its level 1 becomes two (DESIGN 7; vLSM's regions).
//!
//! Nothing is copied: an edit says where, and from then on each side has the tables that have keys of it. Those with
//! keys of both sides, and the memtables of that moment, they have in common, and each takes what is its own. A shared
//! table goes when the last side has replaced it (`lineage/partitions.rs`).
//!
//! What it is for: with as much memory and as many bytes in level 1 for all partitions together ([`super::share`]) each
//! of n has an n-th, so that a memtable waits for an n-th of the bytes (VLSM-1), and no byte is written more often.
//!
//! The compactors find that a partition has outgrown itself, and begin no more jobs in it; when the last one has ended
//! the flush coroutine splits it, so that no flush runs either.

use super::view::View;
use super::{Partition, Workshop};
use crate::compaction::RunningJob;
use crate::error::{Error, Result};
use crate::lineage::{Change, Edit};
use crate::runtime::{BackgroundWork, LastError};
use crate::table::TableWriters;
use std::sync::Arc;

/// A partition is split when it has so many times the bytes that a level 1 without splits would have.
const LEVEL1_TIMES: u64 = 2;

/// A side of a split has at least one of so many parts.
const SIDE_OF: u64 = 4;

/// How long a split that failed is not tried again, in nanoseconds.
pub(super) const BARRED_NS: u64 = 1_000_000_000;

impl Workshop {
    /// Whether the partition is to be split, as its view is, when its running jobs have ended. Not while level 0 is
    /// long: writers would wait for it, and what is in it would be in both halves.
    pub(super) fn outgrew(&self, partition: &Partition, view: &View, running: &[RunningJob]) -> bool {
        let least = self.options.policy.level1_bytes().saturating_mul(LEVEL1_TIMES);
        partition.share.may_grow(self.options.partitions_max)
            && self.has_short_level0(view)
            && !running.iter().any(|job| job.level == 0)
            && bytes_of(view) >= least
            && split_point(view).is_some()
            // It would wait for a job that waits for its next try, and no other would begin.
            && partition.trouble().is_none()
            && !partition.reshapes_are_barred(self.environment.clock.now_ns())
    }

    /// As [`Workshop::outgrew`], for who waits until nothing is left to do: nobody else may look again when a bar ends.
    pub(super) fn is_to_split(&self, partition: &Partition, view: &View, running: &[RunningJob]) -> bool {
        let outgrew = self.outgrew(partition, view, running);
        if outgrew {
            self.compaction_wanted.notify_all();
        }
        outgrew
    }

    fn has_short_level0(&self, view: &View) -> bool {
        view.level0_tables() <= self.options.policy.level0_trigger()
    }

    /// Lets no job of the partition begin if it is to be split, or if that is so already; once the running ones have
    /// ended the flush coroutine is told. Taken back when level 0 becomes long before they have: a job of it could run
    /// beside them. With `running`.
    pub(super) fn stop_to_split(&self, partition: &Partition, view: &View, running: &[RunningJob]) -> bool {
        let stops = if partition.is_reshaping() {
            // A job that waits for its next try does not end soon.
            running.is_empty() || self.has_short_level0(view) && partition.trouble().is_none()
        } else {
            !partition.is_dropped() && self.outgrew(partition, view, running)
        };
        partition.set_reshaping(running, stops);
        if stops && running.is_empty() {
            self.flush_wanted.notify_all();
        }
        stops
    }

    /// A partition that waits for its split and has no job any more.
    pub(super) fn partition_to_split(&self) -> Option<Arc<Partition>> {
        self.partitions().find(|partition| {
            let running = partition.running();
            partition.is_reshaping() && running.is_empty() && !partition.is_dropped()
        })
    }

    /// Splits a partition, in which no job runs, or begins before this is done, if it still is to be. One that fails is
    /// not tried again for a while, and nobody else hears of it: nothing was changed, and nothing waits for it.
    pub(super) async fn split(&self, writers: &TableWriters, partition: &Arc<Partition>) {
        // Others may have been split since it was marked, and tables flushed.
        let is_due = self.outgrew(partition, &partition.view(), &[]);
        if is_due && let Err(error) = self.split_in_two(writers, partition).await {
            self.make_room_after(&error);
            self.hear_of_reshape(error);
            partition.bar_reshapes(self.environment.clock.now_ns().saturating_add(BARRED_NS));
        }
        let running = partition.running();
        partition.set_reshaping(&running, false);
        drop(running);
        self.compaction_wanted.notify_all();
        self.progress.notify_all();
    }

    /// A split or a merge failed. It is tried again when its bar has ended, if it is still wanted then.
    pub(super) fn hear_of_reshape(&self, error: Error) {
        if !self.is_stopping() {
            let now_ns = self.environment.clock.now_ns();
            let mut trouble = LastError::new(BackgroundWork::Reshape).record(error, now_ns);
            trouble.retry_at_ns = Some(now_ns.saturating_add(BARRED_NS));
            self.health.report(trouble);
        }
    }

    async fn split_in_two(&self, writers: &TableWriters, partition: &Arc<Partition>) -> Result<()> {
        // What is sealed would be in the way of writers on both sides, until each has flushed its part.
        self.flush_sealed(writers, partition).await?;
        let Some(keyspace) = self.keyspace_of(partition) else { return Ok(()) };
        let Some(at) = split_point(&partition.view()) else { return Ok(()) };
        let into = keyspace.layout().next_partition();
        let change = Change::Split { keyspace: keyspace.id, partition: partition.id, at: Box::from(&*at), into };
        let edit = Edit { changes: vec![change], ..Edit::default() };
        let apply = || self.log.at_seal_point(|last| keyspace.split(partition, &at, into, last));
        self.lineage.install(edit, Vec::new(), || None, apply).await?;
        self.metrics.splits.increment();
        self.pace(partition);
        self.pace(keyspace.layout().partition_for(&at));
        // Both sides have a memtable to flush.
        self.flush_wanted.notify_all();
        Ok(())
    }
}

/// Bytes below level 0 that are the partition's; of a table that it shares about half.
fn bytes_of(view: &View) -> u64 {
    let tables = view.levels.iter().skip(1).flatten().map(|table| table.meta());
    tables.map(|meta| if view.sticks_out(meta) { meta.bytes / 2 } else { meta.bytes }).sum()
}

/// Where the largest level has about half of its bytes on each side, between two of its tables.
fn split_point(view: &View) -> Option<Box<[u8]>> {
    let level_bytes = |level: &Vec<Arc<crate::table::Table>>| -> u64 { level.iter().map(|t| t.meta().bytes).sum() };
    let largest = view.levels.iter().skip(1).max_by_key(|level| level_bytes(level))?;
    let total = level_bytes(largest);
    let mut before = 0;
    let cuts = largest.windows(2).map(|pair| {
        before += pair[0].meta().bytes;
        (before, &pair[1].meta().key_min)
    });
    let (before, key) = cuts.min_by_key(|(before, _)| before.abs_diff(total / 2))?;
    (before >= total / SIDE_OF && total - before >= total / SIDE_OF).then(|| key.clone())
}
