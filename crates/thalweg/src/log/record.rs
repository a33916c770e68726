//! [`Operation`], [`RecordBuilder`], [`Record`]: the body of a record (`docs/format/log.md`, Body).
//!
//! A body is encoded, and its checksum computed, before log space is reserved. After a reservation only framing and a
//! copy remain. A [`Record`] always decodes: it was built here, or verified when it was read.

use crate::format::codec::{Decoder, Encode};
use crate::format::{HashKey, KeyspaceId, KeyspaceKind};
use xxhash_rust::xxh3::xxh3_64;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const CREATE_KEYSPACE: u8 = 3;
const DROP_KEYSPACE: u8 = 4;
// Format 1 reserves 5 (range removal) and 6 (merge). A record with a right checksum that has one of these kinds, or a
// kind above the last one here, was written by a newer version.
const CLEAR_KEYSPACE: u8 = 7;
const CREATE_DIRECTORY_KEYSPACE: u8 = 8;

/// One operation of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Put {
        keyspace: KeyspaceId,
        key: &'a [u8],
        value: &'a [u8],
    },
    Remove {
        keyspace: KeyspaceId,
        key: &'a [u8],
    },
    CreateKeyspace {
        keyspace: KeyspaceId,
        name: &'a str,
        splits: Vec<&'a [u8]>,
        kind: KeyspaceKind,
    },
    DropKeyspace {
        keyspace: KeyspaceId,
    },
    /// Removes everything that the keyspace holds at this point of the log.
    ClearKeyspace {
        keyspace: KeyspaceId,
    },
}

/// The body of a record while it is built: operations that become visible and durable together.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    body: Vec<u8>,
    operations: u32,
}

impl RecordBuilder {
    /// An empty body.
    pub(crate) fn new() -> Self {
        Self::default()
    }
    /// A builder that encodes into a used buffer.
    pub(crate) fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        RecordBuilder { body: buffer, operations: 0 }
    }
    /// A builder that appends to a record that was not written.
    pub(crate) fn resume(record: Record) -> Self {
        RecordBuilder { body: record.body, operations: record.operations }
    }
    /// Appends an operation.
    pub(crate) fn push(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::Put { keyspace, key, value } => {
                // Kind, three varints of at most 10 bytes, the bytes: one growth of the buffer at most.
                self.body.reserve(1 + 30 + key.len() + value.len());
                self.body.put_u8(PUT);
                self.body.put_varint(keyspace.0);
                self.body.put_bytes(key);
                self.body.put_bytes(value);
            }
            Operation::Remove { keyspace, key } => {
                self.body.put_u8(REMOVE);
                self.body.put_varint(keyspace.0);
                self.body.put_bytes(key);
            }
            Operation::CreateKeyspace { keyspace, name, kind: KeyspaceKind::Directory(HashKey(key)), .. } => {
                self.body.put_u8(CREATE_DIRECTORY_KEYSPACE);
                self.body.put_varint(keyspace.0);
                self.body.put_bytes(name.as_bytes());
                self.body.extend_from_slice(key);
            }
            Operation::CreateKeyspace { keyspace, name, splits, kind: KeyspaceKind::Ordered } => {
                self.body.put_u8(CREATE_KEYSPACE);
                self.body.put_varint(keyspace.0);
                self.body.put_bytes(name.as_bytes());
                self.body.put_varint(splits.len() as u64);
                for split in splits {
                    self.body.put_bytes(split);
                }
            }
            Operation::DropKeyspace { keyspace } => {
                self.body.put_u8(DROP_KEYSPACE);
                self.body.put_varint(keyspace.0);
            }
            Operation::ClearKeyspace { keyspace } => {
                self.body.put_u8(CLEAR_KEYSPACE);
                self.body.put_varint(keyspace.0);
            }
        }
        assert!(self.operations < u32::MAX, "a record holds at most u32::MAX operations");
        self.operations += 1;
    }
    /// Returns the buffer, for another builder.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.body
    }
    /// Returns the number of operations; each takes one sequence number.
    #[cfg(test)]
    pub(crate) fn operations(&self) -> u32 {
        self.operations
    }
    /// Returns the bytes of the body so far.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }
    /// Ends the record and computes the checksum of its body.
    pub(crate) fn finish(self) -> Record {
        assert!(self.operations > 0, "a record has at least one operation");
        let body_checksum = body_checksum(&self.body);
        Record { body: self.body, operations: self.operations, body_checksum }
    }
}

/// A record that is ready to be appended, or that was read.
#[derive(Debug)]
pub(crate) struct Record {
    body: Vec<u8>,
    operations: u32,
    body_checksum: u32,
}

impl Record {
    /// Returns the operations in order.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let mut decoder = Decoder::new(&self.body);
        (0..self.operations).map_while(move |_| decode(&mut decoder))
    }
    /// Returns the number of operations, and so of sequence numbers.
    pub(crate) fn count(&self) -> u32 {
        self.operations
    }
    /// Returns the buffer, for the next record.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.body
    }
    /// Returns the bytes of the body.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }
    pub(super) fn body_checksum(&self) -> u32 {
        self.body_checksum
    }
    /// Makes a record from a body whose checksum was right.
    pub(super) fn from_body(body: Vec<u8>, operations: u32, body_checksum: u32) -> Result<Self, Undecodable> {
        let mut decoder = Decoder::new(&body);
        for _ in 0..operations {
            let at = decoder.offset();
            if decode(&mut decoder).is_none() {
                return Err(Undecodable { at, is_newer: body.get(at).is_some_and(is_newer) });
            }
        }
        let at = decoder.offset();
        if decoder.is_empty() {
            Ok(Record { body, operations, body_checksum })
        } else {
            Err(Undecodable { at, is_newer: false })
        }
    }
}

/// Returns the checksum of a body: the lower half of its xxh3-64.
///
/// It is not a CRC, because users may write values that end with their own CRC. A part that ends with its own CRC adds
/// nothing to a CRC around it. So a torn write over an older version of that part would pass.
pub(super) fn body_checksum(body: &[u8]) -> u32 {
    xxh3_64(body) as u32
}

/// Where and why this program cannot read a body whose checksum was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecodable {
    /// The offset in the body.
    pub(super) at: usize,
    /// The kind of the operation there belongs to a newer version.
    pub(super) is_newer: bool,
}

/// Returns whether only a newer version has operations of this kind.
fn is_newer(kind: &u8) -> bool {
    *kind > DROP_KEYSPACE && !(CLEAR_KEYSPACE..=CREATE_DIRECTORY_KEYSPACE).contains(kind)
}

/// Decodes the next operation.
fn decode<'a>(decoder: &mut Decoder<'a>) -> Option<Operation<'a>> {
    let kind = decoder.u8()?;
    let keyspace = KeyspaceId(decoder.varint()?);
    match kind {
        PUT => Some(Operation::Put { keyspace, key: decoder.bytes()?, value: decoder.bytes()? }),
        REMOVE => Some(Operation::Remove { keyspace, key: decoder.bytes()? }),
        CREATE_KEYSPACE => {
            let name = std::str::from_utf8(decoder.bytes()?).ok()?;
            let count = decoder.varint_usize()?;
            // Each split takes at least a byte, so a wrong count cannot cause a large allocation.
            if count > decoder.remaining() {
                return None;
            }
            let splits = (0..count).map(|_| decoder.bytes()).collect::<Option<Vec<_>>>()?;
            Some(Operation::CreateKeyspace { keyspace, name, splits, kind: KeyspaceKind::Ordered })
        }
        DROP_KEYSPACE => Some(Operation::DropKeyspace { keyspace }),
        CLEAR_KEYSPACE => Some(Operation::ClearKeyspace { keyspace }),
        CREATE_DIRECTORY_KEYSPACE => {
            let name = std::str::from_utf8(decoder.bytes()?).ok()?;
            let kind = KeyspaceKind::Directory(HashKey(decoder.take(16)?.try_into().ok()?));
            Some(Operation::CreateKeyspace { keyspace, name, splits: Vec::new(), kind })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Operation<'static>> {
        vec![
            Operation::Put { keyspace: KeyspaceId(7), key: b"k", value: b"v" },
            Operation::Remove { keyspace: KeyspaceId(u64::MAX), key: b"" },
            Operation::CreateKeyspace {
                keyspace: KeyspaceId(1),
                name: "orders",
                splits: vec![b"a", b"b"],
                kind: KeyspaceKind::Ordered,
            },
            Operation::DropKeyspace { keyspace: KeyspaceId(300) },
            Operation::ClearKeyspace { keyspace: KeyspaceId(0) },
            Operation::CreateKeyspace {
                keyspace: KeyspaceId(2),
                name: "files",
                splits: Vec::new(),
                kind: KeyspaceKind::Directory(HashKey([9; 16])),
            },
        ]
    }

    #[test]
    fn operations_round_trip() {
        let mut builder = RecordBuilder::new();
        all().iter().for_each(|operation| builder.push(operation));
        assert_eq!(builder.operations(), 6);
        let record = builder.finish();
        let again = Record::from_body(record.body().to_vec(), 6, record.body_checksum()).expect("decodes");
        assert_eq!(again.operations().collect::<Vec<_>>(), all());
    }

    /// A torn write can leave a fresh record header over the body that stood there before.
    #[test]
    fn a_checksum_tells_values_apart_that_end_with_their_own_crc() {
        let body = |page: &[u8]| {
            let value = [page, &crc32c::crc32c(page).to_le_bytes()].concat();
            let mut builder = RecordBuilder::new();
            builder.push(&Operation::Put { keyspace: KeyspaceId(1), key: b"page", value: &value });
            builder.push(&Operation::Remove { keyspace: KeyspaceId(1), key: b"other" });
            builder.finish().body().to_vec()
        };
        let (old, new) = (body(&[1; 100]), body(&[2; 100]));
        assert_eq!(crc32c::crc32c(&old), crc32c::crc32c(&new), "the trap");
        assert_ne!(body_checksum(&old), body_checksum(&new));
    }

    #[test]
    fn reserved_kinds_and_wrong_counts_are_refused() {
        for (kind, is_newer) in [(0u8, false), (5, true), (6, true), (9, true), (255, true)] {
            let refused = Record::from_body(vec![kind, 1, 1, b'k'], 1, 0).err();
            assert_eq!(refused, Some(Undecodable { at: 0, is_newer }));
        }
        let mut builder = RecordBuilder::new();
        all().iter().for_each(|operation| builder.push(operation));
        let body = builder.finish().body().to_vec();
        for count in [0, 5, 7] {
            assert!(Record::from_body(body.clone(), count, 0).is_err(), "{count}");
        }
    }
}
