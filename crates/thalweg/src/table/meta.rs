//! [`TableMeta`]: what the manifest says about a table.

use crate::format::codec::{Decoder, Encode};
use crate::format::{SeqNo, TableId};

/// The description of a table, which is known without opening it. [`super::TableWriter::finish`] makes it, and it never
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// The number in the name of the file.
    pub(crate) id: TableId,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// xxh3-64 of the whole file.
    pub(crate) checksum: u64,
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    /// Tombstones.
    pub(crate) tombstones: u64,
    /// Different user keys. All other entries are old versions of them.
    pub(crate) keys: u64,
    /// The smallest and the largest sequence number.
    pub(crate) seq_min: SeqNo,
    pub(crate) seq_max: SeqNo,
    /// The first and the last user key.
    pub(crate) key_min: Box<[u8]>,
    pub(crate) key_max: Box<[u8]>,
}

impl TableMeta {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.id.0);
        out.put_varint(self.bytes);
        out.put_u64(self.checksum);
        out.put_varint(self.entries);
        out.put_varint(self.tombstones);
        out.put_varint(self.keys);
        out.put_varint(self.seq_min.0);
        out.put_varint(self.seq_max.0);
        out.put_bytes(&self.key_min);
        out.put_bytes(&self.key_max);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        Some(TableMeta {
            id: TableId(decoder.varint()?),
            bytes: decoder.varint()?,
            checksum: decoder.u64()?,
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            keys: decoder.varint()?,
            seq_min: SeqNo(decoder.varint()?),
            seq_max: SeqNo(decoder.varint()?),
            key_min: Box::from(decoder.bytes()?),
            key_max: Box::from(decoder.bytes()?),
        })
    }

    /// Returns the number of entries that a reader of the whole table never needs: old versions, and tombstones. (An
    /// old version that is a tombstone counts twice.)
    pub(crate) fn dead(&self) -> u64 {
        self.entries.saturating_sub(self.keys).saturating_add(self.tombstones).min(self.entries)
    }

    /// Whether the table may hold keys in `[from, to]`, both included.
    pub(crate) fn overlaps(&self, from: &[u8], to: &[u8]) -> bool {
        *self.key_min <= *to && *from <= *self.key_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> TableMeta {
        TableMeta {
            id: TableId(300),
            bytes: 1 << 33,
            checksum: u64::MAX,
            entries: 1000,
            tombstones: 3,
            keys: 900,
            seq_min: SeqNo(0),
            seq_max: SeqNo::MAX,
            key_min: Box::from(&b"b"[..]),
            key_max: Box::from(&b"d"[..]),
        }
    }

    #[test]
    fn what_was_encoded_is_decoded_and_any_truncation_refused() {
        let mut out = Vec::new();
        meta().encode(&mut out);
        let mut decoder = Decoder::new(&out);
        assert_eq!(TableMeta::decode(&mut decoder), Some(meta()));
        assert!(decoder.is_empty());
        for len in 0..out.len() {
            assert_eq!(TableMeta::decode(&mut Decoder::new(&out[..len])), None);
        }
    }

    #[test]
    fn ranges_overlap_at_their_ends() {
        let cases = [(&b"a"[..], &b"a"[..], false), (b"a", b"b", true), (b"c", b"c", true), (b"d", b"e", true)];
        for (from, to, expected) in cases {
            assert_eq!(meta().overlaps(from, to), expected);
        }
        assert!(!meta().overlaps(b"da", b"e"));
    }
}
