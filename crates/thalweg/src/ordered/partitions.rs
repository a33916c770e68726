//! [`Partitions`]: all partitions of all ordered keyspaces.

use super::keyspace::OrderedKeyspace;
use super::partition::Partition;
use crate::format::SeqNo;
use crate::keyspaces::Registry;
use crate::planted::{Bug, planted};
use std::sync::Arc;

/// See the module.
#[derive(Clone)]
pub(crate) struct Partitions {
    registry: Arc<Registry>,
}

impl Partitions {
    pub(crate) fn new(registry: &Arc<Registry>) -> Self {
        Partitions { registry: Arc::clone(registry) }
    }

    /// All partitions now, by keyspace and in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Partition>> + use<> {
        let keyspaces = self.registry.keyspaces();
        let ordered = keyspaces.of_kind::<OrderedKeyspace>();
        let partitions: Vec<_> = ordered.flat_map(|keyspace| keyspace.layout().partitions().to_vec()).collect();
        partitions.into_iter()
    }

    /// The ordered keyspaces now.
    pub(super) fn keyspaces(&self) -> Vec<Arc<OrderedKeyspace>> {
        self.registry.keyspaces().of_kind().collect()
    }

    /// The keyspace that has this partition; `None` once it was dropped or cleared.
    pub(super) fn keyspace_of(&self, partition: &Partition) -> Option<Arc<OrderedKeyspace>> {
        self.present_generation(partition).filter(|keyspace| keyspace.owns(partition))
    }

    /// Whether the manifest knows the partition's generation of its keyspace, so that an edit may name it. The
    /// partition was found here before.
    pub(super) fn is_known(&self, partition: &Partition) -> bool {
        self.registry.definitions().is_known(partition.keyspace)
    }

    fn present_generation(&self, partition: &Partition) -> Option<Arc<OrderedKeyspace>> {
        Arc::clone(self.registry.keyspaces().get(partition.keyspace)?).downcast()
    }

    /// The partition that takes `key` of the record `seq`, when a clear has replaced `partition`, which the writer was
    /// routed to. `None` if no clear has replaced it.
    pub(crate) fn rerouted(&self, partition: &Partition, key: &[u8], seq: SeqNo) -> Option<Arc<Partition>> {
        if !partition.is_cleared() || planted(Bug::ClearLosesLateWrites) {
            return None;
        }
        let generation = self.present_generation(partition)?.generation_at(seq)?;
        let layout = generation.layout();
        Some(Arc::clone(layout.partition_for(key)))
    }

    /// Whether `look`, which looks at all partitions, returned `true` and no partition was split or merged meanwhile.
    pub(super) fn unchanged_while(&self, look: impl FnOnce() -> bool) -> bool {
        self.registry.unchanged_while(look)
    }

    /// Notes that a partition was split, or that two were merged.
    pub(super) fn reshaped(&self) {
        self.registry.buffers_changed();
    }
}
