//! [`DirectFdPool`]: how many tables may have a second descriptor, for reads past the page cache.
//!
//! Each open table keeps one descriptor. If all tables opened a second one when memory is short, new files and newly
//! opened tables would find none left. So only a part of the process's descriptors may be second ones. A table that
//! gets none reads through the page cache.
//!
//! Invariant: `left` is that part less the [`DirectFd`]s that exist. No locks.

use crate::storage::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One in this many of the process's descriptors may be a second one.
const PART: u64 = 16;

/// See the module.
pub(in crate::table) struct DirectFdPool {
    left: AtomicU64,
}

/// A table's file, open for reads past the page cache. Dropping it returns its descriptor to the pool.
pub(in crate::table) struct DirectFd {
    file: Arc<dyn File>,
    pool: Arc<DirectFdPool>,
}

impl DirectFdPool {
    /// `open_files_max`: the descriptors that the process may have; `None` if they are not limited.
    pub(in crate::table) fn new(open_files_max: Option<u64>) -> Arc<Self> {
        Arc::new(DirectFdPool { left: AtomicU64::new(open_files_max.unwrap_or(u64::MAX) / PART) })
    }

    /// Opens a file with `open`. Returns `None` if `open` does, or if no descriptor is left.
    pub(in crate::table) fn open<E>(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>, E>,
    ) -> Result<Option<DirectFd>, E> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            return Ok(None);
        }
        let found = open();
        if !matches!(found, Ok(Some(_))) {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found?.map(|file| DirectFd { file, pool: Arc::clone(self) }))
    }
}

impl DirectFd {
    pub(in crate::table) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
}

impl Drop for DirectFd {
    fn drop(&mut self) {
        self.pool.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    #[test]
    fn the_pool_limits_open_files_and_gets_back_those_closed_or_failed() {
        let pool = DirectFdPool::new(Some(2 * PART));
        let file = Memory(Disk::new(true)).create(Path::new("a")).unwrap();
        let open = || pool.open::<()>(|| Ok(Some(Arc::clone(&file)))).unwrap();
        assert!(pool.open(|| Err("no")).is_err());
        assert!(pool.open::<()>(|| Ok(None)).unwrap().is_none());
        let (first, second) = (open(), open());
        assert!(first.is_some() && second.is_some() && open().is_none());
        drop(first);
        assert!(open().is_some());
    }
}
