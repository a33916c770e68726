//! [`cached`]: a file that is read and written through the page cache.

use super::{calls, extents, mapping, page_cache, read_mapping};
use crate::error::{Error, Result};
use crate::storage::{File, Mapping, ReadMapping};
use rustix::fs::Advice;
use std::fs;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// A file read and written through the page cache.
struct LinuxFile {
    file: fs::File,
    path: Arc<Path>,
    /// Whether this is a directory. Its sync is `fsync`, because `fdatasync` of a directory may leave out new names.
    is_directory: bool,
}

/// A file that is read and written through the page cache.
pub(super) fn cached(file: fs::File, path: &Path) -> Arc<dyn File> {
    Arc::new(LinuxFile { file, path: Arc::from(path), is_directory: false })
}

/// A directory, whose sync makes its names durable.
pub(super) fn directory(file: fs::File, path: &Path) -> Arc<dyn File> {
    Arc::new(LinuxFile { file, path: Arc::from(path), is_directory: true })
}

impl File for LinuxFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        calls::read(&self.file, offset, buffer).map_err(|error| Error::io("read", &self.path, error))
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // A length of 0 means the rest of the file.
        let Some(bytes) = NonZeroU64::new(bytes) else { return };
        // A hint: on an error the read does the work.
        let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), Advice::WillNeed);
    }

    fn expect_random_reads(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        page_cache::is_cached(self.file.as_fd(), offset, bytes)
    }

    fn forget_cached(&self, offset: u64, bytes: u64) {
        // A length of 0 means the rest of the file.
        let Some(bytes) = NonZeroU64::new(bytes) else { return };
        // The kernel keeps dirty pages, and begins their write-back.
        let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), Advice::DontNeed);
    }

    fn links(&self) -> Result<Option<u64>> {
        let metadata = self.file.metadata().map_err(|error| Error::io("look at", &self.path, error))?;
        Ok(Some(metadata.nlink()))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("write to", &self.path, error))
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        // A length of 0 means the rest of the file.
        if bytes == 0 {
            return Ok(());
        }
        let begun = page_cache::begin_write_back(self.file.as_fd(), offset, bytes);
        begun.map_err(|error| Error::io("write back", &self.path, error))
    }

    fn is_written_whole(&self) -> Option<bool> {
        extents::are_written(self.file.as_fd(), self.bytes().ok()?)
    }

    fn write_out(&self) -> Result<()> {
        page_cache::write_out(self.file.as_fd()).map_err(|error| Error::io("write out", &self.path, error))
    }

    fn sync(&self) -> Result<()> {
        let synced = if self.is_directory { self.file.sync_all() } else { self.file.sync_data() };
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn bytes(&self) -> Result<u64> {
        calls::bytes(&self.file, &self.path)
    }

    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| Error::io("set the length of", &self.path, error))
    }

    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        mapping::map(self.file.as_fd(), &self.path, bytes)
    }

    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        read_mapping::map(self.file.as_fd(), bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        calls::allocate(&self.file, &self.path, bytes).map(drop)
    }

    fn allocate(&self, bytes: u64) -> Result<bool> {
        calls::allocate(&self.file, &self.path, bytes)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
