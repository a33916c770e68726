//! [`SimulatedMapping`]: a simulated file mapped for stores.
//!
//! A store goes to the same cached pages as a write, is no operation that could fail, and changes nothing on a dead
//! disk. A sync of a range makes its pages durable, and now and then others too, as the kernel may write back any page
//! at any moment; one that fails leaves phantoms in the range.

use super::disk::{Disk, Fate, input_output_error, power_cut};
use super::fault::OperationKinds;
use super::handles::Opened;
use super::inode::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::storage::Mapping;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// See the module.
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
            Fate::Failure => disk.fail_write_back_of(inode, pages),
            Fate::PowerCut => {
                match disk.random.below(3) {
                    0 => sync_pages(disk, inode, pages),
                    _ => drop(disk.image.change_file(inode, |file| file.write_back_partly(&mut disk.random))),
                }
                return Err(power_cut());
            }
        }
        if disk.tell_error(self.opened.number) { Err(input_output_error()) } else { Ok(()) }
    }
}

fn sync_pages(disk: &mut Disk, inode: super::image::InodeId, pages: Range<u64>) {
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

    /// What is dirty stays so.
    fn release(&self, _: u64, _: u64) {}

    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        let pages = self.pages(from, to);
        self.synced(pages).map_err(|error| Error::io("sync", &self.path, error))
    }
}
