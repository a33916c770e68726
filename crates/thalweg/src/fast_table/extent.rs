//! [`Extent`]: where a fast table lies. It is the only seam between a table and its medium.

use crate::error::Error;
use crate::format::TableId;
use std::path::Path;
use std::sync::Arc;

/// The owner of the bytes of a table: a buffer, a block of an arena, a part of a mapping. The bytes never change.
pub(crate) type ExtentBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The bytes of one table, and the name of their place in errors.
#[derive(Clone)]
pub(crate) struct Extent {
    bytes: ExtentBytes,
    path: Arc<Path>,
    offset: u64,
}

impl Extent {
    /// A table that begins with the first of `bytes`, which lies at `offset` of `path`. More bytes may follow it.
    pub(crate) fn new(bytes: ExtentBytes, path: Arc<Path>, offset: u64) -> Self {
        Extent { bytes, path, offset }
    }

    /// A table in memory. Errors call it by its number.
    pub(crate) fn in_memory(bytes: Vec<u8>, id: TableId) -> Self {
        Extent::new(Arc::new(bytes), Arc::from(Path::new(&format!("fast-table-{id}"))), 0)
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// Damage at byte `at` of the table.
    pub(super) fn damaged(&self, at: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::corruption(&self.path, self.offset.saturating_add(at), expected, found)
    }

    /// A table of format `found`, where this program reads up to `supported`.
    pub(super) fn is_newer(&self, found: u32, supported: u32) -> Error {
        Error::newer_version(&self.path, found, supported)
    }
}
