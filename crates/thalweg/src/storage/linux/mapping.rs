//! [`LinuxMapping`]: a file mapped shared and writable, so that a store is a write to the page cache.
//!
//! A mapping exists only where a store can neither fail nor move a block: ext2, ext3 and ext4 overwrite in place, and
//! [`map`] also requires that all blocks are allocated. A write-back marks allocated blocks as written. If that needs a
//! block of the extent tree, ext4 has reserved blocks for it, also on a full disk. Elsewhere (XFS with shared extents,
//! btrfs, sparse files) a store may need space that is not left, and the kernel then sends a signal. There the callers
//! write by position.
//!
//! It relies on these properties of Linux:
//! - A store is in the page cache at once: readers of the file see it, and it survives the death of the process.
//! - `msync(MS_SYNC)` of a range is `vfs_fsync_range(file, range, datasync)`: it writes the dirty folios of that range
//!   only, waits for them, and flushes the device. Pages outside the range that were populated stay writable and dirty,
//!   so stores to them do not fault. A sync of the whole file would write and write-protect all pages.
//! - A folio may have many pages (ext4 from Linux 6.16 on; seen: 512 KiB). Once the folio was written, a store to one
//!   of its pages makes all of them dirty, and a sync writes and write-protects all of them. So a log that is synced
//!   every few records is not mapped (`log/demand.rs`).
//! - Before the kernel writes a dirty page it write-protects the page in every mapping, and interrupts every processor
//!   that runs the process: an interrupt a page. `madvise(MADV_DONTNEED)` of a range takes its pages out of the mapping
//!   with one interrupt, and leaves them dirty in the page cache.
//! - A failed write-back is reported once per open file description, as by `fdatasync`. The mapping keeps the
//!   description that it was made from.
//! - A page that was evicted and cannot be read back, or a file that another program cuts short, ends the process with
//!   a signal. That is a death of the process like any other.
//!
//! Locks: none. The memory is only written, by stores that never overlap; only raw pointers refer to it.
#![allow(unsafe_code)]

use super::extents;
use super::memory::may_map;
use crate::error::{Error, Result};
use crate::format::prefetch_next;
use crate::storage::Mapping;
use rustix::fs::{SeekFrom, fstat, fstatfs, seek};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The type in `statfs` of ext2, ext3 and ext4 (`EXT4_SUPER_MAGIC`, linux/magic.h).
const EXT_MAGIC: i64 = 0xef53;

/// Bytes of the unit of `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;

/// The fewest pages that are worth a call of `madvise`.
const RELEASED_PAGES_MIN: u64 = 4;

/// A mapping of the first bytes of a file.
pub(super) struct LinuxMapping {
    start: NonNull<u8>,
    bytes: usize,
    path: Arc<Path>,
}

// SAFETY: the memory belongs to the mapping alone until it is dropped, from whichever thread.
unsafe impl Send for LinuxMapping {}
// SAFETY: shared access only stores bytes through raw pointers, and callers never store to one place at once (see
// `Mapping::write`); nothing reads the memory.
unsafe impl Sync for LinuxMapping {}

/// Maps the first `bytes` of a file; `None` where a store could fail, or address space is short.
pub(super) fn map(file: BorrowedFd<'_>, path: &Arc<Path>, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
    let failed = |error: Errno| Error::io("map", path, error.into());
    let is_ext = fstatfs(file).map_err(failed)?.f_type as i64 == EXT_MAGIC;
    let stat = fstat(file).map_err(failed)?;
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES);
    let is_long = u64::try_from(stat.st_size).is_ok_and(|size| size >= bytes) && allocated >= bytes;
    // Blocks of the file's block map count too, so enough allocated blocks do not exclude a hole. A search for holes
    // also finds blocks that are allocated and not written.
    let has_no_hole = || {
        let hole = seek(file, SeekFrom::Hole(0)).unwrap_or(0);
        hole >= bytes || extents::are_allocated(file, bytes) == Some(true)
    };
    let is_whole = is_long && has_no_hole();
    let Ok(length) = usize::try_from(bytes) else { return Ok(None) };
    if !is_ext || !is_whole || length == 0 || !may_map(bytes) {
        return Ok(None);
    }
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe {
        rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    };
    match start {
        Ok(start) => Ok(NonNull::new(start.cast())
            .map(|start| Arc::new(LinuxMapping { start, bytes: length, path: Arc::clone(path) }) as Arc<dyn Mapping>)),
        // No more mappings are possible, or this file cannot be mapped. Writes by position need no mapping.
        Err(Errno::NOMEM | Errno::NODEV) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

impl LinuxMapping {
    /// The whole pages around `[from, to)`: their address and length.
    fn pages(&self, from: u64, to: u64) -> (*mut u8, usize) {
        assert!(from <= to && to <= self.bytes as u64, "{from}..{to} of a mapping of {} bytes", self.bytes);
        let page = rustix::param::page_size();
        let first = from as usize / page * page;
        // SAFETY: `first` is within the mapping.
        (unsafe { self.start.as_ptr().add(first) }, to as usize - first)
    }
}

impl Mapping for LinuxMapping {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len() as u64);
        assert!(end.is_some_and(|end| end <= self.bytes as u64), "a store within the mapping");
        // SAFETY: the target lies within the mapping, as asserted above, and only this mapping owns it; the caller
        // keeps others from storing to it meanwhile.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset as usize), bytes.len()) }
    }

    #[inline]
    fn approach(&self, end: u64, bytes: usize) {
        let end = (end as usize).min(self.bytes);
        prefetch_next(self.start.as_ptr().wrapping_add(end), bytes, self.bytes - end);
    }

    fn populate(&self, from: u64, to: u64) -> Result<()> {
        let (start, length) = self.pages(from, to);
        loop {
            // SAFETY: the pages are the mapping's own, and their bytes do not change.
            match unsafe { rustix::mm::madvise(start.cast(), length, Advice::LinuxPopulateWrite) } {
                // Linux before 5.14 has no such advice, or memory is short: stores then fault.
                Ok(()) | Err(Errno::INVAL | Errno::NOMEM) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(Error::io("populate the mapping of", &self.path, error.into())),
            }
        }
    }

    fn release(&self, from: u64, to: u64) {
        let page = rustix::param::page_size() as u64;
        let (first, end) = (from.next_multiple_of(page), to / page * page);
        if end < first.saturating_add(RELEASED_PAGES_MIN * page) {
            return;
        }
        let (start, length) = self.pages(first, end);
        // SAFETY: the pages are the mapping's own, of a shared mapping of a file: stores are in the page cache, a dirty
        // page stays dirty, and the next access maps the same page again.
        let released = unsafe { rustix::mm::madvise(start.cast(), length, Advice::LinuxDontNeed) };
        // Refused for locked memory: a sync then write-protects page by page.
        debug_assert!(released.is_ok() || released == Err(Errno::INVAL), "{released:?}");
    }

    fn sync_range(&self, from: u64, to: u64) -> Result<()> {
        let (start, length) = self.pages(from, to);
        // SAFETY: the pages are the mapping's own; a sync changes no byte of them.
        unsafe { rustix::mm::msync(start.cast(), length, MsyncFlags::SYNC) }
            .map_err(|error| Error::io("sync", &self.path, error.into()))
    }
}

impl Drop for LinuxMapping {
    fn drop(&mut self) {
        // SAFETY: nothing else knows the address; the stores are in the page cache.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}
