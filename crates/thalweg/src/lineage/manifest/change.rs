//! The bytes of an [`Edit`] and its changes (`docs/format/manifest.md`, Records).
//!
//! Decoding checks only that the bytes are whole. [`crate::lineage::State::apply`] checks whether an edit makes sense.

use crate::format::codec::{Decoder, Encode};
use crate::format::{EditId, KeyspaceId, KeyspaceKind, LogMark, PartitionId, SeqNo, TableId};
use crate::lineage::manifest::fields::{
    Undecodable, directory_keyspace, keyspace, mark, put_directory_keyspace, put_keyspace, put_mark,
};
use crate::lineage::state::edit::{Change, Edit, FastPlace};
use crate::table::TableMeta;

const CREATE_KEYSPACE: u8 = 1;
const DROP_KEYSPACE: u8 = 2;
const ADD: u8 = 3;
const REMOVE: u8 = 4;
const MOVE: u8 = 5;
const FLUSHED: u8 = 6;
const SPLIT: u8 = 7;
const MERGE: u8 = 8;
const CLEAR_KEYSPACE: u8 = 9;
const CREATE_DIRECTORY_KEYSPACE: u8 = 10;
const ADD_FAST: u8 = 11;
const REMOVE_FAST: u8 = 12;

/// The last kind of change.
const KIND_MAX: u8 = REMOVE_FAST;

impl Edit {
    /// Appends the edit, which has number `id`, to `out`.
    pub(in crate::lineage) fn encode(&self, id: EditId, out: &mut Vec<u8>) {
        out.put_varint(id.0);
        out.put_varint(self.seq.0);
        match self.log_start {
            None => out.put_u8(0),
            Some(mark) => {
                out.put_u8(1);
                put_mark(out, mark);
            }
        }
        out.put_varint(self.changes.len() as u64);
        for change in &self.changes {
            change.encode(out);
        }
    }

    /// Reads an edit and its number.
    pub(in crate::lineage) fn decode(decoder: &mut Decoder<'_>) -> Result<(EditId, Self), Undecodable> {
        let (id, seq, log_start, count) = Self::decode_head(decoder).ok_or(Undecodable::Malformed)?;
        let mut changes = Vec::new();
        for _ in 0..count {
            changes.push(match decoder.u8() {
                None => return Err(Undecodable::Malformed),
                Some(kind) if kind > KIND_MAX => return Err(Undecodable::Newer),
                Some(kind) => Change::decode(kind, decoder).ok_or(Undecodable::Malformed)?,
            });
        }
        Ok((id, Edit { changes, seq, log_start }))
    }

    /// Reads the fields before the changes, and the number of changes.
    fn decode_head(decoder: &mut Decoder<'_>) -> Option<(EditId, SeqNo, Option<LogMark>, u64)> {
        let id = EditId(decoder.varint()?);
        let seq = SeqNo(decoder.varint()?);
        let log_start = match decoder.u8()? {
            0 => None,
            1 => Some(mark(decoder)?),
            _ => return None,
        };
        Some((id, seq, log_start, decoder.varint()?))
    }
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::CreateKeyspace { keyspace, name, kind: KeyspaceKind::Directory(key), .. } => {
                out.put_u8(CREATE_DIRECTORY_KEYSPACE);
                put_directory_keyspace(out, *keyspace, name, key);
            }
            Change::CreateKeyspace { keyspace, name, splits, kind: KeyspaceKind::Ordered } => {
                out.put_u8(CREATE_KEYSPACE);
                put_keyspace(out, *keyspace, name, splits);
            }
            Change::DropKeyspace { keyspace } => {
                out.put_u8(DROP_KEYSPACE);
                out.put_varint(keyspace.0);
            }
            Change::ClearKeyspace { keyspace, seq } => {
                out.put_u8(CLEAR_KEYSPACE);
                out.put_varint(keyspace.0);
                out.put_varint(seq.0);
            }
            Change::Add { keyspace, partition, level, meta } => {
                put_place(out, ADD, *keyspace, *partition);
                out.put_u8(*level);
                meta.encode(out);
            }
            Change::Remove { keyspace, partition, level, table } => {
                put_place(out, REMOVE, *keyspace, *partition);
                out.put_u8(*level);
                out.put_varint(table.0);
            }
            Change::Move { keyspace, partition, from, to, table } => {
                put_place(out, MOVE, *keyspace, *partition);
                out.put_u8(*from);
                out.put_u8(*to);
                out.put_varint(table.0);
            }
            Change::AddFast { keyspace, partition, place, meta } => {
                put_place(out, ADD_FAST, *keyspace, *partition);
                out.put_u8(match place {
                    FastPlace::Newest => 0,
                    FastPlace::Oldest => 1,
                    FastPlace::Inputs => 2,
                });
                meta.encode(out);
            }
            Change::RemoveFast { keyspace, partition, table } => {
                put_place(out, REMOVE_FAST, *keyspace, *partition);
                out.put_varint(table.0);
            }
            Change::Flushed { keyspace, partition, seq } => {
                put_place(out, FLUSHED, *keyspace, *partition);
                out.put_varint(seq.0);
            }
            Change::Split { keyspace, partition, at, into } => {
                put_place(out, SPLIT, *keyspace, *partition);
                out.put_bytes(at);
                out.put_varint(into.0);
            }
            Change::Merge { keyspace, partition, next } => {
                put_place(out, MERGE, *keyspace, *partition);
                out.put_varint(next.0);
            }
        }
    }

    fn decode(kind: u8, decoder: &mut Decoder<'_>) -> Option<Self> {
        match kind {
            CREATE_KEYSPACE => {
                let (keyspace, name, splits) = keyspace(decoder)?;
                return Some(Change::CreateKeyspace { keyspace, name, splits, kind: KeyspaceKind::Ordered });
            }
            CREATE_DIRECTORY_KEYSPACE => {
                let (keyspace, name, key) = directory_keyspace(decoder)?;
                let (splits, kind) = (Vec::new(), KeyspaceKind::Directory(key));
                return Some(Change::CreateKeyspace { keyspace, name, splits, kind });
            }
            DROP_KEYSPACE => return Some(Change::DropKeyspace { keyspace: KeyspaceId(decoder.varint()?) }),
            CLEAR_KEYSPACE => {
                let (keyspace, seq) = (KeyspaceId(decoder.varint()?), SeqNo(decoder.varint()?));
                return Some(Change::ClearKeyspace { keyspace, seq });
            }
            _ => {}
        }
        let keyspace = KeyspaceId(decoder.varint()?);
        let partition = PartitionId(decoder.varint()?);
        Some(match kind {
            ADD => Change::Add { keyspace, partition, level: decoder.u8()?, meta: TableMeta::decode(decoder)? },
            REMOVE => Change::Remove { keyspace, partition, level: decoder.u8()?, table: TableId(decoder.varint()?) },
            MOVE => Change::Move {
                keyspace,
                partition,
                from: decoder.u8()?,
                to: decoder.u8()?,
                table: TableId(decoder.varint()?),
            },
            ADD_FAST => {
                let place = match decoder.u8()? {
                    0 => FastPlace::Newest,
                    1 => FastPlace::Oldest,
                    2 => FastPlace::Inputs,
                    _ => return None,
                };
                Change::AddFast { keyspace, partition, place, meta: TableMeta::decode(decoder)? }
            }
            REMOVE_FAST => Change::RemoveFast { keyspace, partition, table: TableId(decoder.varint()?) },
            FLUSHED => Change::Flushed { keyspace, partition, seq: SeqNo(decoder.varint()?) },
            SPLIT => Change::Split {
                keyspace,
                partition,
                at: Box::from(decoder.bytes()?),
                into: PartitionId(decoder.varint()?),
            },
            MERGE => Change::Merge { keyspace, partition, next: PartitionId(decoder.varint()?) },
            _ => return None,
        })
    }
}

/// Appends the fields with which most kinds of change begin.
fn put_place(out: &mut Vec<u8>, kind: u8, keyspace: KeyspaceId, partition: PartitionId) {
    out.put_u8(kind);
    out.put_varint(keyspace.0);
    out.put_varint(partition.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::one_of_each;

    #[test]
    fn every_kind_of_change_survives_its_encoding() {
        let edit = one_of_each();
        let mut bytes = Vec::new();
        edit.encode(EditId(77), &mut bytes);
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(Edit::decode(&mut decoder), Ok((EditId(77), edit)));
        assert!(decoder.is_empty());
    }

    #[test]
    fn a_cut_edit_is_refused_at_every_length() {
        let mut bytes = Vec::new();
        one_of_each().encode(EditId(77), &mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(Edit::decode(&mut Decoder::new(&bytes[..len])), Err(Undecodable::Malformed), "{len}");
        }
    }
}
