//! What bytes mean: number newtypes, entry kinds, shared slices, the codec every file format uses, internal keys.
//!
//! Nothing here touches a disk. Decoders never panic: they take bytes that may have rotted.

pub(crate) mod codec;
pub(crate) mod cursor;
pub(crate) mod key;
mod numbers;
mod prefetch;
mod slice;

pub(crate) use cursor::{Cursor, CursorEntry, ValueAt, Version};
pub(crate) use key::EntryKind;
pub(crate) use numbers::{EditId, KeyspaceId, LogMark, LogPosition, PartitionId, SeqNo, TableId};
pub(crate) use prefetch::prefetch;
pub use slice::Slice;
pub(crate) use slice::zeroed;
