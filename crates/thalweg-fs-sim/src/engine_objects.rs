//! [`SimulatedObjects`]: objects as files of a simulated disk.

use crate::clock::VirtualClock;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::simulation::{File, OpenMode, Storage};
use thalweg_fs::{Error, Ino, ObjectAttributes, ObjectStore, Result, Room, Time};

const OBJECTS: &str = "/objects";

/// Objects as files of a simulated disk.
pub(crate) struct SimulatedObjects {
    disk: SimulatedDisk,
    clock: Arc<VirtualClock>,
    /// Objects that this process created, and whose names are not durable.
    unnamed: Mutex<BTreeSet<Ino>>,
    /// Objects with an error that a sync of all objects has met: the next sync of each object reports it.
    failed: Mutex<BTreeSet<Ino>>,
}

impl SimulatedObjects {
    pub(crate) fn new(disk: SimulatedDisk, clock: &Arc<VirtualClock>) -> Result<Self> {
        disk.create_directory(Path::new(OBJECTS))?;
        disk.sync_directory(Path::new("/"))?;
        Ok(SimulatedObjects { disk, clock: Arc::clone(clock), unnamed: Mutex::default(), failed: Mutex::default() })
    }

    fn path(ino: Ino) -> PathBuf {
        Path::new(OBJECTS).join(format!("{ino:016x}"))
    }

    fn file(&self, ino: Ino) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&Self::path(ino), OpenMode::ReadWrite)?;
        file.ok_or_else(|| Error::explained(libc::EIO, format!("object {ino} has no file")))
    }
}

impl ObjectStore for SimulatedObjects {
    fn create(&self, ino: Ino) -> Result<()> {
        match self.disk.file_bytes(&Self::path(ino))? {
            Some(_) => self.truncate(ino, 0)?,
            None => drop(self.disk.create(&Self::path(ino))?),
        }
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).insert(ino);
        Ok(())
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let file = self.file(ino)?;
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(offset + read as u64, &mut bytes[read..])? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.file(ino)?.write_all_at(offset, bytes)?)
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        Ok(self.file(ino)?.set_bytes(size)?)
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        let file = self.file(ino)?;
        let size = file.bytes()?;
        let end = offset + bytes;
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 && offset < size {
            file.write_all_at(offset, &vec![0; (end.min(size) - offset) as usize])?;
        }
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && size < end {
            file.set_bytes(end)?;
        }
        Ok(())
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        match self.file(ino)?.bytes()? {
            size if offset >= size => Err(Error::posix(libc::ENXIO)),
            size if is_hole => Ok(size),
            _ => Ok(offset),
        }
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        let size = self.disk.file_bytes(&Self::path(ino))?;
        let now = thalweg_fs::Clock::now(&*self.clock);
        Ok(size.map(|size| ObjectAttributes { size, bytes: size, mtime: now, ctime: now }))
    }

    fn set_mtime(&self, _ino: Ino, _mtime: Time) -> Result<()> {
        Ok(())
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino) {
            return Err(Error::explained(libc::EIO, format!("object {ino} has lost bytes")));
        }
        self.file(ino)?.sync()?;
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        if unnamed.contains(&ino) {
            self.disk.sync_directory(Path::new(OBJECTS))?;
            unnamed.remove(&ino);
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        let mut failure = None;
        for ino in self.list()? {
            if let Err(error) = self.file(ino)?.sync() {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(ino);
                failure = failure.or(Some(error));
            }
        }
        self.disk.sync_directory(Path::new(OBJECTS))?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        if self.disk.file_bytes(&Self::path(ino))?.is_some() {
            self.disk.remove(&Self::path(ino))?;
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Ino>> {
        let all = self.disk.list(Path::new(OBJECTS))?.unwrap_or_default();
        Ok(all.iter().filter_map(|entry| Ino::from_str_radix(&entry.name, 16).ok()).collect())
    }

    fn room(&self) -> Result<Room> {
        Ok(Room { total_bytes: 1 << 40, free_bytes: 1 << 39, available_bytes: 1 << 39 })
    }
}
