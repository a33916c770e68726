//! [`EngineGround`]: a volume on the engine and on objects, both on one simulated disk.
//!
//! Coroutines of the engine run between the steps of operations, and the kernel writes back by itself. The volume's one
//! client is the main stack.

use crate::VirtualClock;
use crate::ground::format_options;
use crate::lives::Ground;
use crate::memory::End;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::Database;
use thalweg::simulation::simulated::{SimulatedDisk, Strictness};
use thalweg::simulation::{File, OpenMode, Storage};
use thalweg_fs::{EngineStore, Error, Ino, ObjectAttributes, ObjectStore, OpenOptions, Result, Room, Time, Volume};
use thalweg_sim::{Rng, World, environment};

const OBJECTS: &str = "/objects";

/// A simulated disk with a volume.
pub struct EngineGround {
    disk: SimulatedDisk,
    world: Arc<World>,
    rng: Rng,
    clock: Arc<VirtualClock>,
}

impl EngineGround {
    /// An empty disk.
    pub fn new(seed: u64, clock: &Arc<VirtualClock>) -> Self {
        let mut rng = Rng::new(seed ^ 0xe9);
        let disk = SimulatedDisk::new(rng.next_u64());
        disk.share_journal(rng.one_in(2));
        let world = World::new(rng.next_u64(), false);
        EngineGround { disk, world, rng, clock: Arc::clone(clock) }
    }

    /// The rows, in a database that flushes and merges often.
    fn rows(&mut self) -> Result<EngineStore> {
        self.world = World::new(self.rng.next_u64(), false);
        let (disk, mut rng) = (self.disk.clone(), self.rng.fork());
        let one_in = *rng.choose(&[2, 20, 1_000_000]);
        self.world.begin_phase(Some(Box::new(move |_| {
            if rng.one_in(one_in) {
                disk.background_writeback();
            }
        })));
        let builder = Database::builder(Path::new("/db"))
            .environment(environment(&self.world, Arc::new(self.disk.clone()), 0))
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10)
            .memtable_bytes(*self.rng.choose(&[2 << 10, 8 << 10]))
            .table_bytes(2 << 10)
            .level1_bytes(4 << 10)
            .growth_factor(2)
            .directory_level0_trigger(2);
        EngineStore::new(builder.open()?)
    }
}

impl Ground for EngineGround {
    fn format(&mut self, clock: &VirtualClock) -> Result<()> {
        let rows = self.rows()?;
        Volume::format_on(&rows, format_options(), clock)?;
        thalweg_fs::MetaStore::close(&rows)?;
        drop(rows);
        self.world.clear();
        Ok(())
    }

    fn open(&mut self, options: OpenOptions) -> Result<Volume> {
        let objects = SimulatedObjects::new(self.disk.clone(), &self.clock)?;
        options.open_on(Box::new(self.rows()?), Box::new(objects))
    }

    fn arm(&mut self, rng: &mut Rng) {
        if rng.percent(80) {
            self.disk.crash_at(self.disk.operations() + 1 + rng.any_size(10));
        }
    }

    fn is_dead(&self) -> bool {
        self.disk.is_dead()
    }

    fn end(&mut self, how: End, rng: &mut Rng) {
        let cuts =
            [Strictness::LoseUnsynced, Strictness::RandomPages, Strictness::TornSectors, Strictness::Ext4Ordered];
        let strictness = if how == End::Kill { Strictness::ProcessDeath } else { *rng.choose(&cuts) };
        self.disk = self.disk.crash(strictness);
        self.world.clear();
    }
}

/// Objects as files of a simulated disk.
struct SimulatedObjects {
    disk: SimulatedDisk,
    clock: Arc<VirtualClock>,
    /// Objects whose name this process made durable.
    named: Mutex<BTreeSet<Ino>>,
}

impl SimulatedObjects {
    fn new(disk: SimulatedDisk, clock: &Arc<VirtualClock>) -> Result<Self> {
        disk.create_directory(Path::new(OBJECTS))?;
        disk.sync_directory(Path::new("/"))?;
        Ok(SimulatedObjects { disk, clock: Arc::clone(clock), named: Mutex::default() })
    }

    fn path(ino: Ino) -> PathBuf {
        Path::new(OBJECTS).join(format!("{ino:016x}"))
    }

    fn file(&self, ino: Ino) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&Self::path(ino), OpenMode::ReadWrite)?;
        file.ok_or_else(|| Error::explained(libc::EIO, format!("object {ino} has no file")))
    }
}

impl ObjectStore for SimulatedObjects {
    fn create(&self, ino: Ino) -> Result<()> {
        match self.disk.file_bytes(&Self::path(ino))? {
            Some(_) => self.truncate(ino, 0),
            None => Ok(drop(self.disk.create(&Self::path(ino))?)),
        }
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let file = self.file(ino)?;
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(offset + read as u64, &mut bytes[read..])? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn write_at(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.file(ino)?.write_all_at(offset, bytes)?)
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<()> {
        Ok(self.file(ino)?.set_bytes(size)?)
    }

    fn allocate(&self, ino: Ino, mode: i32, offset: u64, bytes: u64) -> Result<()> {
        let file = self.file(ino)?;
        let size = file.bytes()?;
        let end = offset + bytes;
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 && offset < size {
            file.write_all_at(offset, &vec![0; (end.min(size) - offset) as usize])?;
        }
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && size < end {
            file.set_bytes(end)?;
        }
        Ok(())
    }

    fn seek(&self, ino: Ino, offset: u64, is_hole: bool) -> Result<u64> {
        match self.file(ino)?.bytes()? {
            size if offset >= size => Err(Error::posix(libc::ENXIO)),
            size if is_hole => Ok(size),
            _ => Ok(offset),
        }
    }

    fn attributes(&self, ino: Ino) -> Result<Option<ObjectAttributes>> {
        let size = self.disk.file_bytes(&Self::path(ino))?;
        let mtime = thalweg_fs::Clock::now(&*self.clock);
        Ok(size.map(|size| ObjectAttributes { size, bytes: size, mtime }))
    }

    fn set_mtime(&self, _ino: Ino, _mtime: Time) -> Result<()> {
        Ok(())
    }

    fn sync(&self, ino: Ino) -> Result<()> {
        self.file(ino)?.sync()?;
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if !named.contains(&ino) {
            self.disk.sync_directory(Path::new(OBJECTS))?;
            named.insert(ino);
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        for ino in self.list()? {
            self.file(ino)?.sync()?;
        }
        Ok(self.disk.sync_directory(Path::new(OBJECTS))?)
    }

    fn remove(&self, ino: Ino) -> Result<()> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        if self.disk.file_bytes(&Self::path(ino))?.is_some() {
            self.disk.remove(&Self::path(ino))?;
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Ino>> {
        let all = self.disk.list(Path::new(OBJECTS))?.unwrap_or_default();
        Ok(all.iter().filter_map(|entry| Ino::from_str_radix(&entry.name, 16).ok()).collect())
    }

    fn room(&self) -> Result<Room> {
        Ok(Room { total_bytes: 1 << 40, free_bytes: 1 << 39, available_bytes: 1 << 39 })
    }
}
