//! [`OrderedKeyspace`]: a named map cut into partitions by key range.
//!
//! The [`Layout`] says which partition has a key; a split or a merge replaces it. A caller may have a partition of an
//! older layout. It finds the keys that this partition has given up through the super version
//! ([`Partition::super_version_of`]).
//!
//! A clear gives a keyspace a new *generation*: an `OrderedKeyspace` of the same id, whose records have numbers above
//! that of the clear. Snapshots from before the clear read the previous generation.

use super::generation::Generation;
use super::partition::{Partition, RecoveredPartition, SuperVersionGuard};
use super::pins::Flushed;
use crate::compaction::Levels;
use crate::directory::DirectoryIndex;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, LogMark, PartitionId, SeqNo};
use crate::planted::{Bug, planted};
use crate::table::KeyRange;
use arc_swap::{ArcSwap, Guard};
use std::sync::{Arc, Weak};

/// See the module.
pub(crate) struct OrderedKeyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    layout: ArcSwap<Layout>,
    generation: Arc<Generation>,
    /// The number of the record that cleared the generation before this one; 0: this is the first.
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

impl Layout {
    fn new(
        generation: &Arc<Generation>,
        splits: Vec<Box<[u8]>>,
        partitions: impl Iterator<Item = RecoveredPartition>,
        next: PartitionId,
    ) -> ArcSwap<Self> {
        let partitions: Vec<_> = partitions
            .enumerate()
            .map(|(index, recovered)| {
                let from = index.checked_sub(1).and_then(|before| splits.get(before).cloned());
                Partition::new(generation, KeyRange { from, to: splits.get(index).cloned() }, recovered)
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
    /// A keyspace with these partitions, cut at the `splits`. `next` is the first partition id never used.
    pub(super) fn new(
        name: &str,
        generation: &Arc<Generation>,
        splits: Vec<Box<[u8]>>,
        partitions: impl Iterator<Item = RecoveredPartition>,
        next: PartitionId,
    ) -> Arc<Self> {
        Arc::new(OrderedKeyspace {
            id: generation.keyspace,
            name: name.to_owned(),
            layout: Layout::new(generation, splits, partitions, next),
            generation: Arc::clone(generation),
            cleared_at: SeqNo(0),
            earlier: Weak::new(),
        })
    }

    /// Ends this generation and returns the next one, which begins empty after the record `at` that clears it. It has
    /// the partitions that the keyspace was created with. Called while no log space can be reserved: a record goes to
    /// the new generation exactly when its number is above `at`.
    pub(super) fn clear(self: &Arc<Self>, at: SeqNo) -> Arc<Self> {
        let before = self.layout();
        let kept = |partition: &Partition| !self.generation.budget.is_made_by_split(partition.id);
        let ids: Vec<PartitionId> =
            before.partitions.iter().filter(|partition| kept(partition)).map(|partition| partition.id).collect();
        let following = before.partitions.iter().skip(1);
        let kept_splits = before.splits.iter().zip(following).filter(|(_, partition)| kept(partition));
        let splits: Vec<_> = kept_splits.map(|(split, _)| split.clone()).collect();
        let Generation { options, memory, .. } = &*self.generation;
        let generation = Generation::new(self.id, ids.len(), ids.len(), self.generation.kind(), options, memory);
        let partitions =
            ids.into_iter().map(|id| RecoveredPartition { id, flushed: at, levels: Levels::new(), fast: Vec::new() });
        // A split that is under way may have taken the next id.
        let next = PartitionId(before.next.0 + 1);
        let layout = Layout::new(&generation, splits, partitions, next);
        self.generation.lifecycle.set_cleared();
        let (name, earlier) = (self.name.clone(), Arc::downgrade(self));
        Arc::new(OrderedKeyspace { id: self.id, name, layout, generation, cleared_at: at, earlier })
    }

    /// The generation that a record or a snapshot of number `seq` belongs to; `None`: one that nobody can read.
    pub(crate) fn generation_at(self: &Arc<Self>, seq: SeqNo) -> Option<Arc<Self>> {
        let mut generation = Arc::clone(self);
        while seq < generation.cleared_at {
            generation = generation.earlier.upgrade()?;
        }
        Some(generation)
    }

    /// Loads its partitions, for a moment.
    pub(crate) fn layout(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// Loads the super version that has `key`. `NoKeyspace` once the keyspace was dropped, or once no snapshot can read
    /// this generation.
    ///
    /// The super version is loaded first, and the lifecycle after it: [`Partition::clear`] empties super versions only
    /// after the lifecycle says so, so a super version that is returned was not emptied.
    pub(crate) fn super_version_for(&self, key: &[u8]) -> Result<SuperVersionGuard> {
        let super_version = self.layout().partition_for(key).super_version_of(key);
        if !self.generation.lifecycle.is_readable() && !planted(Bug::DropEmptiesReads) {
            return Err(self.no_keyspace());
        }
        Ok(super_version)
    }

    /// Loads the super version of a directory keyspace, which has one partition.
    pub(crate) fn whole_version(&self) -> Result<SuperVersionGuard> {
        self.super_version_for(&[])
    }

    /// Fails with `NoKeyspace` once it was dropped, or once no snapshot can read this generation. If it succeeds, a
    /// read that ended before the call has found everything.
    pub(crate) fn check_readable(&self) -> Result<()> {
        if self.generation.lifecycle.is_readable() { Ok(()) } else { Err(self.no_keyspace()) }
    }

    /// The error of a caller whose keyspace was dropped.
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

    /// Where its entries are, if it is a directory keyspace.
    pub(crate) fn directories(&self) -> Option<&Arc<DirectoryIndex>> {
        self.generation.directories.as_ref()
    }

    /// The generation that its partitions share.
    pub(super) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Whether the partition is one of this generation.
    pub(super) fn owns(&self, partition: &Partition) -> bool {
        Arc::ptr_eq(&self.generation, &partition.generation)
    }

    /// Where the oldest record begins that is in no table, once a partition has released what is `flushed`. After a
    /// split the other side may still need the same memtable, or the same fast tables.
    pub(super) fn oldest_mark_without(&self, flushed: Option<(&Partition, Flushed<'_>)>) -> Option<LogMark> {
        let of = |partition: &Arc<Partition>| {
            let flushed = flushed.filter(|(of, _)| std::ptr::eq(*of, &**partition));
            partition.oldest_mark_without(flushed.map_or(Flushed::Nothing, |(_, flushed)| flushed))
        };
        self.layout().partitions().iter().filter_map(of).min_by_key(|mark| mark.position)
    }

    /// Whether it was cleared: then the registry has the next generation, unless that was dropped.
    pub(crate) fn is_cleared(&self) -> bool {
        self.generation.lifecycle.is_cleared()
    }

    /// Whether it was dropped, or cleared.
    pub(crate) fn is_dropped(&self) -> bool {
        self.generation.lifecycle.is_dropped()
    }
}
