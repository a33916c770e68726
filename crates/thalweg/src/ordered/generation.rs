//! [`Generation`]: what the partitions of a keyspace have in common between two clears.

use super::budget::PartitionBudget;
use super::options::OrderedOptions;
use crate::format::KeyspaceId;
use crate::keyspaces::Lifecycle;
use crate::memtable::MemtablePool;
use std::sync::Arc;

/// See the module.
pub(crate) struct Generation {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) lifecycle: Lifecycle,
    pub(super) budget: PartitionBudget,
    pub(super) options: Arc<OrderedOptions>,
    /// Where the memory of memtables comes from.
    pub(super) pool: MemtablePool,
}

impl Generation {
    /// A generation that was created with `created` partitions and has `members`.
    pub(super) fn new(
        keyspace: KeyspaceId,
        created: usize,
        members: usize,
        options: &Arc<OrderedOptions>,
        pool: &MemtablePool,
    ) -> Arc<Self> {
        Arc::new(Generation {
            keyspace,
            lifecycle: Lifecycle::default(),
            budget: PartitionBudget::new(created, members),
            options: Arc::clone(options),
            pool: pool.clone(),
        })
    }
}
