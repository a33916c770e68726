//! Reading, from rows or from the object.

use super::rows::{CHUNK_BYTES, chunk_of};
use crate::error::{Result, refuse};
use crate::node::State;
use crate::row::{Ino, data_key};
use crate::store::Space;
use crate::volume::Volume;
use std::ops::Range;

impl Volume {
    /// Reads `bytes_max` bytes from `offset` on; fewer at the end of the file.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what is no file, `ESTALE`, `EIO`.
    pub fn read(&self, ino: Ino, offset: u64, bytes_max: usize) -> Result<Vec<u8>> {
        let pin = self.nodes.pin(ino)?;
        Self::check_file(&pin)?;
        let state = pin.read();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        let end = offset.saturating_add(bytes_max as u64).min(state.attributes.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let Ok(length) = usize::try_from(end - offset) else { return refuse(libc::EINVAL) };
        let mut bytes = vec![0; length];
        if state.is_object() {
            let read = self.objects.read_at(ino, offset, &mut bytes)?;
            bytes.truncate(read);
        } else if let Some(row) = self.only_row(&state)? {
            bytes.copy_from_slice(&row[offset as usize..end as usize]);
        } else {
            self.read_rows(ino, offset..end, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// The row that has a whole small file, as most have: one lookup instead of a range.
    fn only_row(&self, state: &State) -> Result<Option<thalweg::Slice>> {
        let size = state.attributes.size;
        if size > CHUNK_BYTES || state.attributes.bytes != size {
            return Ok(None);
        }
        let row = self.store.row(Space::Data, &data_key(state.attributes.ino, 0))?;
        Ok(row.filter(|row| row.len() as u64 == size))
    }

    pub(super) fn read_rows(&self, ino: Ino, range: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        for row in self.data_rows(ino, chunk_of(range.start).start..range.end)? {
            let common = row.offset.max(range.start)..row.end().min(range.end);
            if !common.is_empty() {
                let from = &row.bytes[(common.start - row.offset) as usize..(common.end - row.offset) as usize];
                bytes[(common.start - range.start) as usize..(common.end - range.start) as usize].copy_from_slice(from);
            }
        }
        Ok(())
    }
}
