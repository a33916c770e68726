//! [`Merger`]: makes one partition of two neighbours that together hold little.
//!
//! As with splits nothing is copied: the edit ends the right partition, and the left one gets its tables. The log makes
//! it harder: each partition is flushed up to a number of its own. So the two are *joined* first: both are sealed at
//! one point of the log, and share one active memtable from there on. When both have flushed their sealed memtables,
//! every record that is in no table is newer than that point, and either number is right for both.
//!
//! Invariants: joined partitions have the same active memtable. It is sealed for both at once, and one new memtable
//! follows it in both. The flush coroutine does all of this, so nothing else flushes, splits or merges meanwhile; no
//! job begins in either. No table is in both: one side may have replaced its part of such a table, and would show it
//! again.
//!
//! The merged partition counts as flushed up to the higher number of the two. So neither may have a record in the fast
//! tier: replay would not bring it back. Both are evicted first, and their memtables then bypass the tier.

use super::dependencies::Dependencies;
use super::eviction::FastMerger;
use super::flush::MemtableFlusher;
use super::keyspace::Layout;
use super::options::OrderedOptions;
use super::partition::Partition;
use super::partitions::Partitions;
use super::reshape;
use super::splits::split_bytes;
use crate::error::Result;
use crate::keyspaces::{Backpressure, Signals, SpaceWatch};
use crate::lineage::{Change, Edit, Lineage};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{Environment, Health};
use crate::table::{Table, TableWriters};
use std::sync::Arc;

/// Two partitions are merged when together they have at most 1/`SPLIT_PARTS` of the size at which the merged partition
/// would be split again.
const SPLIT_PARTS: u64 = 4;

/// A merge is given up when writers have filled new memtables in this many rounds of flushes.
const ROUNDS: usize = 4;

/// Two neighbours, the left one first.
pub(super) type Pair = (Arc<Partition>, Arc<Partition>);

/// See the module.
pub(super) struct Merger {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    partitions: Partitions,
    flush: Arc<MemtableFlusher>,
    fast_merger: Arc<FastMerger>,
    backpressure: Arc<Backpressure>,
    space: Arc<SpaceWatch>,
    signals: Arc<Signals>,
    options: Arc<OrderedOptions>,
}

impl Merger {
    pub(super) fn new(with: &Dependencies, flush: &Arc<MemtableFlusher>, fast_merger: &Arc<FastMerger>) -> Arc<Self> {
        Arc::new(Merger {
            environment: with.environment.clone(),
            health: Arc::clone(&with.health),
            metrics: Arc::clone(&with.metrics),
            log: Arc::clone(&with.log),
            lineage: Arc::clone(&with.lineage),
            partitions: Partitions::new(&with.registry),
            flush: Arc::clone(flush),
            fast_merger: Arc::clone(fast_merger),
            backpressure: Arc::clone(&with.backpressure),
            space: Arc::clone(&with.space),
            signals: Arc::clone(&with.signals),
            options: Arc::clone(&with.options),
        })
    }

    /// Returns neighbours that are to be merged, in which no job runs. Both are small, and a split has made the right
    /// one: borders that a user gave stay.
    pub(super) fn pair_to_merge(&self) -> Option<Pair> {
        let (now_ns, level0_max) = (self.environment.clock.now_ns(), self.options.policy.level0_patience());
        let may_merge = |left: &Partition, right: &Partition| {
            right.generation.budget.is_made_by_split(right.id)
                && self.is_small(left, right)
                && left.level0_tables() + right.level0_tables() <= level0_max
                && [left, right].iter().all(|partition| partition.may_reshape(now_ns))
                && can_merge(left, right)
        };
        let in_keyspace = |layout: &Layout| {
            let mut pairs = layout.partitions().windows(2).map(|pair| (&pair[0], &pair[1]));
            let found = pairs.find(|(left, right)| may_merge(left, right));
            found.map(|(left, right)| (Arc::clone(left), Arc::clone(right)))
        };
        self.partitions.keyspaces().iter().find_map(|keyspace| in_keyspace(&keyspace.layout()))
    }

    fn is_small(&self, left: &Partition, right: &Partition) -> bool {
        let most = split_bytes(&self.options) / SPLIT_PARTS;
        let evicted =
            |partition: &Partition| partition.super_version().fast.as_ref().map_or(0, |fast| fast.bytes_evicted());
        let bytes = [left, right].map(|partition| partition.table_bytes().saturating_add(evicted(partition)));
        bytes[0].saturating_add(bytes[1]) <= most
    }

    /// Whether a pair is to be merged. Wakes the flush coroutine: nothing else wakes it when a failed merge may be
    /// tried again.
    pub(super) fn is_to_merge(&self) -> bool {
        let is_wanted = self.pair_to_merge().is_some();
        if is_wanted {
            self.signals.flush_wanted.notify_all();
        }
        is_wanted
    }

    /// Merges two neighbours if no job has begun in either. A merge that fails, or that writers keep busy, is not tried
    /// again for a while; no caller gets the error.
    pub(super) async fn merge(&self, writers: &TableWriters, (left, right): &Pair) {
        let is_idle = {
            let (of_left, of_right) = (left.running(), right.running());
            let is_idle = of_left.is_empty() && of_right.is_empty();
            left.set_reshaping(&of_left, is_idle);
            right.set_reshaping(&of_right, is_idle);
            is_idle
        };
        if !is_idle {
            return;
        }
        self.log.at_seal_point(|last| Partition::join(left, right, last));
        let merged = self.merge_joined(writers, left, right).await;
        if let Ok(true) = merged {
            self.metrics.merges.increment();
        } else {
            self.log.at_seal_point(|last| Partition::part(left, right, last));
            let now_ns = self.environment.clock.now_ns();
            if let Err(error) = merged {
                self.space.make_room_after(&error);
                if !self.signals.is_stopping() {
                    reshape::report_failure(&self.health, error, now_ns);
                }
            }
            let retry_at_ns = reshape::retry_at_ns(now_ns);
            [left, right].into_iter().for_each(|partition| partition.set_reshape_retry_at(retry_at_ns));
        }
        for partition in [left, right] {
            let running = partition.running();
            partition.set_reshaping(&running, false);
            drop(running);
            self.backpressure.pace(&**partition);
        }
        self.signals.flush_wanted.notify_all();
        self.signals.compaction_wanted.notify_all();
        self.signals.progress.notify_all();
    }

    /// Merges two joined partitions. Returns `false` when they are no longer small, or when writers fill memtables
    /// faster than these are flushed.
    async fn merge_joined(
        &self,
        writers: &TableWriters,
        left: &Arc<Partition>,
        right: &Arc<Partition>,
    ) -> Result<bool> {
        let Some(keyspace) = self.partitions.keyspace_of(left) else { return Ok(false) };
        let is_flushed = |partition: &Partition| {
            let is_out = partition.is_out_of_tier() || planted(Bug::MergeOverVolatile);
            is_out && partition.sealed_memtables() == 0
        };
        let are_flushed = || is_flushed(left) && is_flushed(right);
        for _ in 0..ROUNDS {
            if planted(Bug::MergeBeforeFlush) {
                break;
            }
            self.flush_out(writers, left).await?;
            self.flush_out(writers, right).await?;
            if are_flushed() || self.has_other_flushes(left, right) {
                break;
            }
        }
        let are_flushed = planted(Bug::MergeBeforeFlush) || are_flushed();
        if !are_flushed || !self.is_small(left, right) || !can_merge(left, right) {
            return Ok(false);
        }
        // A memtable that is sealed from here on is sealed for both.
        let change = Change::Merge { keyspace: keyspace.id, partition: left.id, next: right.id };
        let edit = Edit { changes: vec![change], ..Edit::default() };
        let apply = || {
            self.log.at_seal_point(|_| keyspace.merge(left, right));
            self.partitions.reshaped();
        };
        self.lineage.install(edit, Vec::new(), || None, apply).await?;
        Ok(true)
    }

    /// Evicts a partition from the fast tier, if there is one, and flushes its sealed memtables. Afterwards it has
    /// nothing there.
    async fn flush_out(&self, writers: &TableWriters, partition: &Arc<Partition>) -> Result<()> {
        match &partition.generation.options.tier {
            None => self.flush.flush_sealed(writers, partition).await,
            Some(_) if planted(Bug::MergeOverVolatile) => self.flush.flush_sealed(writers, partition).await,
            Some(tier) => {
                self.fast_merger.evict(tier, writers, partition).await?;
                self.flush.flush_sealed_to_level0(writers, partition).await
            }
        }
    }

    /// Whether a memtable of any other partition waits for the flush coroutine.
    fn has_other_flushes(&self, left: &Arc<Partition>, right: &Arc<Partition>) -> bool {
        let is_other = |partition: &Arc<Partition>| !Arc::ptr_eq(partition, left) && !Arc::ptr_eq(partition, right);
        self.partitions.iter().any(|partition| is_other(&partition) && partition.sealed_memtables() > 0)
    }
}

/// Whether no job runs in either, and they share no table.
fn can_merge(left: &Partition, right: &Partition) -> bool {
    let is_idle = |partition: &Partition| partition.running().is_empty() && !partition.is_dropped();
    if !is_idle(left) || !is_idle(right) {
        return false;
    }
    let (lower, upper) = (left.super_version(), right.super_version());
    let is_below = |table: &Arc<Table>| !lower.range.is_before(&table.meta().key_max);
    let is_above = |table: &Arc<Table>| !upper.range.is_after(&table.meta().key_min);
    lower.levels.iter().flatten().all(is_below) && upper.levels.iter().flatten().all(is_above)
}
