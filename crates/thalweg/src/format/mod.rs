//! The vocabulary of all file formats: numbers, keys, slices and the codec. Nothing here does I/O.
//!
//! Decoders never panic: they read bytes that may be damaged.
//!
//! - `numbers`: newtypes for quantities that must not be mixed
//! - `checksum`: the checksum of every file format
//! - `table_file`: which file a table is in
//! - `codec`: the codec of every file format
//! - `key`: internal keys
//! - `name_hash`: keys of directory keyspaces
//! - `slice`: shared bytes
//! - `cursor`: a position in a sorted sequence of entries
//! - `prefetch`: a hint to the processor

pub(crate) mod checksum;
pub(crate) mod codec;
pub(crate) mod cursor;
pub(crate) mod key;
pub(crate) mod name_hash;
mod numbers;
mod prefetch;
mod slice;
mod table_file;

pub(crate) use cursor::{Cursor, CursorEntry, ValueAt, Version};
pub(crate) use key::EntryKind;
pub(crate) use name_hash::{EntryKey, Fingerprint, HashKey, KeyspaceKind, NameHash};
pub(crate) use numbers::{EditId, KeyspaceId, LogMark, LogPosition, PartitionId, SeqNo, TableId};
pub(crate) use prefetch::{prefetch, prefetch_next, prefetch_range};
pub use slice::Slice;
pub(crate) use table_file::{Home, TableFile};
