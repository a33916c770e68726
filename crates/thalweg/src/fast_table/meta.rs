//! [`FastTableMeta`]: what is known about a fast table without opening it.

use super::header::Header;
use crate::table::TableMeta;
use xxhash_rust::xxh3::xxh3_64;

/// See the module. [`super::FastTableWriter::finish`] makes it, and it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FastTableMeta {
    /// The description of the table, as for any kind of table. Its checksum is that of the header, which has the
    /// checksums of all other parts.
    pub(crate) table: TableMeta,
    /// 64 random bits that distinguish this table from an earlier one at the same place.
    pub(crate) generation: u64,
}

impl FastTableMeta {
    /// Returns the description of the table with this `header`, whose encoded form is `bytes`.
    pub(super) fn new(header: &Header, bytes: &[u8], key_min: Box<[u8]>, key_max: Box<[u8]>) -> Self {
        let table = TableMeta {
            id: header.identity.table,
            bytes: header.bytes,
            checksum: xxh3_64(bytes),
            entries: header.entries,
            tombstones: header.tombstones,
            keys: header.keys,
            seq_min: header.seq_min,
            seq_max: header.seq_max,
            key_min,
            key_max,
        };
        FastTableMeta { table, generation: header.identity.generation }
    }
}
