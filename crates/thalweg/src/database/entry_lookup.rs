//! The beginning and the end of every call for an entry of a directory keyspace: the key, the index, and the value in a
//! memtable.

use crate::directory::DirectoryIndex;
use crate::format::{EntryKey, EntryKind, Slice, Version};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `with` with the bytes of a key, in a buffer that the thread keeps for the next call.
pub(super) fn with_bytes<R>(key: &EntryKey<'_>, with: impl FnOnce(&[u8]) -> R) -> R {
    // A thread that is ending has no buffer left.
    let mut bytes = KEY.try_with(Cell::take).unwrap_or_default();
    key.write(&mut bytes);
    let result = with(&bytes);
    let _ = KEY.try_with(|kept| kept.set(bytes));
    result
}

/// The index of a directory keyspace.
pub(super) fn index_of(index: Option<&Arc<DirectoryIndex>>) -> &Arc<DirectoryIndex> {
    index.unwrap_or_else(|| unreachable!("the handle was made of a directory keyspace"))
}

/// The value of a version; `None` for a tombstone.
pub(super) fn value_of(found: Version) -> Option<Slice> {
    (found.kind == EntryKind::Put).then_some(found.value)
}
