//! [`OrderedKeyspace`]: a named map cut into partitions by key range.
//!
//! Which partition has a key is said by the [`Layout`], which a split replaces. Whoever took a partition from an older
//! one finds the keys that it has given up through its view ([`Partition::view_of`]).
//!
//! A clear gives a keyspace a new *generation*: an `OrderedKeyspace` of the same id, whose records have numbers above
//! that of the clear. Snapshots that are older read the generation before ([`super::generations`]).

use super::share::Share;
use super::{MemtablePool, Partition, ViewGuard};
use crate::compaction::Levels;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, PartitionId, SeqNo};
use crate::planted::{Bug, planted};
use crate::table::KeyRange;
use arc_swap::{ArcSwap, Guard};
use std::sync::{Arc, Weak};

/// See the module.
pub(crate) struct OrderedKeyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    layout: ArcSwap<Layout>,
    share: Arc<Share>,
    /// The record that cleared the generation before this one; 0: this is the first.
    pub(crate) cleared_at: SeqNo,
    /// The generation before this one, while snapshots may read it.
    earlier: Weak<OrderedKeyspace>,
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
    fn new(
        keyspace: KeyspaceId,
        splits: Vec<Box<[u8]>>,
        partitions: impl Iterator<Item = RecoveredPartition>,
        next: PartitionId,
        share: &Arc<Share>,
        pool: &MemtablePool,
    ) -> ArcSwap<Self> {
        let partitions: Vec<_> = partitions
            .enumerate()
            .map(|(index, RecoveredPartition { id, flushed, levels })| {
                let from = index.checked_sub(1).and_then(|before| splits.get(before).cloned());
                let range = KeyRange { from, to: splits.get(index).cloned() };
                Partition::new(keyspace, id, range, flushed, levels, share, pool)
            })
            .collect();
        assert_eq!(partitions.len(), splits.len() + 1, "a partition for each range");
        ArcSwap::from_pointee(Layout { splits, partitions, next })
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
        let layout = Layout::new(id, splits, partitions, next, &share, pool);
        let (cleared_at, earlier) = (SeqNo(0), Weak::new());
        Arc::new(OrderedKeyspace { id, name: name.to_owned(), layout, share, cleared_at, earlier })
    }

    /// Ends this generation and gives the next one, which begins empty after the record `at` that clears it. It has the
    /// partitions that the keyspace was created with. Called where nothing can be reserved meanwhile: a record goes to
    /// the new generation exactly when its number is above `at`.
    pub(crate) fn clear(self: &Arc<Self>, at: SeqNo, pool: &MemtablePool) -> Arc<Self> {
        let before = self.layout();
        let kept = |partition: &Partition| !self.share.is_made_by_split(partition.id);
        let ids: Vec<PartitionId> =
            before.partitions.iter().filter(|partition| kept(partition)).map(|partition| partition.id).collect();
        let following = before.partitions.iter().skip(1);
        let kept_splits = before.splits.iter().zip(following).filter(|(_, partition)| kept(partition));
        let splits: Vec<_> = kept_splits.map(|(split, _)| split.clone()).collect();
        let share = Arc::new(Share::new(ids.len(), ids.len()));
        let partitions = ids.into_iter().map(|id| RecoveredPartition { id, flushed: at, levels: Levels::new() });
        // A split that is under way may have taken the next id.
        let next = PartitionId(before.next.0 + 1);
        let layout = Layout::new(self.id, splits, partitions, next, &share, pool);
        self.share.clear_now();
        let (name, earlier) = (self.name.clone(), Arc::downgrade(self));
        Arc::new(OrderedKeyspace { id: self.id, name, layout, share, cleared_at: at, earlier })
    }

    /// The generation that a record or a snapshot of number `seq` belongs to; `None`: one that nobody can read.
    pub(crate) fn generation_at(self: &Arc<Self>, seq: SeqNo) -> Option<Arc<Self>> {
        let mut generation = Arc::clone(self);
        while seq < generation.cleared_at {
            generation = generation.earlier.upgrade()?;
        }
        Some(generation)
    }

    /// Its partitions now, for a look.
    pub(crate) fn layout(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// The view that has `key` now, for a reader; `NoKeyspace` once the keyspace was dropped, or this generation of it
    /// is read by nobody.
    ///
    /// The view is loaded first and the drop asked about afterwards: [`Partition::clear`] empties views only after
    /// [`OrderedKeyspace::drop_now`] or [`OrderedKeyspace::empty`], so a view that is returned was not emptied.
    pub(crate) fn view_for(&self, key: &[u8]) -> Result<ViewGuard> {
        let view = self.layout().partition_for(key).view_of(key);
        if !self.share.is_readable() && !planted(Bug::DropEmptiesReads) {
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

    /// Whether the partition is one of this generation.
    pub(super) fn owns(&self, partition: &Partition) -> bool {
        Arc::ptr_eq(&self.share, &partition.share)
    }

    /// Whether it was cleared: then the registry has the next generation, unless that was dropped.
    pub(crate) fn is_cleared(&self) -> bool {
        self.share.is_cleared()
    }

    /// Lets go of everything it holds. It was dropped or cleared, the manifest knows, and no snapshot reads it.
    pub(super) fn empty(&self) {
        self.share.empty_now();
        self.layout().partitions().iter().for_each(|partition| partition.clear());
    }

    /// Whether it was dropped, or cleared.
    pub(crate) fn is_dropped(&self) -> bool {
        self.share.is_dropped()
    }

    /// Stops background work on it; reads and writes from now on are refused.
    pub(crate) fn drop_now(&self) {
        self.share.drop_now();
    }
}
