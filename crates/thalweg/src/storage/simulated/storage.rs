//! The simulated disk as a [`Storage`], with its directories and locks.

use super::disk::SimulatedDisk;
use super::fault::OperationKinds;
use super::file::SimulatedFile;
use super::image::InodeId;
use super::inode::PAGE_BYTES;
use crate::error::{Error, LockHolder, Result};
use crate::storage::{DirectoryEntry, File, OpenMode, Storage, StorageLock};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The answer of `file_room_bytes`, unless a test sets another: small, so that a database outgrows it.
const FILE_ROOM_BYTES: u64 = 64 << 10;

impl Storage for SimulatedDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let (inode, number) = self.operate(OperationKinds::NAMES, "create", path, |disk| {
            disk.need_descriptor()?;
            let entry = disk.image.entry(path)?;
            if disk.image.target(&entry).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            disk.need_some_space()?;
            let inode = disk.image.add(entry, false);
            Ok((inode, disk.open_handle(inode)))
        })?;
        Ok(Arc::new(SimulatedFile::new(self, path, OpenMode::ReadWrite, inode, number)))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        let opened = self.operate(OperationKinds::LOOKUPS, "open", path, |disk| {
            disk.need_descriptor()?;
            let inode = disk.image.find_file(path)?;
            if mode == OpenMode::ReadMedium && disk.properties.refuses_medium_reads {
                return Ok(None);
            }
            Ok(Some((inode, disk.open_handle(inode))))
        })?;
        Ok(opened.map(|(inode, number)| Arc::new(SimulatedFile::new(self, path, mode, inode, number)) as Arc<dyn File>))
    }

    fn commits_together(&self, _directories: &[&Path]) -> bool {
        self.disk().properties.shares_journal
    }

    fn journal_commits(&self, _path: &Path) -> Option<u64> {
        let disk = self.disk();
        disk.properties.shares_journal.then_some(disk.image.journal_commits)
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        let disk = self.disk();
        let free = disk.free_pages().saturating_mul(PAGE_BYTES as u64);
        (!disk.properties.hides_free_bytes).then_some(free)
    }

    fn keeps_space_for_writes(&self, _: &Path) -> bool {
        true
    }

    fn file_room_bytes(&self) -> Option<u64> {
        Some(self.disk().properties.file_room_bytes.unwrap_or(FILE_ROOM_BYTES))
    }

    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        self.operate(OperationKinds::LOOKUPS, "look at", path, |disk| {
            let found = disk.image.find(path)?;
            Ok(found.and_then(|inode| disk.image.files.get(&inode)).map(|file| file.live_bytes()))
        })
    }

    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        self.operate(OperationKinds::LOOKUPS, "list", directory, |disk| {
            disk.need_descriptor()?;
            let Some(found) = disk.image.find(directory)? else { return Ok(None) };
            let names = disk.image.directories.get(&found).ok_or(io::ErrorKind::NotADirectory)?;
            let describe = |(name, inode): (&Arc<str>, &InodeId)| {
                let file = disk.image.files.get(inode);
                let bytes = file.map_or(0, |file| file.live_bytes());
                DirectoryEntry { name: name.to_string(), is_directory: file.is_none(), bytes }
            };
            Ok(Some(names.live.iter().map(describe).collect()))
        })
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.operate(OperationKinds::NAMES, "create", path, |disk| {
            let mut above: Vec<&Path> = path.ancestors().collect();
            above.reverse();
            for part in above {
                match disk.image.find(part)? {
                    Some(found) if disk.image.files.contains_key(&found) => {
                        return Err(io::ErrorKind::AlreadyExists.into());
                    }
                    Some(_) => {}
                    None => {
                        disk.need_some_space()?;
                        let entry = disk.image.entry(part)?;
                        let directory = entry.0;
                        disk.image.add(entry, true);
                        if part.components().count() <= disk.properties.mount_depth + 1 {
                            disk.image.commit_names(|(changed, _)| *changed == directory);
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.operate(OperationKinds::NAMES, "remove", path, |disk| {
            let entry = disk.image.entry(path)?;
            let target = disk.image.target(&entry).ok_or(io::ErrorKind::NotFound)?;
            if disk.image.directories.get(&target).is_some_and(|directory| !directory.live.is_empty()) {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            disk.image.change_names(vec![(entry, None)]);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.operate(OperationKinds::NAMES, "rename", from, |disk| {
            let (source, goal) = (disk.image.entry(from)?, disk.image.entry(to)?);
            let moved = disk.image.target(&source).ok_or(io::ErrorKind::NotFound)?;
            let replaced = disk.image.target(&goal);
            // POSIX: a rename between two names of one file does nothing.
            if replaced == Some(moved) {
                return Ok(());
            }
            match (disk.image.files.contains_key(&moved), replaced) {
                (true, Some(id)) if disk.image.directories.contains_key(&id) => {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                (false, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                (false, None) if to.starts_with(from) => return Err(io::ErrorKind::InvalidInput.into()),
                _ => {}
            }
            disk.image.change_names(vec![(source, None), (goal, Some(moved))]);
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool> {
        self.operate(OperationKinds::NAMES, "link", from, |disk| {
            let linked = disk.image.find_file(from)?;
            let entry = disk.image.entry(to)?;
            if disk.image.target(&entry).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if disk.properties.refuses_hard_links {
                return Ok(false);
            }
            disk.need_some_space()?;
            disk.image.change_names(vec![(entry, Some(linked))]);
            Ok(true)
        })
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.operate(OperationKinds::SYNCS, "sync", path, |disk| {
            disk.need_descriptor()?;
            disk.sync_names(path)
        })
    }

    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        self.operate(OperationKinds::LOOKUPS, "open", path, |disk| {
            disk.need_descriptor()?;
            let found = disk.image.find(path)?.ok_or(io::ErrorKind::NotFound)?;
            disk.image.directories.get(&found).ok_or(io::ErrorKind::NotADirectory)?;
            disk.directories_open += 1;
            Ok(())
        })?;
        Ok(Some(Arc::new(SimulatedDirectory { disk: self.clone(), path: Arc::from(path) })))
    }

    fn open_files_max(&self) -> Option<u64> {
        self.disk().properties.open_files_told
    }

    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        let locked = self.operate(OperationKinds::LOOKUPS, "lock", path, |disk| {
            disk.need_descriptor()?;
            let inode = disk.image.find_file(path)?;
            Ok(disk.lock(inode, shared).then(|| (inode, disk.open_handle(inode))))
        })?;
        // A simulated disk has one process.
        let holder = LockHolder::ThisProcess;
        let (inode, number) = locked.ok_or_else(|| Error::Locked { path: Arc::from(path), holder })?;
        Ok(Box::new(SimulatedLock { file: SimulatedFile::new(self, path, OpenMode::Read, inode, number) }))
    }
}

/// An open directory, which can only be synced.
struct SimulatedDirectory {
    disk: SimulatedDisk,
    path: Arc<Path>,
}

impl SimulatedDirectory {
    fn refused<T>(&self, operation: &'static str) -> Result<T> {
        Err(Error::io(operation, &self.path, io::ErrorKind::IsADirectory.into()))
    }
}

impl File for SimulatedDirectory {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        self.refused("read")
    }
    fn write_all_at(&self, _: u64, _: &[u8]) -> Result<()> {
        self.refused("write to")
    }
    fn sync(&self) -> Result<()> {
        self.disk.operate(OperationKinds::SYNCS, "sync", &self.path, |disk| disk.sync_names(&self.path))
    }
    fn bytes(&self) -> Result<u64> {
        self.refused("look at")
    }
    fn set_bytes(&self, _: u64) -> Result<()> {
        self.refused("set the length of")
    }
}

impl Drop for SimulatedDirectory {
    fn drop(&mut self) {
        self.disk.disk().directories_open -= 1;
    }
}

/// A lock on a simulated file.
struct SimulatedLock {
    file: SimulatedFile,
}

impl StorageLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.file.unlock();
    }
}
