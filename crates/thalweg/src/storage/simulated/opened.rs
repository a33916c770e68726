//! [`Opened`]: an open file description.

use super::disk::SimulatedDisk;
use super::image::InodeId;

/// An open file description, which a handle and its mappings share. The drop closes it.
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
