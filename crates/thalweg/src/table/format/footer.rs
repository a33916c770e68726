//! [`Footer`]: the last 72 bytes of a table: the places of index, filter and properties.
//!
//! Invariant of a decoded footer: filter (if any), index, properties and footer follow each other without a gap and end
//! with the file. So every byte after the data blocks is under a checksum.

use super::block::TRAILER_BYTES;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::format::checksum;
use crate::format::codec::{Decoder, Encode};
use crate::planted::{Bug, planted};
use std::path::Path;

pub(in crate::table) const FOOTER_BYTES: usize = 72;
pub(in crate::table) const FORMAT_VERSION: u32 = 1;
pub(in crate::table) const MAGIC: u64 = u64::from_le_bytes(*b"thalwegT");

/// The offsets of the checksum and of the bytes after it.
const CHECKSUM_AT: usize = 56;
const CHECKSUM_END: usize = 60;

/// The place of a block that is not a data block. It is always stored uncompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::table) struct Region {
    pub(in crate::table) offset: u64,
    /// The length without the trailer.
    pub(in crate::table) bytes: u64,
}

impl Region {
    /// Returns the offset at which the trailer ends.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_add(TRAILER_BYTES as u64)
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct Footer {
    /// The version of the format of the file.
    pub(in crate::table) version: u32,
    pub(in crate::table) table: TableId,
    pub(in crate::table) index: Region,
    pub(in crate::table) filter: Option<Region>,
    pub(in crate::table) properties: Region,
}

impl Footer {
    /// Returns the offset at which the data blocks end.
    pub(in crate::table) fn data_end(&self) -> u64 {
        self.filter.unwrap_or(self.index).offset
    }

    /// Returns the bytes of a footer with this magic number, which tells the kind of the file.
    pub(in crate::table) fn encode(&self, magic: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.put_u64(self.table.0);
        for region in [self.index, self.filter.unwrap_or_default(), self.properties] {
            out.put_u64(region.offset);
            out.put_u64(region.bytes);
        }
        let mut end = Vec::new();
        end.put_u32(self.version);
        end.put_u64(magic);
        out.put_u32(checksum(&out, &end));
        out.extend_from_slice(&end);
        assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    /// Decodes the last [`FOOTER_BYTES`] of the file at `path`, which is `file_bytes` long. Files of its kind have this
    /// magic number, and versions up to `newest`.
    pub(in crate::table) fn decode(
        bytes: &[u8],
        path: &Path,
        file_bytes: u64,
        verify: bool,
        (magic, newest): (u64, u32),
    ) -> Result<Footer> {
        let start = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let damaged = |at: u64, expected: String, found: String| Error::corruption(path, start + at, expected, found);
        let Some((footer, stored)) = decode_fields(bytes) else {
            return Err(damaged(0, format!("a footer of {FOOTER_BYTES} bytes"), format!("{} bytes", bytes.len())));
        };
        if stored.magic != magic {
            return Err(damaged(64, format!("magic {magic:#018x}"), format!("{:#018x}", stored.magic)));
        }
        let (before, after) = (bytes.get(..CHECKSUM_AT), bytes.get(CHECKSUM_END..));
        let found = checksum(before.unwrap_or_default(), after.unwrap_or_default());
        if found != stored.checksum && verify && !planted(Bug::ChecksumNotVerified) {
            return Err(damaged(56, format!("footer checksum {:#010x}", stored.checksum), format!("{found:#010x}")));
        }
        if footer.version > newest && found == stored.checksum {
            return Err(Error::newer_version(path, footer.version, newest));
        }
        if !(1..=newest).contains(&footer.version) {
            return Err(damaged(60, format!("table format 1 to {newest}"), format!("{}", footer.version)));
        }
        if !footer.is_gapless(start) {
            return Err(damaged(0, format!("blocks without a gap up to {start}"), format!("{footer:?}")));
        }
        Ok(footer)
    }

    fn is_gapless(&self, footer_start: u64) -> bool {
        self.filter.is_none_or(|filter| filter.end() == Some(self.index.offset))
            && self.index.end() == Some(self.properties.offset)
            && self.properties.end() == Some(footer_start)
    }
}

/// The fields of a footer that do not depend on the table.
struct Stored {
    checksum: u32,
    magic: u64,
}

fn decode_fields(bytes: &[u8]) -> Option<(Footer, Stored)> {
    let mut decoder = Decoder::new(bytes);
    let table = TableId(decoder.u64()?);
    let mut region = || Some(Region { offset: decoder.u64()?, bytes: decoder.u64()? });
    let (index, filter, properties) = (region()?, region()?, region()?);
    let (checksum, version) = (decoder.u32()?, decoder.u32()?);
    let stored = Stored { checksum, magic: decoder.u64()? };
    let filter = (filter != Region::default()).then_some(filter);
    decoder.is_empty().then_some((Footer { version, table, index, filter, properties }, stored))
}

fn checksum(before: &[u8], after: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(before), after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const BYTES: u64 = 1000;

    fn footer() -> Footer {
        Footer {
            version: FORMAT_VERSION,
            table: TableId(5),
            filter: Some(Region { offset: 100, bytes: 65 }),
            index: Region { offset: 170, bytes: 400 },
            properties: Region { offset: 575, bytes: BYTES - 72 - 580 },
        }
    }

    fn decode(bytes: &[u8]) -> Result<Footer> {
        Footer::decode(bytes, Path::new("t"), BYTES, true, (MAGIC, FORMAT_VERSION))
    }

    #[test]
    fn footers_round_trip_with_and_without_a_filter() {
        for filter in [footer().filter, None] {
            let footer = Footer { filter, ..footer() };
            assert_eq!(decode(&footer.encode(MAGIC)).unwrap(), footer);
        }
    }

    #[test]
    fn a_newer_format_is_refused_as_such_if_its_checksum_is_right() {
        let mut bytes = footer().encode(MAGIC);
        bytes[60] = FORMAT_VERSION as u8 + 1;
        assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
        let crc = checksum(&bytes[..CHECKSUM_AT], &bytes[CHECKSUM_END..]);
        bytes[CHECKSUM_AT..CHECKSUM_END].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::NewerVersion);
    }

    #[test]
    fn gaps_and_overlaps_are_refused() {
        let changes: [fn(&mut Footer); 3] =
            [|f| f.index.bytes += 1, |f| f.index.offset -= 1, |f| f.properties.bytes = u64::MAX];
        for change in changes {
            let mut footer = footer();
            change(&mut footer);
            assert!(decode(&footer.encode(MAGIC)).is_err(), "{footer:?}");
        }
    }
}
