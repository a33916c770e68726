//! [`Storage`]: the disk seam, the only way to files.

use super::file::File;
use crate::error::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How [`Storage::open`] opens an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reads only, through the page cache.
    Read,
    /// For reads and writes, through the page cache.
    ReadWrite,
    /// For reads only, from the medium instead of the page cache (direct I/O): what a power cut would leave.
    ReadMedium,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The file's length in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A file system.
pub trait Storage: Send + Sync + 'static {
    /// The storage that this one decorates, if it is a decorator. Every method with a default passes its call on to it.
    fn inner(&self) -> Option<&dyn Storage> {
        None
    }
    /// Creates a file for reads and writes; an error when the name exists.
    fn create(&self, path: &Path) -> Result<Arc<dyn File>>;
    /// Creates a file that is written in large pieces and not read soon: it bypasses the page cache where the file
    /// system allows that. Offset, length and memory of each write must be multiples of 4096 ([`File::is_direct`]
    /// tells whether that matters). The caller sets the true length at the end.
    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.inner().map_or_else(|| self.create(path), |inner| inner.create_direct(path))
    }
    /// Opens an existing file. A missing file is [`Error::Io`] with `ErrorKind::NotFound` as its source.
    ///
    /// With [`OpenMode::ReadMedium`], returns `Ok(None)` when the file system refuses direct reads; the other modes
    /// always give `Some`.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>>;
    /// Opens an existing file for reads, as one of many: its descriptor may be closed while nobody reads, and the next
    /// read opens it again. The name must lead to the same file for as long as the file is read.
    fn open_evictable(&self, path: &Path) -> Result<Arc<dyn File>> {
        let open = || {
            let file = self.open(path, OpenMode::Read)?;
            file.ok_or_else(|| Error::io("open", path, io::ErrorKind::Unsupported.into()))
        };
        self.inner().map_or_else(open, |inner| inner.open_evictable(path))
    }
    /// The length of a file in bytes, or `None` when there is no such file.
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>>;
    /// The names in a directory, sorted; `None` when there is no such directory.
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>>;
    /// Creates a directory and its missing parents. They are durable when the parent of each is synced.
    fn create_directory(&self, path: &Path) -> Result<()>;
    /// Removes a name: a file's, or an empty directory's. A file's bytes stay until its last handle is closed.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Renames a file in one step; replaces the file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives a file a second name; `Ok(false)` where that is impossible (another device, no hard links).
    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> Result<()>;
    /// Opens an existing directory. [`File::sync`] on it does what [`Storage::sync_directory`] does. It serves callers
    /// that hand the sync to the kernel, and callers that must not need a new descriptor for the sync. `None` where
    /// directories cannot be opened.
    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        self.inner().map_or(Ok(None), |inner| inner.open_directory(path))
    }
    /// Bytes that can still be written to the file system of this existing directory; `None` where that is not known.
    fn free_bytes(&self, directory: &Path) -> Option<u64> {
        self.inner()?.free_bytes(directory)
    }
    /// The size in bytes of the file system of this existing directory; `None` where that is not known.
    fn capacity_bytes(&self, directory: &Path) -> Option<u64> {
        self.inner()?.capacity_bytes(directory)
    }
    /// Whether files in this directory are kept in memory alone. The directory need not exist yet. `false` where that
    /// is not known.
    fn is_volatile(&self, directory: &Path) -> bool {
        self.inner().is_some_and(|inner| inner.is_volatile(directory))
    }
    /// Whether a write into the page cache of a file in this existing directory keeps space for its bytes, so that no
    /// later write-back of them meets a full disk. `false` where that is not known.
    fn keeps_space_for_writes(&self, directory: &Path) -> bool {
        self.inner().is_some_and(|inner| inner.keeps_space_for_writes(directory))
    }
    /// Bytes of memory that the process may have: those of the machine, or of a control group; `None` where that is not
    /// known.
    fn memory_max(&self) -> Option<u64> {
        self.inner()?.memory_max()
    }

    /// Bytes of files that fit in memory, those in the page cache included; `None` where that is not known.
    fn file_room_bytes(&self) -> Option<u64> {
        self.inner()?.file_room_bytes()
    }
    /// Gives free memory of the process's allocator back to the system, if the allocator does not do so by itself.
    fn trim_heap(&self) {
        if let Some(inner) = self.inner() {
            inner.trim_heap();
        }
    }
    /// The number of files that this process may have open at a time; `None` where there is no bound.
    fn open_files_max(&self) -> Option<u64> {
        self.inner()?.open_files_max()
    }
    /// Whether these existing directories are on one file system with one journal: a sync of a file that grew then
    /// commits every earlier change of names, lengths and blocks in them, and flushes their files' bytes out of the
    /// device's cache. `false` where that is not known for certain.
    fn commits_together(&self, directories: &[&Path]) -> bool {
        self.inner().is_some_and(|inner| inner.commits_together(directories))
    }
    /// The number of commits of the journal of the file system of `path`; `None` where that is not known.
    fn journal_commits(&self, path: &Path) -> Option<u64> {
        self.inner()?.journal_commits(path)
    }
    /// The number of mappings that this process may have at a time; `None` where there is no bound.
    fn mappings_max(&self) -> Option<u64> {
        self.inner()?.mappings_max()
    }
    /// The absolute path, with links resolved as far as the path exists. It names the same file whatever becomes of
    /// the working directory and of those links. A storage without links gives the path itself.
    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        self.inner().map_or_else(|| Ok(path.to_path_buf()), |inner| inner.resolved(path))
    }
    /// Takes the advisory lock on the existing file at `path`: shared for readers, else exclusive. An exclusive lock
    /// may write its holder to the file. [`Error::Locked`] when another process, or another call in this process, has
    /// it. The lock is released when the value is dropped, or the process dies.
    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>>;
}

/// A lock held until dropped.
pub trait StorageLock: Send + Sync {}
