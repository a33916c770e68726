//! The bytes of files.

use super::{Inode, Life, Model, Outcome};
use std::rc::Rc;
use thalweg_fs::{Allocation, Caller, Ino};

impl Model {
    /// A file whose bytes may be used.
    fn file(&self, ino: Ino) -> Outcome<&Inode> {
        let inode = self.used(ino)?;
        inode.check_file()?;
        if inode.life == Life::Dead { Err(libc::ESTALE) } else { Ok(inode) }
    }

    /// `pread`.
    pub fn read(&self, ino: Ino, offset: u64, bytes_max: usize) -> Outcome<&[u8]> {
        let bytes = &self.file(ino)?.bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(bytes_max).min(bytes.len());
        Ok(&bytes[from..to])
    }

    /// `pwrite`, or an append if there is no offset. Returns the offset.
    pub fn write(&mut self, caller: &Caller<'_>, ino: Ino, offset: Option<u64>, bytes: &[u8]) -> Outcome<u64> {
        let offset = offset.unwrap_or(self.file(ino)?.stat.size);
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= i64::MAX as u64).ok_or(libc::EFBIG)?;
        if bytes.is_empty() {
            return Ok(offset);
        }
        let now = self.now;
        let inode = self.inode_mut(ino);
        if end > inode.stat.size {
            inode.resize(end);
        }
        Rc::make_mut(&mut inode.bytes)[offset as usize..end as usize].copy_from_slice(bytes);
        inode.written(caller, now);
        Ok(offset)
    }

    /// `fallocate`.
    pub fn allocate(
        &mut self,
        caller: &Caller<'_>,
        ino: Ino,
        (what, keeps_size): (Allocation, bool),
        (offset, length): (u64, u64),
    ) -> Outcome<()> {
        self.used(ino)?.check_file()?;
        if length == 0 {
            return Err(libc::EINVAL);
        }
        let end = offset.checked_add(length).filter(|&end| end <= i64::MAX as u64).ok_or(libc::EFBIG)?;
        self.file(ino)?;
        let now = self.now;
        let inode = self.inode_mut(ino);
        if !keeps_size && what != Allocation::Punch && end > inode.stat.size {
            inode.resize(end);
        }
        if what != Allocation::Allocate {
            let (from, to) = (offset.min(inode.stat.size), end.min(inode.stat.size));
            Rc::make_mut(&mut inode.bytes)[from as usize..to as usize].fill(0);
        }
        inode.written(caller, now);
        Ok(())
    }

    /// Whether `found` is a right answer of `SEEK_DATA` or `SEEK_HOLE`. The volume chooses what is a hole, as long as
    /// holes have zeros and the end of a file is a hole.
    pub fn may_seek(&self, ino: Ino, offset: u64, is_hole: bool, found: Outcome<u64>) -> Result<(), String> {
        let inode = match self.file(ino) {
            Ok(inode) => inode,
            Err(errno) if found == Err(errno) => return Ok(()),
            Err(errno) => return Err(format!("found {found:?}, not errno {errno}")),
        };
        let size = inode.stat.size;
        let has_zeros = |range: std::ops::Range<u64>| {
            inode.bytes[range.start as usize..range.end as usize].iter().all(|&byte| byte == 0)
        };
        let is_right = match found {
            _ if offset >= size => found == Err(libc::ENXIO),
            Ok(found) if is_hole => {
                (offset..=size).contains(&found) && (found == size || inode.bytes[found as usize] == 0)
            }
            Ok(found) => (offset..size).contains(&found) && has_zeros(offset..found),
            Err(errno) => !is_hole && errno == libc::ENXIO && has_zeros(offset..size),
        };
        if is_right { Ok(()) } else { Err(format!("found {found:?} from {offset} on, of {size} bytes")) }
    }
}

impl Inode {
    /// Cuts the bytes, or adds zeros.
    pub(super) fn resize(&mut self, size: u64) {
        Rc::make_mut(&mut self.bytes).resize(size as usize, 0);
        self.stat.size = size;
    }
}
