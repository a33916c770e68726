//! Objects whose calls fail, take long, or do a part: what callers are told, and what the volume knows afterwards.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use thalweg::{Database, Slice};
use thalweg_fs::{
    Allocation, Batch, Caller, Directories, EngineStore, Error, FolderObjects, FormatOptions, Ino, Limits, Listing,
    MetaStore, NewInode, ObjectAttributes, ObjectStore, OpenOptions, Promise, ROOT, Result, Room, RowReader, Rows,
    Space, Time, Volume, WRITE,
};

const ME: Caller<'static> = Caller::ROOT;
/// A file of more bytes is an object.
const ROWS_BYTES_MAX: u64 = 1000;

/// What the next calls do, instead of what they are for.
#[derive(Default)]
struct Faults {
    /// The results of the next syncs; after them a sync is made.
    syncs: Mutex<VecDeque<Option<i32>>>,
    /// How long each sync takes.
    sync_ms: Mutex<u64>,
    /// How many syncs there were.
    synced: Mutex<Vec<Ino>>,
    /// A write, an allocation or a removal of these gets `ENOSPC` or `EIO`, and writes do a half before.
    writes_fail: Mutex<bool>,
    removals_fail: Mutex<Option<Ino>>,
    /// A byte is written to each object while it is synced, through this volume.
    writer: OnceLock<Weak<Volume>>,
    /// What others may do is done on another thread while an object is synced, which waits for that.
    tasks: OnceLock<Weak<Volume>>,
    /// Nothing is known of the file of this one.
    attributes_fail: Mutex<Option<Ino>>,
    /// Called once, when the file of an object is looked at.
    looked: Mutex<Option<Hook>>,
    /// Whether there are no promises any more.
    promises_fail: Mutex<bool>,
}

type Hook = Box<dyn FnOnce() + Send>;

struct Objects(FolderObjects, Arc<Faults>);

impl ObjectStore for Objects {
    fn create(&self, ino: Ino) -> Result<()> {
        self.0.create(ino)
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.0.read_at(ino, offset, bytes)
    }

    fn file(&self, ino: Ino) -> Result<Option<Arc<File>>> {
        self.0.file(ino)
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        if *self.1.writes_fail.lock().unwrap() {
            self.0.write_at(ino, offset, &bytes[..bytes.len() / 2])?;
            return Err(Error::explained(libc::ENOSPC, "the disk is full"));
        }
        self.0.write_at(ino, offset, bytes)
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        self.0.truncate(ino, size)
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        if *self.1.writes_fail.lock().unwrap() {
            self.0.allocate(ino, mode, offset, bytes / 2)?;
            return Err(Error::explained(libc::ENOSPC, "the disk is full"));
        }
        self.0.allocate(ino, mode, offset, bytes)
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        self.0.seek(ino, offset, is_hole)
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        let hook = self.1.looked.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        if *self.1.attributes_fail.lock().unwrap() == Some(ino) {
            return Err(Error::explained(libc::EIO, "nothing is known of it"));
        }
        self.0.attributes(ino)
    }

    fn set_mtime(&self, ino: Ino, mtime: Time) -> Result<()> {
        self.0.set_mtime(ino, mtime)
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        self.1.synced.lock().unwrap().push(ino);
        let fault = self.1.syncs.lock().unwrap().pop_front().flatten();
        std::thread::sleep(Duration::from_millis(*self.1.sync_ms.lock().unwrap()));
        if let Some(volume) = self.1.writer.get().and_then(Weak::upgrade) {
            volume.write(&ME, ino, 0, b"again").unwrap();
        }
        if let Some(volume) = self.1.tasks.get().and_then(Weak::upgrade) {
            let (done, is_done) = std::sync::mpsc::channel();
            std::thread::spawn(move || done.send(volume.may_make_room()));
            is_done.recv_timeout(Duration::from_secs(5)).unwrap();
        }
        match fault {
            Some(errno) => Err(Error::explained(errno, "the device fails")),
            None => self.0.sync(ino),
        }
    }

    fn sync_all(&self) -> Result<()> {
        self.0.sync_all()
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        if *self.1.removals_fail.lock().unwrap() == Some(ino) {
            return Err(Error::explained(libc::EIO, "it stays"));
        }
        self.0.remove(ino)
    }

    fn list(&self) -> Result<Vec<Ino>> {
        self.0.list()
    }

    fn room(&self) -> Result<Room> {
        self.0.room()
    }
}

struct Store(EngineStore, Arc<Faults>);

impl RowReader for Store {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.0.entry(directory, name)
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        self.0.list(directory, cursor, wanted)
    }

    fn directories(&self) -> Directories<'_> {
        self.0.directories()
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.0.row(space, key)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        self.0.rows(space, from, to)
    }
}

impl MetaStore for Store {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        self.0.snapshot()
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        self.0.commit(batch)
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        if *self.1.promises_fail.lock().unwrap() {
            return Err(Error::explained(libc::EROFS, "the log has failed"));
        }
        self.0.promise()
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

fn volume(folder: &Path) -> (Arc<Volume>, Arc<Faults>) {
    let path = folder.join("volume");
    Volume::format(&path, FormatOptions::default()).unwrap();
    reopened(folder)
}

fn reopened(folder: &Path) -> (Arc<Volume>, Arc<Faults>) {
    let path = folder.join("volume");
    let faults = Arc::<Faults>::default();
    let store = EngineStore::new(Database::builder(path.join("db")).open().unwrap()).unwrap();
    let objects = Objects(FolderObjects::new(path.join("objects")).unwrap(), Arc::clone(&faults));
    let limits = Limits { rows_bytes_max: ROWS_BYTES_MAX, ..Limits::default() };
    let store = Store(store, Arc::clone(&faults));
    let volume = OpenOptions::new().limits(limits).open_on(Box::new(store), Box::new(objects)).unwrap();
    (Arc::new(volume), faults)
}

/// A new file that is an object.
fn object(volume: &Volume, name: &str) -> Ino {
    let ino = volume.create(&ME, ROOT, name.as_bytes(), NewInode::file(0o644)).unwrap().ino;
    volume.write(&ME, ino, 0, &[7; 2000]).unwrap();
    ino
}

#[test]
fn a_round_of_syncs_ends_while_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let inos = [object(&volume, "a"), object(&volume, "b")];
    faults.synced.lock().unwrap().clear();
    faults.writer.set(Arc::downgrade(&volume)).unwrap();
    assert_eq!(volume.work().unwrap().synced, 2);
    assert_eq!(*faults.synced.lock().unwrap(), inos, "each once");
    assert_eq!(volume.work().unwrap().synced, 2, "what was written meanwhile");
}

#[test]
fn all_who_sync_an_object_are_told_that_it_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let ino = object(&volume, "a");
    volume.sync().unwrap();
    volume.write(&ME, ino, 0, b"lost").unwrap();
    // The kernel tells one of those who wait.
    faults.syncs.lock().unwrap().push_back(Some(libc::EIO));
    *faults.sync_ms.lock().unwrap() = 30;
    std::thread::scope(|scope| {
        let syncs: Vec<_> = (0..4).map(|_| scope.spawn(|| volume.sync_file(ino))).collect();
        assert!(syncs.into_iter().all(|sync| sync.join().unwrap().is_err()));
    });
    assert!(volume.work().is_err() && volume.sync_file(ino).is_err(), "to the end of this mount");
}

#[test]
fn a_sync_that_found_no_room_is_not_forgotten() {
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO] {
        let folder = tempfile::tempdir().unwrap();
        let (volume, faults) = volume(folder.path());
        let (first, second) = (object(&volume, "a"), object(&volume, "b"));
        volume.sync().unwrap();
        volume.write(&ME, first, 0, b"lost").unwrap();
        volume.write(&ME, second, 0, b"kept").unwrap();
        faults.syncs.lock().unwrap().push_back(Some(errno));
        faults.synced.lock().unwrap().clear();
        assert!(volume.work().is_err());
        assert_eq!(*faults.synced.lock().unwrap(), [first, second], "the others are synced all the same");
        assert_eq!(volume.sync_file(first).unwrap_err().errno(), libc::EIO);
        volume.sync_file(second).unwrap();
    }
}

#[test]
fn a_sync_that_was_not_tried_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let ino = object(&volume, "a");
    volume.sync().unwrap();
    volume.write(&ME, ino, 0, b"kept").unwrap();
    faults.syncs.lock().unwrap().push_back(Some(libc::EMFILE));
    assert_eq!(volume.work().unwrap_err().errno(), libc::EMFILE);
    assert_eq!(volume.work().unwrap().synced, 1);
    volume.sync_file(ino).unwrap();
}

#[test]
fn a_write_that_did_a_part_leaves_the_size_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let ino = object(&volume, "a");
    *faults.writes_fail.lock().unwrap() = true;
    assert_eq!(volume.write(&ME, ino, 2000, &[8; 1000]).unwrap_err().errno(), libc::ENOSPC);
    assert_eq!(volume.attributes(ino).unwrap().size, 2500);
    assert_eq!(volume.read(ino, 1999, 5000).unwrap(), [vec![7], vec![8; 500]].concat());
    let allocated = volume.allocate(&ME, ino, (Allocation::Allocate, false), (0, 8000));
    assert_eq!(allocated.unwrap_err().errno(), libc::ENOSPC);
    assert_eq!(volume.attributes(ino).unwrap().size, 4000);
}

#[test]
fn a_file_that_becomes_an_object_as_the_log_fails_keeps_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let ino = volume.create(&ME, ROOT, b"a", NewInode::file(0o644)).unwrap().ino;
    *faults.promises_fail.lock().unwrap() = true;
    volume.write(&ME, ino, 0, &[7; 900]).unwrap();
    assert_eq!(volume.attributes(ino).unwrap().size, 900);
    volume.write(&ME, ino, 900, &[8; 900]).unwrap();
    assert_eq!(volume.read(ino, 0, 5000).unwrap(), [vec![7; 900], vec![8; 900]].concat());
    assert!(volume.sync_file(ino).is_err());
}

#[test]
fn an_object_that_cannot_be_removed_holds_no_other_up() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let inos = ["a", "b", "c"].map(|name| object(&volume, name));
    let kept = object(&volume, "kept");
    volume.sync().unwrap();
    for (name, ino) in ["a", "b", "c"].into_iter().zip(inos) {
        volume.unlink(&ME, ROOT, name.as_bytes()).unwrap();
        volume.forget(ino, 1);
    }
    *faults.removals_fail.lock().unwrap() = Some(inos[0]);
    volume.write(&ME, kept, 0, b"later").unwrap();
    faults.syncs.lock().unwrap().push_back(Some(libc::EMFILE));
    let failed = volume.work().unwrap_err();
    assert_eq!((failed.errno(), failed.to_string().as_str()), (libc::EMFILE, "the device fails; it stays"));
    let left = |ino: Ino| object_path(folder.path(), ino).exists();
    assert_eq!(inos.map(left), [true, false, false]);
    *faults.removals_fail.lock().unwrap() = None;
    assert_eq!(volume.work().unwrap().removed, 1);
}

#[test]
fn a_close_syncs_all_that_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let (shared, first, second) = (object(&volume, "a"), object(&volume, "b"), object(&volume, "c"));
    volume.open(&ME, shared, WRITE).unwrap();
    volume.share(shared, true).unwrap().unwrap();
    volume.sync().unwrap();
    let small = volume.create(&ME, ROOT, b"small", NewInode::file(0o644)).unwrap().ino;
    volume.write(&ME, first, 0, b"lost").unwrap();
    volume.write(&ME, second, 0, b"kept").unwrap();
    let promise = volume.promise().unwrap();
    faults.syncs.lock().unwrap().push_back(Some(libc::EIO));
    faults.synced.lock().unwrap().clear();
    *faults.attributes_fail.lock().unwrap() = Some(shared);
    assert!(volume.close().unwrap_err().to_string().contains("could not be synced"));
    assert_eq!(*faults.synced.lock().unwrap(), [first, second]);
    assert!(promise.is_durable(), "the log is synced all the same");
    drop(volume);
    // Closed, so that another may open it, which finds all that the log had.
    let volume = OpenOptions::new().open(folder.path().join("volume")).unwrap();
    assert_eq!(volume.resolve(&ME, b"/small").unwrap().ino, small);
}

#[test]
fn a_change_past_the_volume_is_told_after_another_open_too() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, _faults) = volume(folder.path());
    let ino = object(&volume, "a");
    volume.open(&ME, ino, WRITE).unwrap();
    let shared = volume.share(ino, true).unwrap().unwrap();
    shared.file.write_all_at(b"longer", 5000).unwrap();
    assert_eq!(volume.open(&ME, ino, WRITE).unwrap().size, 5006);
    assert!(volume.end_share(ino).unwrap(), "the kernel has the attributes of before");
    assert!(!volume.end_share(ino).unwrap());
}

#[test]
fn an_object_that_is_opened_during_a_look_is_watched_on() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, faults) = volume(folder.path());
    let ino = object(&volume, "a");
    let open = move |volume: &Volume| {
        volume.open(&ME, ino, WRITE).unwrap();
        volume.share(ino, true).unwrap().unwrap().file
    };
    let close = move |volume: &Volume| {
        volume.end_share(ino).unwrap();
        volume.release(ino).unwrap();
    };
    open(&volume);
    close(&volume);
    volume.forget(ino, 1);
    assert_eq!(volume.inodes_in_use(), 1, "the root");
    let again = Arc::downgrade(&volume);
    *faults.looked.lock().unwrap() = Some(Box::new(move || {
        let volume = again.upgrade().unwrap();
        volume.lookup(&ME, ROOT, b"a").unwrap();
        open(&volume);
        // Mapped, so that the kernel refers to it after the close.
        close(&volume);
    }));
    volume.sync().unwrap();
    let file = File::options().write(true).open(object_path(folder.path(), ino)).unwrap();
    file.write_all_at(b"mapped", 0).unwrap();
    faults.synced.lock().unwrap().clear();
    volume.sync().unwrap();
    assert_eq!(*faults.synced.lock().unwrap(), [ino]);
}

fn object_path(folder: &Path, ino: Ino) -> std::path::PathBuf {
    folder.join(format!("volume/objects/{:02x}/{ino:016x}", ino >> 8 & 0xff))
}

#[test]
fn the_search_for_unknown_objects_holds_nobody_up_while_it_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = volume(folder.path());
    drop(first);
    // As a promotion leaves it that was killed.
    let objects = FolderObjects::new(folder.path().join("volume/objects")).unwrap();
    objects.create(77).unwrap();
    let (volume, faults) = reopened(folder.path());
    faults.tasks.set(Arc::downgrade(&volume)).unwrap();
    assert_eq!(volume.work().unwrap().removed, 1);
    assert_eq!(*faults.synced.lock().unwrap(), [77]);
}
