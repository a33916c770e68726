//! How the bytes of a file lie in rows, and [`RowChange`]s of them.

use crate::error::{Error, Result};
use crate::row::{Ino, data_key, data_offset};
use crate::store::{Batch, Space};
use crate::volume::Volume;
use std::borrow::Cow;
use std::ops::Range;
use thalweg::Slice;

/// The bytes of a chunk. No row goes beyond one.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// A change of one row of a file's bytes.
pub(crate) struct RowChange<'a> {
    pub offset: u64,
    /// The row's bytes; `None` removes it.
    pub bytes: Option<Cow<'a, [u8]>>,
}

/// A row of a file's bytes.
pub(super) struct DataRow {
    pub offset: u64,
    pub bytes: Slice,
}

impl DataRow {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl<'a> RowChange<'a> {
    pub(super) fn put_at(offset: u64, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        RowChange { offset, bytes: Some(bytes.into()) }
    }

    pub(super) fn remove_at(offset: u64) -> Self {
        RowChange { offset, bytes: None }
    }

    /// Adds the change to a batch.
    pub(crate) fn put<'b>(&'b self, ino: Ino, batch: &mut Batch<'b>) {
        match &self.bytes {
            Some(bytes) => batch.put(Space::Data, data_key(ino, self.offset), &**bytes),
            None => batch.remove(Space::Data, data_key(ino, self.offset)),
        }
    }
}

/// The chunk that has the byte at `offset`.
pub(super) fn chunk_of(offset: u64) -> Range<u64> {
    let start = offset - offset % CHUNK_BYTES;
    start..start.saturating_add(CHUNK_BYTES)
}

/// The parts of a range that lie in one chunk each.
pub(super) fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let piece = at..chunk_of(at).end.min(range.end);
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

impl Volume {
    /// The rows that begin in a range of a file, which begins where a chunk does.
    ///
    /// # Errors
    /// `EIO` for rows that overlap or go beyond their chunk.
    pub(super) fn data_rows(&self, ino: Ino, range: Range<u64>) -> Result<Vec<DataRow>> {
        let mut rows: Vec<DataRow> = Vec::new();
        for row in self.store.rows(Space::Data, &data_key(ino, range.start), &data_key(ino, range.end)) {
            let (key, bytes) = row?;
            let damaged = |what: &str| Error::damaged(format!("data of inode {ino}"), what.to_owned());
            let offset = data_offset(&key).ok_or_else(|| damaged("a key is no offset"))?;
            let row = DataRow { offset, bytes };
            if row.bytes.is_empty() || row.bytes.len() as u64 > chunk_of(offset).end - offset {
                return Err(damaged(&format!("the row at {offset} has {} bytes", row.bytes.len())));
            }
            if rows.last().is_some_and(|last| last.end() > offset) {
                return Err(damaged(&format!("the row at {offset} begins in the row before it")));
            }
            rows.push(row);
        }
        Ok(rows)
    }
}
