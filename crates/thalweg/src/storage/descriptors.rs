//! [`frugal`]: a decorator that bounds the open descriptors of files that are read.
//!
//! Each table that is read keeps a descriptor, and there may be more tables than descriptors. So only a part of the
//! files that were opened with [`Storage::open_evictable`] is open at a time: 1/[`PART`] of the descriptors of the
//! process. To open one more, this closes a file that was not read since the last pass (the clock algorithm); its next
//! read opens it again. When any open fails because no descriptor is left, idle files are closed and the open is
//! retried. If it still fails, the error is temporary ([`Error::is_shortage`]).
//!
//! A name must lead to the same file while the file is read: a table's id is given out once, and its file stays until
//! its last reader is gone (`lineage::settle`).
//!
//! A read takes no lock: it loads the descriptor through `arc-swap`. Locks: `open` is held while a file is added to the
//! queue or removed from it, never over I/O. Invariant: under `open`, a file is in the queue if and only if it is open.

use super::{DirectoryEntry, File, OpenMode, ReadMapping, Storage, StorageLock};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard};
use arc_swap::ArcSwapOption;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// One in `PART` of the files that the process may have open is for evictable files.
pub(super) const PART: u64 = 4;

/// The number of evictable files that may always be open.
const OPEN_MIN: u64 = 4;

/// The same storage, with a bound on the open descriptors.
pub(crate) fn frugal(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    let most = storage.open_files_max().map_or(u64::MAX, |most| (most / PART).max(OPEN_MIN));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let descriptors = Descriptors { storage: Arc::clone(&storage), most, open: Mutex::default() };
    Arc::new(FrugalStorage { storage, descriptors: Arc::new(descriptors) })
}

/// The evictable files that are open.
struct Descriptors {
    storage: Arc<dyn Storage>,
    most: usize,
    /// Ordered roughly by the time of the last read, the oldest first.
    open: Mutex<VecDeque<Weak<Evictable>>>,
}

/// An open descriptor. It is closed when neither its file nor a reader holds it.
struct Opened {
    file: Arc<dyn File>,
}

impl Descriptors {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Evictable>>> {
        self.open.lock()
    }

    /// Closes files until at most `most` are open.
    fn close_down_to(&self, most: usize) {
        // Also holds the files that stay open: the last handle of a file must not be dropped under the lock.
        let mut closed = Vec::new();
        {
            let mut open = self.lock();
            // Each file is passed over at most once.
            let mut passes = open.len();
            while open.len() > most
                && let Some(first) = open.pop_front()
            {
                let Some(file) = first.upgrade() else { continue };
                let is_used = passes > 0 && file.is_used.swap(false, Ordering::Relaxed);
                passes = passes.saturating_sub(1);
                let descriptor = if is_used { None } else { file.opened.swap(None) };
                if is_used {
                    open.push_back(first);
                }
                closed.push((descriptor, file));
            }
        }
        drop(closed);
    }

    /// Runs `act`, which needs a descriptor. When none is left, closes half of the open files, then all, and retries.
    fn with_room<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        let mut done = act();
        for part in [2, usize::MAX] {
            if !done.as_ref().is_err_and(Error::is_shortage) {
                break;
            }
            let open = self.lock().len();
            self.close_down_to(open / part);
            done = act();
        }
        done
    }
}

/// A file for reads only, whose descriptor may be closed.
struct Evictable {
    me: Weak<Evictable>,
    path: Arc<Path>,
    descriptors: Arc<Descriptors>,
    opened: ArcSwapOption<Opened>,
    /// Whether it was read since the last pass.
    is_used: AtomicBool,
    /// Whether random reads are expected.
    is_random: AtomicBool,
}

impl Evictable {
    #[inline]
    fn with<T>(&self, act: impl FnOnce(&dyn File) -> Result<T>) -> Result<T> {
        if let Some(opened) = &*self.opened.load() {
            // The flag is mostly set already. A store would take the cache line away from other readers.
            if !self.is_used.load(Ordering::Relaxed) {
                self.is_used.store(true, Ordering::Relaxed);
            }
            return act(&*opened.file);
        }
        act(&*self.open()?.file)
    }

    /// Opens the file. Two threads that do so at the same time open it twice, and one descriptor is closed again.
    #[cold]
    fn open(&self) -> Result<Arc<Opened>> {
        let descriptors = &self.descriptors;
        descriptors.close_down_to(descriptors.most.saturating_sub(1));
        let file = descriptors.with_room(|| open_to_read(&*descriptors.storage, &self.path))?;
        if self.is_random.load(Ordering::Relaxed) {
            file.expect_random_reads();
        }
        let opened = Arc::new(Opened { file });
        let mut open = descriptors.lock();
        if let Some(found) = self.opened.load_full() {
            // Drops `opened` after the lock.
            drop(open);
            return Ok(found);
        }
        self.opened.store(Some(Arc::clone(&opened)));
        open.push_back(Weak::clone(&self.me));
        Ok(opened)
    }

    /// Passes a hint on; an error is no failure.
    fn hint(&self, act: impl FnOnce(&dyn File)) {
        let _ = self.with(|file| {
            act(file);
            Ok(())
        });
    }

    fn refused(&self, operation: &'static str) -> Error {
        Error::io(operation, &self.path, io::Error::other("the file is open for reading only"))
    }
}

impl Drop for Evictable {
    fn drop(&mut self) {
        if self.opened.load().is_some() {
            let me = &self.me;
            self.descriptors.lock().retain(|other| !Weak::ptr_eq(other, me));
        }
    }
}

impl File for Evictable {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.with(|file| file.read_at(offset, buffer))
    }
    fn will_need(&self, offset: u64, bytes: u64) {
        self.hint(|file| file.will_need(offset, bytes));
    }
    fn expect_random_reads(&self) {
        self.is_random.store(true, Ordering::Relaxed);
        self.hint(|file| file.expect_random_reads());
    }
    fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        self.with(|file| Ok(file.is_cached(offset, bytes))).ok().flatten()
    }
    fn forget_cached(&self, offset: u64, bytes: u64) {
        self.hint(|file| file.forget_cached(offset, bytes));
    }
    fn links(&self) -> Result<Option<u64>> {
        self.with(|file| file.links())
    }
    fn write_all_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(self.refused("write to"))
    }
    fn sync(&self) -> Result<()> {
        Err(self.refused("sync"))
    }
    fn bytes(&self) -> Result<u64> {
        self.with(|file| file.bytes())
    }
    fn set_bytes(&self, _: u64) -> Result<()> {
        Err(self.refused("set the length of"))
    }
    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        self.with(|file| Ok(file.map_for_reads(bytes))).ok().flatten()
    }
    fn held(&self) -> Option<Arc<dyn File>> {
        self.with(|_| Ok(())).ok()?;
        Some(Arc::clone(&self.opened.load().as_ref()?.file))
    }
}

fn open_to_read(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn File>> {
    let file = storage.open(path, OpenMode::Read)?;
    file.ok_or_else(|| Error::io("open", path, io::ErrorKind::Unsupported.into()))
}

struct FrugalStorage {
    storage: Arc<dyn Storage>,
    descriptors: Arc<Descriptors>,
}

impl Storage for FrugalStorage {
    fn inner(&self) -> Option<&dyn Storage> {
        Some(&*self.storage)
    }
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.descriptors.with_room(|| self.storage.create(path))
    }
    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.descriptors.with_room(|| self.storage.create_direct(path))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        self.descriptors.with_room(|| self.storage.open(path, mode))
    }
    fn open_evictable(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = Arc::new_cyclic(|me| Evictable {
            me: Weak::clone(me),
            path: Arc::from(path),
            descriptors: Arc::clone(&self.descriptors),
            opened: ArcSwapOption::empty(),
            is_used: AtomicBool::new(true),
            is_random: AtomicBool::new(false),
        });
        file.open()?;
        Ok(file)
    }
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>> {
        self.storage.file_bytes(path)
    }
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>> {
        self.descriptors.with_room(|| self.storage.list(directory))
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
        // A shortage means that the directory could not be opened: nothing was synced, and nothing dropped.
        self.descriptors.with_room(|| self.storage.sync_directory(path))
    }
    fn open_directory(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        self.descriptors.with_room(|| self.storage.open_directory(path))
    }
    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>> {
        self.descriptors.with_room(|| self.storage.lock(path, shared))
    }
}
