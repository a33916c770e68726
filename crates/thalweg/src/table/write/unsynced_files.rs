//! [`UnsyncedFiles`]: the files of finished tables, as their writers had them open, until they are synced.
//!
//! The kernel may write back bytes in the page cache at any time. If that fails, it reports the error to a sync of a
//! descriptor that was open then. So the writer's own descriptor stays open, here, until the table was synced through
//! it. If too many files are here, the writer syncs its table itself and closes the file.
//!
//! Locks: `files` is held for an insertion, a look or a removal.

use crate::format::TableId;
use crate::storage::File;
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One in this many of the process's descriptors may be of an unsynced table. A settle round begins before that.
const FILES_PART: u64 = 6;

/// See the module.
pub(crate) struct UnsyncedFiles {
    files: Mutex<BTreeMap<TableId, UnsyncedFile>>,
    files_max: usize,
}

/// The file of a finished table.
pub(crate) struct UnsyncedFile {
    pub(crate) file: Arc<dyn File>,
    /// Whether the table was written through the page cache.
    pub(crate) through_cache: bool,
}

impl UnsyncedFiles {
    /// `open_files_max`: the descriptors that the process may have; `None` if they are not limited.
    pub(crate) fn new(open_files_max: Option<u64>) -> Self {
        let files_max = open_files_max.map(|most| usize::try_from(most / FILES_PART).unwrap_or(usize::MAX));
        UnsyncedFiles { files: Mutex::default(), files_max: files_max.unwrap_or(usize::MAX) }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<TableId, UnsyncedFile>> {
        self.files.lock()
    }

    /// Keeps the file of `table` open. The writers of several workers that find room at once all keep theirs.
    pub(crate) fn insert(&self, table: TableId, file: UnsyncedFile) {
        self.files().insert(table, file);
    }

    /// Returns the file of `table`, open since it was created.
    pub(crate) fn get(&self, table: TableId) -> Option<Arc<dyn File>> {
        self.files().get(&table).map(|unsynced| Arc::clone(&unsynced.file))
    }

    /// Whether the file of `table` is here and was written through the page cache.
    pub(crate) fn is_through_cache(&self, table: TableId) -> bool {
        self.files().get(&table).is_some_and(|unsynced| unsynced.through_cache)
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files().len()
    }

    /// Whether one more file may be kept open.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.files_max
    }

    /// Closes the file of `table`.
    pub(crate) fn remove(&self, table: TableId) {
        let file = self.files().remove(&table);
        drop(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    fn file() -> Arc<dyn File> {
        Memory(Disk::new(true)).create(Path::new("a")).unwrap()
    }

    #[test]
    fn the_file_stays_open_until_it_is_removed() {
        let unsynced = UnsyncedFiles::new(None);
        let files = [file(), file()];
        for (id, file) in (1..).zip(&files) {
            unsynced.insert(TableId(id), UnsyncedFile { file: Arc::clone(file), through_cache: id == 2 });
        }
        assert!(!unsynced.is_through_cache(TableId(1)) && unsynced.is_through_cache(TableId(2)));
        assert!(Arc::ptr_eq(&unsynced.get(TableId(1)).unwrap(), &files[0]));
        assert_eq!(unsynced.len(), 2);
        unsynced.remove(TableId(1));
        assert!(unsynced.get(TableId(1)).is_none());
        unsynced.remove(TableId(2));
        assert_eq!(unsynced.len(), 0);
        assert_eq!(files.each_ref().map(Arc::strong_count), [1, 1]);
    }

    #[test]
    fn a_sixth_of_the_descriptors_may_be_unsynced_files() {
        let unsynced = UnsyncedFiles::new(Some(2 * FILES_PART));
        for id in 1..=2 {
            assert!(unsynced.has_room());
            unsynced.insert(TableId(id), UnsyncedFile { file: file(), through_cache: false });
        }
        assert!(!unsynced.has_room());
    }
}
