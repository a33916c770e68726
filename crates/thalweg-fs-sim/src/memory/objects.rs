//! [`MemoryObjects`]: objects as byte vectors, with their durable parts.

use super::disk::{MemoryDisk, failed};
use super::object::Object;
use thalweg_fs::{Clock, Error, Ino, ObjectAttributes, ObjectStore, Result, Room, Time};

/// Objects of a [`MemoryDisk`].
pub struct MemoryObjects {
    disk: MemoryDisk,
}

impl MemoryObjects {
    pub(super) fn new(disk: MemoryDisk) -> Self {
        MemoryObjects { disk }
    }

    fn change(&self, ino: Ino, effect: impl FnOnce(&mut Object, bool) -> Result<()>) -> Result<()> {
        self.disk.disk().change(|disk| {
            let (now, is_full) = (disk.clock.now(), disk.is_full);
            let object = disk.objects.get_mut(&ino).ok_or_else(|| missing(ino))?;
            effect(object, is_full)?;
            (object.mtime, object.ctime) = (now, now);
            Ok(())
        })
    }

    fn look<T>(&self, ino: Ino, at: impl FnOnce(&Object) -> Result<T>) -> Result<T> {
        let disk = self.disk.disk();
        disk.read()?;
        at(disk.objects.get(&ino).ok_or_else(|| missing(ino))?)
    }
}

fn missing(ino: Ino) -> Error {
    Error::explained(libc::EIO, format!("object {ino} has no file"))
}

impl ObjectStore for MemoryObjects {
    fn create(&self, ino: Ino) -> Result<()> {
        self.disk.disk().change(|disk| {
            if disk.is_full {
                return Err(Error::posix(libc::ENOSPC));
            }
            let now = disk.clock.now();
            let object = disk.objects.entry(ino).or_default();
            object.live.clear();
            // The pages that a failed sync lost do not belong to the emptied file.
            (object.is_inherited, object.is_lost) = (false, false);
            (object.mtime, object.ctime) = (now, now);
            Ok(())
        })
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.look(ino, |object| {
            let rest = object.live.get(offset as usize..).unwrap_or_default();
            let length = rest.len().min(bytes.len());
            bytes[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        self.change(ino, |object, is_full| {
            let (from, to) = (offset as usize, offset as usize + bytes.len());
            if is_full && object.live.len() < to {
                return Err(Error::posix(libc::ENOSPC));
            }
            if object.live.len() < to {
                object.live.resize(to, 0);
            }
            object.live[from..to].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        self.change(ino, |object, _| {
            object.live.resize(size as usize, 0);
            object.is_lost &= size > 0;
            Ok(())
        })
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        self.change(ino, |object, is_full| {
            let (from, to) = (offset as usize, (offset + bytes) as usize);
            if is_full && mode & libc::FALLOC_FL_PUNCH_HOLE == 0 {
                return Err(Error::posix(libc::ENOSPC));
            }
            if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && object.live.len() < to {
                object.live.resize(to, 0);
            }
            if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
                let size = object.live.len();
                object.live[from.min(size)..to.min(size)].fill(0);
            }
            Ok(())
        })
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        self.look(ino, |object| match object.live.len() as u64 {
            size if offset >= size => Err(Error::posix(libc::ENXIO)),
            size if is_hole => Ok(size),
            _ => Ok(offset),
        })
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        let disk = self.disk.disk();
        disk.read()?;
        Ok(disk.objects.get(&ino).map(|object| {
            let size = object.live.len() as u64;
            ObjectAttributes { size, bytes: size, mtime: object.mtime, ctime: object.ctime }
        }))
    }

    fn set_mtime(&self, ino: Ino, mtime: Time) -> Result<()> {
        self.change(ino, |_, _| Ok(()))?;
        if let Some(object) = self.disk.disk().objects.get_mut(&ino) {
            object.mtime = mtime;
        }
        Ok(())
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        let mut disk = self.disk.disk();
        let has_error = disk.objects.get_mut(&ino).is_some_and(|object| std::mem::take(&mut object.has_error));
        if has_error || disk.strikes() {
            disk.begin()?;
            disk.objects.get_mut(&ino).ok_or_else(|| missing(ino))?.is_lost = true;
            return Err(failed());
        }
        disk.change_surely(|disk| {
            let object = disk.objects.get_mut(&ino).ok_or_else(|| missing(ino))?;
            object.sync();
            Ok(())
        })
    }

    fn sync_all(&self) -> Result<()> {
        let mut disk = self.disk.disk();
        if disk.strikes() {
            disk.begin()?;
            let unsynced = disk.objects.values_mut().find(|object| object.durable.as_ref() != Some(&object.live));
            if let Some(object) = unsynced {
                (object.is_lost, object.has_error) = (true, true);
            }
            return Err(failed());
        }
        disk.change_surely(|disk| {
            for object in disk.objects.values_mut().filter(|object| !object.is_lost) {
                object.durable = Some(object.live.clone());
            }
            disk.removed.clear();
            Ok(())
        })
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        self.disk.disk().change(|disk| {
            // The kernel may have made the name durable by itself.
            if let Some(object) = disk.objects.remove(&ino) {
                disk.removed.insert(ino, object.durable.unwrap_or(object.live));
            }
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<Ino>> {
        let disk = self.disk.disk();
        disk.read()?;
        Ok(disk.objects.keys().copied().collect())
    }

    fn room(&self) -> Result<Room> {
        Ok(Room { total_bytes: 1 << 40, free_bytes: 1 << 39, available_bytes: 1 << 39 })
    }
}
