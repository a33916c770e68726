//! [`LinuxStorage`]: the file systems of Linux.

use super::{calls, direct, file, heap, journal, lock, memory};
use crate::error::{Error, Result};
use crate::storage::{DirectoryEntry, File, OpenMode, Storage, StorageLock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The types in `statfs` of file systems in memory (linux/magic.h, fs/ramfs).
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
/// The types of file systems that allocate blocks at write-back, and keep space for them from the write on.
const EXT4_MAGIC: i64 = 0xef53;
const XFS_MAGIC: i64 = 0x5846_5342;

/// The file systems of Linux.
#[derive(Debug, Default)]
pub struct LinuxStorage;

impl LinuxStorage {
    /// The absolute path, with links resolved as far as the path exists. An open database opens files by path, so the
    /// path must not depend on the working directory or on links that change.
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
        Ok(file::cached(calls::create(path)?, path))
    }

    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        direct::create(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium {
            return direct::open(path);
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(mode == OpenMode::ReadWrite)
            .open(path)
            .map_err(|error| Error::io("open", path, error))?;
        Ok(Some(file::cached(file, path)))
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
                // Removed after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            // The engine writes UTF-8 names only, so any other name is foreign. A lossy form would name another file.
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
        Ok(Some(file::directory(directory, path)))
    }

    fn free_bytes(&self, directory: &Path) -> Option<u64> {
        // Some file systems do not count their blocks, and report 0 for everything.
        let found = rustix::fs::statvfs(directory).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn capacity_bytes(&self, directory: &Path) -> Option<u64> {
        let found = rustix::fs::statvfs(directory).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_blocks.saturating_mul(found.f_frsize))
    }

    fn is_volatile(&self, directory: &Path) -> bool {
        let found = directory.ancestors().find_map(|existing| rustix::fs::statfs(existing).ok());
        found.is_some_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type))
    }

    fn keeps_space_for_writes(&self, directory: &Path) -> bool {
        rustix::fs::statfs(directory).is_ok_and(|found| [EXT4_MAGIC, XFS_MAGIC].contains(&found.f_type))
    }

    fn file_room_bytes(&self) -> Option<u64> {
        memory::file_room_bytes()
    }

    fn trim_heap(&self) {
        heap::trim();
    }

    fn commits_together(&self, directories: &[&Path]) -> bool {
        journal::is_shared(directories)
    }

    fn journal_commits(&self, path: &Path) -> Option<u64> {
        journal::commits(path)
    }

    fn memory_max(&self) -> Option<u64> {
        memory::memory_max()
    }

    fn open_files_max(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    fn mappings_max(&self) -> Option<u64> {
        memory::mappings_max()
    }

    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        Ok(Box::new(lock::take(path, shared)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;

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
