//! Writing: into rows, or into the object.

use super::rows::{RowChange, chunk_of, pieces};
use crate::caller::Caller;
use crate::error::{Result, refuse};
use crate::node::State;
use crate::planted::{Bug, planted};
use crate::row::{Ino, Time};
use crate::store::Batch;
use crate::volume::Volume;
use std::ops::Range;
use std::sync::Arc;

/// A chunk with this many rows gets one row.
const ROWS_PER_CHUNK_MAX: u16 = 16;

impl Volume {
    /// Writes `bytes` at `offset`. A write of a caller that is not root removes set-user-ID and set-group-ID from the
    /// file.
    ///
    /// # Errors
    /// `EFBIG` beyond 2⁶³ − 1 bytes; `EISDIR`, `EINVAL` for what is no file; `ENOSPC`, `EROFS`, `EIO`, `ESTALE`. Then
    /// nothing was written, or with an object perhaps a part.
    pub fn write(&self, caller: &Caller<'_>, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_with(caller, ino, Some(offset), bytes).map(drop)
    }

    /// Writes `bytes` behind the last byte of the file, as `O_APPEND` does. Returns where.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub fn append(&self, caller: &Caller<'_>, ino: Ino, bytes: &[u8]) -> Result<u64> {
        self.write_with(caller, ino, None, bytes)
    }

    fn write_with(&self, caller: &Caller<'_>, ino: Ino, offset: Option<u64>, bytes: &[u8]) -> Result<u64> {
        let pin = self.nodes.pin(ino)?;
        Self::check_file(&pin)?;
        let mut state = pin.write();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        let behind = state.attributes.size.saturating_sub(u64::from(planted(Bug::AppendOverlaps)));
        let offset = offset.unwrap_or(behind);
        let Some(end) = offset.checked_add(bytes.len() as u64).filter(|&end| end <= i64::MAX as u64) else {
            return refuse(libc::EFBIG);
        };
        if bytes.is_empty() {
            return Ok(offset);
        }
        if self.must_promote(&state, end) {
            self.promote(&mut state)?;
        }
        let now = self.now();
        if state.is_object() {
            self.write_object(caller, &mut state, (offset, bytes), now)?;
        } else {
            self.write_rows(caller, &mut state, (offset, bytes), now)?;
        }
        Ok(offset)
    }

    fn write_rows(
        &self,
        caller: &Caller<'_>,
        state: &mut State,
        (offset, bytes): (u64, &[u8]),
        now: Time,
    ) -> Result<()> {
        let ino = state.attributes.ino;
        // A size alone, set before any byte was written, may be durable too.
        let is_first = state.attributes.size == 0;
        let mut next = state.clone();
        let mut changes = Vec::new();
        for piece in pieces(offset..offset + bytes.len() as u64) {
            let part = &bytes[(piece.start - offset) as usize..(piece.end - offset) as usize];
            self.write_piece(&mut next, piece, part, &mut changes)?;
        }
        (next.attributes.mtime, next.attributes.ctime) = (now, now);
        let mut batch = Batch::new();
        if caller.is_root() {
            self.take_capabilities(&next, &mut batch)?;
        } else {
            self.take_privileges(caller, state.attributes.gid, &mut next, &mut batch)?;
        }
        for change in &changes {
            change.put(ino, &mut batch);
        }
        next.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        if is_first {
            // None if there can be no promises any more: then a promotion takes the rows for durable.
            next.first_write = self.store.promise().ok().map(Arc::from);
        }
        *state = next;
        Ok(())
    }

    /// Changes the rows of one chunk for a write of `bytes` at `piece`.
    fn write_piece<'a>(
        &self,
        next: &mut State,
        piece: Range<u64>,
        bytes: &'a [u8],
        changes: &mut Vec<RowChange<'a>>,
    ) -> Result<()> {
        let ino = next.attributes.ino;
        let size = next.attributes.size;
        let chunk = chunk_of(piece.start);
        let is_behind = piece.start >= size;
        // How many rows the chunk has, if that is known without a look: nothing of it was written, or it is the last.
        let known_rows = if is_behind && chunk.start >= size { Some(0) } else { next.tail_rows.filter(|_| is_behind) };
        next.attributes.size = size.max(piece.end);
        if let Some(rows) = known_rows.filter(|&rows| rows < ROWS_PER_CHUNK_MAX) {
            next.attributes.bytes += bytes.len() as u64;
            next.tail_rows = Some(rows + 1);
            changes.push(RowChange::put_at(piece.start, bytes));
            return Ok(());
        }
        let rows = self.data_rows(ino, chunk.clone())?;
        let overlaps = rows.iter().any(|row| row.offset < piece.end && row.end() > piece.start);
        let is_last = chunk.end >= next.attributes.size;
        if !overlaps && rows.len() < usize::from(ROWS_PER_CHUNK_MAX) {
            next.attributes.bytes += bytes.len() as u64;
            changes.push(RowChange::put_at(piece.start, bytes));
            if is_last {
                next.tail_rows = Some(u16::try_from(rows.len()).unwrap_or(ROWS_PER_CHUNK_MAX) + 1);
            }
            return Ok(());
        }
        let start = rows.first().map_or(piece.start, |row| row.offset.min(piece.start));
        let end = rows.last().map_or(piece.end, |row| row.end().max(piece.end));
        let mut whole = vec![0; (end - start) as usize];
        let at = |offset: u64| (offset - start) as usize;
        for row in &rows {
            whole[at(row.offset)..at(row.end())].copy_from_slice(&row.bytes);
            next.attributes.bytes = next.attributes.bytes.saturating_sub(row.bytes.len() as u64);
            if row.offset != start {
                changes.push(RowChange::remove_at(row.offset));
            }
        }
        whole[at(piece.start)..at(piece.end)].copy_from_slice(bytes);
        next.attributes.bytes += whole.len() as u64;
        next.rewritten_bytes = next.rewritten_bytes.saturating_add((whole.len() - bytes.len()) as u32);
        changes.push(RowChange::put_at(start, whole));
        if is_last {
            next.tail_rows = Some(1);
        }
        Ok(())
    }

    fn write_object(
        &self,
        caller: &Caller<'_>,
        state: &mut State,
        (offset, bytes): (u64, &[u8]),
        now: Time,
    ) -> Result<()> {
        let ino = state.attributes.ino;
        let mut next = state.clone();
        let mut batch = Batch::new();
        if caller.is_root() {
            self.take_capabilities(&next, &mut batch)?;
        } else {
            let before = next.attributes.mode;
            self.take_privileges(caller, state.attributes.gid, &mut next, &mut batch)?;
            if before != next.attributes.mode || !batch.is_empty() {
                next.attributes.ctime = now;
                next.put(&mut batch);
            }
        }
        self.commit(&batch)?;
        drop(batch);
        *state = next;
        self.note_dirty(state);
        let written = self.with_file(&state.attributes, || self.objects.write_at(ino, offset, bytes));
        // A write that fails may have written a part.
        let taken = self.take_object_size(state);
        written.and(taken)
    }
}
