//! `fallocate`, and the search for data and holes.

use super::rows::chunk_of;
use crate::caller::Caller;
use crate::error::{Result, refuse};
use crate::row::Ino;
use crate::store::Batch;
use crate::volume::Volume;

/// Data and holes begin and end at multiples of this, as those of objects do.
const BLOCK_BYTES: u64 = 4096;

/// How [`Volume::allocate`] changes a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Allocates it.
    Allocate,
    /// Makes a hole of it. The size stays.
    Punch,
    /// Makes zeros of it.
    Zero,
}

impl Volume {
    /// Allocates, punches or zeroes a range of a file, which becomes an object.
    ///
    /// # Errors
    /// `EINVAL` for an empty range, `EFBIG`, `ENOSPC`, `EOPNOTSUPP` where the file system of the objects cannot,
    /// `EROFS`, `EIO`, `ESTALE`.
    pub fn allocate(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        (what, keeps_size): (Allocation, bool),
        (offset, bytes): (u64, u64),
    ) -> Result<()> {
        let pin = self.nodes.pin(ino)?;
        Self::check_file(&pin)?;
        if bytes == 0 {
            return refuse(libc::EINVAL);
        }
        if offset.checked_add(bytes).is_none_or(|end| end > i64::MAX as u64) {
            return refuse(libc::EFBIG);
        }
        let mut state = pin.write();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        if !state.is_object() {
            self.promote(&mut state)?;
        }
        let mode = match what {
            Allocation::Allocate if keeps_size => libc::FALLOC_FL_KEEP_SIZE,
            Allocation::Allocate => 0,
            Allocation::Punch => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            Allocation::Zero if keeps_size => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
            Allocation::Zero => libc::FALLOC_FL_ZERO_RANGE,
        };
        let mut next = state.clone();
        let mut batch = Batch::new();
        next.attributes.ctime = self.now();
        if caller.is_root() {
            self.take_capabilities(&next, &mut batch)?;
        } else {
            self.take_privileges(caller, state.attributes.gid, &mut next, &mut batch)?;
        }
        next.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        *state = next;
        self.note_dirty(&mut state);
        let allocated = self.with_file(&state.attributes, || self.objects.allocate(ino, mode, offset, bytes));
        // Of the calls that change bytes, `fallocate` alone leaves the time of change to its caller.
        let allocated = allocated.and_then(|()| self.objects.set_mtime(ino, self.now()));
        // A call that fails may have allocated a part, and made the file longer.
        let taken = self.take_object_size(&mut state);
        allocated.and(taken)
    }

    /// Returns the next byte from `offset` on that a row or the object has; with `is_hole`, the next that neither has.
    /// The end of a file is a hole. If one byte of a block of 4 KiB is data, all its bytes count as data: programs look
    /// for no smaller holes.
    ///
    /// # Errors
    /// `ENXIO` if there is none; `EISDIR`, `EINVAL` for what is no file; `ESTALE`, `EIO`.
    pub fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        let pin = self.nodes.pin(ino)?;
        Self::check_file(&pin)?;
        let state = pin.read();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        let size = self.attributes_of(&state)?.size;
        if offset >= size {
            return refuse(libc::ENXIO);
        }
        if state.is_object() {
            return self.objects.seek(ino, offset, is_hole);
        }
        let mut hole = offset;
        for row in self.data_rows(ino, chunk_of(offset).start..size)? {
            let end = row.end().next_multiple_of(BLOCK_BYTES);
            if end <= offset {
                continue;
            }
            let start = row.offset - row.offset % BLOCK_BYTES;
            if !is_hole {
                return Ok(start.max(offset));
            }
            if start > hole {
                break;
            }
            hole = end;
        }
        if is_hole { Ok(hole.min(size)) } else { refuse(libc::ENXIO) }
    }
}
