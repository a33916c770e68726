//! [`UnsyncedFiles`]: the files of finished tables, as their writers had them open, until they are synced.
//!
//! The kernel may write back bytes in the page cache at any time. If that fails, it reports the error to a sync of a
//! descriptor that was open then. So the writer's own descriptor is kept open here until the table was synced through
//! it. If too many files are kept, the writer syncs its table itself and closes the file.
//!
//! A *late* table ([`crate::table::page_cache::write_through`]) is kept here until it was synced or removed, even if
//! its file is closed because a round found that a later edit has replaced it.
//!
//! Locks: `files` is held for an insertion, a look or a removal.

use crate::format::TableId;
use crate::storage::File;
use crate::sync::{Mutex, MutexGuard};
use crate::table::page_cache::write_back::WriteBack;
use crate::table::page_cache::write_through::LateBytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One in this many of the process's descriptors may be of an unsynced table. A settle round begins before that many
/// are open.
const FILES_PART: u64 = 6;

/// See the module.
pub(crate) struct UnsyncedFiles {
    files: Mutex<Files>,
    files_max: usize,
}

#[derive(Default)]
struct Files {
    open: BTreeMap<TableId, UnsyncedFile>,
    /// The late tables whose files are closed.
    closed: BTreeMap<TableId, LateBytes>,
}

/// The file of a finished table.
pub(crate) struct UnsyncedFile {
    pub(in crate::table) file: Arc<dyn File>,
    /// If the table was written through the page cache: whether it is all on the device.
    pub(in crate::table) write_back: Option<WriteBack>,
    /// The bytes of a late table.
    pub(in crate::table) late: Option<LateBytes>,
}

impl UnsyncedFile {
    /// A file written through the page cache whose write-back has begun.
    pub(crate) fn cached(file: Arc<dyn File>) -> Self {
        UnsyncedFile { file, write_back: Some(WriteBack::default()), late: None }
    }
}

impl UnsyncedFiles {
    /// `open_files_max`: the descriptors that the process may have; `None` if they are not limited.
    pub(crate) fn new(open_files_max: Option<u64>) -> Self {
        let files_max = open_files_max.map(|most| usize::try_from(most / FILES_PART).unwrap_or(usize::MAX));
        UnsyncedFiles { files: Mutex::default(), files_max: files_max.unwrap_or(usize::MAX) }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    /// Keeps the file of `table` open. If writers of several workers find room at once, all of them keep their files
    /// open.
    pub(crate) fn insert(&self, table: TableId, file: UnsyncedFile) {
        self.files().open.insert(table, file);
    }

    /// Returns the file of `table`, open since it was created.
    pub(crate) fn get(&self, table: TableId) -> Option<Arc<dyn File>> {
        self.files().open.get(&table).map(|unsynced| Arc::clone(&unsynced.file))
    }

    /// Returns the write-back of `table`, if its file is here and was written through the page cache. It is done once
    /// [`UnsyncedFiles::remove`] was called.
    pub(crate) fn write_back(&self, table: TableId) -> Option<WriteBack> {
        self.files().open.get(&table).and_then(|unsynced| unsynced.write_back.clone())
    }

    /// Whether the table is a late one that was neither synced nor removed.
    pub(crate) fn is_late(&self, table: TableId) -> bool {
        let files = self.files();
        files.closed.contains_key(&table) || files.open.get(&table).is_some_and(|unsynced| unsynced.late.is_some())
    }

    /// The number of open files.
    pub(crate) fn len(&self) -> usize {
        self.files().open.len()
    }

    /// Whether one more file may be kept open.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.files_max
    }

    /// Closes the file of `table`, which was replaced and will not be synced. Returns whether it is late.
    pub(crate) fn close(&self, table: TableId) -> bool {
        let (file, is_late) = {
            let mut files = self.files();
            let Some(UnsyncedFile { file, late, .. }) = files.open.remove(&table) else { return false };
            let is_late = late.is_some();
            files.closed.extend(late.map(|late| (table, late)));
            (file, is_late)
        };
        drop(file);
        is_late
    }

    /// Closes the file of `table`, which was synced or removed.
    pub(crate) fn remove(&self, table: TableId) {
        let unsynced = {
            let mut files = self.files();
            files.closed.remove(&table);
            files.open.remove(&table)
        };
        if let Some(write_back) = unsynced.and_then(|unsynced| unsynced.write_back) {
            write_back.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::options::TableWrites;
    use crate::table::page_cache::write_through::{WriteThroughPolicy, WriteWay};
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;
    use std::sync::atomic::Ordering;

    fn file() -> Arc<dyn File> {
        Memory(Disk::new(true)).create(Path::new("a")).unwrap()
    }

    #[test]
    fn the_file_stays_open_until_it_is_removed() {
        let unsynced = UnsyncedFiles::new(None);
        let files = [file(), file()];
        for (id, file) in (1..).zip(&files) {
            let write_back = (id == 2).then(WriteBack::default);
            unsynced.insert(TableId(id), UnsyncedFile { write_back, ..UnsyncedFile::cached(Arc::clone(file)) });
        }
        assert!(unsynced.write_back(TableId(1)).is_none());
        let write_back = unsynced.write_back(TableId(2)).unwrap();
        assert!(Arc::ptr_eq(&unsynced.get(TableId(1)).unwrap(), &files[0]));
        assert_eq!(unsynced.len(), 2);
        unsynced.remove(TableId(1));
        assert!(unsynced.get(TableId(1)).is_none() && !write_back.is_done());
        unsynced.remove(TableId(2));
        assert!(write_back.is_done());
        assert_eq!(unsynced.len(), 0);
        assert_eq!(files.each_ref().map(Arc::strong_count), [1, 1]);
    }

    #[test]
    fn a_late_table_stays_one_until_it_is_synced_or_removed_even_if_its_file_is_closed() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, true, true);
        let disk = Disk::new(true);
        disk.file_room.store(1_000_000, Ordering::Relaxed);
        let unsynced = UnsyncedFiles::new(None);
        for id in 1..=3 {
            let WriteWay::Late(mut late) = policy.way(&Memory(Arc::clone(&disk)), 0, false) else { panic!("not late") };
            assert!(late.add_within(10));
            unsynced.insert(TableId(id), UnsyncedFile { late: Some(late), ..UnsyncedFile::cached(file()) });
        }
        unsynced.insert(TableId(4), UnsyncedFile::cached(file()));
        let late = || [1, 2, 3, 4].map(|id| unsynced.is_late(TableId(id)));
        assert_eq!((late(), unsynced.len(), policy.late_bytes()), ([true, true, true, false], 4, 30));
        unsynced.remove(TableId(1));
        assert_eq!([2, 4].map(|id| unsynced.close(TableId(id))), [true, false]);
        assert_eq!((late(), unsynced.len(), policy.late_bytes()), ([false, true, true, false], 1, 20));
        unsynced.remove(TableId(2));
        unsynced.remove(TableId(3));
        assert_eq!((late(), unsynced.len(), policy.late_bytes()), ([false; 4], 0, 0));
    }

    #[test]
    fn a_sixth_of_the_descriptors_may_be_unsynced_files() {
        let unsynced = UnsyncedFiles::new(Some(2 * FILES_PART));
        for id in 1..=2 {
            assert!(unsynced.has_room());
            unsynced.insert(TableId(id), UnsyncedFile::cached(file()));
        }
        assert!(!unsynced.has_room());
    }
}
