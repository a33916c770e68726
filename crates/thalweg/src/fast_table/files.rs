//! [`FastTableFiles`]: the fast tables of a database that are files, one a file, in a directory of their own: names,
//! creation, opening, removal.
//!
//! A file is written once, as a whole, through the page cache, because it is read from there. The caller of a write
//! chooses an id that no file has. Nothing is synced here unless too many unsynced files are open: lineage makes
//! outputs durable.
//!
//! Locks: only those of [`UnsyncedFiles`].

use super::extent::Extent;
use super::table::FastTable;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::metrics::Metrics;
use crate::runtime::{BackgroundFile, Environment};
use crate::storage::{File, OpenMode};
use crate::table::{TableMeta, UnsyncedFile, UnsyncedFiles};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table is written in pieces of this size. Between two pieces the worker may run other coroutines.
const PIECE_BYTES: usize = 1 << 20;

/// See the module.
pub(crate) struct FastTableFiles {
    environment: Environment,
    directory: PathBuf,
    metrics: Arc<Metrics>,
    unsynced: UnsyncedFiles,
}

/// Returns the name of the file of table `id`.
pub(crate) fn fast_table_name(id: TableId) -> String {
    format!("{:010}.fast", id.0)
}

/// Returns the id in the name of a fast table's file, or `None` for another name.
pub(crate) fn fast_table_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".fast")?;
    let id: u64 = digits.parse().ok()?;
    (format!("{id:010}") == digits).then_some(id)
}

impl FastTableFiles {
    /// Returns the fast tables of a database, which live in `directory`. The directory must exist.
    pub(crate) fn new(environment: Environment, directory: PathBuf, metrics: Arc<Metrics>) -> Arc<Self> {
        let unsynced = UnsyncedFiles::new(environment.storage.open_files_max());
        Arc::new(FastTableFiles { environment, directory, metrics, unsynced })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of table `id`.
    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        self.directory.join(fast_table_name(id))
    }

    /// Writes the file of table `id`, which must not exist. An error leaves no file. If the future is dropped before
    /// its end, the file is left to recovery as an orphan.
    pub(crate) async fn write(&self, id: TableId, bytes: &[u8]) -> Result<()> {
        let path = self.path(id);
        let file = self.environment.storage.create(&path)?;
        let written = self.fill(id, file, bytes).await;
        if written.is_err() {
            // The caller gets the error of the write. An orphan costs space until the next open.
            let _ = self.environment.storage.remove(&path);
        }
        written
    }

    async fn fill(&self, id: TableId, file: Arc<dyn File>, bytes: &[u8]) -> Result<()> {
        let background = BackgroundFile::new(Arc::clone(&file));
        background.reserve(bytes.len() as u64).await?;
        let mut offset = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            background.write_through(offset, piece).await?;
            offset += piece.len() as u64;
        }
        self.metrics.fast_file_written_bytes.add(offset);
        if !self.unsynced.has_room() {
            return background.sync().await;
        }
        self.unsynced.insert(id, UnsyncedFile::cached(file));
        Ok(())
    }

    /// Opens a table of the set of live files: reads and verifies its header and head. Any difference from `meta` is
    /// corruption, so another table or an older one of the same name is detected, too.
    pub(crate) fn open(&self, meta: &TableMeta) -> Result<Arc<FastTable>> {
        let path = self.path(meta.id);
        let expected = || format!("a table of {} bytes", meta.bytes);
        let file = match self.environment.storage.open_evictable(&path) {
            Err(error) if error.is_missing() => {
                return Err(Error::corruption(&path, 0, expected(), "no such file"));
            }
            file => file?,
        };
        let bytes = file.bytes()?;
        if bytes != meta.bytes {
            return Err(Error::corruption(&path, bytes.min(meta.bytes), expected(), format!("{bytes} bytes")));
        }
        FastTable::open_known(Extent::paged(file, bytes, Arc::clone(&self.metrics)), meta)
    }

    /// Returns the file of a table that was just written, for a sync. It is the descriptor of the write, because the
    /// kernel reports a failed write-back to a descriptor that was open then. Returns `None` after
    /// [`FastTableFiles::forget_unsynced`], or if the write has synced the file.
    pub(crate) fn unsynced(&self, id: TableId) -> Option<Arc<dyn File>> {
        self.unsynced.get(id)
    }

    /// Returns the number of files that [`FastTableFiles::unsynced`] can return. Each is an open descriptor.
    pub(crate) fn unsynced_files(&self) -> usize {
        self.unsynced.len()
    }

    /// Closes the file that [`FastTableFiles::unsynced`] returns: the table was synced, or need not be.
    pub(crate) fn forget_unsynced(&self, id: TableId) {
        self.unsynced.remove(id);
    }

    /// Opens the file of a table. Returns `None` if that fails.
    pub(crate) fn open_file(&self, id: TableId, mode: OpenMode) -> Option<Arc<dyn File>> {
        self.environment.storage.open(&self.path(id), mode).ok().flatten()
    }

    /// Removes a file that no edit names or will name. A missing file is no error, because a removal may be repeated
    /// after a crash.
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        self.unsynced.remove(id);
        match self.environment.storage.remove(&self.path(id)) {
            Err(error) if error.is_missing() => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_engine_makes_have_an_id() {
        assert_eq!(fast_table_id("0000000007.fast"), Some(7));
        assert_eq!(fast_table_id("12345678901.fast"), Some(12_345_678_901));
        for other in ["7.fast", "0000000007.table", "00000000007.fast", "0000000007.fast~", "+000000007.fast", ".fast"]
        {
            assert_eq!(fast_table_id(other), None, "{other}");
        }
    }
}
