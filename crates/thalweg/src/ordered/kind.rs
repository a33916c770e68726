//! [`OrderedKind`]: makes ordered keyspaces, new ones and those of the manifest. Also implements [`Keyspace`] for them.

use super::fast_level::FastTableHandle;
use super::generation::{Generation, Memory};
use super::keyspace::OrderedKeyspace;
use super::options::OrderedOptions;
use super::partition::{Partition, RecoveredPartition};
use crate::compaction::Levels;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableId};
use crate::keyspaces::{Keyspace, Kind, Lifecycle, NewKeyspace, ReplayedEntry};
use crate::lineage::{Handle, KeyspaceState};
use crate::runtime::BackgroundError;
use crate::table::{Table, TableMeta, TableStore};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// See the module.
#[derive(Clone)]
pub(crate) struct OrderedKind {
    pub(crate) options: Arc<OrderedOptions>,
    /// The options of directory keyspaces.
    pub(crate) directory_options: Arc<OrderedOptions>,
    pub(crate) memory: Memory,
}

impl OrderedKind {
    /// Opens a table of the fast tier.
    fn open_fast_table(&self, meta: &TableMeta) -> Result<Arc<FastTableHandle>> {
        let tier = self.options.tier.as_ref();
        let Some((tier, files)) = tier.and_then(|tier| Some((tier, tier.maker.files()?))) else {
            return Err(Error::internal(format!("fast table {} without a fast tier", meta.id)));
        };
        Ok(FastTableHandle::named(files.open(meta)?, &tier.room))
    }

    fn options_of(&self, kind: KeyspaceKind) -> &Arc<OrderedOptions> {
        match kind {
            KeyspaceKind::Ordered => &self.options,
            KeyspaceKind::Directory(_) => &self.directory_options,
        }
    }
}

impl Kind for OrderedKind {
    fn create(&self, new: NewKeyspace<'_>) -> Arc<dyn Keyspace> {
        let count = new.splits.len() + 1;
        let partition = |id| RecoveredPartition {
            id: PartitionId(id),
            flushed: new.after,
            levels: Levels::new(),
            fast: Vec::new(),
        };
        let partitions = (0..count as u64).map(partition);
        let generation = Generation::new(new.id, count, count, new.kind, self.options_of(new.kind), &self.memory);
        OrderedKeyspace::new(new.name, &generation, new.splits, partitions, PartitionId(count as u64))
    }

    fn recover(&self, id: KeyspaceId, state: &KeyspaceState, tables: &TableStore) -> Result<Arc<dyn Keyspace>> {
        // Each table has one handle, even if several partitions have the table: its file is removed when nobody holds
        // it.
        let mut opened: BTreeMap<TableId, Arc<Table>> = BTreeMap::new();
        let mut open =
            |meta: &TableMeta| Arc::clone(opened.entry(meta.id).or_insert_with(|| tables.open(meta.clone())));
        let mut fast: BTreeMap<TableId, Arc<FastTableHandle>> = BTreeMap::new();
        for meta in state.partitions.iter().flat_map(|partition| &partition.fast) {
            if let Entry::Vacant(vacant) = fast.entry(meta.id) {
                vacant.insert(self.open_fast_table(meta)?);
            }
        }
        let partitions = state.partitions.iter().map(|partition| RecoveredPartition {
            id: partition.id,
            flushed: partition.flushed,
            levels: partition.levels.iter().map(|level| level.iter().map(&mut open).collect()).collect(),
            fast: partition.fast.iter().filter_map(|meta| fast.get(&meta.id).cloned()).collect(),
        });
        let created = usize::try_from(state.created).unwrap_or(usize::MAX);
        let (members, options) = (state.partitions.len(), self.options_of(state.kind));
        let generation = Generation::new(id, created, members, state.kind, options, &self.memory);
        let keyspace =
            OrderedKeyspace::new(&state.name, &generation, state.splits.clone(), partitions, state.next_partition);
        Ok(keyspace)
    }
}

impl OrderedKeyspace {
    /// The tables of its levels. Those of a directory keyspace are packs, and no partition shares them.
    fn packs(&self) -> Vec<Arc<Table>> {
        self.layout().partitions().iter().flat_map(|partition| partition.super_version().levels.concat()).collect()
    }
}

impl Keyspace for OrderedKeyspace {
    fn id(&self) -> KeyspaceId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.generation().lifecycle
    }

    fn load(&self) -> Result<()> {
        match self.directories() {
            Some(index) => {
                let packs = self.packs();
                packs.iter().try_for_each(|pack| index.load(pack))?;
                #[cfg(feature = "experiments")]
                index.fill_f_hashes(&packs);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn oldest_mark(&self) -> Option<LogMark> {
        self.oldest_mark_without(None)
    }

    fn oldest_buffer_mark(&self) -> Option<LogMark> {
        let layout = self.layout();
        let marks = layout.partitions().iter().filter_map(|partition| partition.oldest_buffer_mark());
        marks.min_by_key(|mark| mark.position)
    }

    fn has_pending_flush(&self) -> bool {
        self.layout().partitions().iter().any(|partition| partition.sealed_memtables() > 0)
    }

    fn pending_bytes(&self) -> u64 {
        let of = |partition: &Arc<Partition>| {
            let super_version = partition.super_version();
            let memory: usize = super_version.memtables().map(|handle| handle.memtable.bytes()).sum();
            let level0 = super_version.levels.first().into_iter().flatten();
            memory as u64 + super_version.fast_bytes() + level0.map(|table| table.meta().bytes).sum::<u64>()
        };
        self.layout().partitions().iter().map(of).sum()
    }

    fn failures(&self) -> Vec<(PartitionId, BackgroundError)> {
        let of = |partition: &Arc<Partition>| Some((partition.id, partition.trouble()?));
        self.layout().partitions().iter().filter_map(of).collect()
    }

    fn is_idle(&self) -> bool {
        self.layout().partitions().iter().all(|partition| partition.running().iter().all(|job| job.is_parked))
    }

    fn tables(&self) -> Vec<Handle> {
        let layout = self.layout();
        let has_fast_files = self.generation().options.tier.as_ref().is_some_and(|tier| tier.is_persistent());
        let tables = layout.partitions().iter().flat_map(|partition| {
            let super_version = partition.super_version();
            let mut handles: Vec<Handle> = super_version.levels.concat().into_iter().map(Handle::from).collect();
            let fast = super_version.fast.as_ref().filter(|_| has_fast_files);
            handles.extend(fast.into_iter().flat_map(|fast| fast.handles()));
            handles
        });
        // Partitions may share some.
        tables.map(|handle| (handle.file(), handle)).collect::<BTreeMap<_, _>>().into_values().collect()
    }

    fn retire_buffers(&self) {
        for partition in self.layout().partitions() {
            partition.super_version().memtables().for_each(|handle| handle.memtable.retire());
            if let Some(reads) = partition.tier_reads() {
                reads.retire();
            }
        }
    }

    fn empty(&self) {
        self.lifecycle().set_emptied();
        self.layout().partitions().iter().for_each(|partition| partition.clear());
        if let Some(index) = self.directories() {
            #[cfg(feature = "experiments")]
            index.clear_f_hashes();
            index.clear();
        }
    }

    fn next_generation(self: Arc<Self>, at: SeqNo) -> Arc<dyn Keyspace> {
        self.clear(at)
    }

    fn replay(&self, entry: ReplayedEntry<'_>) -> Option<bool> {
        let ReplayedEntry { mark, key, seq, kind, value } = entry;
        let layout = self.layout();
        let partition = layout.partition_for(key);
        if seq <= partition.recovered {
            return None;
        }
        let super_version = partition.super_version();
        super_version.memtable_for(seq).insert(mark, key, seq, kind, value);
        Some(super_version.active.memtable.bytes() >= self.generation().options.memtable_bytes)
    }

    fn seal_replayed(&self, last: SeqNo) {
        for partition in self.layout().partitions() {
            let active = Arc::clone(&partition.super_version().active);
            if active.memtable.bytes() >= self.generation().options.memtable_bytes {
                partition.seal(&active, last);
                if let Some(tier) = &self.generation().options.tier {
                    partition.replay_to_tier(tier);
                }
            }
        }
    }

    fn was_flushed_at(&self, seq: SeqNo) -> bool {
        self.layout().partitions().iter().any(|partition| partition.recovered >= seq)
    }
}
