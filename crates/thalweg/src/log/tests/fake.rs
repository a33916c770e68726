//! A disk in memory, a clock that counts, and a scheduler that polls all coroutines in turn, for the tests of the log.
//!
//! The disk keeps what was written and what was synced apart, can cut the power after a number of changes, refuse
//! space, and fail syncs.

use crate::clock::{Clock, Entropy};
use crate::error::{Error, Result};
use crate::runtime::{Environment, Event, Lane, Point, Scheduler, Task, Ticket};
use crate::storage::{DirectoryEntry, File, Mapping, OpenMode, Storage, StorageLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) written: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) is_named_durably: bool,
}

#[derive(Default)]
pub(super) struct Disk {
    pub(super) files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Content>>>>,
    directories: Mutex<BTreeSet<PathBuf>>,
    /// Changes until the power is cut; everything fails after that.
    pub(super) changes_left: Mutex<Option<u64>>,
    pub(super) refuses_space: AtomicBool,
    /// Whether overwriting takes space, of which there is none until a file is removed.
    pub(super) refuses_overwrites: AtomicBool,
    pub(super) fails_syncs: AtomicBool,
    pub(super) refuses_direct_reads: AtomicBool,
    /// Blocks can be allocated without writing them.
    pub(super) allocates: AtomicBool,
    /// Files can be mapped.
    pub(super) maps: AtomicBool,
    /// The page cache holds nothing.
    pub(super) evicts: AtomicBool,
    /// Bytes of mappings that were populated.
    pub(super) populated: AtomicU64,
    /// Bytes that were announced as needed soon.
    pub(super) announced: AtomicU64,
    /// The bytes that the page cache was told to forget, in order.
    pub(super) forgotten: Mutex<Vec<(PathBuf, std::ops::Range<u64>)>>,
    /// Called when a file is closed or unmapped.
    pub(super) on_close: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl Disk {
    fn change(&self, path: &Path) -> Result<()> {
        let mut left = self.changes_left.lock().unwrap();
        if let Some(left) = left.as_mut() {
            if *left == 0 {
                return Err(Error::io("write", path, io::Error::other("power cut")));
            }
            *left -= 1;
        }
        Ok(())
    }
    fn find(&self, path: &Path) -> Result<Arc<Mutex<Content>>> {
        let missing = || Error::io("open", path, io::ErrorKind::NotFound.into());
        self.files.lock().unwrap().get(path).cloned().ok_or_else(missing)
    }
    /// The disk after a crash: with what was written (the process died), or only with what was synced.
    pub(super) fn after_crash(&self, keeps_unsynced: bool) -> Arc<Disk> {
        let mut files = BTreeMap::new();
        for (path, content) in self.files.lock().unwrap().iter() {
            let mut content = content.lock().unwrap().clone();
            if !keeps_unsynced && !content.is_named_durably {
                continue;
            }
            if !keeps_unsynced {
                content.written = content.durable.clone();
            }
            files.insert(path.clone(), Arc::new(Mutex::new(content)));
        }
        let directories = self.directories.lock().unwrap().clone();
        Arc::new(Disk { files: Mutex::new(files), directories: Mutex::new(directories), ..Disk::default() })
    }
    /// The disk after a power cut that kept each unsynced sector and name or not, as `keeps` says.
    pub(super) fn after_power_cut(&self, keeps: &mut dyn FnMut() -> bool) -> Arc<Disk> {
        let after = self.after_crash(true);
        after.files.lock().unwrap().retain(|_, content| {
            let mut content = content.lock().unwrap();
            let is_named = content.is_named_durably || keeps();
            if content.durable.len() != content.written.len() {
                let keeps_length = keeps();
                let length = if keeps_length { content.written.len() } else { content.durable.len() };
                content.durable.resize(length, 0);
            }
            let Content { written, durable, .. } = &mut *content;
            for (durable, written) in durable.chunks_mut(512).zip(written.chunks(512)) {
                if *durable != *written && keeps() {
                    durable.copy_from_slice(&written[..durable.len()]);
                }
            }
            content.written = content.durable.clone();
            is_named
        });
        after
    }
    pub(super) fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let content = self.find(path).unwrap();
        let mut content = content.lock().unwrap();
        change(&mut content.written);
        content.durable = content.written.clone();
    }
    pub(super) fn read(&self, path: &Path) -> Vec<u8> {
        self.find(path).unwrap().lock().unwrap().written.clone()
    }
    /// Of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.paths().iter().map(|path| self.read(path).len() as u64).sum()
    }
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.lock().unwrap().keys().cloned().collect()
    }
}

struct Handle {
    disk: Arc<Disk>,
    path: PathBuf,
    content: Arc<Mutex<Content>>,
    reads_medium: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let on_close = self.disk.on_close.lock().unwrap().clone();
        if let Some(on_close) = on_close {
            on_close();
        }
    }
}

impl File for Handle {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let content = self.content.lock().unwrap();
        let bytes = if self.reads_medium { &content.durable } else { &content.written };
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
    fn is_cached(&self, _: u64, _: u64) -> Option<bool> {
        Some(!self.disk.evicts.load(Ordering::SeqCst))
    }
    fn forget_cached(&self, offset: u64, bytes: u64) {
        self.disk.forgotten.lock().unwrap().push((self.path.clone(), offset..offset + bytes));
    }
    fn will_need(&self, _: u64, bytes: u64) {
        self.disk.announced.fetch_add(bytes, Ordering::SeqCst);
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.disk.change(&self.path)?;
        let mut content = self.content.lock().unwrap();
        let end = offset as usize + bytes.len();
        if end > content.written.len() {
            if self.disk.refuses_space.load(Ordering::SeqCst) {
                return Err(Error::io("write", &self.path, io::ErrorKind::StorageFull.into()));
            }
            content.written.resize(end, 0);
        } else if self.disk.refuses_overwrites.load(Ordering::SeqCst) {
            return Err(Error::io("write", &self.path, io::ErrorKind::StorageFull.into()));
        }
        content.written[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.disk.change(&self.path)?;
        if self.disk.fails_syncs.load(Ordering::SeqCst) {
            return Err(Error::io("sync", &self.path, io::Error::other("medium error")));
        }
        let mut content = self.content.lock().unwrap();
        content.durable = content.written.clone();
        Ok(())
    }
    fn bytes(&self) -> Result<u64> {
        Ok(self.content.lock().unwrap().written.len() as u64)
    }
    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.content.lock().unwrap().written.resize(bytes as usize, 0);
        Ok(())
    }
    fn allocate(&self, bytes: u64) -> Result<bool> {
        let allocates = self.disk.allocates.load(Ordering::SeqCst);
        if allocates {
            self.write_all_at(0, &vec![0; bytes as usize])?;
        }
        Ok(allocates)
    }
    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        assert!(bytes <= self.bytes()?);
        let handle = Handle {
            disk: Arc::clone(&self.disk),
            path: self.path.clone(),
            content: Arc::clone(&self.content),
            reads_medium: false,
        };
        Ok(self.disk.maps.load(Ordering::SeqCst).then(|| Arc::new(handle) as Arc<dyn Mapping>))
    }
}

impl Mapping for Handle {
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.content.lock().unwrap().written[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    fn populate(&self, from: u64, to: u64) -> Result<()> {
        self.disk.populated.fetch_add(to - from, Ordering::SeqCst);
        Ok(())
    }
    fn release(&self, _: u64, _: u64) {}
    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        self.disk.change(&self.path)?;
        if self.disk.fails_syncs.load(Ordering::SeqCst) {
            return Err(Error::io("sync", &self.path, io::Error::other("medium error")));
        }
        let mut content = self.content.lock().unwrap();
        let Content { written, durable, .. } = &mut *content;
        durable[from as usize..to as usize].copy_from_slice(&written[from as usize..to as usize]);
        Ok(())
    }
}

pub(super) struct FakeStorage(pub(super) Arc<Disk>);

impl FakeStorage {
    fn handle(&self, path: &Path, reads_medium: bool) -> Result<Arc<dyn File>> {
        let content = self.0.find(path)?;
        Ok(Arc::new(Handle { disk: Arc::clone(&self.0), path: path.to_path_buf(), content, reads_medium }))
    }
}

impl Storage for FakeStorage {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.0.change(path)?;
        let old = self.0.files.lock().unwrap().insert(path.to_path_buf(), Arc::default());
        assert!(old.is_none(), "{} exists", path.display());
        self.handle(path, false)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if mode == OpenMode::ReadMedium && self.0.refuses_direct_reads.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.handle(path, mode == OpenMode::ReadMedium).map(Some)
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        Ok(self.0.find(path).ok().map(|content| content.lock().unwrap().written.len() as u64))
    }
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        if !self.0.directories.lock().unwrap().contains(directory) {
            return Ok(None);
        }
        let files = self.0.files.lock().unwrap();
        let here = files.iter().filter(|(path, _)| path.parent() == Some(directory));
        let entry = |(path, content): (&PathBuf, &Arc<Mutex<Content>>)| DirectoryEntry {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            is_directory: false,
            bytes: content.lock().unwrap().written.len() as u64,
        };
        Ok(Some(here.map(entry).collect()))
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.0.directories.lock().unwrap().insert(path.to_path_buf());
        Ok(())
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.0.change(path)?;
        self.0.files.lock().unwrap().remove(path);
        self.0.refuses_overwrites.store(false, Ordering::SeqCst);
        Ok(())
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unreachable!("the log renames nothing")
    }
    fn hard_link(&self, _: &Path, _: &Path) -> Result<bool> {
        Ok(false)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.0.change(path)?;
        for (_, content) in self.0.files.lock().unwrap().iter().filter(|(file, _)| file.parent() == Some(path)) {
            content.lock().unwrap().is_named_durably = true;
        }
        Ok(())
    }
    fn lock(&self, _: &Path, _: bool) -> Result<Box<dyn StorageLock>> {
        unreachable!("nobody locks here")
    }
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Clock for Counting {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::SeqCst)
    }
}

struct Sequence(AtomicU64);

impl Entropy for Sequence {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
    }
}

/// A scheduler that polls all coroutines when a thread waits, or on request.
pub(super) struct Polling {
    pub(super) tasks: Mutex<Vec<Task>>,
    clock: Arc<Counting>,
    /// With threads of the test's own: a wait is a real one.
    blocks: bool,
    /// Whether coroutines hand their syncs to a ring, as far as the log knows.
    pub(super) has_ring: AtomicBool,
}

impl Polling {
    /// Polls every coroutine once.
    pub(super) fn poll(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        let is_left = |mut task: Task| task.as_mut().poll(&mut context).is_pending().then_some(task);
        let left: Vec<_> = tasks.into_iter().filter_map(is_left).collect();
        self.tasks.lock().unwrap().extend(left);
    }
    /// Lets time pass; nothing else happens meanwhile.
    pub(super) fn pass(&self, duration_ns: u64) {
        self.clock.0.fetch_add(duration_ns, Ordering::SeqCst);
    }
    /// Polls until the coroutines have done what there is.
    pub(super) fn settle(&self) {
        (0..300).for_each(|_| self.poll());
    }
}

impl Scheduler for Polling {
    fn spawn(&self, _: Lane, task: Task) {
        self.tasks.lock().unwrap().push(task);
    }
    fn sleep_until(&self, deadline_ns: u64) -> Task {
        let clock = Arc::clone(&self.clock);
        Box::pin(std::future::poll_fn(
            move |_| {
                if clock.now_ns() >= deadline_ns { Poll::Ready(()) } else { Poll::Pending }
            },
        ))
    }
    fn wait(&self, event: &Event, ticket: Ticket, _: Option<u64>) {
        if self.blocks {
            return event.block(ticket, None);
        }
        for _ in 0..100_000 {
            if event.passed(ticket) {
                return;
            }
            self.poll();
        }
        panic!("waits for ever");
    }
    fn point(&self, _: Point) {}
    fn ring_refused(&self) -> Option<&str> {
        (!self.has_ring.load(Ordering::SeqCst)).then_some("a test without a ring")
    }
    fn shutdown(&self) {}
}

/// An environment over `disk`, and its scheduler.
pub(super) fn environment(disk: &Arc<Disk>, seed: u64, blocks: bool) -> (Environment, Arc<Polling>) {
    let clock = Arc::new(Counting::default());
    let scheduler = Arc::new(Polling {
        tasks: Mutex::default(),
        clock: Arc::clone(&clock),
        blocks,
        has_ring: AtomicBool::new(false),
    });
    let environment = Environment {
        storage: Arc::new(FakeStorage(Arc::clone(disk))),
        clock,
        entropy: Arc::new(Sequence(AtomicU64::new(seed.wrapping_mul(0x1234_5678_9abc_def1) + 7))),
        scheduler: Arc::clone(&scheduler) as Arc<dyn Scheduler>,
    };
    (environment, scheduler)
}
