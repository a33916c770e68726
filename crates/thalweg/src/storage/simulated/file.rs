//! [`SimulatedFile`]: a handle of a simulated file.

use super::disk::SimulatedDisk;
use super::fault::OperationKinds;
use super::image::InodeId;
use super::inode::PAGE_BYTES;
use super::mapping::{SimulatedMapping, SimulatedReadMapping};
use super::opened::Opened;
use super::state::{Fate, input_output_error, power_cut};
use crate::error::{Error, Result};
use crate::storage::{File, Mapping, OpenMode, ReadMapping};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A handle of a simulated file.
pub(super) struct SimulatedFile {
    disk: SimulatedDisk,
    path: Arc<Path>,
    mode: OpenMode,
    inode: InodeId,
    number: u64,
    opened: Arc<Opened>,
}

impl SimulatedFile {
    /// The handle that `disk` counts under `number`.
    pub(super) fn new(disk: &SimulatedDisk, path: &Path, mode: OpenMode, inode: InodeId, number: u64) -> Self {
        let opened = Arc::new(Opened { disk: disk.clone(), inode, number });
        SimulatedFile { disk: disk.clone(), path: Arc::from(path), mode, inode, number, opened }
    }

    /// Releases a lock on the file.
    pub(super) fn unlock(&self) {
        self.disk.disk().unlock(self.inode);
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = Arc::clone(&self.path);
        move |error| Error::io(operation, &path, error)
    }

    /// An error for a handle that is open for reads only (`EBADF`).
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
        // Writes all, nothing, or up to any byte. A full disk gives the same error.
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
        if disk.report_error(self.number) { Err(input_output_error()) } else { Ok(()) }
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
        if disk.report_error(self.number) { Err(input_output_error()) } else { Ok(()) }
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

impl File for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read(offset, buffer).map_err(self.failed("read"))
    }

    /// `true` for every other KiB of a file; the number of the file decides which. So some reads bypass the page cache,
    /// some files are renewed before they are used again, and every run gives the same answers.
    fn is_cached(&self, offset: u64, _bytes: u64) -> Option<bool> {
        Some((self.inode + (offset >> 10)).is_multiple_of(2))
    }

    fn links(&self) -> Result<Option<u64>> {
        self.disk.operate(OperationKinds::LOOKUPS, "look at", &self.path, |disk| Ok(Some(disk.names_of(self.inode))))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes).map_err(self.failed("write to"))
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        let page = PAGE_BYTES as u64;
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
        // As Linux: the reservation extends the length. Unlike Linux it allocates no blocks, so a later write may find
        // no space.
        if bytes > self.bytes()? { self.set_bytes(bytes) } else { Ok(()) }
    }

    fn allocate(&self, bytes: u64) -> Result<bool> {
        if self.disk.disk().properties.refuses_mappings {
            return Ok(false);
        }
        // Blocks that read as zeros: after a power cut too, once a sync has made them durable.
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.write(0, &zeros).map_err(self.failed("reserve space for"))?;
        Ok(true)
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
