//! [`Properties`]: counts over a table, made by its writer, and again by `thalweg check`.

use super::damage::Damage;
use super::footer::FORMAT_VERSION;
use crate::format::codec::{Decoder, Encode};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::table::meta::TableMeta;

const FILTER_NONE: u8 = 0;
const FILTER_LINES: u8 = 1;

/// See the module. Counts are over all entries; bytes are before compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct Properties {
    pub(in crate::table) table: TableId,
    pub(in crate::table) entries: u64,
    pub(in crate::table) tombstones: u64,
    /// The number of distinct user keys.
    pub(in crate::table) keys: u64,
    pub(in crate::table) key_bytes: u64,
    pub(in crate::table) value_bytes: u64,
    pub(in crate::table) seq_min: SeqNo,
    pub(in crate::table) seq_max: SeqNo,
    pub(in crate::table) data_blocks: u64,
    /// The bytes of the data blocks as stored, with their trailers.
    pub(in crate::table) data_bytes: u64,
    /// 0: the table has no filter.
    pub(in crate::table) filter_bits_per_key: u32,
    pub(in crate::table) key_min: Vec<u8>,
    pub(in crate::table) key_max: Vec<u8>,
}

impl Properties {
    /// The properties of a table without entries.
    pub(in crate::table) fn new(table: TableId, filter_bits_per_key: u32) -> Self {
        Properties {
            table,
            entries: 0,
            tombstones: 0,
            keys: 0,
            key_bytes: 0,
            value_bytes: 0,
            seq_min: SeqNo::MAX,
            seq_max: SeqNo(0),
            data_blocks: 0,
            data_bytes: 0,
            filter_bits_per_key,
            key_min: Vec::new(),
            key_max: Vec::new(),
        }
    }

    /// Counts the next entry. Returns whether its user key differs from that of the previous entry, `key_max`.
    /// `shared`: the bytes that the two keys share at their beginning.
    #[inline]
    pub(in crate::table) fn count(
        &mut self,
        key: &[u8],
        shared: usize,
        seq: SeqNo,
        kind: EntryKind,
        value_bytes: usize,
    ) -> bool {
        let first = self.entries == 0;
        let new_key = first || shared < key.len() || shared < self.key_max.len();
        if first {
            self.key_min = key.to_vec();
        }
        if new_key {
            self.key_max.clear();
            self.key_max.extend_from_slice(key);
        }
        self.entries += 1;
        self.tombstones += u64::from(kind == EntryKind::Remove);
        self.keys += u64::from(new_key);
        self.key_bytes += key.len() as u64;
        self.value_bytes += value_bytes as u64;
        self.seq_min = self.seq_min.min(seq);
        self.seq_max = self.seq_max.max(seq);
        new_key
    }

    pub(in crate::table) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(u64::from(FORMAT_VERSION));
        out.put_varint(self.table.0);
        out.put_varint(self.entries);
        out.put_varint(self.tombstones);
        out.put_varint(self.keys);
        out.put_varint(self.key_bytes);
        out.put_varint(self.value_bytes);
        out.put_varint(self.seq_min.0);
        out.put_varint(self.seq_max.0);
        out.put_varint(self.data_blocks);
        out.put_varint(self.data_bytes);
        out.put_u8(if self.filter_bits_per_key == 0 { FILTER_NONE } else { FILTER_LINES });
        out.put_varint(u64::from(self.filter_bits_per_key));
        out.put_bytes(&self.key_min);
        out.put_bytes(&self.key_max);
        out
    }

    pub(in crate::table) fn decode(content: &[u8]) -> Result<Self, Damage> {
        let mut decoder = Decoder::new(content);
        let properties = Self::decode_fields(&mut decoder);
        properties
            .filter(|_| decoder.is_empty())
            .ok_or_else(|| Damage::new(decoder.offset(), "properties of format 1", "malformed bytes"))
    }

    fn decode_fields(decoder: &mut Decoder<'_>) -> Option<Self> {
        if decoder.varint()? != u64::from(FORMAT_VERSION) {
            return None;
        }
        let mut properties = Properties::new(TableId(decoder.varint()?), 0);
        properties.entries = decoder.varint()?;
        properties.tombstones = decoder.varint()?;
        properties.keys = decoder.varint()?;
        properties.key_bytes = decoder.varint()?;
        properties.value_bytes = decoder.varint()?;
        properties.seq_min = SeqNo(decoder.varint()?);
        properties.seq_max = SeqNo(decoder.varint()?);
        properties.data_blocks = decoder.varint()?;
        properties.data_bytes = decoder.varint()?;
        let kind = decoder.u8()?;
        properties.filter_bits_per_key = u32::try_from(decoder.varint()?).ok()?;
        properties.key_min = decoder.bytes()?.to_vec();
        properties.key_max = decoder.bytes()?.to_vec();
        let kind_fits = match kind {
            FILTER_NONE => properties.filter_bits_per_key == 0,
            FILTER_LINES => properties.filter_bits_per_key > 0,
            _ => false,
        };
        (kind_fits && properties.seq_max <= SeqNo::MAX).then_some(properties)
    }

    /// Returns what the manifest says about a table with these properties.
    pub(in crate::table) fn to_meta(&self, bytes: u64, checksum: u64) -> TableMeta {
        TableMeta {
            id: self.table,
            bytes,
            checksum,
            entries: self.entries,
            tombstones: self.tombstones,
            keys: self.keys,
            seq_min: self.seq_min,
            seq_max: self.seq_max,
            key_min: Box::from(self.key_min.as_slice()),
            key_max: Box::from(self.key_max.as_slice()),
        }
    }

    /// Checks that `meta`, which the manifest has, agrees with these properties.
    pub(in crate::table) fn check(&self, meta: &TableMeta) -> Result<(), Damage> {
        let own = self.to_meta(meta.bytes, meta.checksum);
        if own == *meta {
            return Ok(());
        }
        Err(Damage::new(0, format!("the manifest's {}", describe(meta)), describe(&own)))
    }
}

fn describe(meta: &TableMeta) -> String {
    format!(
        "table {} with {} entries, {} tombstones, {} keys, sequence numbers {}..={}, keys \"{}\"..=\"{}\"",
        meta.id,
        meta.entries,
        meta.tombstones,
        meta.keys,
        meta.seq_min,
        meta.seq_max,
        meta.key_min.escape_ascii(),
        meta.key_max.escape_ascii()
    )
}
