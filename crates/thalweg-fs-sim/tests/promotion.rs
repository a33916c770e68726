//! A sync of the log that ends while a promotion copies: what it made durable must not go with the promotion.

use std::sync::Arc;
use thalweg_fs::{
    Ino, Limits, MetaStore, NewInode, ObjectAttributes, ObjectStore, OpenOptions, ROOT, Result, Room, Time, Volume,
};
use thalweg_fs_sim::{CALLERS, End, MemoryDisk, VirtualClock};

/// Objects beside a log that is synced, for somebody else, whenever an object gets its size.
struct Meanwhile<O, R> {
    objects: O,
    rows: R,
}

impl<O: ObjectStore, R: MetaStore> ObjectStore for Meanwhile<O, R> {
    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        self.rows.promise()?.wait()?;
        self.objects.truncate(ino, size)
    }

    fn create(&self, ino: Ino) -> Result<()> {
        self.objects.create(ino)
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.objects.read_at(ino, offset, bytes)
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        self.objects.write_at(ino, offset, bytes)
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        self.objects.allocate(ino, mode, offset, bytes)
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        self.objects.seek(ino, offset, is_hole)
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        self.objects.attributes(ino)
    }

    fn set_mtime(&self, ino: Ino, mtime: Time) -> Result<()> {
        self.objects.set_mtime(ino, mtime)
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        self.objects.sync(ino)
    }

    fn sync_all(&self) -> Result<()> {
        self.objects.sync_all()
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        self.objects.remove(ino)
    }

    fn list(&self) -> Result<Vec<Ino>> {
        self.objects.list()
    }

    fn room(&self) -> Result<Room> {
        self.objects.room()
    }
}

const FIRST: [u8; 90] = [7; 90];

fn promote_and_cut(seed: u64) -> Result<Vec<u8>> {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(seed, false, &clock);
    Volume::format_on(&disk.rows(), Default::default(), &*clock)?;
    let options = || OpenOptions::new().limits(Limits { rows_bytes_max: 100, rewritten_bytes_max: 100 });
    let objects = Meanwhile { objects: disk.objects(), rows: disk.rows() };
    let volume = options().open_on(Box::new(disk.rows()), Box::new(objects))?;
    let me = &CALLERS[0];
    let file = volume.create(me, ROOT, b"file", NewInode::file(0o644))?.ino;
    volume.write(me, file, 0, &FIRST)?;
    volume.append(me, file, &[8; 20])?;
    drop(volume);
    disk.end(End::PowerCut);
    let volume = options().open_on(Box::new(disk.rows()), Box::new(disk.objects()))?;
    let file = volume.lookup(me, ROOT, b"file")?;
    volume.read(file.ino, 0, FIRST.len())
}

#[test]
fn rows_that_become_durable_during_their_promotion_are_not_lost() {
    for seed in 1..=100 {
        match promote_and_cut(seed) {
            Ok(bytes) => assert_eq!(bytes, FIRST, "seed {seed}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}
