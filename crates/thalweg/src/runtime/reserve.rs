//! [`Reserve`]: a file that is given up when the disk is full, so that what frees space can go on: the edits that
//! settle others, the log of removals, flushes, compactions.
//!
//! It is a part of what the database holds, at least [`BYTES_MIN`]. The first part is written, so that it has blocks
//! everywhere; the rest is reserved, where the file system can. Its content means nothing, and nobody syncs it: after a
//! crash the next open makes it anew. Failures are not errors of the database: a disk without room for it has none to
//! reserve. Locks: none.

use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the file.
const NAME: &str = "RESERVE";

/// What a new database sets aside.
const BYTES_MIN: u64 = 256 << 10;

/// And the largest.
const BYTES_MAX: u64 = 64 << 20;

/// Of the bytes in tables this part is set aside.
const LIVE_PART: u64 = 32;

/// The reserve of a database.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// What the file has. 0: it was given up, or is not made yet.
    bytes: AtomicU64,
}

impl Reserve {
    pub(super) fn new(root: &Path) -> Self {
        Reserve { path: root.join(NAME), bytes: AtomicU64::new(0) }
    }

    /// Makes the file, or lets it grow with the tables, where there is room for it twice. Blocks; for an open, and for
    /// coroutines between two yields.
    pub(super) fn replenish(&self, storage: &dyn Storage, live_bytes: u64, free_bytes: Option<u64>) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let wanted = (live_bytes / LIVE_PART).clamp(BYTES_MIN, BYTES_MAX) / BYTES_MIN * BYTES_MIN;
        // It follows the tables a quarter at a time, or it would be changed with every round.
        if bytes >= wanted / 4 * 3 || free_bytes.is_some_and(|free| free < wanted.saturating_mul(2)) {
            return;
        }
        match self.write(storage, wanted) {
            Ok(bytes) => self.bytes.store(bytes, Ordering::Relaxed),
            Err(_) => drop(self.give_up(storage)),
        }
    }

    /// The file with `wanted` bytes or more; how many it has.
    fn write(&self, storage: &dyn Storage, wanted: u64) -> Result<u64> {
        let found = storage.file_bytes(&self.path)?;
        let file = match found {
            None => storage.create(&self.path)?,
            Some(_) => {
                let opened = storage.open(&self.path, OpenMode::ReadWrite)?;
                opened.ok_or_else(|| Error::io("open", &self.path, std::io::ErrorKind::Unsupported.into()))?
            }
        };
        let bytes = wanted.max(found.unwrap_or(0));
        if self.bytes.load(Ordering::Relaxed) == 0 {
            // Also where it is: a power cut may have left its length without its blocks. Not zeros: a file system may
            // store those without blocks.
            file.write_all_at(0, &vec![0xa5; BYTES_MIN as usize])?;
        }
        file.reserve(bytes)?;
        Ok(bytes)
    }

    /// Removes the file. Whether that may have made room.
    pub(super) fn give_up(&self, storage: &dyn Storage) -> bool {
        self.bytes.store(0, Ordering::Relaxed);
        matches!(storage.file_bytes(&self.path), Ok(Some(bytes)) if bytes > 0) && storage.remove(&self.path).is_ok()
    }
}
