//! The simulated disk as a [`Storage`], its [`File`]s and its locks.

use super::SimulatedDisk;
use super::disk::{Disk, Fate, input_output_error, power_cut};
use super::fault::OperationKinds;
use super::image::InodeId;
use super::mapping::{SimulatedMapping, SimulatedReadMapping};
use crate::error::{Error, LockHolder, Result};
use crate::storage::{DirectoryEntry, File, Mapping, OpenMode, ReadMapping, Storage, StorageLock};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Small, so that a database under test begins with tables through the page cache and outgrows them.
const FILE_ROOM_BYTES: u64 = 64 << 10;

impl SimulatedDisk {
    fn operate<T>(
        &self,
        kind: OperationKinds,
        operation: &'static str,
        path: &Path,
        effect: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> Result<T> {
        self.disk().operate(kind, effect).map_err(|error| Error::io(operation, path, error))
    }

    fn handle(&self, path: &Path, mode: OpenMode, inode: InodeId, number: u64) -> SimulatedFile {
        let opened = Arc::new(Opened { disk: self.clone(), inode, number });
        SimulatedFile { disk: self.clone(), path: Arc::from(path), mode, inode, number, opened }
    }
}

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
        Ok(Arc::new(self.handle(path, OpenMode::ReadWrite, inode, number)))
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
        Ok(opened.map(|(inode, number)| Arc::new(self.handle(path, mode, inode, number)) as Arc<dyn File>))
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
        let free = disk.free_pages().saturating_mul(super::PAGE_BYTES as u64);
        (!disk.properties.hides_free_bytes).then_some(free)
    }

    fn file_room_bytes(&self) -> Option<u64> {
        Some(FILE_ROOM_BYTES)
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
            // POSIX: two names of one file stay as they are.
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
        // Whoever else there is, it is in this process.
        let holder = LockHolder::ThisProcess;
        let (inode, number) = locked.ok_or_else(|| Error::Locked { path: Arc::from(path), holder })?;
        Ok(Box::new(SimulatedLock { file: self.handle(path, OpenMode::Read, inode, number) }))
    }
}

impl Disk {
    fn sync_names(&mut self, path: &Path) -> io::Result<()> {
        let found = self.image.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        if path.components().count() <= self.properties.mount_depth {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.image.commit_names(|(directory, _)| *directory == found);
        Ok(())
    }
}

/// An open directory, which can be synced and nothing else.
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
        self.file.disk.disk().unlock(self.file.inode);
    }
}

/// An open file description: what a handle and its mappings share.
pub(super) struct Opened {
    pub(super) disk: SimulatedDisk,
    pub(super) inode: InodeId,
    pub(super) number: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.disk.disk().close_handle(self.number);
    }
}

/// A handle of a simulated file.
struct SimulatedFile {
    disk: SimulatedDisk,
    path: Arc<Path>,
    mode: OpenMode,
    inode: InodeId,
    number: u64,
    opened: Arc<Opened>,
}

impl SimulatedFile {
    fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path: PathBuf = self.path.to_path_buf();
        move |error| Error::io(operation, &path, error)
    }

    /// An error for a handle that only reads, as the kernel's `EBADF`.
    fn need_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::ReadWrite { Ok(()) } else { Err(io::Error::from_raw_os_error(9)) }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.need_writable()?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut disk = self.disk.disk();
        let fate = disk.begin(OperationKinds::WRITES)?;
        if fate == Fate::Success {
            return disk.write(self.inode, offset, bytes);
        }
        // All, none, or up to any byte; what there was no room for is an error like the other.
        let done = match disk.random.below(4) {
            0 => 0,
            1 => bytes.len(),
            _ => disk.random.below(bytes.len() as u64 + 1) as usize,
        };
        let _ = disk.write(self.inode, offset, bytes.get(..done).unwrap_or(bytes));
        Err(if fate == Fate::PowerCut { power_cut() } else { input_output_error() })
    }

    fn synced(&self) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let disk = &mut *disk;
        match disk.begin(OperationKinds::SYNCS)? {
            Fate::Success => {
                if disk.properties.shares_journal {
                    disk.image.commits_of(self.inode, &mut disk.random);
                }
                disk.image.change_file(self.inode, |file| file.sync());
            }
            Fate::Failure => disk.fail_sync(self.inode, 0..u64::MAX),
            Fate::PowerCut => {
                let random = &mut disk.random;
                disk.image.change_file(self.inode, |file| match random.below(3) {
                    0 => file.sync(),
                    _ => file.write_back_partly(random),
                });
                return Err(power_cut());
            }
        }
        if disk.tell_error(self.number) { Err(input_output_error()) } else { Ok(()) }
    }

    fn write_back_begun(&self, pages: Range<u64>) -> io::Result<()> {
        self.need_writable()?;
        let mut disk = self.disk.disk();
        let disk = &mut *disk;
        match disk.begin(OperationKinds::WRITE_BACKS)? {
            Fate::Success => Ok(()),
            Fate::Failure => {
                let are_dropped = disk.random.coin();
                disk.lose_write_back(self.inode, pages, are_dropped);
                Err(input_output_error())
            }
            Fate::PowerCut => {
                let random = &mut disk.random;
                disk.image.change_file(self.inode, |file| file.write_back_partly(random));
                Err(power_cut())
            }
        }
    }

    fn written_out(&self) -> io::Result<()> {
        self.need_writable()?;
        let mut disk = self.disk.disk();
        let disk = &mut *disk;
        match disk.begin(OperationKinds::SYNCS)? {
            Fate::Success => {
                disk.image.change_file(self.inode, |file| file.write_out());
            }
            Fate::Failure => disk.fail_write_back(self.inode),
            Fate::PowerCut => {
                let random = &mut disk.random;
                disk.image.change_file(self.inode, |file| file.write_back_partly(random));
                return Err(power_cut());
            }
        }
        if disk.tell_error(self.number) { Err(input_output_error()) } else { Ok(()) }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut disk = self.disk.disk();
        disk.operate(OperationKinds::READS, |disk| {
            let mut length = buffer.len();
            if length > 1 && disk.random_short_read() {
                length = 1 + disk.random.below(length as u64 - 1) as usize;
            }
            let file = disk.image.files.get(&self.inode).ok_or_else(input_output_error)?;
            let part = buffer.get_mut(..length).unwrap_or_default();
            Ok(file.read(offset, part, self.mode == OpenMode::ReadMedium))
        })
    }
}

impl Disk {
    fn random_short_read(&mut self) -> bool {
        let per_mille = u64::from(self.properties.short_reads_per_mille);
        per_mille > 0 && self.random.chance(per_mille)
    }
}

impl File for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read(offset, buffer).map_err(self.failed("read"))
    }

    /// One KiB in four: so reads past the page cache happen, and the same in every run.
    fn is_cached(&self, offset: u64, _bytes: u64) -> Option<bool> {
        Some((offset >> 10).is_multiple_of(4))
    }

    fn links(&self) -> Result<Option<u64>> {
        self.disk.operate(OperationKinds::LOOKUPS, "look at", &self.path, |disk| Ok(Some(disk.names_of(self.inode))))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes).map_err(self.failed("write to"))
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        let page = super::PAGE_BYTES as u64;
        let pages = offset / page..offset.saturating_add(bytes).div_ceil(page);
        self.write_back_begun(pages).map_err(self.failed("write back"))
    }

    fn is_written_whole(&self) -> Option<bool> {
        Some(self.disk.disk().image.files.get(&self.inode)?.is_written_whole())
    }

    fn write_out(&self) -> Result<()> {
        self.written_out().map_err(self.failed("write out"))
    }

    fn sync(&self) -> Result<()> {
        self.synced().map_err(self.failed("sync"))
    }

    fn bytes(&self) -> Result<u64> {
        self.disk.operate(OperationKinds::LOOKUPS, "look at", &self.path, |disk| {
            let file = disk.image.files.get(&self.inode).ok_or_else(input_output_error)?;
            Ok(file.live_bytes())
        })
    }

    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.disk.operate(OperationKinds::WRITES, "set the length of", &self.path, |disk| {
            self.need_writable()?;
            if bytes > i64::MAX as u64 {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let file = disk.image.files.get(&self.inode).ok_or_else(input_output_error)?;
            if bytes > file.live_bytes() {
                disk.need_some_space()?;
            }
            disk.image.change_file(self.inode, |file| file.set_bytes(bytes));
            Ok(())
        })
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        // As Linux: the length grows with what is reserved. Blocks are not: what is written later may find no space.
        if bytes > self.bytes()? { self.set_bytes(bytes) } else { Ok(()) }
    }

    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        let can_map = self.disk.operate(OperationKinds::LOOKUPS, "map", &self.path, |disk| {
            self.need_writable()?;
            let file = disk.image.files.get(&self.inode).ok_or_else(input_output_error)?;
            Ok(!disk.properties.refuses_mappings && file.is_written(bytes))
        })?;
        let mapping = || SimulatedMapping::new(Arc::clone(&self.opened), Arc::clone(&self.path), bytes);
        Ok(can_map.then(|| Arc::new(mapping()) as Arc<dyn Mapping>))
    }

    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        let can_map = self.disk.operate(OperationKinds::LOOKUPS, "map", &self.path, |disk| {
            disk.image.files.get(&self.inode).ok_or_else(input_output_error)?;
            Ok(!disk.properties.refuses_mappings)
        });
        let mapping = || SimulatedReadMapping::new(Arc::clone(&self.opened), bytes);
        can_map.unwrap_or(false).then(|| Arc::new(mapping()) as Arc<dyn ReadMapping>)
    }
}
