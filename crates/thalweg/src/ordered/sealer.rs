//! [`Sealer`]: seals memtables, one at a time and each at a point of the log.

use super::dependencies::Dependencies;
use super::options::OrderedOptions;
use super::partition::Partition;
use super::partitions::Partitions;
use crate::keyspaces::{Backpressure, Signals};
use crate::log::Log;
use crate::memtable::{MemtableHandle, MemtablePool};
use crate::runtime::{Environment, Point};
use std::sync::Arc;

/// See the module.
pub(crate) struct Sealer {
    environment: Environment,
    log: Arc<Log>,
    partitions: Partitions,
    backpressure: Arc<Backpressure>,
    signals: Arc<Signals>,
    options: Arc<OrderedOptions>,
    pool: MemtablePool,
}

impl Sealer {
    pub(super) fn new(with: &Dependencies) -> Arc<Self> {
        Arc::new(Sealer {
            environment: with.environment.clone(),
            log: Arc::clone(&with.log),
            partitions: Partitions::new(&with.registry),
            backpressure: Arc::clone(&with.backpressure),
            signals: Arc::clone(&with.signals),
            options: Arc::clone(&with.options),
            pool: with.idle_memory.pool().clone(),
        })
    }

    /// Seals `handle` of `partition`, if it is still the active one and `is_due`.
    fn seal_if(&self, partition: &Partition, handle: &Arc<MemtableHandle>, is_due: impl Fn() -> bool) {
        let sealed = self.log.at_seal_point(|last| is_due() && partition.seal(handle, last));
        if sealed {
            self.signals.flush_wanted.notify_all();
            self.backpressure.pace(partition);
        }
    }

    /// Seals a memtable after a write, if one is due: the partition's if it is full, or the largest of the keyspace if
    /// its memtables together have used their memory up, or the largest of the database if all memtables together have.
    pub(crate) fn seal_if_full(&self, partition: &Partition) {
        let super_version = partition.super_version();
        let most = self.memtable_bytes();
        if partition.count_active(&super_version.active) >= most {
            self.seal_if(partition, &super_version.active, || true);
        } else if partition.generation.budget.is_full(most) {
            self.seal_largest(partition);
        } else if self.pool.is_over() {
            self.seal_largest_of_all();
        } else {
            return;
        }
        drop(super_version);
        self.environment.point(Point::Sealed);
    }

    fn seal_largest(&self, partition: &Partition) {
        let Some(keyspace) = self.partitions.keyspace_of(partition) else { return };
        let layout = keyspace.layout();
        let bytes = |partition: &&Arc<Partition>| partition.super_version().active.memtable.bytes();
        if let Some(largest) = layout.partitions().iter().max_by_key(bytes) {
            let active = Arc::clone(&largest.super_version().active);
            // Checked again at the seal point: many writers may have found the budget full, and only the first needs to
            // seal.
            let most = self.memtable_bytes();
            let is_due = || partition.generation.budget.is_full(most) && !active.memtable.is_empty();
            self.seal_if(largest, &active, is_due);
        }
    }

    /// Seals the largest active memtable of the database, unless a sealed one waits for its flush, which gives its
    /// memory back.
    fn seal_largest_of_all(&self) {
        let mut largest: Option<(usize, Arc<Partition>, Arc<MemtableHandle>)> = None;
        for partition in self.partitions.iter() {
            let super_version = partition.super_version();
            if !super_version.sealed.is_empty() {
                // Its flush may take long, and nobody else notices that memory runs out.
                self.backpressure.pace_all();
                return;
            }
            let active = Arc::clone(&super_version.active);
            let bytes = active.memtable.bytes();
            if !active.memtable.is_empty() && largest.as_ref().is_none_or(|(most, ..)| bytes > *most) {
                largest = Some((bytes, partition, active));
            }
        }
        if let Some((_, partition, active)) = largest {
            self.seal_if(&partition, &active, || true);
        }
    }

    fn memtable_bytes(&self) -> usize {
        self.options.space.memtable_bytes(self.options.memtable_bytes)
    }

    /// Seals every memtable that holds something.
    pub(crate) fn seal_all(&self) {
        for partition in self.partitions.iter() {
            let super_version = partition.super_version();
            if !super_version.active.memtable.is_empty() {
                self.seal_if(&partition, &super_version.active, || true);
            }
        }
    }

    /// Seals every memtable, however small, whose oldest record begins in `segment` or before.
    pub(super) fn seal_pinning(&self, segment: u32) {
        for partition in self.partitions.iter() {
            let active = Arc::clone(&partition.super_version().active);
            if active.first().is_some_and(|first| first.position.segment() <= segment) {
                self.seal_if(&partition, &active, || true);
            }
        }
    }
}
