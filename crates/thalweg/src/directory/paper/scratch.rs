//! [`Scratch`]: the file to which f-hashes are evicted: pages of 4 KiB, each read and written alone.
//!
//! The file is created when the first page is written, past the page cache if the file system allows that. Its name is
//! removed at once, so nothing of it outlives the process. No byte of it is ever durable, and recovery needs none.
//!
//! Locks: `file` while the file is created; `free` for a push or a pop. Never over a read or a write.

use super::page::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::storage::{BufferPool, File, IoBuffer, Storage};
use crate::sync::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far the file is extended ahead of its writes.
const RESERVE_BYTES_MIN: u64 = 64 << 10;
const RESERVE_BYTES_MAX: u64 = 16 << 20;

/// The beginning of the names of such files.
const PREFIX: &str = "f-hashes-";

/// Removes files that a crash between their creation and the removal of their names has left.
pub(crate) fn remove_scratch_files(storage: &dyn Storage, root: &Path) -> Result<()> {
    let entries = storage.list(root)?.unwrap_or_default();
    let mut left = entries.iter().filter(|entry| entry.name.starts_with(PREFIX));
    left.try_for_each(|entry| storage.remove(&root.join(&entry.name)))
}

/// The file to which f-hashes are evicted; see the module.
pub(super) struct Scratch {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    buffers: Arc<BufferPool>,
    file: Mutex<Option<Arc<dyn File>>>,
    free: Mutex<FreePages>,
}

#[derive(Default)]
struct FreePages {
    /// The free pages below `end`.
    pages: Vec<u32>,
    end: u32,
    reserved_bytes: u64,
}

impl Scratch {
    /// The file `number` of a database in `root`; creates nothing.
    pub(super) fn new(storage: Arc<dyn Storage>, root: &Path, number: u64) -> Scratch {
        Scratch {
            storage,
            path: root.join(format!("{PREFIX}{number}")),
            buffers: BufferPool::new(PAGE_BYTES),
            file: Mutex::default(),
            free: Mutex::default(),
        }
    }

    /// An empty buffer for one page.
    pub(super) fn buffer(&self) -> IoBuffer {
        self.buffers.take()
    }

    /// Takes a free page, and returns its number.
    pub(super) fn allocate(&self) -> u32 {
        let mut free = self.free.lock();
        free.pages.pop().unwrap_or_else(|| {
            free.end += 1;
            free.end - 1
        })
    }

    /// Frees a page.
    pub(super) fn release(&self, page: u32) {
        self.free.lock().pages.push(page);
    }

    /// The bytes of the file that have f-hashes.
    pub(super) fn bytes(&self) -> u64 {
        let free = self.free.lock();
        (u64::from(free.end) - free.pages.len() as u64) * PAGE_BYTES as u64
    }

    /// Writes a page.
    pub(super) fn write(&self, page: u32, mut buffer: IoBuffer) -> Result<()> {
        let (file, offset) = (self.file()?, u64::from(page) * PAGE_BYTES as u64);
        self.reserve(&*file, offset + PAGE_BYTES as u64)?;
        buffer.pad();
        file.write_all_at(offset, buffer.filled())
    }

    /// Reads a page.
    pub(super) fn read(&self, page: u32) -> Result<IoBuffer> {
        let file = self.file()?;
        let mut buffer = self.buffer();
        file.read_exact_at(u64::from(page) * PAGE_BYTES as u64, buffer.bytes_mut())?;
        buffer.set_len(PAGE_BYTES);
        Ok(buffer)
    }

    /// Extends the file in large steps: the kernel serialises direct writes that extend a file.
    fn reserve(&self, file: &dyn File, bytes: u64) -> Result<()> {
        let reserved = {
            let mut free = self.free.lock();
            if bytes <= free.reserved_bytes {
                return Ok(());
            }
            let step = free.reserved_bytes.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
            free.reserved_bytes = (free.reserved_bytes + step).max(bytes);
            free.reserved_bytes
        };
        match file.reserve(reserved) {
            // The page may fit although the step does not. If it does not fit, its write fails.
            Err(Error::NoSpace { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn file(&self) -> Result<Arc<dyn File>> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let created = match self.storage.create_direct(&self.path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                self.storage.remove(&self.path)?;
                self.storage.create_direct(&self.path)?
            }
            created => created?,
        };
        self.storage.remove(&self.path)?;
        Ok(Arc::clone(file.insert(created)))
    }
}
