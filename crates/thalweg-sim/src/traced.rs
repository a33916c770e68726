//! [`traced`]: a decorator of the simulated disk that prints changes of names and bytes to the history of `--trace`.
//!
//! It also makes syncs take time, in some plans (`pace.rs`). Reads are not printed. It draws no random numbers for
//! printing, so a seed gives the same history with and without `--trace`.

use crate::world::World;
use std::path::Path;
use std::sync::Arc;
use thalweg::Result;
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::simulation::{DirectoryEntry, File, Mapping, OpenMode, Storage, StorageLock, SyncInFlight};

/// The disk, with its changes printed if the world prints its history.
pub fn traced(disk: SimulatedDisk, world: &Arc<World>) -> Arc<dyn Storage> {
    Arc::new(Traced { disk, world: Arc::clone(world) })
}

struct Traced {
    disk: SimulatedDisk,
    world: Arc<World>,
}

impl World {
    /// Prints one line for an operation on `path` and its outcome.
    fn print<T>(&self, path: &Path, what: impl FnOnce() -> String, done: Result<T>) -> Result<T> {
        let refused = if done.is_err() { ": refused" } else { "" };
        self.say(|| format!("disk: {} {}{refused}", what(), path.display()));
        done
    }
}

impl Traced {
    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(TracedFile { file, world: Arc::clone(&self.world) })
    }
}

impl Storage for Traced {
    fn inner(&self) -> Option<&dyn Storage> {
        Some(&self.disk)
    }
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.world.print(path, || "create".into(), self.disk.create(path)).map(|file| self.wrap(file))
    }
    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.world.print(path, || "create".into(), self.disk.create_direct(path)).map(|file| self.wrap(file))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        Ok(self.disk.open(path, mode)?.map(|file| self.wrap(file)))
    }
    fn open_evictable(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.disk.open_evictable(path).map(|file| self.wrap(file))
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        self.disk.file_bytes(path)
    }
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        self.disk.list(directory)
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.disk.create_directory(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.world.print(path, || "remove".into(), self.disk.remove(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.world.print(to, || format!("rename {} to", from.display()), self.disk.rename(from, to))
    }
    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool> {
        self.world.print(to, || format!("link {} as", from.display()), self.disk.hard_link(from, to))
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        let sync = || self.disk.sync_directory(path);
        self.world.print(path, || "sync the names in".into(), self.world.blocking_sync(sync))
    }
    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        let traced = |directory| Arc::new(TracedDirectory { directory, world: self.world.clone() }) as Arc<dyn File>;
        Ok(self.disk.open_directory(path)?.map(traced))
    }
    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        self.disk.lock(path, shared)
    }
}

/// An open directory, whose sync makes names durable.
struct TracedDirectory {
    directory: Arc<dyn File>,
    world: Arc<World>,
}

impl File for TracedDirectory {
    fn path(&self) -> &Path {
        self.directory.path()
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        unreachable!("a directory is only synced")
    }
    fn write_all_at(&self, _: u64, _: &[u8]) -> Result<()> {
        unreachable!("a directory is only synced")
    }
    fn sync(&self) -> Result<()> {
        let sync = || self.directory.sync();
        self.world.print(self.path(), || "sync the names in".into(), self.world.blocking_sync(sync))
    }
    fn begin_sync(&self) -> Option<SyncInFlight> {
        let (directory, world) = (Arc::clone(&self.directory), Arc::clone(&self.world));
        let what = || "sync the names in".into();
        self.world.ring_sync(move || world.print(directory.path(), what, directory.sync()))
    }
    fn bytes(&self) -> Result<u64> {
        unreachable!("a directory is only synced")
    }
    fn set_bytes(&self, _: u64) -> Result<()> {
        unreachable!("a directory is only synced")
    }
}

struct TracedFile {
    file: Arc<dyn File>,
    world: Arc<World>,
}

impl File for TracedFile {
    fn inner(&self) -> Option<&dyn File> {
        Some(&*self.file)
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let what = || format!("write {} bytes at {offset} of", bytes.len());
        self.world.print(self.path(), what, self.file.write_all_at(offset, bytes))
    }
    fn begin_write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        let what = || format!("begin to write back {bytes} bytes at {offset} of");
        self.world.print(self.path(), what, self.file.begin_write_back(offset, bytes))
    }
    fn write_out(&self) -> Result<()> {
        self.world.print(self.path(), || "write out".into(), self.file.write_out())
    }
    fn sync(&self) -> Result<()> {
        let sync = || self.file.sync();
        self.world.print(self.path(), || "sync".into(), self.world.blocking_sync(sync))
    }
    fn begin_sync(&self) -> Option<SyncInFlight> {
        let (file, world) = (Arc::clone(&self.file), Arc::clone(&self.world));
        self.world.ring_sync(move || world.print(file.path(), || "sync".into(), file.sync()))
    }
    fn bytes(&self) -> Result<u64> {
        self.file.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.world.print(self.path(), || format!("set the length to {bytes} of"), self.file.set_bytes(bytes))
    }
    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        let wrap =
            |mapping| Arc::new(TracedMapping { mapping, file: Arc::clone(&self.file), world: self.world.clone() });
        Ok(self.file.map(bytes)?.map(|mapping| wrap(mapping) as Arc<dyn Mapping>))
    }
}

struct TracedMapping {
    mapping: Arc<dyn Mapping>,
    file: Arc<dyn File>,
    world: Arc<World>,
}

impl Mapping for TracedMapping {
    fn inner(&self) -> Option<&dyn Mapping> {
        Some(&*self.mapping)
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.world.say(|| format!("disk: store {} bytes at {offset} of {}", bytes.len(), self.file.path().display()));
        self.mapping.write(offset, bytes);
    }
    fn populate(&self, from: u64, to: u64) -> Result<()> {
        self.mapping.populate(from, to)
    }
    fn release(&self, from: u64, to: u64) {
        self.mapping.release(from, to);
    }
    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        let sync = || self.mapping.sync_range(from, to);
        self.world.print(self.file.path(), || format!("sync {from}..{to} of"), self.world.blocking_sync(sync))
    }
    fn begin_sync_range(&self, from: u64, to: u64) -> Option<SyncInFlight> {
        let (mapping, file, world) = (Arc::clone(&self.mapping), Arc::clone(&self.file), Arc::clone(&self.world));
        let what = move || format!("sync {from}..{to} of");
        self.world.ring_sync(move || world.print(file.path(), what, mapping.sync_range(from, to)))
    }
}
