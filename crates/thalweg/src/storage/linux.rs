//! [`LinuxStorage`]: files of the operating system. With `linux_direct.rs` the one place that touches `std::fs`.
//!
//! What it relies on:
//! - `fdatasync` makes contents *and length* durable: POSIX and Linux write with it every piece of metadata that is
//!   needed to read the data back, and a grown length is one (ext4: `i_datasync_tid`). Only times are left out.
//! - A name is durable after an `fsync` of its directory.
//! - A failed sync is reported once per open file description, so every `open` here opens anew.
//! - Direct reads (`O_DIRECT`) come from the medium; see `linux_direct.rs`.
//!
//! No locks are held; positions travel with each call.

use super::{
    DirectoryEntry, File, Mapping, OpenMode, ReadMapping, Storage, StorageLock, linux_cached, linux_direct,
    linux_extents, linux_journal, linux_lock, linux_mapping, linux_memory, linux_reads,
};
use crate::error::{Error, Result};
use rustix::fs::Advice;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file systems of Linux.
#[derive(Debug, Default)]
pub struct LinuxStorage;

impl LinuxStorage {
    /// The path that stays the same whatever becomes of the working directory and of links on the way: absolute, and
    /// with links resolved as far as it exists. Files are opened by path for as long as a database is open.
    pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
        if path.as_os_str().is_empty() {
            return Err(Error::invalid_input("the path of a database is empty"));
        }
        let absolute = std::path::absolute(path).map_err(|source| Error::io("resolve", path, source))?;
        let mut missing = Vec::new();
        for existing in absolute.ancestors() {
            if let Ok(resolved) = fs::canonicalize(existing) {
                return Ok(missing.iter().rev().fold(resolved, |path, name| path.join(name)));
            }
            missing.extend(existing.file_name());
        }
        Ok(absolute)
    }
}

impl Storage for LinuxStorage {
    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        Self::resolve(path)
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(cached(create_file(path)?, path))
    }

    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        linux_direct::create(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium {
            return linux_direct::open(path);
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(mode == OpenMode::ReadWrite)
            .open(path)
            .map_err(|error| Error::io("open", path, error))?;
        Ok(Some(cached(file, path)))
    }

    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look at", path, error)),
        }
    }

    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        let failed = |error| Error::io("list", directory, error);
        let names = match fs::read_dir(directory) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut entries = Vec::new();
        for entry in names {
            let entry = entry.map_err(failed)?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed between the listing and the look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            // No name of ours is outside UTF-8, so such a one is foreign; a lossy form would name another file.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_directory = metadata.is_dir();
            entries.push(DirectoryEntry { name, is_directory, bytes: if is_directory { 0 } else { metadata.len() } });
        }
        entries.sort();
        Ok(Some(entries))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(path),
            other => other,
        }
        .map_err(|error| Error::io("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool> {
        match fs::hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => Ok(false),
                _ => Err(Error::io("link", from, error)),
            },
        }
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        fs::File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| Error::io("sync", path, error))
    }

    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        let directory = fs::File::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Some(Arc::new(LinuxFile { file: directory, path: Arc::from(path), is_directory: true })))
    }

    fn free_bytes(&self, directory: &Path) -> Option<u64> {
        // Some file systems do not count, and say 0 to everything.
        let found = rustix::fs::statvfs(directory).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn capacity_bytes(&self, directory: &Path) -> Option<u64> {
        let found = rustix::fs::statvfs(directory).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_blocks.saturating_mul(found.f_frsize))
    }

    fn file_room_bytes(&self) -> Option<u64> {
        linux_memory::file_room_bytes()
    }

    fn commits_together(&self, directories: &[&Path]) -> bool {
        linux_journal::is_shared(directories)
    }

    fn journal_commits(&self, path: &Path) -> Option<u64> {
        linux_journal::commits(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    fn mappings_max(&self) -> Option<u64> {
        linux_memory::mappings_max()
    }

    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        Ok(Box::new(linux_lock::take(path, shared)?))
    }
}

/// A file read and written through the page cache.
struct LinuxFile {
    file: fs::File,
    path: Arc<Path>,
    /// `fdatasync` may leave out its new names.
    is_directory: bool,
}

pub(super) fn create_file(path: &Path) -> Result<fs::File> {
    let created = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
    created.map_err(|error| Error::io("create", path, error))
}

/// A file that is read and written through the page cache.
pub(super) fn cached(file: fs::File, path: &Path) -> Arc<dyn File> {
    Arc::new(LinuxFile { file, path: Arc::from(path), is_directory: false })
}

impl File for LinuxFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_uninterrupted(&self.file, offset, buffer).map_err(|error| Error::io("read", &self.path, error))
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // No length would stand for the rest of the file.
        let Some(bytes) = NonZeroU64::new(bytes) else { return };
        // A hint: what it cannot do is done by the read.
        let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), Advice::WillNeed);
    }

    fn expect_random_reads(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        linux_cached::is_cached(self.file.as_fd(), offset, bytes)
    }

    fn forget_cached(&self, offset: u64, bytes: u64) {
        // No length would stand for the rest of the file.
        let Some(bytes) = NonZeroU64::new(bytes) else { return };
        // Begins to write back what is dirty, and leaves that.
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
        // No length would stand for the rest of the file.
        if bytes == 0 {
            return Ok(());
        }
        let begun = linux_cached::begin_write_back(self.file.as_fd(), offset, bytes);
        begun.map_err(|error| Error::io("write back", &self.path, error))
    }

    fn is_written_whole(&self) -> Option<bool> {
        linux_extents::are_written(self.file.as_fd(), self.bytes().ok()?)
    }

    fn write_out(&self) -> Result<()> {
        linux_cached::write_out(self.file.as_fd()).map_err(|error| Error::io("write out", &self.path, error))
    }

    fn sync(&self) -> Result<()> {
        let synced = if self.is_directory { self.file.sync_all() } else { self.file.sync_data() };
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn bytes(&self) -> Result<u64> {
        bytes_of(&self.file, &self.path)
    }

    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| Error::io("set the length of", &self.path, error))
    }

    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        linux_mapping::map(self.file.as_fd(), &self.path, bytes)
    }

    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        linux_reads::map(self.file.as_fd(), bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        linux_direct::reserve(&self.file, &self.path, bytes)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

pub(super) fn read_uninterrupted(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

pub(super) fn bytes_of(file: &fs::File, path: &Path) -> Result<u64> {
    file.metadata().map(|metadata| metadata.len()).map_err(|error| Error::io("look at", path, error))
}

/// A directory of its own for one test, removed at its end.
#[cfg(test)]
pub(super) struct TestDirectory(pub(super) PathBuf);

#[cfg(test)]
impl TestDirectory {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        TestDirectory(path)
    }
}

#[cfg(test)]
impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_write_back_is_begun_as_it_grows_reads_the_same() {
        let directory = TestDirectory::new("written-back");
        let path = directory.0.join("file");
        let file = LinuxStorage.create(&path).unwrap();
        assert!(!file.is_direct());
        file.reserve(1 << 20).unwrap();
        file.write_all_at(0, &[1; 5000]).unwrap();
        file.begin_write_back(0, 5000).unwrap();
        file.write_all_at(5000, &[2; 77]).unwrap();
        file.begin_write_back(5000, 77).unwrap();
        file.set_bytes(5077).unwrap();
        file.sync().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!((&bytes[..5000], &bytes[5000..]), (&[1; 5000][..], &[2; 77][..]));
    }

    #[test]
    fn errors_say_what_was_attempted_on_which_path() {
        let directory = TestDirectory::new("messages");
        let path = directory.0.join("missing");
        let Err(error) = LinuxStorage.open(&path, OpenMode::Read) else { panic!("it is not there") };
        let expected = format!("cannot open {}: No such file or directory (os error 2)", path.display());
        assert_eq!(error.to_string(), expected);
    }
}
