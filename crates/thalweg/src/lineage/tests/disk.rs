//! A disk in memory and a scheduler of one thread. The disk keeps durable and cached bytes apart, can lose its power at
//! any step, and can be full.

use crate::clock::{Clock, Entropy};
use crate::error::{Error, Result};
use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
use crate::storage::{DirectoryEntry, File, OpenMode, Storage, StorageLock};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) cached: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    pub(super) inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    /// Steps that change something, so far.
    pub(super) steps: usize,
    /// The power goes before this step.
    pub(super) power_until: Option<usize>,
    /// Bytes that files may have in all.
    pub(super) room: Option<usize>,
    /// Bytes that are still free, if the disk reports that.
    pub(super) free: Option<u64>,
    /// Syncs of table files fail where they go through the handle that created the file.
    pub(super) fails_writers: bool,
    /// Files that the process may open.
    pub(super) open_files_max: Option<u64>,
    /// Syncs of files with this in their path fail.
    pub(super) failing_sync: Option<(&'static str, io::ErrorKind)>,
    /// As many syncs of directories succeed, and the next one finds no space.
    pub(super) full_directory_sync: Option<usize>,
    /// Paths synced, in order.
    pub(super) syncs: Vec<String>,
    pub(super) removed: Vec<String>,
    /// Lengths that files were given, in order.
    pub(super) lengths: Vec<(String, u64)>,
}

#[derive(Clone, Default)]
pub(super) struct Fake(pub(super) Arc<Mutex<Disk>>);

struct Handle {
    disk: Fake,
    path: PathBuf,
    inode: usize,
    is_creator: bool,
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

impl Disk {
    fn step(&mut self, path: &Path) -> Result<()> {
        if self.power_until.is_some_and(|until| self.steps >= until) {
            return Err(Error::io("reach", path, io::ErrorKind::NotConnected.into()));
        }
        self.steps += 1;
        Ok(())
    }

    pub(super) fn used(&self) -> usize {
        self.names.values().map(|&inode| self.inodes[inode].cached.len()).sum()
    }

    pub(super) fn content(&mut self, path: &Path) -> &mut Vec<u8> {
        let inode = self.names[path];
        &mut self.inodes[inode].cached
    }

    /// Another name for a file.
    pub(super) fn link(&mut self, from: &Path, to: &Path) {
        self.names.insert(to.into(), self.names[from]);
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }
}

impl Fake {
    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// The disk after a power cut now: only synced bytes.
    pub(super) fn after_power_cut(&self) -> Fake {
        let mut disk = self.disk().clone();
        disk.names = disk.durable_names.clone();
        for inode in &mut disk.inodes {
            inode.cached = inode.durable.clone();
        }
        Fake::with(disk)
    }

    /// The disk after the death of the process now: everything.
    pub(super) fn after_death(&self) -> Fake {
        Fake::with(self.disk().clone())
    }

    fn with(mut disk: Disk) -> Fake {
        (disk.power_until, disk.room, disk.failing_sync) = (None, None, None);
        Fake(Arc::new(Mutex::new(disk)))
    }

    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let file = self.create(path).unwrap();
        file.write_all_at(0, &bytes).unwrap();
    }
}

impl Storage for Fake {
    fn free_bytes(&self, _: &Path) -> Option<u64> {
        self.disk().free
    }
    fn open_files_max(&self) -> Option<u64> {
        self.disk().open_files_max
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.step(path)?;
        if disk.has(path) {
            return Err(Error::io("create", path, io::ErrorKind::AlreadyExists.into()));
        }
        disk.inodes.push(Inode::default());
        let inode = disk.inodes.len() - 1;
        disk.names.insert(path.into(), inode);
        Ok(Arc::new(Handle { disk: self.clone(), path: path.into(), inode, is_creator: true }))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium {
            return Ok(None);
        }
        let inode = self.disk().names.get(path).copied();
        let inode = inode.ok_or_else(|| Error::io("open", path, io::ErrorKind::NotFound.into()))?;
        Ok(Some(Arc::new(Handle { disk: self.clone(), path: path.into(), inode, is_creator: false })))
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let disk = self.disk();
        Ok(disk.names.get(path).map(|&inode| disk.inodes[inode].cached.len() as u64))
    }
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        let disk = self.disk();
        if !disk.directories.contains(directory) {
            return Ok(None);
        }
        let files = disk.names.iter().filter(|(path, _)| path.parent() == Some(directory));
        let files = files.map(|(path, &inode)| (name(path), false, disk.inodes[inode].cached.len() as u64));
        let below = disk.directories.iter().filter(|path| path.parent() == Some(directory));
        let all = files.chain(below.map(|path| (name(path), true, 0)));
        let mut all: Vec<_> =
            all.map(|(name, is_directory, bytes)| DirectoryEntry { name, is_directory, bytes }).collect();
        all.sort();
        Ok(Some(all))
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk();
        disk.step(path)?;
        disk.directories.insert(path.into());
        Ok(())
    }
    fn remove(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk();
        disk.step(path)?;
        disk.removed.push(name(path));
        let removed = disk.names.remove(path);
        removed.map(drop).ok_or_else(|| Error::io("remove", path, io::ErrorKind::NotFound.into()))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.disk();
        disk.step(from)?;
        let inode = disk.names.remove(from).ok_or_else(|| Error::io("rename", from, io::ErrorKind::NotFound.into()))?;
        disk.names.insert(to.into(), inode);
        Ok(())
    }
    fn hard_link(&self, _: &Path, _: &Path) -> Result<bool> {
        Ok(false)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk();
        disk.step(path)?;
        let left = disk.full_directory_sync.take();
        disk.full_directory_sync = left.and_then(|left| left.checked_sub(1));
        if left == Some(0) {
            return Err(Error::io("sync", path, io::ErrorKind::StorageFull.into()));
        }
        disk.syncs.push(name(path));
        let names = disk.names.clone();
        disk.durable_names.retain(|name, _| name.parent() != Some(path));
        disk.durable_names.extend(names.into_iter().filter(|(name, _)| name.parent() == Some(path)));
        Ok(())
    }
    fn lock(&self, _: &Path, _: bool) -> Result<Box<dyn StorageLock>> {
        unreachable!("nobody locks here")
    }
}

impl File for Handle {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let disk = self.disk.disk();
        let rest = disk.inodes[self.inode].cached.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut disk = self.disk.disk();
        disk.step(&self.path)?;
        let (used, room, len) = (disk.used(), disk.room, disk.inodes[self.inode].cached.len());
        let grown = (offset as usize + bytes.len()).saturating_sub(len);
        // A full disk takes what fits.
        let fits = room.map_or(grown, |room| room.saturating_sub(used).min(grown));
        let taken = &bytes[..bytes.len() - (grown - fits)];
        let content = &mut disk.inodes[self.inode].cached;
        content.resize(len.max(offset as usize + taken.len()), 0);
        content[offset as usize..offset as usize + taken.len()].copy_from_slice(taken);
        if fits < grown {
            return Err(Error::io("write", &self.path, io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        let mut disk = self.disk.disk();
        disk.step(&self.path)?;
        disk.syncs.push(name(&self.path));
        if let Some((_, kind)) = disk.failing_sync.filter(|(part, _)| self.path.to_string_lossy().contains(part)) {
            return Err(Error::io("sync", &self.path, kind.into()));
        }
        if disk.fails_writers && self.is_creator && self.path.extension().is_some_and(|extension| extension == "table")
        {
            return Err(Error::io("sync", &self.path, io::ErrorKind::Other.into()));
        }
        let inode = &mut disk.inodes[self.inode];
        inode.durable = inode.cached.clone();
        Ok(())
    }
    fn links(&self) -> Result<Option<u64>> {
        Ok(Some(self.disk.disk().names.values().filter(|inode| **inode == self.inode).count() as u64))
    }
    fn bytes(&self) -> Result<u64> {
        Ok(self.disk.disk().inodes[self.inode].cached.len() as u64)
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        let mut disk = self.disk.disk();
        disk.step(&self.path)?;
        disk.inodes[self.inode].cached.resize(bytes as usize, 0);
        disk.lengths.push((name(&self.path), bytes));
        Ok(())
    }
}

/// A scheduler of one thread: a wait polls all coroutines, and time passes with every round of polls.
#[derive(Default)]
pub(super) struct OneThread {
    tasks: Mutex<Vec<Task>>,
    now_ns: Arc<AtomicU64>,
}

struct Time(Arc<AtomicU64>);

impl Clock for Time {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Entropy for Time {
    fn next_u64(&self) -> u64 {
        (self.0.fetch_add(1, Ordering::SeqCst) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl OneThread {
    fn round(&self) {
        self.now_ns.fetch_add(1_000_000, Ordering::SeqCst);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        self.tasks.lock().unwrap().extend(tasks);
    }

    /// Polls the futures and all coroutines until the futures are ready.
    pub(super) fn run_all<T>(&self, futures: Vec<impl Future<Output = T>>) -> Vec<T> {
        let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
        let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100_000 {
            for (future, result) in futures.iter_mut().zip(&mut results) {
                if result.is_none()
                    && let Poll::Ready(value) = future.as_mut().poll(&mut context)
                {
                    *result = Some(value);
                }
            }
            if results.iter().all(Option::is_some) {
                return results.into_iter().flatten().collect();
            }
            self.round();
        }
        panic!("a future waits for ever");
    }

    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_all(vec![future]).pop().unwrap()
    }

    pub(super) fn pass_ms(&self, ms: usize) {
        (0..ms).for_each(|_| self.round());
    }
}

impl Scheduler for OneThread {
    fn spawn(&self, _: Lane, task: Task) {
        self.tasks.lock().unwrap().push(task);
    }
    fn sleep_until(&self, deadline_ns: u64) -> Task {
        let now_ns = Arc::clone(&self.now_ns);
        Box::pin(std::future::poll_fn(move |_| {
            if now_ns.load(Ordering::SeqCst) >= deadline_ns { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
    fn wait(&self, event: &Event, ticket: Ticket, _: Option<u64>) {
        for _ in 0..100_000 {
            if event.passed(ticket) {
                return;
            }
            self.round();
        }
        panic!("a caller waits for ever");
    }
    fn point(&self, _: Point) {}
    fn shutdown(&self) {}
}

pub(super) fn environment(disk: &Fake) -> (Environment, Arc<OneThread>) {
    let thread = Arc::new(OneThread::default());
    let time = || Arc::new(Time(Arc::clone(&thread.now_ns)));
    let scheduler: Arc<dyn Scheduler> = Arc::clone(&thread) as _;
    let (clock, entropy) = (time(), time());
    (Environment { storage: Arc::new(disk.clone()), clock, entropy, scheduler }, thread)
}
