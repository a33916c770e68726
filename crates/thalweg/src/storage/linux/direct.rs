//! [`DirectFile`]: a file that bypasses the page cache (`O_DIRECT`), and the fallback where that is refused.
//!
//! Aligned memory goes to the device without a copy; a read into other memory goes through an aligned copy. Writes must
//! be aligned in offset, length and memory. ext4 silently uses the page cache where it cannot do direct I/O (encrypted
//! directories, `data=journal`: E13). It reports that through `statx`, and this file refuses such files.
//!
//! Positions travel with each call. Locks: none.

use super::{calls, file, page_cache};
use crate::error::{Error, Result};
use crate::storage::{ALIGNMENT, File, OpenMode};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that one read through a copy moves at most; a longer read comes back short.
const COPIED_READ_BYTES_MAX: usize = 1 << 20;

/// The most repetitions of a failed direct read; see [`read`].
const READS_AGAIN: u32 = 32;

/// The time after which a failed direct read is not repeated: a failing medium may take seconds to report an error.
const READS_AGAIN_FOR: Duration = Duration::from_secs(1);

/// A file that is open for direct I/O.
pub(super) struct DirectFile {
    file: fs::File,
    path: Arc<Path>,
    mode: OpenMode,
}

/// Opens `path` for direct reads. `None` where the file system refuses them, or would silently use the page cache.
pub(super) fn open(path: &Path) -> Result<Option<Arc<dyn File>>> {
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(direct).open(path) {
        Ok(file) => file,
        Err(error) if refuses_direct(&error) => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    if is_silently_cached(&file) {
        return Ok(None);
    }
    let opened = DirectFile { file, path: Arc::from(path), mode: OpenMode::ReadMedium };
    match opened.read_copied(0, &mut [0u8; 1]) {
        Ok(_) => Ok(Some(Arc::new(opened))),
        Err(error) if refuses_direct(&error) => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Creates a file for direct I/O, or through the page cache where the file system refuses that. An error leaves no
/// file.
pub(super) fn create(path: &Path) -> Result<Arc<dyn File>> {
    create_with(path, make_direct)
}

/// As [`create`], with a function that makes an open file direct.
fn create_with(path: &Path, make_direct: impl FnOnce(&fs::File) -> io::Result<bool>) -> Result<Arc<dyn File>> {
    let file = calls::create(path)?;
    match make_direct(&file) {
        Ok(true) => Ok(Arc::new(DirectFile { file, path: Arc::from(path), mode: OpenMode::ReadWrite })),
        Ok(false) => Ok(file::cached(file, path)),
        Err(error) => {
            // This call created the name. If the removal fails, recovery removes the file as an orphan.
            let _ = fs::remove_file(path);
            Err(Error::io("create", path, error))
        }
    }
}

/// Makes an open file direct. `false` when the file system refuses; the file is then unchanged. This is not a flag of
/// the `open` that creates the file: an `open` that refuses the flag may leave the new name behind.
fn make_direct(file: &fs::File) -> io::Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    let refused = match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Ok(()) => is_silently_cached(file),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => true,
        Err(error) => return Err(error.into()),
    };
    if refused {
        rustix::fs::fcntl_setfl(file, flags)?;
    }
    Ok(!refused)
}

/// Whether direct I/O would silently use the page cache, or needs a larger alignment than [`ALIGNMENT`].
fn is_silently_cached(file: &fs::File) -> bool {
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    found.is_ok_and(|found| {
        let alignment = found.stx_dio_offset_align;
        StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN)
            && (alignment == 0 || alignment as usize > ALIGNMENT)
    })
}

fn refuses_direct(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}

/// Makes one direct read.
///
/// The kernel writes dirty pages of the page cache back before it reads. If another page becomes dirty in between, and
/// has no block yet, the read fails with `EIO` ("Direct I/O collision with buffered writes" in the kernel's log). So
/// after an `EIO` the file is synced, which gives the page its block, and the read is repeated. A failing medium gives
/// the same error every time.
fn read(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let start = Instant::now();
    let mut found = calls::read(file, offset, buffer);
    for _ in 0..READS_AGAIN {
        let is_refused = found.as_ref().is_err_and(|error| Errno::from_io_error(error) == Some(Errno::IO));
        if !is_refused || start.elapsed() > READS_AGAIN_FOR || file.sync_data().is_err() {
            break;
        }
        found = calls::read(file, offset, buffer);
    }
    found
}

fn is_aligned(offset: u64, memory: &[u8]) -> bool {
    offset.is_multiple_of(ALIGNMENT as u64)
        && memory.len().is_multiple_of(ALIGNMENT)
        && (memory.as_ptr() as usize).is_multiple_of(ALIGNMENT)
}

impl DirectFile {
    /// Makes one aligned read that covers as much of `buffer` as [`COPIED_READ_BYTES_MAX`] allows.
    fn read_copied(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let skip = (offset % ALIGNMENT as u64) as usize;
        let wanted = (skip + buffer.len().min(COPIED_READ_BYTES_MAX)).next_multiple_of(ALIGNMENT);
        let mut memory = vec![0u8; wanted + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let Some(aligned) = start.checked_add(wanted).and_then(|end| memory.get_mut(start..end)) else {
            return Err(io::Error::other("no aligned memory"));
        };
        let count = self.read_once_written(offset - skip as u64, aligned)?;
        let found = aligned.get(skip..count).unwrap_or_default();
        let moved = found.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..moved), found.get(..moved)) {
            to.copy_from_slice(from);
        }
        // The caller takes 0 bytes for the end of the file.
        if moved == 0 && !buffer.is_empty() && self.file.metadata()?.len() > offset {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a direct read ended before the file"));
        }
        Ok(moved)
    }

    /// Makes one direct read; on a handle for reads only, as [`read`] does. On a writable handle the sync in [`read`]
    /// could take an error that the writer must get.
    fn read_once_written(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.mode {
            OpenMode::ReadWrite => calls::read(&self.file, offset, buffer),
            _ => read(&self.file, offset, buffer),
        }
    }

    /// An error for a handle that is open for reads only.
    fn need_writable(&self, operation: &'static str) -> Result<()> {
        match self.mode {
            OpenMode::ReadWrite => Ok(()),
            _ => Err(Error::io(operation, &self.path, io::Error::from(Errno::BADF))),
        }
    }
}

impl File for DirectFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = if is_aligned(offset, buffer) {
            self.read_once_written(offset, buffer)
        } else {
            self.read_copied(offset, buffer)
        };
        read.map_err(|error| Error::io("read", &self.path, error))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.need_writable("write to")?;
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("write to", &self.path, error))
    }

    fn write_out(&self) -> Result<()> {
        page_cache::write_out(self.file.as_fd()).map_err(|error| Error::io("write out", &self.path, error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    fn bytes(&self) -> Result<u64> {
        calls::bytes(&self.file, &self.path)
    }

    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.need_writable("set the length of")?;
        self.file.set_len(bytes).map_err(|error| Error::io("set the length of", &self.path, error))
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.need_writable("reserve space for")?;
        calls::allocate(&self.file, &self.path, bytes).map(drop)
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;
    use crate::storage::{BufferPool, LinuxStorage, Storage};
    use rustix::fs::FallocateFlags;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A page that a mapping makes dirty in a hole has no block. Without the second read, 1 of 1000 reads failed.
    #[test]
    fn direct_reads_beside_stores_to_holes_give_no_error() {
        const BYTES: usize = 1 << 18;
        let directory = TestDirectory::new("direct-read-collision");
        let path = directory.0.join("file");
        fs::write(&path, vec![1; BYTES]).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        let Some(file) = LinuxStorage.open(&path, OpenMode::ReadMedium).unwrap() else { return };
        let holes = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // While the file has all of its blocks; else it would not be mapped.
        let Some(mapping) = file::cached(holes.try_clone().unwrap(), &path).map(BYTES as u64).unwrap() else { return };
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let punched = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&holes, punched, 0, BYTES as u64).unwrap();
                    for at in (0..BYTES).step_by(ALIGNMENT) {
                        mapping.write(at as u64, &[1]);
                    }
                }
            });
            let mut buffer = vec![0; BYTES / 4];
            for number in 0..20_000 {
                let read = file.read_at((number % 4 * buffer.len()) as u64, &mut buffer);
                if read.is_err() {
                    ends.store(true, Ordering::Relaxed);
                }
                read.unwrap();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn direct_reads_longer_than_the_copy_come_back_whole() {
        let directory = TestDirectory::new("long-direct-read");
        let path = directory.0.join("file");
        let bytes: Vec<u8> = (0..3 * COPIED_READ_BYTES_MAX + 77).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let Some(file) = LinuxStorage.open(&path, OpenMode::ReadMedium).unwrap() else { return };
        let mut found = vec![0u8; bytes.len() - 5];
        file.read_exact_at(5, &mut found).unwrap();
        assert_eq!(found, bytes[5..]);
        assert_eq!(file.read_at(bytes.len() as u64, &mut [0; 10]).unwrap(), 0);
        assert_eq!(file.read_at(bytes.len() as u64 + 9999, &mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn a_file_written_padded_and_cut_has_exactly_its_bytes() {
        let directory = TestDirectory::new("padded");
        let path = directory.0.join("file");
        let file = LinuxStorage.create_direct(&path).unwrap();
        file.reserve(1 << 20).unwrap();
        let mut buffer = BufferPool::new(2 * ALIGNMENT).take();
        buffer.append(&[7; ALIGNMENT + 100]);
        buffer.pad();
        file.write_all_at(0, buffer.filled()).unwrap();
        file.set_bytes(ALIGNMENT as u64 + 100).unwrap();
        file.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [7; ALIGNMENT + 100]);
    }

    #[test]
    fn a_file_that_cannot_be_made_leaves_no_name() {
        let directory = TestDirectory::new("not-made");
        let path = directory.0.join("file");
        assert!(create_with(&path, |_| Err(Errno::IO.into())).is_err());
        assert!(!path.exists());
        let cached = create_with(&path, |_| Ok(false)).unwrap();
        assert!(path.exists() && !cached.is_direct(), "a file that is refused direct I/O goes through the page cache");
    }

    #[test]
    fn what_was_written_directly_is_read_through_the_cache_and_directly() {
        let directory = TestDirectory::new("written-directly");
        let path = directory.0.join("file");
        let file = LinuxStorage.create_direct(&path).unwrap();
        let mut buffer = BufferPool::new(ALIGNMENT).take();
        buffer.append(&[3; ALIGNMENT]);
        file.write_all_at(0, buffer.filled()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [3; ALIGNMENT]);
        buffer.bytes_mut().fill(0);
        assert_eq!(file.read_at(0, buffer.bytes_mut()).unwrap(), ALIGNMENT);
        assert_eq!(buffer.filled(), [3; ALIGNMENT]);
    }
}
