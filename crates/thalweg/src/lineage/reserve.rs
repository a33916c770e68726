//! [`Reserve`]: a small file that is given up when the disk is full, so that settling can go on and free space
//! (DESIGN 6, Disk full).
//!
//! Its bytes are written, so that it has blocks; its content means nothing, and nobody syncs it: after a crash the next
//! open makes it anew. Failures are not errors of the database: a disk without room for it has none to reserve.

use super::manifest::CHUNK_BYTES;
use crate::error::Result;
use crate::storage::Storage;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file.
pub(super) const NAME: &str = "RESERVE";

const BYTES: usize = 256 << 10;

/// The reserve of a database.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    present: AtomicBool,
}

impl Reserve {
    pub(super) fn new(root: &Path) -> Self {
        Reserve { path: root.join(NAME), present: AtomicBool::new(false) }
    }

    pub(super) fn is_present(&self) -> bool {
        self.present.load(Ordering::Relaxed)
    }

    /// Makes the file where there is room for it. Blocks; for an open, and for coroutines between two yields.
    pub(super) fn replenish(&self, storage: &dyn Storage) {
        if self.is_present() {
            return;
        }
        match self.write(storage) {
            Ok(()) => self.present.store(true, Ordering::Relaxed),
            Err(_) => drop(storage.remove(&self.path)),
        }
    }

    fn write(&self, storage: &dyn Storage) -> Result<()> {
        match storage.file_bytes(&self.path)? {
            Some(bytes) if bytes == BYTES as u64 => return Ok(()),
            Some(_) => storage.remove(&self.path)?,
            None => {}
        }
        let file = storage.create(&self.path)?;
        // Not zeros: a file system may store those without blocks.
        let noise = vec![0xa5; BYTES.min(CHUNK_BYTES)];
        file.write_all_at(0, &noise)
    }

    /// Removes the file. Says whether that may have made room.
    pub(super) fn give_up(&self, storage: &dyn Storage) -> bool {
        self.present.swap(false, Ordering::Relaxed) && storage.remove(&self.path).is_ok()
    }
}
