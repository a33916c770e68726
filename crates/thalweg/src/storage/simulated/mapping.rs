//! [`SimulatedMapping`]: a simulated file mapped for stores; [`SimulatedReadMapping`]: a file mapped for reads.
//!
//! A store goes to the same cached pages as a write. It cannot fail, is not counted as an operation, and changes
//! nothing on a dead disk. A sync of a range makes its pages durable, and at times others too, as the kernel may write
//! back any page at any moment. A failed sync leaves phantoms in the range.
//!
//! A read is an operation that may fail. It gives what the cache has, damage included. After a failed read the mapping
//! fails all reads, as on Linux.

use super::fault::OperationKinds;
use super::image::InodeId;
use super::inode::PAGE_BYTES;
use super::opened::Opened;
use super::state::{DiskState, Fate, input_output_error, power_cut};
use crate::error::{Error, Result};
use crate::storage::{Mapping, ReadMapping};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first bytes of a simulated file, mapped for stores.
pub(super) struct SimulatedMapping {
    opened: Arc<Opened>,
    path: Arc<Path>,
    bytes: u64,
}

impl SimulatedMapping {
    pub(super) fn new(opened: Arc<Opened>, path: Arc<Path>, bytes: u64) -> Self {
        SimulatedMapping { opened, path, bytes }
    }

    /// The pages that `[from, to)` touches.
    fn pages(&self, from: u64, to: u64) -> Range<u64> {
        assert!(from <= to && to <= self.bytes, "{from}..{to} of a mapping of {} bytes", self.bytes);
        from / PAGE_BYTES as u64..to.div_ceil(PAGE_BYTES as u64)
    }

    fn synced(&self, pages: Range<u64>) -> io::Result<()> {
        let mut disk = self.opened.disk.disk();
        let disk = &mut *disk;
        let inode = self.opened.inode;
        match disk.begin(OperationKinds::SYNCS)? {
            Fate::Success => sync_pages(disk, inode, pages),
            Fate::Failure => disk.fail_sync(inode, pages),
            Fate::PowerCut => {
                match disk.random.below(3) {
                    0 => sync_pages(disk, inode, pages),
                    _ => drop(disk.image.change_file(inode, |file| file.write_back_partly(&mut disk.random))),
                }
                return Err(power_cut());
            }
        }
        if disk.report_error(self.opened.number) { Err(input_output_error()) } else { Ok(()) }
    }
}

fn sync_pages(disk: &mut DiskState, inode: InodeId, pages: Range<u64>) {
    let random = &mut disk.random;
    disk.image.change_file(inode, |file| {
        file.sync_pages(pages);
        if random.chance(125) {
            file.write_back_partly(random);
        }
    });
}

impl Mapping for SimulatedMapping {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len() as u64);
        assert!(end.is_some_and(|end| end <= self.bytes), "a store within the mapping");
        let mut disk = self.opened.disk.disk();
        if disk.dead {
            return;
        }
        disk.image.change_file(self.opened.inode, |file| {
            assert!(
                file.is_written(self.bytes),
                "the blocks of {} stay written while it is mapped",
                self.path.display()
            );
            file.write(offset, bytes);
        });
    }

    fn populate(&self, from: u64, to: u64) -> Result<()> {
        let pages = self.pages(from, to);
        let mut disk = self.opened.disk.disk();
        let populated = disk.operate(OperationKinds::READS, |disk| {
            disk.image.change_file(self.opened.inode, |file| file.touch(pages));
            Ok(())
        });
        populated.map_err(|error| Error::io("populate the mapping of", &self.path, error))
    }

    /// Dirty pages stay dirty.
    fn release(&self, _: u64, _: u64) {}

    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        let pages = self.pages(from, to);
        self.synced(pages).map_err(|error| Error::io("sync", &self.path, error))
    }
}

/// The first bytes of a simulated file, mapped for reads.
pub(super) struct SimulatedReadMapping {
    opened: Arc<Opened>,
    bytes: u64,
    has_failed: AtomicBool,
}

impl SimulatedReadMapping {
    pub(super) fn new(opened: Arc<Opened>, bytes: u64) -> Self {
        SimulatedReadMapping { opened, bytes, has_failed: AtomicBool::new(false) }
    }
}

impl ReadMapping for SimulatedReadMapping {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let end = offset.checked_add(buffer.len() as u64);
        if self.has_failed.load(Ordering::Relaxed) || end.is_none_or(|end| end > self.bytes) {
            return false;
        }
        let read = self.opened.disk.disk().operate(OperationKinds::READS, |disk| {
            let file = disk.image.files.get(&self.opened.inode).ok_or_else(input_output_error)?;
            // A page beyond the end of the file faults; the rest of the last page is zeros.
            let count = file.read(offset, buffer, false);
            let page_end = file.live_bytes().next_multiple_of(PAGE_BYTES as u64);
            buffer.get_mut(count..).unwrap_or_default().fill(0);
            if end.is_some_and(|end| end <= page_end) { Ok(()) } else { Err(input_output_error()) }
        });
        self.has_failed.fetch_or(read.is_err(), Ordering::Relaxed);
        read.is_ok()
    }
}
