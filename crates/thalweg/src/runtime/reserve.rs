//! [`Reserve`]: a file that is removed when the disk is full, so that work that frees space can continue: edits that
//! settle others, the log of removals, flushes, compactions.
//!
//! Its size is a part of the database's size, at least [`BYTES_MIN`]. Its first bytes are written, so that it has
//! blocks on every file system; the rest is reserved where the file system can. Its content has no meaning and is never
//! synced: after a crash the next open makes it again. A failure here is no error of the database: a full disk has no
//! space for a reserve. Locks: none.

use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the file.
const NAME: &str = "RESERVE";

/// The smallest reserve, of a new database.
const BYTES_MIN: u64 = 256 << 10;

/// The largest reserve.
const BYTES_MAX: u64 = 64 << 20;

/// The reserve is 1/`LIVE_PART` of the bytes in tables.
const LIVE_PART: u64 = 32;

/// The reserve of a database.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// The length of the file. 0: it was removed, or is not made yet.
    bytes: AtomicU64,
}

impl Reserve {
    pub(super) fn new(root: &Path) -> Self {
        Reserve { path: root.join(NAME), bytes: AtomicU64::new(0) }
    }

    /// Makes the file, or extends it as the tables grow, if twice its size is free. Blocks the thread. For an open, and
    /// for coroutines between two yields.
    pub(super) fn replenish(&self, storage: &dyn Storage, live_bytes: u64, free_bytes: Option<u64>) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let wanted = (live_bytes / LIVE_PART).clamp(BYTES_MIN, BYTES_MAX) / BYTES_MIN * BYTES_MIN;
        // Grows only when a quarter is missing, so that not every settle round changes the file.
        if bytes >= wanted / 4 * 3 || free_bytes.is_some_and(|free| free < wanted.saturating_mul(2)) {
            return;
        }
        match self.write(storage, wanted) {
            Ok(bytes) => self.bytes.store(bytes, Ordering::Relaxed),
            Err(_) => drop(self.give_up(storage)),
        }
    }

    /// Makes the file at least `wanted` bytes long. Returns its length.
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
            // An existing file is written, too: a power cut may have left its length without its blocks. The bytes are
            // not zeros, which a file system may store without blocks.
            file.write_all_at(0, &vec![0xa5; BYTES_MIN as usize])?;
        }
        file.reserve(bytes)?;
        Ok(bytes)
    }

    /// Removes the file. Returns whether that may have freed space.
    pub(super) fn give_up(&self, storage: &dyn Storage) -> bool {
        self.bytes.store(0, Ordering::Relaxed);
        matches!(storage.file_bytes(&self.path), Ok(Some(bytes)) if bytes > 0) && storage.remove(&self.path).is_ok()
    }
}
