//! [`Disk`]: files in memory, with counts of reads and faults to inject.

use crate::error::{Error, Result};
use crate::storage::{DirectoryEntry, File, OpenMode, ReadMapping, Storage, StorageLock};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Files in memory. Writes fail once they would exceed `room` bytes.
pub(in crate::table) struct Disk {
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>>,
    pub(super) room: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(in crate::table) read_bytes: AtomicU64,
    /// The bytes of files that memory has room for. 0: unknown.
    pub(in crate::table) file_room: AtomicU64,
    /// Whether a file system keeps space for what is written into the page cache.
    pub(super) keeps_space: AtomicBool,
    /// How often a file got another length.
    pub(super) cuts: AtomicU64,
    pub(super) medium: bool,
    /// Direct reads are refused from now on.
    pub(super) refuses_medium: AtomicBool,
    pub(super) medium_reads: AtomicU64,
    /// Whether the page cache has all bytes of all files, or none.
    pub(super) is_cached: AtomicBool,
    /// Whether files can be mapped for reads.
    pub(in crate::table) is_mapped: AtomicBool,
    /// The bytes that the page cache was requested to drop.
    pub(super) forgotten_bytes: AtomicU64,
    /// Reads of the byte at this offset fail.
    pub(super) failing: AtomicU64,
}

struct MemoryFile {
    mode: OpenMode,
    disk: Arc<Disk>,
    path: PathBuf,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// The disk as a storage; a newtype, so that files can hold the disk.
pub(in crate::table) struct Memory(pub(in crate::table) Arc<Disk>);

fn error(operation: &'static str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(operation, path, io::Error::from(kind))
}

impl Disk {
    pub(in crate::table) fn new(medium: bool) -> Arc<Self> {
        Arc::new(Disk {
            files: Mutex::default(),
            room: AtomicU64::new(u64::MAX),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            file_room: AtomicU64::new(0),
            keeps_space: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            medium,
            refuses_medium: AtomicBool::new(false),
            medium_reads: AtomicU64::new(0),
            is_cached: AtomicBool::new(false),
            is_mapped: AtomicBool::new(false),
            forgotten_bytes: AtomicU64::new(0),
            failing: AtomicU64::new(u64::MAX),
        })
    }
    pub(in crate::table) fn names(&self) -> Vec<PathBuf> {
        self.files.lock().unwrap().keys().cloned().collect()
    }
    pub(in crate::table) fn contents(&self, path: &Path) -> Vec<u8> {
        self.files.lock().unwrap()[path].lock().unwrap().clone()
    }
    pub(super) fn flip(&self, path: &Path, at: u64) {
        self.files.lock().unwrap()[path].lock().unwrap()[at as usize] ^= 1;
    }
    pub(super) fn cut(&self, path: &Path, bytes: usize) {
        self.files.lock().unwrap()[path].lock().unwrap().truncate(bytes);
    }
    pub(in crate::table) fn put(&self, path: &Path, bytes: &[u8]) {
        self.files.lock().unwrap().insert(path.to_path_buf(), Arc::new(Mutex::new(bytes.to_vec())));
    }
}

impl Memory {
    fn file(&self, path: &Path, mode: OpenMode, bytes: Arc<Mutex<Vec<u8>>>) -> Arc<dyn File> {
        Arc::new(MemoryFile { disk: Arc::clone(&self.0), path: path.to_path_buf(), mode, bytes })
    }
}

impl Storage for Memory {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut files = self.0.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(error("create", path, io::ErrorKind::AlreadyExists));
        }
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        files.insert(path.to_path_buf(), Arc::clone(&bytes));
        Ok(self.file(path, OpenMode::ReadWrite, bytes))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium && (!self.0.medium || self.0.refuses_medium.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        match self.0.files.lock().unwrap().get(path) {
            Some(bytes) => Ok(Some(self.file(path, mode, Arc::clone(bytes)))),
            None => Err(error("open", path, io::ErrorKind::NotFound)),
        }
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        Ok(self.0.files.lock().unwrap().get(path).map(|bytes| bytes.lock().unwrap().len() as u64))
    }
    fn file_room_bytes(&self) -> Option<u64> {
        Some(self.0.file_room.load(Ordering::Relaxed)).filter(|room| *room > 0)
    }
    fn keeps_space_for_writes(&self, _: &Path) -> bool {
        self.0.keeps_space.load(Ordering::Relaxed)
    }
    fn list(&self, _: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        unreachable!()
    }
    fn create_directory(&self, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.0.files.lock().unwrap().remove(path);
        removed.map(|_| ()).ok_or_else(|| error("remove", path, io::ErrorKind::NotFound))
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn hard_link(&self, _: &Path, _: &Path) -> Result<bool> {
        unreachable!()
    }
    fn sync_directory(&self, _: &Path) -> Result<()> {
        unreachable!()
    }
    fn lock(&self, _: &Path, _: bool) -> Result<Box<dyn StorageLock>> {
        unreachable!()
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.disk.reads.fetch_add(1, Ordering::Relaxed);
        if self.mode == OpenMode::ReadMedium {
            self.disk.medium_reads.fetch_add(1, Ordering::Relaxed);
        }
        let failing = self.disk.failing.load(Ordering::Relaxed);
        if (offset..offset + buffer.len() as u64).contains(&failing) {
            return Err(error("read", &self.path, io::ErrorKind::Other));
        }
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        // Short reads are allowed at any time.
        let read = rest.len().min(buffer.len()).min(100_000);
        buffer[..read].copy_from_slice(&rest[..read]);
        self.disk.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
    fn map_for_reads(&self, _: u64) -> Option<Arc<dyn ReadMapping>> {
        let is_mapped = self.disk.is_mapped.load(Ordering::Relaxed);
        let (disk, path, bytes) = (Arc::clone(&self.disk), self.path.clone(), Arc::clone(&self.bytes));
        is_mapped.then(|| Arc::new(MemoryMapping(MemoryFile { mode: self.mode, disk, path, bytes })) as _)
    }
    /// As the kernel counts: there is no page behind the end of the file.
    fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        let end = self.bytes.lock().unwrap().len().next_multiple_of(4096) as u64;
        Some(self.disk.is_cached.load(Ordering::Relaxed) && offset + bytes <= end)
    }
    fn forget_cached(&self, _: u64, bytes: u64) {
        self.disk.forgotten_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    fn write_all_at(&self, offset: u64, new: &[u8]) -> Result<()> {
        let room = self.disk.room.load(Ordering::Relaxed);
        if room < new.len() as u64 {
            return Err(error("write", &self.path, io::ErrorKind::StorageFull));
        }
        self.disk.room.store(room - new.len() as u64, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap();
        let end = offset as usize + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(new);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        unreachable!("tables are synced by lineage")
    }
    fn bytes(&self) -> Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.disk.cuts.fetch_add(1, Ordering::Relaxed);
        self.bytes.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }
}

/// A file in memory, mapped for reads. Its reads are not counted.
struct MemoryMapping(MemoryFile);

impl ReadMapping for MemoryMapping {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let failing = self.0.disk.failing.load(Ordering::Relaxed);
        let bytes = self.0.bytes.lock().unwrap();
        let Some(found) = bytes.get(offset as usize..offset as usize + buffer.len()) else { return false };
        buffer.copy_from_slice(found);
        !(offset..offset + buffer.len() as u64).contains(&failing)
    }
}
