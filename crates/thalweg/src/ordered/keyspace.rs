//! [`OrderedKeyspace`]: a named map cut into partitions by key range.

use super::{MemtablePool, Partition};
use crate::compaction::Levels;
use crate::format::{KeyspaceId, PartitionId, SeqNo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub(crate) struct OrderedKeyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    /// Partition i + 1 begins at `splits[i]`; ascending.
    splits: Vec<Box<[u8]>>,
    partitions: Vec<Arc<Partition>>,
    dropped: AtomicBool,
}

impl OrderedKeyspace {
    /// A new keyspace, whose records all have numbers above `after`.
    pub(crate) fn new(
        id: KeyspaceId,
        name: &str,
        splits: Vec<Box<[u8]>>,
        after: SeqNo,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        let recovered = (0..=splits.len()).map(|_| (after, Levels::new())).collect();
        Self::recovered(id, name, splits, recovered, pool)
    }

    /// A keyspace from the manifest: for each partition the number up to which it is flushed, and its levels.
    pub(crate) fn recovered(
        id: KeyspaceId,
        name: &str,
        splits: Vec<Box<[u8]>>,
        partitions: Vec<(SeqNo, Levels)>,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        assert_eq!(partitions.len(), splits.len() + 1, "a partition for each range");
        let partitions = partitions
            .into_iter()
            .zip(0..)
            .map(|((flushed, levels), number)| Partition::new(id, PartitionId(number), flushed, levels, pool))
            .collect();
        Arc::new(OrderedKeyspace { id, name: name.to_owned(), splits, partitions, dropped: AtomicBool::new(false) })
    }

    /// All partitions in key order.
    pub(crate) fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// Index of the partition that has `key`.
    pub(crate) fn index_for(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| **split <= *key)
    }

    /// The partition that has `key`.
    pub(crate) fn partition_for(&self, key: &[u8]) -> &Arc<Partition> {
        &self.partitions[self.index_for(key)]
    }

    /// Whether it was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Stops background work on it; reads and writes from now on are refused.
    pub(crate) fn drop_now(&self) {
        self.dropped.store(true, Ordering::SeqCst);
        self.partitions.iter().for_each(|partition| partition.drop_now());
    }
}
