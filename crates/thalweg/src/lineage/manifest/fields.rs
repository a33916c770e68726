//! Fields that several kinds of record have: marks and the definition of a keyspace.

use crate::format::codec::{Decoder, Encode};
use crate::format::{HashKey, KeyspaceId, LogMark, LogPosition, SeqNo};

/// Why this program cannot read a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Undecodable {
    /// It has a kind of record or change that only a newer version knows.
    Newer,
    /// Its bytes are no record.
    Malformed,
}

/// Appends id, name and splits of a keyspace.
pub(in crate::lineage) fn put_keyspace(out: &mut Vec<u8>, keyspace: KeyspaceId, name: &str, splits: &[Box<[u8]>]) {
    out.put_varint(keyspace.0);
    out.put_bytes(name.as_bytes());
    out.put_varint(splits.len() as u64);
    for split in splits {
        out.put_bytes(split);
    }
}

/// Id, name and splits of a keyspace.
type KeyspaceFields = (KeyspaceId, String, Vec<Box<[u8]>>);

/// Reads id, name and splits of a keyspace.
pub(in crate::lineage) fn keyspace(decoder: &mut Decoder<'_>) -> Option<KeyspaceFields> {
    let id = KeyspaceId(decoder.varint()?);
    let name = std::str::from_utf8(decoder.bytes()?).ok()?.to_owned();
    let count = decoder.varint()?;
    let mut splits = Vec::new();
    for _ in 0..count {
        splits.push(Box::from(decoder.bytes()?));
    }
    Some((id, name, splits))
}

/// Appends id, name and hash key of a directory keyspace.
pub(in crate::lineage) fn put_directory_keyspace(out: &mut Vec<u8>, keyspace: KeyspaceId, name: &str, key: &HashKey) {
    out.put_varint(keyspace.0);
    out.put_bytes(name.as_bytes());
    out.extend_from_slice(&key.0);
}

/// Reads id, name and hash key of a directory keyspace.
pub(in crate::lineage) fn directory_keyspace(decoder: &mut Decoder<'_>) -> Option<(KeyspaceId, String, HashKey)> {
    let id = KeyspaceId(decoder.varint()?);
    let name = std::str::from_utf8(decoder.bytes()?).ok()?.to_owned();
    Some((id, name, HashKey(decoder.take(16)?.try_into().ok()?)))
}

/// Appends a mark.
pub(in crate::lineage) fn put_mark(out: &mut Vec<u8>, mark: LogMark) {
    out.put_u64(mark.position.raw());
    out.put_u64(mark.generation);
    out.put_u64(mark.seq.0);
}

/// Reads a mark.
pub(in crate::lineage) fn mark(decoder: &mut Decoder<'_>) -> Option<LogMark> {
    Some(LogMark {
        position: LogPosition::from_raw(decoder.u64()?),
        generation: decoder.u64()?,
        seq: SeqNo(decoder.u64()?),
    })
}
