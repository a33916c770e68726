//! Blocks: the unit of reading, checking, compressing and caching (`docs/format/table.md`).

mod builder;
mod content;
mod cursor;
mod entries;
mod trailer;

pub(in crate::table) use builder::{BLOCK_BYTES_MAX, BlockBuilder};
pub(in crate::table) use content::{Block, Found};
pub(in crate::table) use cursor::BlockCursor;
pub(in crate::table) use entries::BlockEntries;
pub(in crate::table) use trailer::{BlockAddress, TRAILER_BYTES, seal, seal_compressed, unseal};
