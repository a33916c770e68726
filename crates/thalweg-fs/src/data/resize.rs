//! Setting the size of a file.

use super::rows::{RowChange, chunk_of};
use crate::error::{Result, refuse};
use crate::node::State;
use crate::planted::{Bug, planted};
use crate::row::Time;
use crate::volume::Volume;

impl Volume {
    /// Sets the size of a file: of an object at once, of a file in rows by the returned changes.
    pub(crate) fn resize(&self, next: &mut State, size: u64, now: Time) -> Result<Vec<RowChange<'static>>> {
        if size > i64::MAX as u64 {
            return refuse(libc::EFBIG);
        }
        (next.attributes.mtime, next.attributes.ctime) = (now, now);
        if next.is_object() {
            self.note_dirty(next);
            self.with_file(&next.attributes, || self.objects.truncate(next.attributes.ino, size))?;
            self.take_object_size(next)?;
            return Ok(Vec::new());
        }
        let before = std::mem::replace(&mut next.attributes.size, size);
        // A file that ends where a chunk ends has no row in the next chunk.
        next.tail_rows = None;
        if planted(Bug::TruncationLeavesRows) || size >= before || next.attributes.bytes == 0 {
            return Ok(Vec::new());
        }
        let mut changes = Vec::new();
        for row in self.data_rows(next.attributes.ino, chunk_of(size).start..u64::MAX)? {
            if row.end() <= size {
                continue;
            }
            let kept = size.saturating_sub(row.offset);
            next.attributes.bytes = next.attributes.bytes.saturating_sub(row.bytes.len() as u64 - kept);
            changes.push(match kept {
                0 => RowChange::remove_at(row.offset),
                kept => RowChange::put_at(row.offset, row.bytes[..kept as usize].to_vec()),
            });
        }
        Ok(changes)
    }
}
