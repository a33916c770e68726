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
        self.read_by(ino, offset, bytes_max, |bytes| self.objects.read_at(ino, offset, bytes).map(Some))
            .map(Option::unwrap_or_default)
    }

    /// As [`Volume::read`] where that need not wait for the bytes of an object; else `None`.
    ///
    /// # Errors
    /// As for [`Volume::read`].
    pub fn read_now(&self, ino: Ino, offset: u64, bytes_max: usize) -> Result<Option<Vec<u8>>> {
        self.read_by(ino, offset, bytes_max, |bytes| self.objects.read_now(ino, offset, bytes))
    }

    fn read_by(
        &self,
        ino: Ino,
        offset: u64,
        bytes_max: usize,
        read_object: impl FnOnce(&mut [u8]) -> Result<Option<usize>>,
    ) -> Result<Option<Vec<u8>>> {
        let pin = self.nodes.pin(ino)?;
        Self::check_file(&pin)?;
        let state = pin.read();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        let end = offset.saturating_add(bytes_max as u64).min(self.attributes_of(&state)?.size);
        if offset >= end {
            return Ok(Some(Vec::new()));
        }
        let Ok(length) = usize::try_from(end - offset) else { return refuse(libc::EINVAL) };
        let mut bytes = vec![0; length];
        if state.is_object() {
            match read_object(&mut bytes)? {
                Some(read) => bytes.truncate(read),
                None => return Ok(None),
            }
        } else if let Some(row) = self.only_row(&state)? {
            bytes.copy_from_slice(&row[offset as usize..end as usize]);
        } else {
            self.read_rows(ino, offset..end, &mut bytes)?;
        }
        Ok(Some(bytes))
    }

    /// Returns the row that holds the whole file, as for most small files: one lookup instead of a range.
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
