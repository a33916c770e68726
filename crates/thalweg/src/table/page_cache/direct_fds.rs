//! [`Media`]: how many tables may have a second descriptor, for reads past the page cache.
//!
//! Each open table keeps one descriptor; doubling them when memory is short would take those that new files, and the
//! tables that are opened next, need. So a part of what the process may have open is set aside for second ones, and
//! who finds none left reads through the page cache.
//!
//! Invariant: `left` is the part less the [`Medium`]s that there are. No locks.

use crate::storage::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of all descriptors, one in so many may be a second one.
const PART: u64 = 16;

/// See the module.
pub(in crate::table) struct Media {
    left: AtomicU64,
}

/// A table's file past the page cache.
pub(in crate::table) struct Medium {
    file: Arc<dyn File>,
    media: Arc<Media>,
}

impl Media {
    /// Of `open_files_max` descriptors, if that is bounded.
    pub(in crate::table) fn new(open_files_max: Option<u64>) -> Arc<Self> {
        Arc::new(Media { left: AtomicU64::new(open_files_max.unwrap_or(u64::MAX) / PART) })
    }

    /// What `open` opens; `None` where that is nothing, or none is left.
    pub(in crate::table) fn open<E>(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Option<Arc<dyn File>>, E>,
    ) -> Result<Option<Medium>, E> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            return Ok(None);
        }
        let found = open();
        if !matches!(found, Ok(Some(_))) {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found?.map(|file| Medium { file, media: Arc::clone(self) }))
    }
}

impl Medium {
    pub(in crate::table) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        self.media.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    #[test]
    fn only_so_many_are_open_at_a_time_and_what_is_closed_or_failed_counts_no_more() {
        let media = Media::new(Some(2 * PART));
        let file = Memory(Disk::new(true)).create(Path::new("a")).unwrap();
        let open = || media.open::<()>(|| Ok(Some(Arc::clone(&file)))).unwrap();
        assert!(media.open(|| Err("no")).is_err());
        assert!(media.open::<()>(|| Ok(None)).unwrap().is_none());
        let (first, second) = (open(), open());
        assert!(first.is_some() && second.is_some() && open().is_none());
        drop(first);
        assert!(open().is_some());
    }
}
