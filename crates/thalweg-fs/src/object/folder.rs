//! [`FolderObjects`]: objects as plain files, `FOLDER/xx/number`. 256 numbers in a row share a folder
//! `xx`: the files of objects that are made together are near each other on the disk, and few folders are made.
//!
//! Handles stay open, at most [`OPEN_MAX`]; the one that was not used for longest is closed first. Locks: `handles`,
//! for a few instructions and an `fstat`.

use super::{ObjectAttributes, ObjectStore, Room};
use crate::error::{Error, Result};
use crate::row::{Ino, Time};
use rustix::io::{Errno, ReadWriteFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many objects are open at once.
const OPEN_MAX: usize = 512;

/// Objects as files below a folder.
pub struct FolderObjects {
    folder: PathBuf,
    /// The folder, open from the beginning: `syncfs` reports the errors of the file system since this file was opened.
    opened: File,
    handles: Mutex<Handles>,
}

#[derive(Default)]
struct Handles {
    files: HashMap<Ino, (Arc<File>, u64)>,
    /// By the number of their last use.
    uses: BTreeMap<u64, Ino>,
    next_use: u64,
    /// Objects whose name was not made durable since they were created here, and the number of that use.
    unnamed: HashMap<Ino, u64>,
}

impl FolderObjects {
    /// Objects below `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// Those of making a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let opened = File::open(&folder)?;
        Ok(FolderObjects { folder, opened, handles: Mutex::default() })
    }

    fn path(&self, ino: Ino) -> PathBuf {
        let [.., x, _] = ino.to_be_bytes();
        self.folder.join(format!("{x:02x}/{ino:016x}"))
    }

    fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, ino: Ino) -> Result<Arc<File>> {
        let used = self.handles().used(ino);
        if let Some(file) = used {
            return Ok(file);
        }
        let opened = OpenOptions::new().read(true).write(true).open(self.path(ino));
        let file = Arc::new(opened.map_err(|error| self.explained(ino, &error))?);
        let mut handles = self.handles();
        if let Some(first) = handles.used(ino) {
            return Ok(first);
        }
        // A handle of an object that was removed meanwhile would keep the object's bytes on the disk.
        if file.metadata()?.nlink() > 0 {
            handles.insert(ino, Arc::clone(&file));
        }
        Ok(file)
    }

    fn explained(&self, ino: Ino, error: &io::Error) -> Error {
        let errno = match error.raw_os_error() {
            Some(libc::ENOENT) | None => libc::EIO,
            Some(errno) => errno,
        };
        Error::explained(errno, format!("object {}: {error}", self.path(ino).display()))
    }

    /// Makes the names of a path below the folder durable, from the folder's own down to those in `path`.
    fn sync_names(&self, path: &Path) -> Result<()> {
        for folder in path.ancestors().take_while(|folder| folder.starts_with(&self.folder)) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Handles {
    fn used(&mut self, ino: Ino) -> Option<Arc<File>> {
        let (file, last_use) = self.files.get_mut(&ino)?;
        self.uses.remove(last_use);
        *last_use = self.next_use;
        self.uses.insert(self.next_use, ino);
        self.next_use += 1;
        Some(Arc::clone(file))
    }

    fn insert(&mut self, ino: Ino, file: Arc<File>) {
        self.forget(ino);
        if self.files.len() >= OPEN_MAX
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.files.remove(&oldest);
        }
        self.files.insert(ino, (file, self.next_use));
        self.uses.insert(self.next_use, ino);
        self.next_use += 1;
    }

    fn forget(&mut self, ino: Ino) {
        if let Some((_, last_use)) = self.files.remove(&ino) {
            self.uses.remove(&last_use);
        }
    }
}

impl ObjectStore for FolderObjects {
    fn create(&self, ino: Ino) -> Result<()> {
        let path = self.path(ino);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(&self.folder);
                DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        let mut handles = self.handles();
        let created = handles.next_use;
        handles.insert(ino, Arc::new(file));
        handles.unnamed.insert(ino, created);
        Ok(())
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let file = self.open(ino)?;
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explained(ino, &error)),
            }
        }
        Ok(read)
    }

    fn read_now(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<Option<usize>> {
        let file = self.open(ino)?;
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let rest = &mut [IoSliceMut::new(rest)];
            match rustix::io::preadv2(&*file, rest, offset + read as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(more) => read += more,
                // Where the file system has no such reads, any read may wait.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => return Ok(None),
                Err(error) => return Err(self.explained(ino, &error.into())),
            }
        }
        Ok(Some(read))
    }

    fn file(&self, ino: Ino) -> Result<Option<Arc<File>>> {
        match self.open(ino) {
            Ok(file) => Ok(Some(file)),
            Err(_) if self.attributes(ino)?.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        self.open(ino)?.write_all_at(bytes, offset).map_err(|error| self.explained(ino, &error))
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        self.open(ino)?.set_len(size).map_err(|error| self.explained(ino, &error))
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        let flags = rustix::fs::FallocateFlags::from_bits_retain(u32::try_from(mode).unwrap_or(0));
        Ok(rustix::fs::fallocate(&*self.open(ino)?, flags, offset, bytes)?)
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        let from = if is_hole { rustix::fs::SeekFrom::Hole(offset) } else { rustix::fs::SeekFrom::Data(offset) };
        Ok(rustix::fs::seek(&*self.open(ino)?, from)?)
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        let open = self.handles().used(ino);
        let metadata = match open {
            Some(file) => file.metadata(),
            None => std::fs::symlink_metadata(self.path(ino)),
        };
        match metadata {
            Ok(metadata) => {
                let time = |seconds, part| Time { seconds, nanoseconds: u32::try_from(part).unwrap_or(0) };
                let mtime = time(metadata.mtime(), metadata.mtime_nsec());
                let ctime = time(metadata.ctime(), metadata.ctime_nsec());
                Ok(Some(ObjectAttributes { size: metadata.size(), bytes: metadata.blocks() * 512, mtime, ctime }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.explained(ino, &error)),
        }
    }

    fn set_mtime(&self, ino: Ino, mtime: Time) -> Result<()> {
        let file = self.open(ino)?;
        let omitted = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let set = rustix::fs::Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanoseconds) };
        let times = rustix::fs::Timestamps { last_access: omitted, last_modification: set };
        Ok(rustix::fs::futimens(&*file, &times)?)
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        self.open(ino)?.sync_data().map_err(|error| self.explained(ino, &error))?;
        // The name leaves the list only when it is durable, so that the next sync tries again after a failure.
        let is_unnamed = self.handles().unnamed.contains_key(&ino);
        if is_unnamed {
            let path = self.path(ino);
            self.sync_names(path.parent().unwrap_or(&self.folder))?;
            self.handles().unnamed.remove(&ino);
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        // The names stay on the list meanwhile: a sync of one of them must not trust a call that has not returned.
        let before = self.handles().next_use;
        rustix::fs::syncfs(&self.opened)?;
        self.handles().unnamed.retain(|_, created| *created >= before);
        Ok(())
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        let removed = std::fs::remove_file(self.path(ino));
        {
            let mut handles = self.handles();
            handles.forget(ino);
            handles.unnamed.remove(&ino);
        }
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.explained(ino, &error)),
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<Ino>> {
        let mut found = Vec::new();
        for x in std::fs::read_dir(&self.folder)? {
            for object in std::fs::read_dir(x?.path())? {
                let name = object?.file_name();
                found.extend(name.to_str().and_then(|name| Ino::from_str_radix(name, 16).ok()));
            }
        }
        Ok(found)
    }

    fn room(&self) -> Result<Room> {
        let room = rustix::fs::statvfs(&self.folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(room.f_frsize);
        Ok(Room {
            total_bytes: bytes(room.f_blocks),
            free_bytes: bytes(room.f_bfree),
            available_bytes: bytes(room.f_bavail),
        })
    }
}
