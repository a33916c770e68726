//! The fast tier of a partition. Minor compactions, internal compactions and evictions each replace one part of its
//! super version at one moment.

use super::fast_level::{FastLevel, FastTableHandle};
use super::partition::{Partition, level_mut};
use super::tier::{Tier, TierReads};
use crate::compaction::{self, Levels, Steps};
use crate::error::Result;
use crate::fast_table::FastTable;
use crate::fast_tier::{Flushed, Takes};
use crate::format::SeqNo;
use crate::memtable::MemtableHandle;
use crate::table::Table;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Replay compacts the unsorted tables of a partition as soon as there are this many.
const REPLAYED_UNSORTED_MAX: usize = 8;

impl Partition {
    fn empty_fast_level(&self) -> FastLevel {
        let Some(reads) = self.tier_reads() else { unreachable!("a database without a fast tier has no fast tables") };
        FastLevel::new(Vec::new(), Vec::new(), reads)
    }

    /// The reads of the new half in a split, which inherits half of the rates.
    pub(super) fn reads_of_half(&self) -> Option<Arc<TierReads>> {
        let tier = self.generation.options.tier.as_ref()?;
        Some(TierReads::new(tier, self.tier_reads().map(|reads| &**reads)))
    }

    /// Makes a fast table of the entries that its oldest sealed memtable has in its range; `None` when there are none.
    /// `snapshots`: which versions stay, as for [`compaction::flush`].
    pub(super) async fn make_fast_table(
        &self,
        tier: &Tier,
        handle: &Arc<MemtableHandle>,
        snapshots: &[SeqNo],
    ) -> Result<Option<Arc<FastTable>>> {
        // A memtable that was sealed by a split has the other side's entries, too. The other side flushes those.
        let mut entries = handle.memtable.entries_in(&self.super_version().range);
        compaction::flush_fast(&mut entries, &tier.maker, snapshots).await
    }

    /// Puts a fast table in the place of its oldest sealed memtable. A table in memory has its records in the log.
    pub(super) fn install_fast_table(&self, tier: &Tier, handle: &Arc<MemtableHandle>, table: Option<Arc<FastTable>>) {
        let bytes = table.as_ref().map_or(0, |table| table.bytes());
        let before = self.super_version().fast.as_ref().map_or(0.0, |fast| fast.distinct().value);
        let entries = table.as_ref().map_or(0, |table| table.meta().entries);
        let table = table.map(|table| match tier.is_persistent() {
            true => FastTableHandle::named(table, &tier.room),
            false => FastTableHandle::new(table, handle.first(), handle.last_seq(), &tier.room),
        });
        self.change(|super_version| {
            let oldest = super_version.sealed.remove(0);
            assert!(Arc::ptr_eq(&oldest, handle), "flushes are installed in memtable order");
            if let Some(table) = table {
                let before = super_version.fast.as_ref();
                let mut fast = before.map_or_else(|| self.empty_fast_level(), |before| before.changeable());
                fast.add(table);
                super_version.fast = fast.filled();
            }
        });
        handle.leave();
        let after = self.super_version().fast.as_ref().map_or(0.0, |fast| fast.distinct().value);
        let updates = entries.saturating_sub((after - before).max(0.0) as u64);
        if let Some(reads) = self.tier_reads() {
            reads.flushed(Flushed { entries, updates, bytes });
        }
    }

    /// Merges `inputs`: all unsorted tables at the call, with all sorted ones or those that they overlap; or the newest
    /// unsorted ones alone.
    pub(super) async fn merge_in_tier(
        &self,
        tier: &Tier,
        (inputs, takes): (&FastLevel, Takes),
        snapshots: &[SeqNo],
        steps: &dyn Steps,
    ) -> Result<Vec<Arc<FastTable>>> {
        let range = Arc::clone(&self.super_version().range);
        let table_bytes = if takes == Takes::Newest { u64::MAX } else { tier.table_bytes };
        let to = (&tier.maker, table_bytes);
        compaction::compact_fast(&inputs.inputs(), &range, to, snapshots, steps).await
    }

    /// Replaces `inputs` by the outputs of their merge. The outputs of the newest unsorted tables alone stay unsorted.
    pub(super) fn install_merged(&self, tier: &Tier, (inputs, takes): (&FastLevel, Takes), made: Vec<Arc<FastTable>>) {
        // Each output stands for the records of all inputs: it is not known from which input an entry came.
        let (first, last) = (inputs.first(), inputs.last_seq());
        let outputs = made.into_iter().map(|table| match tier.is_persistent() {
            true => FastTableHandle::named(table, &tier.room),
            false => FastTableHandle::new(table, first, last, &tier.room),
        });
        let outputs = outputs.collect();
        self.change(|super_version| {
            let Some(before) = &super_version.fast else { return };
            let mut fast = before.without(inputs);
            match takes {
                Takes::Newest => fast.add_merged_unsorted(outputs, before.older_than(inputs)),
                Takes::Overlapped | Takes::All => fast.add_merged(outputs),
            }
            super_version.fast = fast.filled();
        });
    }

    /// Replaces `evicted`, which was everything in the tier when the eviction began, by `table` in level 0; by nothing
    /// when the fast tables had only keys of another partition.
    pub(super) fn install_eviction(&self, evicted: &FastLevel, table: Option<Arc<Table>>) {
        self.change(|super_version| {
            let Some(before) = &super_version.fast else { unreachable!("only an eviction empties a fast level") };
            super_version.fast = before.without(evicted).filled();
            if let Some(table) = table {
                let mut levels = Levels::clone(&super_version.levels);
                level_mut(&mut levels, 0).push(table);
                super_version.levels = Arc::new(levels);
            }
        });
    }

    /// Moves its sealed memtables into a tier in memory while the log is replayed, so that they take no more memory
    /// than they did before.
    pub(super) fn replay_to_tier(&self, tier: &Tier) {
        if tier.is_persistent() {
            // An edit must name its tables: [`super::replaying`] makes those, and the background.
            return;
        }
        // Nobody has read anything yet: of each key the newest version is enough.
        let snapshots = [SeqNo::MAX];
        for handle in self.super_version().sealed.clone() {
            // Only the check of the new table can fail here. Then the memtable stays, for a flush.
            let Ok(table) = at_once(self.make_fast_table(tier, &handle, &snapshots)) else { return };
            self.install_fast_table(tier, &handle, table);
        }
        let fast = self.super_version().fast.clone();
        if let Some(fast) = fast.filter(|fast| fast.unsorted.len() >= REPLAYED_UNSORTED_MAX) {
            let inputs = fast.unsorted_and_overlapped();
            // If this fails, as above, the tables stay as they are.
            if let Ok(made) = at_once(self.merge_in_tier(tier, (&inputs, Takes::Overlapped), &snapshots, &|| false)) {
                self.install_merged(tier, (&inputs, Takes::Overlapped), made);
            }
        }
    }
}

/// Runs a coroutine that gives way but waits for nothing.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}
