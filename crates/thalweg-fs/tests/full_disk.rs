//! A volume on a full disk: it is mounted, files are removed, and it is unmounted.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg::{Database, Slice};
use thalweg_fs::{
    Allocation, Batch, Caller, Change, Directories, EngineStore, Error, FolderObjects, FormatOptions, Ino, Listing,
    MetaStore, NewInode, OpenOptions, Operation, Promise, ROOT, Result, RowReader, Rows, Space, Volume,
};

const ME: Caller<'static> = Caller::ROOT;

/// A store that takes, while the disk is full, only what the engine then takes out of what it keeps.
struct Full {
    store: EngineStore,
    is_full: Arc<AtomicBool>,
}

impl RowReader for Full {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.store.entry(directory, name)
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        self.store.list(directory, cursor, wanted)
    }

    fn directories(&self) -> Directories<'_> {
        self.store.directories()
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.store.row(space, key)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        self.store.rows(space, from, to)
    }
}

impl MetaStore for Full {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        self.store.snapshot()
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let is_removal = |operation: &Operation<'_>| {
            matches!(operation, Operation::Entry { row: None, .. } | Operation::Row { row: None, .. })
        };
        let is_taken = batch.frees_space() && batch.operations().iter().any(is_removal);
        if self.is_full.load(Ordering::Relaxed) && !is_taken {
            return Err(Error::explained(libc::ENOSPC, "the disk is full"));
        }
        self.store.commit(batch)
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        self.store.promise()
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}

#[test]
fn a_volume_on_a_full_disk_is_opened_emptied_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    Volume::format(&path, FormatOptions::default()).unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let open = || {
        let store = EngineStore::new(Database::builder(path.join("db")).open().unwrap()).unwrap();
        let objects = FolderObjects::new(path.join("objects")).unwrap();
        OpenOptions::new().open_on(Box::new(Full { store, is_full: Arc::clone(&is_full) }), Box::new(objects))
    };
    let volume = open().unwrap();
    let made = volume.create(&ME, ROOT, b"file", NewInode::file(0o644)).unwrap();
    volume.forget(made.ino, 1);
    is_full.store(true, Ordering::Relaxed);
    volume.close().unwrap();

    let volume = open().unwrap();
    // Nothing has changed, so nothing is written.
    volume.save_totals().unwrap();
    let refused = volume.create(&ME, ROOT, b"other", NewInode::file(0o644)).unwrap_err();
    assert_eq!(refused.errno(), libc::ENOSPC);
    let found = volume.lookup(&ME, ROOT, b"file").unwrap();
    let sized = |size| volume.change(&ME, found.ino, &Change { size: Some(size), ..Change::default() });
    assert_eq!(sized(0).unwrap().size, 0, "it was empty before");
    assert_eq!(sized(1).unwrap_err().errno(), libc::ENOSPC);
    volume.forget(found.ino, 1);
    volume.unlink(&ME, ROOT, b"file").unwrap();
    volume.work().unwrap();
    volume.close().unwrap();

    is_full.store(false, Ordering::Relaxed);
    let volume = open().unwrap();
    assert_eq!(volume.usage().unwrap().inodes, 1);
    volume.close().unwrap();
}

#[test]
fn the_space_of_a_removed_object_is_there_when_a_caller_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    Volume::format(&path, FormatOptions::default()).unwrap();
    let volume = OpenOptions::new().open(&path).unwrap();
    let made = volume.create(&ME, ROOT, b"file", NewInode::file(0o644)).unwrap();
    volume.allocate(&ME, made.ino, (Allocation::Allocate, false), (0, 4 << 20)).unwrap();
    assert!(!volume.may_make_room());
    volume.unlink(&ME, ROOT, b"file").unwrap();
    volume.forget(made.ino, 1);
    assert!(volume.may_make_room());
    assert!(volume.reclaimable().unwrap().object_bytes >= 4 << 20);
    volume.make_room().unwrap();
    assert!(!volume.may_make_room());
    assert_eq!(volume.reclaimable().unwrap().objects, 0);
    volume.close().unwrap();
}
