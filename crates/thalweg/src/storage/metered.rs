//! [`metered`]: a decorator that counts and times every sync.
//!
//! For measurements each sync can be made longer, as on a device with slow flushes: a direct call sleeps after the
//! sync, and a caller that hands the sync to a ring reads [`File::sync_delay`]. The counted time includes the delay.
//!
//! The name of a file tells the kind of its syncs. Bytes are counted by their writers, which know the cause.

use super::{DirectoryEntry, File, Mapping, OpenMode, Storage, StorageLock};
use crate::clock::Clock;
use crate::error::Result;
use crate::metrics::{Metrics, SyncCount};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The same storage, with its syncs counted in `metrics` and each made longer by `delay`.
pub(crate) fn metered(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    delay: Duration,
) -> Arc<dyn Storage> {
    Arc::new(MeteredStorage { storage, meter: Meter { clock, metrics, delay } })
}

/// The kind of file that a sync makes durable.
#[derive(Clone, Copy)]
enum Kind {
    Log,
    Table,
    /// A manifest, or CURRENT, which names one.
    Manifest,
    /// A directory; no file name has this kind.
    Directory,
}

impl Kind {
    fn of(path: &Path) -> Kind {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => Kind::Log,
            Some("table") => Kind::Table,
            _ => Kind::Manifest,
        }
    }

    fn count_in(self, metrics: &Metrics) -> &SyncCount {
        match self {
            Kind::Log => &metrics.log_syncs,
            Kind::Table => &metrics.table_syncs,
            Kind::Manifest => &metrics.manifest_syncs,
            Kind::Directory => &metrics.directory_syncs,
        }
    }
}

#[derive(Clone)]
struct Meter {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    delay: Duration,
}

impl Meter {
    /// Runs and counts a sync, also one that fails.
    fn time(&self, count: impl FnOnce(&Metrics) -> &SyncCount, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = self.clock.now_ns();
        let done = sync();
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        count(&self.metrics).record(self.clock.now_ns().saturating_sub(start));
        done
    }
}

struct MeteredStorage {
    storage: Arc<dyn Storage>,
    meter: Meter,
}

impl MeteredStorage {
    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(MeteredFile { kind: Kind::of(path), file, meter: self.meter.clone() })
    }
}

impl Storage for MeteredStorage {
    fn inner(&self) -> Option<&dyn Storage> {
        Some(&*self.storage)
    }
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.storage.create(path)?))
    }
    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.storage.create_direct(path)?))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        let file = self.storage.open(path, mode)?;
        // Only files that can be written are synced; files for reads need no decoration.
        Ok(file.map(|file| if mode == OpenMode::ReadWrite { self.wrap(path, file) } else { file }))
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        self.storage.file_bytes(path)
    }
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        self.storage.list(directory)
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.storage.create_directory(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.storage.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.storage.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool> {
        self.storage.hard_link(from, to)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.meter.time(|metrics| &metrics.directory_syncs, || self.storage.sync_directory(path))
    }
    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        let directory = self.storage.open_directory(path)?;
        let wrap = |file| Arc::new(MeteredFile { kind: Kind::Directory, file, meter: self.meter.clone() });
        Ok(directory.map(|file| wrap(file) as Arc<dyn File>))
    }
    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        self.storage.lock(path, shared)
    }
}

struct MeteredFile {
    kind: Kind,
    file: Arc<dyn File>,
    meter: Meter,
}

impl File for MeteredFile {
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
        self.file.write_all_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.meter.time(|metrics| self.kind.count_in(metrics), || self.file.sync())
    }
    fn bytes(&self) -> Result<u64> {
        self.file.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.file.set_bytes(bytes)
    }
    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        let wrap = |mapping| Arc::new(MeteredMapping { kind: self.kind, mapping, meter: self.meter.clone() });
        Ok(self.file.map(bytes)?.map(|mapping| wrap(mapping) as Arc<dyn Mapping>))
    }
    fn count_sync(&self, ns: u64) {
        self.kind.count_in(&self.meter.metrics).record(ns);
    }
    fn sync_delay(&self) -> Duration {
        self.meter.delay
    }
}

struct MeteredMapping {
    kind: Kind,
    mapping: Arc<dyn Mapping>,
    meter: Meter,
}

impl Mapping for MeteredMapping {
    fn inner(&self) -> Option<&dyn Mapping> {
        Some(&*self.mapping)
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.mapping.write(offset, bytes);
    }
    fn populate(&self, from: u64, to: u64) -> Result<()> {
        self.mapping.populate(from, to)
    }
    fn release(&self, from: u64, to: u64) {
        self.mapping.release(from, to);
    }
    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        self.meter.time(|metrics| self.kind.count_in(metrics), || self.mapping.sync_range(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::storage::LinuxStorage;

    #[test]
    fn every_sync_is_counted_under_its_kind_and_timed() {
        let root = std::env::temp_dir().join(format!("thalweg-metered-{}", std::process::id()));
        let metrics = Arc::new(Metrics::default());
        let clock = Arc::new(SystemClock::default());
        let storage = metered(Arc::new(LinuxStorage), clock, Arc::clone(&metrics), Duration::ZERO);
        storage.create_directory(&root).unwrap();
        for name in ["00000001.log", "00000002.log", "0000000001.table", "manifest-00000001", "CURRENT.new"] {
            let file = storage.create(&root.join(name)).unwrap();
            file.write_all_at(0, b"bytes").unwrap();
            file.sync().unwrap();
            storage.open(&root.join(name), OpenMode::ReadWrite).unwrap().unwrap().sync().unwrap();
        }
        let table = storage.create_direct(&root.join("0000000002.table")).unwrap();
        table.sync().unwrap();
        table.count_sync(1);
        storage.sync_directory(&root).unwrap();
        let counts = [&metrics.log_syncs, &metrics.table_syncs, &metrics.manifest_syncs, &metrics.directory_syncs];
        assert_eq!(counts.map(|count| count.count.get()), [4, 4, 4, 1]);
        assert!(counts.iter().all(|count| count.total_ns.get() > 0), "a sync takes time");
        assert!(storage.sync_directory(&root.join("missing")).is_err());
        assert_eq!(metrics.directory_syncs.count.get(), 2, "one that fails was tried");
        let log = storage.open(&root.join("00000001.log"), OpenMode::ReadWrite).unwrap().unwrap();
        if let Some(mapping) = log.map(5).unwrap() {
            mapping.sync_range(0, 5).unwrap();
            assert_eq!(metrics.log_syncs.count.get(), 5);
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_delay_is_part_of_each_sync_and_of_nothing_else() {
        let root = std::env::temp_dir().join(format!("thalweg-delayed-{}", std::process::id()));
        let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(SystemClock::default()));
        let delay = Duration::from_millis(20);
        let storage = metered(Arc::new(LinuxStorage), clock, Arc::clone(&metrics), delay);
        storage.create_directory(&root).unwrap();
        let file = storage.create(&root.join("00000001.log")).unwrap();
        file.write_all_at(0, b"bytes").unwrap();
        file.write_out().unwrap();
        assert_eq!((metrics.log_syncs.count.get(), file.sync_delay()), (0, delay));
        let at_least = |syncs: &SyncCount, count: u64| {
            assert_eq!(syncs.count.get(), count);
            assert!(syncs.total_ns.get() >= count * delay.as_nanos() as u64, "{} ns", syncs.total_ns.get());
        };
        file.sync().unwrap();
        at_least(&metrics.log_syncs, 1);
        if let Some(mapping) = file.map(5).unwrap() {
            mapping.sync_range(0, 5).unwrap();
            at_least(&metrics.log_syncs, 2);
        }
        storage.sync_directory(&root).unwrap();
        at_least(&metrics.directory_syncs, 1);
        std::fs::remove_dir_all(root).unwrap();
    }
}
