//! [`Extent`]: where a fast table lies. It is the only seam between a table and its medium.
//!
//! A table *in place* lies in memory, and is read there. A *paged* table lies in a file, and any of its pages may be
//! out of memory. The *head* is all bytes before the entry layer; it is in memory while the table is open. A group is
//! copied out of a mapping of the file. If there is no mapping, or a page of it cannot be read, the group is read by
//! position, and that read reports the error. The kernel may read a page again from the device at any time, so the
//! bytes of a group may change between two reads.
//!
//! Dropping a paged extent unmaps the file: for 64 MiB that takes a third of a millisecond.

use super::buffer::room;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::metrics::Metrics;
use crate::storage::{File, ReadMapping};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The owner of the bytes of a table: a buffer, a block of an arena, a part of a mapping. The bytes never change.
pub(crate) type ExtentBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The bytes of one table, and the name of their place in errors.
#[derive(Clone)]
pub(crate) struct Extent {
    /// All bytes of a table in place, or the bytes of a paged table's head that were read.
    bytes: ExtentBytes,
    /// Where the groups of a paged table lie.
    pages: Option<Arc<Pages>>,
    path: Arc<Path>,
    offset: u64,
}

/// The file of a paged table.
struct Pages {
    file: Arc<dyn File>,
    mapping: Option<Arc<dyn ReadMapping>>,
    bytes: u64,
    metrics: Arc<Metrics>,
}

impl Extent {
    /// Returns the extent of a table that begins with the first of `bytes`, at `offset` of `path`. More bytes may
    /// follow the table.
    pub(crate) fn new(bytes: ExtentBytes, path: Arc<Path>, offset: u64) -> Self {
        Extent { bytes, pages: None, path, offset }
    }

    /// Returns the extent of a table in memory. Errors name the table by its number.
    pub(crate) fn in_memory(bytes: impl AsRef<[u8]> + Send + Sync + 'static, id: TableId) -> Self {
        Extent::new(Arc::new(bytes), Arc::from(Path::new(&format!("fast-table-{id}"))), 0)
    }

    /// Returns the extent of a table at the beginning of `file`. The file has `bytes` bytes and does not change. More
    /// bytes may follow the table. Reads nothing.
    pub(crate) fn paged(file: Arc<dyn File>, bytes: u64, metrics: Arc<Metrics>) -> Self {
        let (path, mapping) = (Arc::from(file.path()), file.map_for_reads(bytes));
        let pages = Some(Arc::new(Pages { file, mapping, bytes, metrics }));
        Extent { bytes: Arc::new(Vec::new()), pages, path, offset: 0 }
    }

    /// Makes [`Extent::head`] return at least the first `bytes`, or the whole extent if it is shorter.
    pub(super) fn load_head(&mut self, bytes: usize) -> Result<()> {
        let Some(pages) = &self.pages else { return Ok(()) };
        let mut head = vec![0; bytes.min(usize::try_from(pages.bytes).unwrap_or(usize::MAX))];
        // By position: the head is read once, and in large pieces.
        pages.file.read_exact_at(0, &mut head)?;
        self.bytes = Arc::new(head);
        Ok(())
    }

    /// The head of the table, as far as it was loaded; more of it may follow.
    #[inline]
    pub(super) fn head(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// The number of bytes in memory or in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.as_ref().map_or(self.head().len() as u64, |pages| pages.bytes)
    }

    #[inline]
    pub(super) fn is_paged(&self) -> bool {
        self.pages.is_some()
    }

    /// Returns the bytes at `place` of the table: for a paged table a copy in `copied`, otherwise the bytes where they
    /// lie.
    pub(super) fn read<'a>(&'a self, place: &Range<usize>, copied: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let Some(pages) = &self.pages else { return Ok(self.head().get(place.clone()).unwrap_or_default()) };
        let room = room(copied, place.len());
        pages.read(place.start as u64, room)?;
        Ok(room)
    }

    /// Returns the error for damage at byte `at` of the table.
    pub(super) fn damaged(&self, at: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::corruption(&self.path, self.offset.saturating_add(at), expected, found)
    }

    /// Returns the error for a table of format `found`, where this program reads formats up to `supported`.
    pub(super) fn is_newer(&self, found: u32, supported: u32) -> Error {
        Error::newer_version(&self.path, found, supported)
    }
}

impl Pages {
    /// Fills `to` with the bytes at `offset`.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        if self.mapping.as_ref().is_some_and(|mapping| mapping.read(offset, to)) {
            return Ok(());
        }
        self.metrics.fast_groups_by_position.increment();
        self.file.read_exact_at(offset, to)
    }
}
