//! Packs: the tables of directory keyspaces (`docs/format/pack.md`): entries of a directory lie together, in the order
//! of the hashes of their names (PHAT-7; X8: nothing is overwritten).
//!
//! - `block`: the entries of one directory in at most 4 KiB; `block_builder`: writes one
//! - `extent`: a long value
//! - `contents`: which directories a pack has, and where their blocks are
//! - `writer`: writes one pack
//! - `open_pack`: an open pack, and foreground reads of it
//! - `read`: foreground reads of a table that is a pack
//! - `part_read`, `search`: lookups in steps, and the reads that they need
//! - `scan`: sequential reads, for compactions
//! - `items`: the hashes of all items, for indexes that have each item
//! - `item`: foreground reads for these indexes
//! - `check`: checks everything in a pack, for `thalweg check`

pub(super) mod block;
mod block_builder;
pub(super) mod check;
pub(super) mod contents;
pub(super) mod extent;
#[cfg(feature = "experiments")]
mod item;
pub(super) mod items;
pub(super) mod open_pack;
pub(super) mod part_read;
pub(super) mod read;
pub(super) mod scan;
pub(super) mod search;
#[cfg(test)]
mod tests;
pub(super) mod writer;

use crate::format::TableId;
use crate::format::checksum;
use std::path::Path;

/// The longest value that lies in a data block, in bytes. A longer one has an extent of its own.
pub(crate) const INLINE_VALUE_BYTES_MAX: usize = 2 << 10;

/// The size of the pages of packs in the block cache. A block lies within one page if that wastes little.
pub(in crate::table) const PAGE_BYTES: usize = 4 << 10;

/// A block, and an extent, begins at a multiple of this.
pub(in crate::table) const ALIGNMENT: usize = 8;

/// The blocks of a pack lie below this offset: places are kept in 32 bits.
pub(crate) const PACK_BYTES_MAX: u64 = (ALIGNMENT as u64) << 32;

/// The version of the format that is written, and the newest that is read.
pub(in crate::table) const FORMAT_VERSION: u32 = 2;

/// The forms of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Format {
    /// A block has the number of its directory.
    One,
    /// Only the contents have the number of the directory, and the checksum of a block covers it.
    Two,
}

impl Format {
    /// The format of a pack whose footer has this version.
    pub(in crate::table) fn of_version(version: u32) -> Format {
        if version == 1 { Format::One } else { Format::Two }
    }
}

/// The magic number of the footer of a pack.
pub(in crate::table) const MAGIC: u64 = u64::from_le_bytes(*b"thalwegP");

/// Returns the length that the first bytes of a block state, or 0 if `head` has too few bytes.
pub(in crate::table) fn block_length(head: &[u8]) -> usize {
    let length = head.get(4..).and_then(|rest| rest.first_chunk());
    length.map_or(0, |length| usize::from(u16::from_le_bytes(*length)))
}

/// Where a part of a pack lies. Checksums cover it, so that a part at a wrong place is found as surely as a flipped
/// bit.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct Place<'a> {
    pub(in crate::table) path: &'a Path,
    pub(in crate::table) pack: TableId,
    pub(in crate::table) offset: u64,
    pub(in crate::table) format: Format,
}

impl Place<'_> {
    /// The checksum of a block of `directory`, whose first four bytes hold the checksum.
    pub(in crate::table) fn block_checksum(&self, bytes: &[u8], directory: u64) -> u32 {
        let crc = self.checksum_of(bytes.get(4..).unwrap_or_default());
        match self.format {
            Format::One => crc,
            Format::Two => checksum::crc32c_append(crc, &directory.to_le_bytes()),
        }
    }

    /// The checksum of bytes at this place.
    pub(in crate::table) fn checksum_of(&self, bytes: &[u8]) -> u32 {
        let crc = checksum::crc32c(bytes);
        let crc = checksum::crc32c_append(crc, &self.pack.0.to_le_bytes());
        checksum::crc32c_append(crc, &self.offset.to_le_bytes())
    }
}
