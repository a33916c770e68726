//! [`LinuxStorage`]: files of the operating system. The one place of the engine that touches `std::fs`.
//!
//! What it relies on:
//! - `fdatasync` makes contents *and length* durable: POSIX and Linux write with it every piece of metadata that is
//!   needed to read the data back, and a grown length is one (ext4: `i_datasync_tid`). Only times are left out.
//! - A name is durable after an `fsync` of its directory.
//! - A failed sync is reported once per open file description, so every `open` here opens anew.
//! - Direct reads (`O_DIRECT`) come from the medium. ext4 turns them into cached reads where it cannot do them
//!   (encrypted directories, `data=journal`: E13), and says so through `statx`; such files are refused.
//!
//! No locks are held; positions travel with each call.

use super::linux_mapping;
use super::{DirectoryEntry, File, Mapping, OpenMode, Storage, StorageLock};
use crate::error::{Error, Result};
use rustix::fs::{Advice, AtFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What direct reads are aligned to, in file offset, length and memory: no device in use has larger logical blocks.
const DIRECT_ALIGNMENT: usize = 4096;

/// The most that one direct read moves; longer ones come back short.
const DIRECT_READ_BYTES_MAX: usize = 1 << 20;

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
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| Error::io("create", path, error))?;
        Ok(Arc::new(LinuxFile { file, path: Arc::from(path) }))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium {
            return open_medium(path);
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(mode == OpenMode::ReadWrite)
            .open(path)
            .map_err(|error| Error::io("open", path, error))?;
        Ok(Some(Arc::new(LinuxFile { file, path: Arc::from(path) })))
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

    fn lock(&self, path: &Path, shared: bool) -> Result<Option<Box<dyn StorageLock>>> {
        // Opened for reading whatever the kind, so that readers can lock on a read-only file system. `flock` belongs
        // to the open file description: a second call in this process conflicts too, and a dead process lets go.
        let file = fs::File::open(path).map_err(|error| Error::io("lock", path, error))?;
        let operation =
            if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Some(Box::new(LinuxLock { _file: file }))),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(Error::io("lock", path, error.into())),
            }
        }
    }
}

/// An `flock`, let go when its file description closes.
struct LinuxLock {
    _file: fs::File,
}

impl StorageLock for LinuxLock {}

/// A file read and written through the page cache.
struct LinuxFile {
    file: fs::File,
    path: Arc<Path>,
}

impl File for LinuxFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_uninterrupted(&self.file, offset, buffer).map_err(|error| Error::io("read", &self.path, error))
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // A hint: what it cannot do is done by the read.
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(bytes), Advice::WillNeed);
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("write to", &self.path, error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
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
}

/// A file read from the medium, past the page cache.
struct MediumFile {
    file: fs::File,
    path: Arc<Path>,
}

impl MediumFile {
    /// One aligned read that covers as much of `buffer` as [`DIRECT_READ_BYTES_MAX`] allows.
    fn read_aligned(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let skip = (offset % DIRECT_ALIGNMENT as u64) as usize;
        let wanted = (skip + buffer.len().min(DIRECT_READ_BYTES_MAX)).next_multiple_of(DIRECT_ALIGNMENT);
        let mut memory = vec![0u8; wanted + DIRECT_ALIGNMENT];
        let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        let Some(aligned) = start.checked_add(wanted).and_then(|end| memory.get_mut(start..end)) else {
            return Err(io::Error::other("no aligned memory"));
        };
        let count = read_uninterrupted(&self.file, offset - skip as u64, aligned)?;
        let found = aligned.get(skip..count).unwrap_or_default();
        let moved = found.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..moved), found.get(..moved)) {
            to.copy_from_slice(from);
        }
        // Nothing beyond `skip` must mean the end of the file, as the caller will take it so.
        if moved == 0 && !buffer.is_empty() && self.file.metadata()?.len() > offset {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a direct read ended before the file"));
        }
        Ok(moved)
    }

    /// An error for what a handle that only reads is not for.
    fn refuse(&self, operation: &'static str) -> Error {
        Error::io(operation, &self.path, io::Error::from(Errno::BADF))
    }
}

impl File for MediumFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_aligned(offset, buffer).map_err(|error| Error::io("read", &self.path, error))
    }

    fn write_all_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Err(self.refuse("write to"))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    fn bytes(&self) -> Result<u64> {
        bytes_of(&self.file, &self.path)
    }

    fn set_bytes(&self, _bytes: u64) -> Result<()> {
        Err(self.refuse("set the length of"))
    }
}

/// Opens `path` for direct reads; `None` where the file system refuses them, or would quietly read from its cache.
fn open_medium(path: &Path) -> Result<Option<Arc<dyn File>>> {
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(direct).open(path) {
        Ok(file) => file,
        Err(error) if refuses_direct_reads(&error) => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let statx = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if statx.is_ok_and(|found| {
        StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) && found.stx_dio_offset_align == 0
    }) {
        return Ok(None);
    }
    let medium = MediumFile { file, path: Arc::from(path) };
    match medium.read_aligned(0, &mut [0u8; 1]) {
        Ok(_) => Ok(Some(Arc::new(medium))),
        Err(error) if refuses_direct_reads(&error) => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

fn refuses_direct_reads(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}

fn read_uninterrupted(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn bytes_of(file: &fs::File, path: &Path) -> Result<u64> {
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_shared_lock_needs_only_permission_to_read() {
        let directory = TestDirectory::new("read-only-lock");
        let path = directory.0.join("lock");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let first = LinuxStorage.lock(&path, true).unwrap();
        let second = LinuxStorage.lock(&path, true).unwrap();
        assert!(first.is_some() && second.is_some());
    }

    #[test]
    fn direct_reads_longer_than_the_bounce_buffer_come_back_whole() {
        let directory = TestDirectory::new("long-direct-read");
        let path = directory.0.join("file");
        let bytes: Vec<u8> = (0..3 * DIRECT_READ_BYTES_MAX + 77).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let Some(file) = LinuxStorage.open(&path, OpenMode::ReadMedium).unwrap() else { return };
        let mut found = vec![0u8; bytes.len() - 5];
        file.read_exact_at(5, &mut found).unwrap();
        assert_eq!(found, bytes[5..]);
        assert_eq!(file.read_at(bytes.len() as u64, &mut [0; 10]).unwrap(), 0);
        assert_eq!(file.read_at(bytes.len() as u64 + 9999, &mut [0; 10]).unwrap(), 0);
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
