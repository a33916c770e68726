//! [`Header`]: the first 128 bytes of a fast table; [`Sections`]: the places of its parts, which follow from it.

use super::extent::Extent;
use super::identity::Identity;
use super::layout::FastLayout;
use crate::error::Result;
use crate::format::checksum::crc32c;
use crate::format::codec::{Decoder, Encode};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::planted::{Bug, planted};
use crate::table::TableMeta;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const HEADER_BYTES: usize = 128;
pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const DISTINCT_BYTES: usize = 4096;
/// The size of a place in the directory: offset / 8 u32, checksum u32.
pub(super) const PLACE_BYTES: usize = 8;
/// The most bytes of a table: the directory counts offsets in units of 8 bytes.
pub(super) const TABLE_BYTES_MAX: u64 = 8 << 32;

const MAGIC: u64 = u64::from_le_bytes(*b"thalwegF");
const LINE_BYTES: usize = 64;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) layout: FastLayout,
    /// Entries of each group but the last.
    pub(super) group_entries: u8,
    /// The length of a prefix.
    pub(super) prefix_bytes: u8,
    /// Probes of the filter. 0: no filter.
    pub(super) probes: u8,
    pub(super) identity: Identity,
    /// The length of the table.
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) tombstones: u64,
    /// Distinct user keys.
    pub(super) keys: u64,
    pub(super) seq_min: SeqNo,
    pub(super) seq_max: SeqNo,
    pub(super) groups: u32,
    pub(super) spaces: u32,
    /// The length of the meta layer.
    pub(super) meta_bytes: u32,
    pub(super) filter_lines: u32,
    /// Bytes of all user keys and of all values, as they were added.
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    /// The checksum of all bytes between the header and the entry layer.
    pub(super) head_checksum: u32,
}

/// How the owner of a table identifies it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    Identity(Identity),
    /// By a description whose checksum is the xxh3-64 of the header.
    Meta(&'a TableMeta),
    /// Only by its own header, for a file that is inspected.
    Itself,
}

/// The places of the parts of a table. The parts follow each other in this order, with less than 64 zeros between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) meta: Range<usize>,
    /// Begins at a multiple of 64.
    pub(super) prefixes: Range<usize>,
    pub(super) directory: Range<usize>,
    /// Begins at a multiple of 64.
    pub(super) filter: Range<usize>,
    pub(super) distinct: Range<usize>,
    pub(super) entries: Range<usize>,
}

impl Header {
    /// The header of a table without entries.
    pub(super) fn new(layout: FastLayout, group_entries: u8, identity: Identity) -> Self {
        Header {
            layout,
            group_entries,
            prefix_bytes: 0,
            probes: 0,
            identity,
            bytes: 0,
            entries: 0,
            tombstones: 0,
            keys: 0,
            seq_min: SeqNo::MAX,
            seq_max: SeqNo(0),
            groups: 0,
            spaces: 0,
            meta_bytes: 0,
            filter_lines: 0,
            key_bytes: 0,
            value_bytes: 0,
            head_checksum: 0,
        }
    }

    /// Counts an entry.
    #[inline]
    pub(super) fn count(
        &mut self,
        key_bytes: usize,
        is_new_key: bool,
        seq: SeqNo,
        kind: EntryKind,
        value_bytes: usize,
    ) {
        self.entries += 1;
        self.keys += u64::from(is_new_key);
        self.tombstones += u64::from(kind == EntryKind::Remove);
        self.seq_min = self.seq_min.min(seq);
        self.seq_max = self.seq_max.max(seq);
        self.key_bytes += key_bytes as u64;
        self.value_bytes += value_bytes as u64;
    }

    /// Returns the places of the parts, or `None` if they do not fit into the table.
    pub(super) fn sections(&self) -> Option<Sections> {
        let groups = self.groups as usize;
        let after = |start: usize, bytes: usize| Some(start..start.checked_add(bytes)?);
        let meta = after(HEADER_BYTES, self.meta_bytes as usize)?;
        let prefix_bytes = groups.checked_mul(usize::from(self.prefix_bytes))?;
        let prefixes = after(meta.end.checked_next_multiple_of(LINE_BYTES)?, prefix_bytes)?;
        let directory = after(prefixes.end, groups.checked_mul(PLACE_BYTES)?)?;
        let filter_bytes = (self.filter_lines as usize).checked_mul(LINE_BYTES)?;
        let filter = after(directory.end.checked_next_multiple_of(LINE_BYTES)?, filter_bytes)?;
        let distinct = after(filter.end, DISTINCT_BYTES)?;
        let entries = distinct.end..usize::try_from(self.bytes).ok()?;
        (entries.start < entries.end).then_some(Sections { meta, prefixes, directory, filter, distinct, entries })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.put_u64(MAGIC);
        out.put_u32(FORMAT_VERSION);
        for byte in [self.layout.code(), self.group_entries, self.prefix_bytes, self.probes] {
            out.put_u8(byte);
        }
        let Identity { table, generation } = self.identity;
        for number in [table.0, generation, self.bytes, self.entries, self.tombstones, self.keys] {
            out.put_u64(number);
        }
        out.put_u64(self.seq_min.0);
        out.put_u64(self.seq_max.0);
        for number in [self.groups, self.spaces, self.meta_bytes, self.filter_lines] {
            out.put_u32(number);
        }
        out.put_u64(self.key_bytes);
        out.put_u64(self.value_bytes);
        out.put_u32(self.head_checksum);
        out.resize(CHECKSUM_AT, 0);
        out.put_u32(crc32c(&out));
        assert_eq!(out.len(), HEADER_BYTES);
        out
    }

    /// Decodes the header of the table in `extent`, which its owner knows as `known`. `verify` is off in fuzzing only.
    pub(super) fn decode(extent: &Extent, known: Known<'_>, verify: bool) -> Result<Header> {
        let there = extent.bytes();
        let Some(bytes) = extent.head().get(..HEADER_BYTES) else {
            return Err(extent.damaged(0, format!("a header of {HEADER_BYTES} bytes"), format!("{there} bytes")));
        };
        let Some((magic, version, checksum)) = frame(bytes) else {
            return Err(extent.damaged(0, "a header", "malformed bytes"));
        };
        if magic != MAGIC {
            return Err(extent.damaged(0, format!("magic {MAGIC:#018x}"), format!("{magic:#018x}")));
        }
        let found = crc32c(bytes.get(..CHECKSUM_AT).unwrap_or_default());
        if found != checksum && verify && !planted(Bug::ChecksumNotVerified) {
            let expected = format!("header checksum {checksum:#010x}");
            return Err(extent.damaged(CHECKSUM_AT as u64, expected, format!("{found:#010x}")));
        }
        if version > FORMAT_VERSION && found == checksum {
            return Err(extent.is_newer(version, FORMAT_VERSION));
        }
        if version != FORMAT_VERSION {
            return Err(extent.damaged(8, format!("fast table format {FORMAT_VERSION}"), version.to_string()));
        }
        let Some(header) = decode_fields(bytes).filter(Header::is_sound) else {
            return Err(extent.damaged(12, "a header with possible counts", "a header without"));
        };
        match known {
            Known::Identity(expected) => header.check_identity(extent, expected)?,
            Known::Meta(meta) => {
                header.check_id(extent, meta.id)?;
                check_hash(extent, bytes, meta.checksum)?;
            }
            Known::Itself => {}
        }
        if header.bytes > there {
            return Err(extent.damaged(32, format!("a table of {} bytes", header.bytes), format!("{there} bytes")));
        }
        Ok(header)
    }

    fn check_identity(&self, extent: &Extent, expected: Identity) -> Result<()> {
        self.check_id(extent, expected.table)?;
        let found = self.identity.generation;
        if found != expected.generation {
            let describe = |generation: u64| format!("generation {generation:#018x}");
            return Err(extent.damaged(24, describe(expected.generation), describe(found)));
        }
        Ok(())
    }

    fn check_id(&self, extent: &Extent, expected: TableId) -> Result<()> {
        let found = self.identity.table;
        if found != expected {
            return Err(extent.damaged(16, format!("table {expected}"), format!("table {found}")));
        }
        Ok(())
    }

    /// Whether the counts agree with each other and with the layout.
    fn is_sound(&self) -> bool {
        self.layout.allows_group(usize::from(self.group_entries))
            && self.layout.allows_prefix(usize::from(self.prefix_bytes))
            && self.entries > 0
            && self.entries.div_ceil(u64::from(self.group_entries)) == u64::from(self.groups)
            && (1..=self.groups).contains(&self.spaces)
            && (self.probes == 0) == (self.filter_lines == 0)
            && self.seq_min <= self.seq_max
            && self.seq_max <= SeqNo::MAX
            && self.bytes <= TABLE_BYTES_MAX
            && self.sections().is_some()
    }
}

/// Checks the xxh3-64 of a header, which distinguishes this table from any other. The header has the generation and the
/// checksum of the head, and the head has the checksums of the groups.
fn check_hash(extent: &Extent, header: &[u8], expected: u64) -> Result<()> {
    let found = xxh3_64(header);
    if found != expected {
        return Err(extent.damaged(0, format!("a header of hash {expected:#018x}"), format!("hash {found:#018x}")));
    }
    Ok(())
}

/// Returns magic, version and checksum, which have the same places in every version.
fn frame(header: &[u8]) -> Option<(u64, u32, u32)> {
    let mut decoder = Decoder::new(header);
    let (magic, version) = (decoder.u64()?, decoder.u32()?);
    Some((magic, version, Decoder::new(header.get(CHECKSUM_AT..)?).u32()?))
}

fn decode_fields(header: &[u8]) -> Option<Header> {
    let mut decoder = Decoder::new(header.get(12..CHECKSUM_AT)?);
    let header = Header {
        layout: FastLayout::from_code(decoder.u8()?)?,
        group_entries: decoder.u8()?,
        prefix_bytes: decoder.u8()?,
        probes: decoder.u8()?,
        identity: Identity { table: TableId(decoder.u64()?), generation: decoder.u64()? },
        bytes: decoder.u64()?,
        entries: decoder.u64()?,
        tombstones: decoder.u64()?,
        keys: decoder.u64()?,
        seq_min: SeqNo(decoder.u64()?),
        seq_max: SeqNo(decoder.u64()?),
        groups: decoder.u32()?,
        spaces: decoder.u32()?,
        meta_bytes: decoder.u32()?,
        filter_lines: decoder.u32()?,
        key_bytes: decoder.u64()?,
        value_bytes: decoder.u64()?,
        head_checksum: decoder.u32()?,
    };
    decoder.take(decoder.remaining())?.iter().all(|byte| *byte == 0).then_some(header)
}
