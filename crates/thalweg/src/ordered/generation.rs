//! [`Generation`]: the state that the partitions of a keyspace share between two clears.

use super::budget::PartitionBudget;
use super::options::OrderedOptions;
use crate::cache::BlockCache;
use crate::directory::DirectoryIndex;
use crate::format::{KeyspaceId, KeyspaceKind};
use crate::keyspaces::Lifecycle;
use crate::memtable::MemtablePool;
use std::sync::Arc;

/// Where the memory of keyspaces comes from.
#[derive(Clone)]
pub(crate) struct Memory {
    /// The memory of memtables.
    pub(crate) pool: MemtablePool,
    /// The cache to which the index of a directory keyspace is charged.
    pub(crate) cache: Arc<BlockCache>,
}

/// See the module.
pub(crate) struct Generation {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) lifecycle: Lifecycle,
    pub(super) budget: PartitionBudget,
    pub(super) options: Arc<OrderedOptions>,
    pub(super) memory: Memory,
    /// The index of a directory keyspace: where its entries are. The tables of such a keyspace are packs.
    pub(crate) directories: Option<Arc<DirectoryIndex>>,
}

impl Generation {
    /// The kind of the keyspace.
    pub(super) fn kind(&self) -> KeyspaceKind {
        self.directories.as_ref().map_or(KeyspaceKind::Ordered, |index| KeyspaceKind::Directory(index.hash_key))
    }

    /// A generation that was created with `created` partitions and has `members`.
    pub(super) fn new(
        keyspace: KeyspaceId,
        created: usize,
        members: usize,
        kind: KeyspaceKind,
        options: &Arc<OrderedOptions>,
        memory: &Memory,
    ) -> Arc<Self> {
        Arc::new(Generation {
            keyspace,
            lifecycle: Lifecycle::default(),
            budget: PartitionBudget::new(created, members),
            options: Arc::clone(options),
            memory: memory.clone(),
            directories: match kind {
                KeyspaceKind::Ordered => None,
                KeyspaceKind::Directory(key) => {
                    let index = DirectoryIndex::new(key, &memory.cache);
                    #[cfg(feature = "experiments")]
                    options.f_hashes.iter().for_each(|options| index.use_f_hashes(options));
                    Some(index)
                }
            },
        })
    }
}
