//! [`Edit`]: one atomic change of the set of live files.
//!
//! [`super::live::State::apply`] defines what an edit means.

use crate::format::{Home, KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableFile, TableId};
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
    /// Adds an output to the fast tier.
    AddFast { keyspace: KeyspaceId, partition: PartitionId, place: FastPlace, meta: TableMeta },
    /// Removes an input from the fast tier, like [`Change::Remove`].
    RemoveFast { keyspace: KeyspaceId, partition: PartitionId, table: TableId },
    /// Says that every record of the partition at or below `seq` is in its tables, so replay skips these records.
    Flushed { keyspace: KeyspaceId, partition: PartitionId, seq: SeqNo },
    /// Splits a partition: it keeps the keys below `at`, and a new partition, `into`, gets the others. A table with
    /// keys on both sides is then in both partitions.
    Split { keyspace: KeyspaceId, partition: PartitionId, at: Box<[u8]>, into: PartitionId },
    /// Merges `next`, the neighbour to the right, into the partition and removes `next`. Every record that is in no
    /// table of the two partitions is newer than all that either has flushed.
    Merge { keyspace: KeyspaceId, partition: PartitionId, next: PartitionId },
}

/// Where a table stands among the fast tables of its partition that have some of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastPlace {
    /// Above them: a flush wrote the table.
    Newest,
    /// Below those that the edit leaves: a merge of older tables wrote the table.
    Oldest,
    /// Where the newest input of the edit stood: a merge of tables in the middle wrote the table.
    Inputs,
}

/// One atomic change of the set of live files: inputs are removed, outputs are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) changes: Vec<Change>,
    /// The highest sequence number that the edit takes over from memtables (0: none). The log must be durable up to it.
    pub(crate) seq: SeqNo,
    /// The mark from which the log is needed once the edit is settled; `None` if the edit does not change it.
    pub(crate) log_start: Option<LogMark>,
}

impl Edit {
    /// Returns the tables that the edit adds, and the home of each.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (Home, &TableMeta)> {
        self.changes.iter().filter_map(|change| match change {
            Change::Add { meta, .. } => Some((Home::Disk, meta)),
            Change::AddFast { meta, .. } => Some((Home::Fast, meta)),
            _ => None,
        })
    }

    /// Returns the files of the tables that the edit adds.
    pub(in crate::lineage) fn output_files(&self) -> impl Iterator<Item = TableFile> {
        self.outputs().map(|(home, meta)| TableFile { home, id: meta.id })
    }

    /// Returns the bytes of the tables that the edit adds on the disk.
    pub(in crate::lineage) fn output_disk_bytes(&self) -> u64 {
        self.outputs().filter(|(home, _)| *home == Home::Disk).map(|(_, meta)| meta.bytes).sum()
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
    use super::*;
    use crate::lineage::tests::{one_of_each, table};

    #[test]
    fn outputs_are_the_added_tables_only() {
        let files: Vec<_> = one_of_each().output_files().collect();
        assert_eq!(files, [TableFile::on_disk(table(9, "a", "b").id), TableFile::fast(table(11, "a", "c").id)]);
    }
}
