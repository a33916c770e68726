//! The disk seam: the only way to files, in production and in simulation.
//!
//! Calls are direct and blocking; background coroutines go through [`crate::runtime::BackgroundFile`], which hands them
//! to the kernel where it can, and else yields around each.
//!
//! A write is *unsynced* until a sync that was issued after it returned `Ok`; a new, renamed or removed
//! name is unsynced until its directory was synced. A sync that failed may have dropped what it covered (Linux marks
//! the pages clean), so nobody retries one.
//!
//! Every error names its path. A full disk or quota is [`crate::Error::NoSpace`].

mod buffer;
#[cfg(test)]
mod contract;
mod linux;
mod linux_cached;
mod linux_direct;
mod linux_extents;
mod linux_journal;
mod linux_lock;
mod linux_mapping;
mod linux_memory;
mod linux_reads;
mod linux_sigbus;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;

pub(crate) use buffer::{ALIGNMENT, BufferPool, IoBuffer};
pub use linux::LinuxStorage;

use crate::error::Result;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A sync under way that no thread waits for; see [`File::begin_sync`].
pub type SyncInFlight = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// How [`Storage::open`] opens an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reads only, through the page cache.
    Read,
    /// Reads and writes, through the page cache.
    ReadWrite,
    /// Reads only, from the medium itself, not from the page cache (direct I/O): what a power cut would leave.
    ReadMedium,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The file's length in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A file system.
pub trait Storage: Send + Sync + 'static {
    /// Creates a file for reading and writing; an error when the name exists.
    fn create(&self, path: &Path) -> Result<Arc<dyn File>>;
    /// As [`Storage::create`], for a file that is written in large pieces and not read soon: past the page cache where
    /// the file system allows it. Offset, length and memory of each write must be multiples of 4096
    /// ([`File::is_direct`] says whether that matters); the true length is set at the end.
    fn create_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.create(path)
    }
    /// Opens an existing file. With [`OpenMode::ReadMedium`], `Ok(None)` where the file system refuses direct reads;
    /// the other modes always give `Some`. A missing file is `Error::Io` with `ErrorKind::NotFound` as its source.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Option<Arc<dyn File>>>;
    /// As [`Storage::open`] with [`OpenMode::Read`], with a descriptor that may be closed while nobody reads, and is
    /// opened anew for the next read: for one of many files. Its name must lead to it for as long as it is read.
    fn open_evictable(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = self.open(path, OpenMode::Read)?;
        file.ok_or_else(|| crate::error::Error::io("open", path, std::io::ErrorKind::Unsupported.into()))
    }
    /// The length of a file in bytes, or `None` when there is no such file.
    fn file_bytes(&self, path: &Path) -> Result<Option<u64>>;
    /// The names in a directory, sorted; `None` when there is no such directory.
    fn list(&self, directory: &Path) -> Result<Option<Vec<DirectoryEntry>>>;
    /// Creates a directory and the missing ones above it. Not durable until each parent is synced.
    fn create_directory(&self, path: &Path) -> Result<()>;
    /// Removes a name: a file's, or an empty directory's. A file's bytes stay until the last handle is closed.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives a file another name, replacing what has it, in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// A second name for the same file; `Ok(false)` where that is impossible (other device, no hard links).
    fn hard_link(&self, from: &Path, to: &Path) -> Result<bool>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> Result<()>;
    /// An existing directory, whose [`File::sync`] is [`Storage::sync_directory`], for who hands that to the kernel, or
    /// must not need a descriptor for it later; `None` where there is no such thing.
    fn open_directory(&self, _path: &Path) -> Result<Option<Arc<dyn File>>> {
        Ok(None)
    }
    /// Bytes that can still be written to the file system of this existing directory; `None` where nobody knows.
    fn free_bytes(&self, _directory: &Path) -> Option<u64> {
        None
    }
    /// Bytes that the file system of this existing directory has in all; `None` where nobody knows.
    fn capacity_bytes(&self, _directory: &Path) -> Option<u64> {
        None
    }
    /// Bytes of files that memory has room for, what of them is there already included; `None` where nobody knows.
    fn file_room_bytes(&self) -> Option<u64> {
        None
    }
    /// How many files this process may have open at a time; `None` where there is no bound.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
    /// Whether a sync of a file that grew commits every earlier change of names, lengths and blocks in these existing
    /// directories, flushing what the device had been given of their files: one file system with one journal. `false`
    /// where that is not known for certain.
    fn commits_together(&self, _directories: &[&Path]) -> bool {
        false
    }
    /// How often the journal of the file system of `path` has committed; `None` where nobody knows.
    fn journal_commits(&self, _path: &Path) -> Option<u64> {
        None
    }
    /// How many mappings this process may have at a time; `None` where there is no bound.
    fn mappings_max(&self) -> Option<u64> {
        None
    }
    /// The path that names the same whatever becomes of links on the way: absolute, with links resolved as far as it
    /// exists. Without links, the path itself.
    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Takes the advisory lock on the existing file at `path`: shared for readers, else exclusive, which may write to
    /// the file who holds it. [`crate::Error::Locked`] when another process, or another call in this one, has it.
    /// Released when the value is dropped, or the process dies.
    fn lock(&self, path: &Path, shared: bool) -> Result<Box<dyn StorageLock>>;
}

/// A lock held until dropped.
pub trait StorageLock: Send + Sync {}

/// An open file. Reads and writes carry their position, so threads may share a handle.
///
/// Two handles from two `open` calls each hear of a failed write-back once; two clones of one `Arc` share one report.
pub trait File: Send + Sync + 'static {
    /// The path it was opened with, for errors.
    fn path(&self) -> &Path;
    /// Reads up to `buffer.len()` bytes at `offset`; fewer at any time, 0 only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Says that these bytes will be read soon: the device may begin to read them, and nobody waits. No promise.
    fn will_need(&self, _offset: u64, _bytes: u64) {}
    /// Says that reads will come in no order: what follows one is not to be read with it. No promise.
    fn expect_random_reads(&self) {}
    /// Whether all of these bytes are in the page cache. Reads nothing. `None` where nobody can tell.
    fn is_cached(&self, _offset: u64, _bytes: u64) -> Option<bool> {
        None
    }
    /// Says that hardly anybody will read these bytes again: what the page cache has of them may go. Changes no byte.
    /// No promise.
    fn forget_cached(&self, _offset: u64, _bytes: u64) {}
    /// How many names lead to the file; `None` where nobody can tell. A file without one never gets one again.
    fn links(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// Writes all of `bytes` at `offset`, extending the file where needed. After an error any part may be written.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Has the device begin to write these bytes, so that a sync finds little left to do, and does not wait for it.
    /// After an error any of these bytes may be lost for good, and no later sync need tell of it: the kernel tells only
    /// who began the write-back.
    fn begin_write_back(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Whether every byte lies in a block that was written, of a file that was written out or synced: `false` when the
    /// kernel lost some of it and had nobody to tell. `None` where nobody can tell.
    fn is_written_whole(&self) -> Option<bool> {
        None
    }
    /// Has the device take every byte of the file, and waits for that; tells what went wrong, as a sync does. Not
    /// durable by itself: the device may have them in a cache of its own, and the length may not be committed.
    fn write_out(&self) -> Result<()> {
        self.sync()
    }
    /// Makes the file's bytes and length durable (not its name).
    fn sync(&self) -> Result<()>;
    /// [`File::sync`] as a ring carries it out, where a simulation has rings: it takes its time, and no thread waits.
    /// `None` elsewhere: the descriptor is handed over, or the call is made.
    fn begin_sync(&self) -> Option<SyncInFlight> {
        None
    }
    /// The length in bytes.
    fn bytes(&self) -> Result<u64>;
    /// Cuts the file, or extends it with zeros.
    fn set_bytes(&self, bytes: u64) -> Result<()>;
    /// Maps the first `bytes` of the file for stores; `Ok(None)` where a store could fail: blocks that are not written
    /// yet, or a file system that does not overwrite in place. Then write by position. The mapping and this handle
    /// share the report of a failed write-back.
    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        let _ = bytes;
        Ok(None)
    }
    /// Maps the first `bytes` of the file, which must not change, to be read; `None` where that is impossible, or
    /// fails: then read by position.
    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        let _ = bytes;
        None
    }
    /// Makes room for the first `bytes` bytes, so that writing them allocates nothing and, if this grew the length,
    /// extends nothing. May do nothing; a full disk is told here.
    fn reserve(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Whether reads and writes go past the page cache, and writes must be aligned.
    fn is_direct(&self) -> bool {
        false
    }
    /// The open file itself, for operations that are handed to the kernel and awaited; `None` in a simulation.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The same file, whose descriptor stays open for as long as the value lives; `None` where that is so already, or
    /// it cannot be opened.
    fn held(&self) -> Option<Arc<dyn File>> {
        None
    }
    /// Told by who synced the descriptor instead of calling [`File::sync`]: how long that took, in nanoseconds.
    fn count_sync(&self, _ns: u64) {}
    /// How much longer than the device takes each sync is to take; who syncs the descriptor waits for that himself.
    fn sync_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// The first bytes of a file, mapped for stores. What is stored is in the page cache at once: reads of the file see it,
/// and it is unsynced until a sync that was issued after the store. Every file must keep its length while it is mapped.
pub trait Mapping: Send + Sync + 'static {
    /// Stores `bytes` at `offset`. Threads may store at once, but not to one place.
    ///
    /// # Panics
    /// When that is beyond the mapping.
    fn write(&self, offset: u64, bytes: &[u8]);
    /// Makes the pages of `[from, to)` resident, writable and dirty, so that stores to them do not fault until they are
    /// synced. Changes no byte.
    fn populate(&self, from: u64, to: u64) -> Result<()>;
    /// Hardly anybody will store to `[from, to)` again, and it is about to be synced: takes its pages out of the
    /// mapping, all at once and so for much less than a sync takes to protect each. Changes no byte; a store there
    /// still works.
    fn release(&self, from: u64, to: u64);
    /// Makes the bytes `[from, to)` durable, and perhaps others: any page may become durable at any moment.
    fn sync_range(&self, from: u64, to: u64) -> Result<()>;
    /// The same, as [`File::begin_sync`] does it.
    fn begin_sync_range(&self, _from: u64, _to: u64) -> Option<SyncInFlight> {
        None
    }
}

/// The first bytes of a file, mapped to be read: what is in memory is read without a call. It keeps the file's bytes,
/// whatever becomes of its handle and its name.
pub trait ReadMapping: Send + Sync + 'static {
    /// Fills `buffer` with the bytes at `offset`. `false` when they, or any earlier ones, could not be read, or there
    /// are none: then `buffer` has anything, and a read by position tells why.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool;
    /// Brings the beginning of these bytes near the processor, if they are in memory. Reads nothing.
    fn approach(&self, _offset: u64, _bytes: usize) {}
}

impl dyn File {
    /// Reads exactly `buffer.len()` bytes; [`crate::Error::Corruption`] when the file ends before.
    pub(crate) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(offset + done as u64, rest)? {
                0 => {
                    return Err(crate::error::Error::corruption(
                        self.path(),
                        offset + done as u64,
                        format!("{} more bytes", rest.len()),
                        "the end of the file",
                    ));
                }
                n => done += n,
            }
        }
        Ok(())
    }
}
