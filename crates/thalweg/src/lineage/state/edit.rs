//! [`Edit`]: one atomic change of the set of live files.
//!
//! [`super::live::State::apply`] defines what an edit means.

use crate::format::{KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableId};
use crate::table::TableMeta;

/// One change of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Adds an empty keyspace with one partition more than `splits`.
    CreateKeyspace { keyspace: KeyspaceId, name: String, splits: Vec<Box<[u8]>>, kind: KeyspaceKind },
    /// Removes a keyspace with its tables.
    DropKeyspace { keyspace: KeyspaceId },
    /// Removes the tables of a keyspace, and the partitions that splits have made. Every record of the keyspace at or
    /// below `seq` is dead.
    ClearKeyspace { keyspace: KeyspaceId, seq: SeqNo },
    /// Adds an output: a successor.
    Add { keyspace: KeyspaceId, partition: PartitionId, level: u8, meta: TableMeta },
    /// Removes an input: a predecessor. Readers no longer see it, but its file stays until the edit is settled.
    Remove { keyspace: KeyspaceId, partition: PartitionId, level: u8, table: TableId },
    /// Moves a table to another level, unchanged.
    Move { keyspace: KeyspaceId, partition: PartitionId, from: u8, to: u8, table: TableId },
    /// Says that every record of the partition at or below `seq` is in its tables, so replay skips these records.
    Flushed { keyspace: KeyspaceId, partition: PartitionId, seq: SeqNo },
    /// Splits a partition: it keeps the keys below `at`, and a new partition, `into`, gets the others. A table with
    /// keys on both sides is then in both partitions.
    Split { keyspace: KeyspaceId, partition: PartitionId, at: Box<[u8]>, into: PartitionId },
    /// Merges `next`, the neighbour to the right, into the partition; `next` ends. Every record that is in no table of
    /// the two is newer than what either has flushed.
    Merge { keyspace: KeyspaceId, partition: PartitionId, next: PartitionId },
}

/// One atomic change of the set of live files: inputs are removed, outputs are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) changes: Vec<Change>,
    /// The highest sequence number that the edit takes over from memtables (0: none). The log must be durable up to it.
    pub(crate) seq: SeqNo,
    /// From where the log is needed once the edit is settled; `None`: the edit does not change that.
    pub(crate) log_start: Option<LogMark>,
}

impl Edit {
    /// Returns the tables that the edit adds.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &TableMeta> {
        self.changes.iter().filter_map(|change| match change {
            Change::Add { meta, .. } => Some(meta),
            _ => None,
        })
    }

    /// Returns the highest sequence number that the edit makes replay skip.
    pub(in crate::lineage) fn flushed(&self) -> SeqNo {
        let seqs = self.changes.iter().filter_map(|change| match change {
            Change::Flushed { seq, .. } | Change::ClearKeyspace { seq, .. } => Some(*seq),
            _ => None,
        });
        seqs.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::lineage::tests::{one_of_each, table};

    #[test]
    fn outputs_are_the_added_tables_only() {
        let ids: Vec<_> = one_of_each().outputs().map(|meta| meta.id).collect();
        assert_eq!(ids, [table(9, "a", "b").id]);
    }
}
