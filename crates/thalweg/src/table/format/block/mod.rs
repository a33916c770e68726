//! Blocks: the unit of reading, verifying, compressing and caching (`docs/format/table.md`).
//!
//! - `trailer`: the codec and the checksum of every block
//! - `entry`: one entry as it is stored
//! - `content`: a data block, and point reads in it
//! - `cursor`: a position in a data block
//! - `entries`: a data block from its first entry to its last, for scans
//! - `builder`: lays out data blocks

mod builder;
mod content;
mod cursor;
mod entries;
mod entry;
mod trailer;

pub(in crate::table) use builder::{BLOCK_BYTES_MAX, BlockBuilder};
pub(in crate::table) use content::{Block, Found};
pub(in crate::table) use cursor::BlockCursor;
pub(in crate::table) use entries::BlockEntries;
pub(in crate::table) use trailer::{BlockAddress, TRAILER_BYTES, seal, seal_compressed, unseal};
