//! [`Record`]: what one record of a manifest says, and its bytes (`docs/format/manifest.md`, Records).

use crate::format::codec::{Decoder, Encode};
use crate::format::{EditId, KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableId};
use crate::lineage::manifest::fields::{
    Undecodable, directory_keyspace, keyspace, mark, put_directory_keyspace, put_keyspace, put_mark,
};
use crate::lineage::state::edit::Edit;
use crate::lineage::state::live::State;
use crate::table::TableMeta;

/// One record of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Record {
    /// Begins the snapshot: the state that a manifest starts with.
    SnapshotBegin { edit: EditId, seq: SeqNo, next_keyspace: KeyspaceId, next_table: TableId, log_start: LogMark },
    /// A keyspace of the snapshot, and how far each of its partitions is flushed.
    SnapshotKeyspace {
        keyspace: KeyspaceId,
        name: String,
        splits: Vec<Box<[u8]>>,
        kind: KeyspaceKind,
        flushed: Vec<SeqNo>,
    },
    /// The ids of a keyspace's partitions in key order, the first id never used, and how many partitions the keyspace
    /// was created with. Without this record the partitions are those it was created with.
    SnapshotPartitions { keyspace: KeyspaceId, created: u64, next: PartitionId, ids: Vec<PartitionId> },
    /// Tables of one level.
    SnapshotTables { keyspace: KeyspaceId, partition: PartitionId, level: u8, tables: Vec<TableMeta> },
    /// Fast tables of a partition.
    SnapshotFastTables { keyspace: KeyspaceId, partition: PartitionId, tables: Vec<TableMeta> },
    /// Ends the snapshot, with the counts of its records.
    SnapshotEnd { keyspaces: u64, tables: u64 },
    /// An edit, not settled yet.
    Edit { id: EditId, edit: Edit },
    /// This edit and every earlier one are durable.
    Settled { edit: EditId },
    /// A settle round up to this edit is under way. The record makes the manifest grow.
    Round { edit: EditId },
    /// The database was closed with the log ending at `log_end`.
    Closed { log_end: LogMark, edit: EditId },
}

const SNAPSHOT_BEGIN: u8 = 1;
const SNAPSHOT_KEYSPACE: u8 = 2;
const SNAPSHOT_TABLES: u8 = 3;
const SNAPSHOT_END: u8 = 4;
const EDIT: u8 = 5;
const SETTLED: u8 = 6;
const CLOSED: u8 = 7;
const ROUND: u8 = 8;
const SNAPSHOT_PARTITIONS: u8 = 9;
const SNAPSHOT_DIRECTORY_KEYSPACE: u8 = 10;
const SNAPSHOT_FAST_TABLES: u8 = 11;

/// The last kind of record.
const KIND_MAX: u8 = SNAPSHOT_FAST_TABLES;

/// The bytes of kind and synced offset, with which every record begins.
pub(in crate::lineage) const PREFIX_BYTES: usize = 9;

/// The most tables in one `snapshot tables` record.
const TABLES_MAX: usize = 64;

/// Returns the payload of an `edit` record; borrows the edit.
pub(in crate::lineage) fn edit_payload(id: EditId, edit: &Edit, synced: u64) -> Vec<u8> {
    let mut out = prefix(EDIT, synced);
    edit.encode(id, &mut out);
    out
}

/// Returns the synced offset at the start of a record, or of its first fragment.
pub(in crate::lineage) fn synced_of(payload: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(payload);
    decoder.u8()?;
    decoder.u64()
}

/// Returns kind and synced offset.
fn prefix(kind: u8, synced: u64) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u8(kind);
    out.put_u64(synced);
    out
}

impl Record {
    /// Returns the records of a snapshot of `state`.
    pub(in crate::lineage) fn snapshot(state: &State) -> Vec<Record> {
        let State { next_keyspace, next_table, log_start, edit, seq, .. } = *state;
        let mut records = vec![Record::SnapshotBegin { edit, seq, next_keyspace, next_table, log_start }];
        for (&keyspace, content) in &state.keyspaces {
            records.push(Record::SnapshotKeyspace {
                keyspace,
                name: content.name.clone(),
                splits: content.splits.clone(),
                kind: content.kind,
                flushed: content.partitions.iter().map(|partition| partition.flushed).collect(),
            });
            if !content.is_numbered_in_order() {
                let ids = content.partitions.iter().map(|partition| partition.id).collect();
                let (created, next) = (content.created, content.next_partition);
                records.push(Record::SnapshotPartitions { keyspace, created, next, ids });
            }
            for content in &content.partitions {
                for (level, tables) in (0..).zip(&content.levels) {
                    records.extend(tables.chunks(TABLES_MAX).map(|tables| Record::SnapshotTables {
                        keyspace,
                        partition: content.id,
                        level,
                        tables: tables.to_vec(),
                    }));
                }
                records.extend(content.fast.chunks(TABLES_MAX).map(|tables| Record::SnapshotFastTables {
                    keyspace,
                    partition: content.id,
                    tables: tables.to_vec(),
                }));
            }
        }
        let tables = state.tables().chain(state.fast_tables()).count() as u64;
        let keyspaces = state.keyspaces.len() as u64;
        records.push(Record::SnapshotEnd { keyspaces, tables });
        records
    }

    /// Returns the payload. `synced` is how many bytes of the manifest are durable.
    pub(in crate::lineage) fn payload(&self, synced: u64) -> Vec<u8> {
        match self {
            Record::SnapshotBegin { edit, seq, next_keyspace, next_table, log_start } => {
                let mut out = prefix(SNAPSHOT_BEGIN, synced);
                out.put_varint(edit.0);
                out.put_varint(seq.0);
                out.put_varint(next_keyspace.0);
                out.put_varint(next_table.0);
                put_mark(&mut out, *log_start);
                out
            }
            Record::SnapshotKeyspace { keyspace, name, splits, kind, flushed } => {
                let mut out = keyspace_payload((*keyspace, name, splits), *kind, synced);
                flushed.iter().for_each(|seq| out.put_varint(seq.0));
                out
            }
            Record::SnapshotPartitions { keyspace, created, next, ids } => {
                let mut out = prefix(SNAPSHOT_PARTITIONS, synced);
                out.put_varint(keyspace.0);
                out.put_varint(*created);
                out.put_varint(next.0);
                out.put_varint(ids.len() as u64);
                ids.iter().for_each(|id| out.put_varint(id.0));
                out
            }
            Record::SnapshotTables { keyspace, partition, level, tables } => {
                let mut out = prefix(SNAPSHOT_TABLES, synced);
                out.put_varint(keyspace.0);
                out.put_varint(partition.0);
                out.put_u8(*level);
                put_tables(&mut out, tables);
                out
            }
            Record::SnapshotFastTables { keyspace, partition, tables } => {
                let mut out = prefix(SNAPSHOT_FAST_TABLES, synced);
                out.put_varint(keyspace.0);
                out.put_varint(partition.0);
                put_tables(&mut out, tables);
                out
            }
            Record::SnapshotEnd { keyspaces, tables } => {
                let mut out = prefix(SNAPSHOT_END, synced);
                out.put_varint(*keyspaces);
                out.put_varint(*tables);
                out
            }
            Record::Edit { id, edit } => edit_payload(*id, edit, synced),
            Record::Settled { edit } => {
                let mut out = prefix(SETTLED, synced);
                out.put_varint(edit.0);
                out
            }
            Record::Round { edit } => {
                let mut out = prefix(ROUND, synced);
                out.put_varint(edit.0);
                out
            }
            Record::Closed { log_end, edit } => {
                let mut out = prefix(CLOSED, synced);
                put_mark(&mut out, *log_end);
                out.put_varint(edit.0);
                out
            }
        }
    }

    /// Decodes a payload whose checksums were right.
    pub(in crate::lineage) fn decode(payload: &[u8]) -> Result<Record, Undecodable> {
        let mut decoder = Decoder::new(payload);
        let prefix = decoder.u8().zip(decoder.u64());
        let record = match prefix.ok_or(Undecodable::Malformed)? {
            (EDIT, _) => {
                let (id, edit) = Edit::decode(&mut decoder)?;
                Record::Edit { id, edit }
            }
            (kind, _) if kind > KIND_MAX => return Err(Undecodable::Newer),
            (kind, _) => Record::decode_body(kind, &mut decoder).ok_or(Undecodable::Malformed)?,
        };
        if decoder.is_empty() { Ok(record) } else { Err(Undecodable::Malformed) }
    }

    /// Decodes the body of a record that is no edit. The body follows the prefix.
    fn decode_body(kind: u8, decoder: &mut Decoder<'_>) -> Option<Record> {
        Some(match kind {
            SNAPSHOT_BEGIN => Record::SnapshotBegin {
                edit: EditId(decoder.varint()?),
                seq: SeqNo(decoder.varint()?),
                next_keyspace: KeyspaceId(decoder.varint()?),
                next_table: TableId(decoder.varint()?),
                log_start: mark(decoder)?,
            },
            SNAPSHOT_KEYSPACE => {
                let (keyspace, name, splits) = keyspace(decoder)?;
                let mut flushed = Vec::new();
                for _ in 0..=splits.len() {
                    flushed.push(SeqNo(decoder.varint()?));
                }
                Record::SnapshotKeyspace { keyspace, name, splits, kind: KeyspaceKind::Ordered, flushed }
            }
            SNAPSHOT_DIRECTORY_KEYSPACE => {
                let (keyspace, name, key) = directory_keyspace(decoder)?;
                let (kind, flushed) = (KeyspaceKind::Directory(key), vec![SeqNo(decoder.varint()?)]);
                Record::SnapshotKeyspace { keyspace, name, splits: Vec::new(), kind, flushed }
            }
            SNAPSHOT_PARTITIONS => {
                let (keyspace, created) = (KeyspaceId(decoder.varint()?), decoder.varint()?);
                let next = PartitionId(decoder.varint()?);
                let mut ids = Vec::new();
                for _ in 0..decoder.varint()? {
                    ids.push(PartitionId(decoder.varint()?));
                }
                Record::SnapshotPartitions { keyspace, created, next, ids }
            }
            SNAPSHOT_TABLES => {
                let keyspace = KeyspaceId(decoder.varint()?);
                let partition = PartitionId(decoder.varint()?);
                let level = decoder.u8()?;
                Record::SnapshotTables { keyspace, partition, level, tables: tables(decoder)? }
            }
            SNAPSHOT_FAST_TABLES => Record::SnapshotFastTables {
                keyspace: KeyspaceId(decoder.varint()?),
                partition: PartitionId(decoder.varint()?),
                tables: tables(decoder)?,
            },
            SNAPSHOT_END => Record::SnapshotEnd { keyspaces: decoder.varint()?, tables: decoder.varint()? },
            SETTLED => Record::Settled { edit: EditId(decoder.varint()?) },
            ROUND => Record::Round { edit: EditId(decoder.varint()?) },
            CLOSED => Record::Closed { log_end: mark(decoder)?, edit: EditId(decoder.varint()?) },
            _ => return None,
        })
    }
}

/// Returns the first part of the payload of a keyspace: its id, name and splits.
fn keyspace_payload(
    (keyspace, name, splits): (KeyspaceId, &str, &[Box<[u8]>]),
    kind: KeyspaceKind,
    synced: u64,
) -> Vec<u8> {
    match kind {
        KeyspaceKind::Ordered => {
            let mut out = prefix(SNAPSHOT_KEYSPACE, synced);
            put_keyspace(&mut out, keyspace, name, splits);
            out
        }
        KeyspaceKind::Directory(key) => {
            let mut out = prefix(SNAPSHOT_DIRECTORY_KEYSPACE, synced);
            put_directory_keyspace(&mut out, keyspace, name, &key);
            out
        }
    }
}

/// Appends the number of the tables, and the tables.
fn put_tables(out: &mut Vec<u8>, tables: &[TableMeta]) {
    out.put_varint(tables.len() as u64);
    tables.iter().for_each(|meta| meta.encode(out));
}

/// Reads the tables that [`put_tables`] has written, at least one.
fn tables(decoder: &mut Decoder<'_>) -> Option<Vec<TableMeta>> {
    let count = decoder.varint().filter(|&count| count > 0)?;
    (0..count).map(|_| TableMeta::decode(decoder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::{one_of_each, sample_state};

    fn samples() -> Vec<Record> {
        let mut records = Record::snapshot(&sample_state());
        records.push(Record::SnapshotPartitions {
            keyspace: KeyspaceId(3),
            created: 2,
            next: PartitionId(300),
            ids: [7, 299, 0].map(PartitionId).into(),
        });
        records.push(Record::Edit { id: EditId(3), edit: one_of_each() });
        records.push(Record::Settled { edit: EditId(300) });
        records.push(Record::Round { edit: EditId(301) });
        records.push(Record::Closed { log_end: sample_state().log_start, edit: EditId(7) });
        records
    }

    #[test]
    fn every_record_survives_its_encoding() {
        for record in samples() {
            let payload = record.payload(0x1234_5678_9abc);
            assert_eq!(synced_of(&payload), Some(0x1234_5678_9abc));
            assert_eq!(Record::decode(&payload), Ok(record));
        }
    }

    #[test]
    fn a_record_with_a_byte_too_few_or_too_many_is_refused() {
        for record in samples() {
            let mut payload = record.payload(1);
            payload.push(0);
            assert_eq!(Record::decode(&payload), Err(Undecodable::Malformed));
            assert_eq!(Record::decode(&payload[..payload.len() - 2]), Err(Undecodable::Malformed));
        }
    }
}
