//! Blocks: the unit of reading, checking, compressing and caching (`docs/format/table.md`).

mod builder;
mod content;
mod cursor;
mod entries;
mod trailer;

pub(super) use builder::BlockBuilder;
pub(super) use content::{Block, Found};
pub(super) use cursor::BlockCursor;
pub(super) use entries::BlockEntries;
pub(super) use trailer::{Place, TRAILER_BYTES, seal, seal_compressed, unseal, zeroed};

/// A data block is closed at this many bytes whatever the options say, so that offsets in it fit 32 bits.
pub(super) const BLOCK_BYTES_MAX: usize = 16 << 20;

/// No data block is larger than this: what it may have before it is closed, and the largest entry.
pub(super) const RAW_BYTES_MAX: u64 = 128 << 20;
