//! [`LinuxMapping`]: a file mapped shared and writable, so that a store is a write to the page cache.
//!
//! Only where a store can neither fail nor move a block: ext2, ext3 and ext4 overwrite in place, and [`map`] also asks
//! that all blocks are there. Elsewhere a store may need room that is not left (XFS with shared extents, btrfs, sparse
//! files), which the kernel answers with a signal: there the callers write by position.
//!
//! What it relies on, of Linux:
//! - stores are in the page cache at once: readers of the file see them, and they outlive the process;
//! - `msync(MS_SYNC)` of a part of a mapping is `vfs_fsync_range(file, part, datasync)`: it writes the dirty pages of
//!   that part only, waits for them, and flushes the device. Pages populated ahead stay as they are: writable and
//!   dirty. That keeps faults away from who stores there; a sync of the whole file would write and write-protect all;
//! - before it writes a dirty page it protects it in every mapping, and tells every processor that runs the process: an
//!   interrupt a page. `madvise(MADV_DONTNEED)` of a range takes the pages out of the mapping with one, and leaves
//!   them dirty in the page cache;
//! - it tells a failed write-back once per open file description, as `fdatasync` does. The mapping keeps the
//!   description that it was made from;
//! - a page that was evicted and cannot be read back, or a file that somebody cuts short, ends the process with a
//!   signal: as its death at that moment would.
//!
//! No locks. The memory is only written, by stores that never overlap; nothing refers to it but raw pointers.
#![allow(unsafe_code)]

use super::memory::may_map;
use crate::error::{Error, Result};
use crate::storage::Mapping;
use rustix::fs::{SeekFrom, fstat, fstatfs, seek};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// What `statfs` calls ext2, ext3 and ext4 (`EXT4_SUPER_MAGIC`, linux/magic.h).
const EXT_MAGIC: i64 = 0xef53;

/// What `st_blocks` counts in.
const STAT_BLOCK_BYTES: u64 = 512;

/// Fewer pages are not worth a call.
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

/// Maps the first `bytes` of a file; `None` where a store could fail (see the module), or address space is short.
pub(super) fn map(file: BorrowedFd<'_>, path: &Arc<Path>, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
    let failed = |error: Errno| Error::io("map", path, error.into());
    let is_ext = fstatfs(file).map_err(failed)?.f_type as i64 == EXT_MAGIC;
    let stat = fstat(file).map_err(failed)?;
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES);
    // Blocks of the file's own tree count too, so what is allocated may have a hole all the same.
    let hole = seek(file, SeekFrom::Hole(0)).unwrap_or(0);
    let is_whole = u64::try_from(stat.st_size).is_ok_and(|size| size >= bytes) && allocated >= bytes && hole >= bytes;
    let Ok(length) = usize::try_from(bytes) else { return Ok(None) };
    if !is_ext || !is_whole || length == 0 || !may_map(bytes) {
        return Ok(None);
    }
    // SAFETY: a new mapping at a place of the kernel's choice touches no memory that is in use.
    let start = unsafe {
        rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    };
    match start {
        Ok(start) => Ok(NonNull::new(start.cast())
            .map(|start| Arc::new(LinuxMapping { start, bytes: length, path: Arc::clone(path) }) as Arc<dyn Mapping>)),
        // No room for one more mapping, or none for this file: writing by position needs neither.
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
        // SAFETY: the target lies within the mapping, as just asserted, and is nobody's memory but ours; the caller
        // keeps others from storing to it meanwhile.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset as usize), bytes.len()) }
    }

    fn populate(&self, from: u64, to: u64) -> Result<()> {
        let (start, length) = self.pages(from, to);
        loop {
            // SAFETY: the pages are the mapping's own, and what they hold does not change.
            match unsafe { rustix::mm::madvise(start.cast(), length, Advice::LinuxPopulateWrite) } {
                // No such advice before Linux 5.14, or memory is short: stores take their faults themselves.
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
        // SAFETY: the pages are the mapping's own, and of a shared mapping of a file: what was stored is in the page
        // cache, a page that is dirty stays so, and the next access maps the same page again.
        let released = unsafe { rustix::mm::madvise(start.cast(), length, Advice::LinuxDontNeed) };
        // Refused of locked memory: then a sync protects page by page.
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
        // SAFETY: nothing else knows the address; what was stored is in the page cache.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}
