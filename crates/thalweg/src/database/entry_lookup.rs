//! What all lookups of an entry of a directory keyspace begin and end with: the key, the index, and the value that a
//! memtable has.

use super::keyspace::Keyspace;
use super::limits::validate_entry_name;
use crate::directory::DirectoryIndex;
use crate::error::Result;
use crate::format::{EntryKey, EntryKind, Slice, Version};
use std::sync::Arc;

/// The key of an entry in a directory keyspace.
pub(super) fn entry_key(keyspace: &Keyspace, directory: u64, name: &[u8]) -> Result<Vec<u8>> {
    validate_entry_name(name)?;
    let ordered = keyspace.ordered()?;
    Ok(EntryKey::new(directory, name, &index_of(ordered.directories()).hash_key).to_bytes())
}

/// The index of a directory keyspace.
pub(super) fn index_of(index: Option<&Arc<DirectoryIndex>>) -> &Arc<DirectoryIndex> {
    index.unwrap_or_else(|| unreachable!("the handle was made of a directory keyspace"))
}

/// The value of a version; `None` of a tombstone.
pub(super) fn value_of(found: Version) -> Option<Slice> {
    (found.kind == EntryKind::Put).then_some(found.value)
}
