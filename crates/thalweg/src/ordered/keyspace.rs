//! [`OrderedKeyspace`]: a named map cut into partitions by key range.
//!
//! Which partition has a key is said by the [`Layout`], which a split replaces. Whoever took a partition from an older
//! one finds the keys that it has given up through its view ([`Partition::view_of`]).

use super::share::Share;
use super::{MemtablePool, Partition, ViewGuard};
use crate::compaction::Levels;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, PartitionId, SeqNo};
use crate::planted::{Bug, planted};
use crate::table::KeyRange;
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// See the module.
pub(crate) struct OrderedKeyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    layout: ArcSwap<Layout>,
    share: Arc<Share>,
}

/// Where each partition begins.
#[derive(Clone)]
pub(crate) struct Layout {
    /// Partition i + 1 begins at `splits[i]`; ascending.
    splits: Vec<Box<[u8]>>,
    partitions: Vec<Arc<Partition>>,
    /// The first id never used.
    next: PartitionId,
}

/// A partition as the manifest has it: up to which number it is flushed, and its levels.
pub(crate) struct RecoveredPartition {
    pub(crate) id: PartitionId,
    pub(crate) flushed: SeqNo,
    pub(crate) levels: Levels,
}

impl Layout {
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

    /// The id of the next partition.
    pub(crate) fn next_partition(&self) -> PartitionId {
        self.next
    }
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
        let count = splits.len() as u64 + 1;
        let partition = |id| RecoveredPartition { id: PartitionId(id), flushed: after, levels: Levels::new() };
        let share = Share::new(splits.len() + 1, splits.len() + 1);
        Self::recovered(id, name, splits, (0..count).map(partition), PartitionId(count), share, pool)
    }

    /// A keyspace from the manifest.
    pub(crate) fn recovered(
        id: KeyspaceId,
        name: &str,
        splits: Vec<Box<[u8]>>,
        partitions: impl Iterator<Item = RecoveredPartition>,
        next: PartitionId,
        share: Share,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        let share = Arc::new(share);
        let partitions: Vec<_> = partitions
            .enumerate()
            .map(|(index, RecoveredPartition { id: partition, flushed, levels })| {
                let from = index.checked_sub(1).and_then(|before| splits.get(before).cloned());
                let range = KeyRange { from, to: splits.get(index).cloned() };
                Partition::new(id, partition, range, flushed, levels, &share, pool)
            })
            .collect();
        assert_eq!(partitions.len(), splits.len() + 1, "a partition for each range");
        let layout = ArcSwap::from_pointee(Layout { splits, partitions, next });
        Arc::new(OrderedKeyspace { id, name: name.to_owned(), layout, share })
    }

    /// Its partitions now, for a look.
    pub(crate) fn layout(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// The view that has `key` now, for a reader; `NoKeyspace` once the keyspace was dropped.
    ///
    /// The view is loaded first and the drop asked about afterwards: [`Partition::clear`] empties views only after
    /// [`OrderedKeyspace::drop_now`], so a view that is returned was not emptied.
    pub(crate) fn view_for(&self, key: &[u8]) -> Result<ViewGuard> {
        let view = self.layout().partition_for(key).view_of(key);
        if self.is_dropped() && !planted(Bug::DropEmptiesReads) {
            return Err(self.no_keyspace());
        }
        Ok(view)
    }

    /// What a caller of a dropped keyspace gets.
    pub(crate) fn no_keyspace(&self) -> Error {
        Error::NoKeyspace(Arc::from(self.name.as_str()))
    }

    /// Splits `partition` at `at`; see [`Partition::split`]. Only one split runs at a time.
    pub(crate) fn split(&self, partition: &Partition, at: &[u8], into: PartitionId, last: SeqNo) {
        partition.split(at, into, last, |right| {
            let mut layout = Layout::clone(&self.layout());
            let index = layout.index_for(at);
            layout.splits.insert(index, Box::from(at));
            layout.partitions.insert(index + 1, Arc::clone(right));
            layout.next = PartitionId(into.0 + 1);
            self.layout.store(Arc::new(layout));
        });
    }

    /// Merges two neighbours that are joined; see [`Partition::absorb`].
    pub(super) fn merge(&self, left: &Arc<Partition>, right: &Arc<Partition>) {
        left.absorb(right, || {
            let mut layout = Layout::clone(&self.layout());
            if let Some(index) = layout.partitions.iter().position(|partition| Arc::ptr_eq(partition, right)) {
                layout.partitions.remove(index);
                layout.splits.remove(index - 1);
            }
            self.layout.store(Arc::new(layout));
        });
    }

    /// Whether it was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.share.is_dropped()
    }

    /// Stops background work on it; reads and writes from now on are refused.
    pub(crate) fn drop_now(&self) {
        self.share.drop_now();
    }
}
