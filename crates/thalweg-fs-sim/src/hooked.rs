//! [`HookedObjects`]: objects that call a hook at some of their calls, for tests of races.

use thalweg_fs::{Ino, ObjectAttributes, ObjectStore, Result, Room, Time};

/// A call that a hook knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectCall {
    /// Before [`ObjectStore::sync`].
    Sync,
    /// After [`ObjectStore::sync`].
    Synced,
    /// Before [`ObjectStore::truncate`].
    Truncate,
}

/// Objects, and a hook at their calls.
pub struct HookedObjects<O, H> {
    /// The objects.
    pub objects: O,
    /// Called with each call.
    pub hook: H,
}

impl<O: ObjectStore, H: Fn(ObjectCall) -> Result<()> + Send + Sync> ObjectStore for HookedObjects<O, H> {
    fn sync(&self, ino: Ino) -> Result<()> {
        (self.hook)(ObjectCall::Sync)?;
        self.objects.sync(ino)?;
        (self.hook)(ObjectCall::Synced)
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        (self.hook)(ObjectCall::Truncate)?;
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
