//! [`LinuxReadMapping`]: a file mapped shared for reads, so that a read of bytes in memory is a copy and no system
//! call.
//!
//! Only copies leave the mapping, made through raw pointers: a reader works on a copy of its own, which no fault and no
//! writer can change. After the copy, [`super::sigbus`] reports a page that could not be read. The mapping then fails
//! all reads, and a read by position reports the error.
//!
//! It relies on Linux for this: the file keeps its length while it is mapped (a table is cut to its length before it is
//! opened), or reads past its end fail as above. A file that was unlinked keeps its bytes until it is unmapped.
//!
//! Locks: none.
#![allow(unsafe_code)]

use super::memory::may_map;
use super::sigbus::Guarded;
use crate::format::prefetch;
use crate::storage::ReadMapping;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The first bytes of a file, mapped for reads.
struct LinuxReadMapping {
    /// Dropped before the pages: memory must not be guarded after it is unmapped.
    guarded: Guarded,
    pages: Pages,
}

/// Maps the first `bytes` of a file; `None` where that is impossible.
pub(super) fn map(file: BorrowedFd<'_>, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
    let pages = Pages::map(file, usize::try_from(bytes).ok()?)?;
    let guarded = Guarded::new(pages.start.as_ptr() as usize, pages.bytes)?;
    Some(Arc::new(LinuxReadMapping { guarded, pages }))
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Bytes of a page of memory.
const PAGE_BYTES: usize = 4096;

/// Cache lines that are prefetched at the beginning of a page; the processor then prefetches the following lines.
const LINES_AHEAD: usize = 4;

impl ReadMapping for LinuxReadMapping {
    #[inline]
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        !self.guarded.has_failed() && self.pages.copy(offset, buffer) && !self.guarded.has_failed()
    }

    #[inline]
    fn approach(&self, offset: u64, bytes: usize) {
        let Ok(offset) = usize::try_from(offset) else { return };
        for page in (0..bytes).step_by(PAGE_BYTES) {
            for line in 0..LINES_AHEAD {
                prefetch(self.pages.start.as_ptr().wrapping_add(offset.wrapping_add(page + line * LINE_BYTES)));
            }
        }
    }
}

/// Pages mapped shared for reads, until dropped.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is only read, and only by copies out of it; any thread may unmap it.
unsafe impl Send for Pages {}
// SAFETY: as above; nothing writes to it.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps the first `bytes` of `file`. `None` for every error: reads by position need no mapping.
    fn map(file: BorrowedFd<'_>, bytes: usize) -> Option<Pages> {
        if !may_map(bytes as u64) {
            return None;
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let start = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }.ok()?;
        // No advice for random access: with it the kernel does not count reads as uses of the pages, and evicts the
        // pages that are used most.
        NonNull::new(start.cast()).map(|start| Pages { start, bytes })
    }

    /// Whether the mapping has `bytes` at `offset`.
    fn have(&self, offset: usize, bytes: usize) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Copies the bytes at `offset`; `false` when they are not all within the mapping.
    #[inline]
    fn copy(&self, offset: usize, to: &mut [u8]) -> bool {
        if !self.have(offset, to.len()) {
            return false;
        }
        // SAFETY: the source lies within the mapping, as checked above, and only the caller owns `to`. The engine does
        // not write to the file: a table does not change. If another program does, or a page fails, this copies other
        // bytes.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
        true
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nothing else knows the address, and no copy is under way: each copy borrows this value.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;
    use crate::storage::{File, LinuxStorage, OpenMode, Storage};
    use std::fs;

    const BYTES: usize = 5 * PAGE_BYTES + 7;

    fn content() -> Vec<u8> {
        (0..BYTES).map(|at| (at % 251) as u8).collect()
    }

    fn mapped(directory: &TestDirectory) -> (Arc<dyn File>, Arc<dyn ReadMapping>) {
        let path = directory.0.join("file");
        fs::write(&path, content()).unwrap();
        let file = LinuxStorage.open(&path, OpenMode::Read).unwrap().unwrap();
        let mapping = file.map_for_reads(BYTES as u64).unwrap();
        (file, mapping)
    }

    #[test]
    fn a_mapping_has_the_bytes_of_its_file_also_when_that_is_closed_and_has_lost_its_name() {
        let directory = TestDirectory::new("mapped-reads");
        let (file, mapping) = mapped(&directory);
        drop(file);
        fs::remove_file(directory.0.join("file")).unwrap();
        for (offset, bytes) in [(0, BYTES), (4095, 2), (BYTES - 1, 1), (BYTES, 0), (9000, 5000)] {
            let mut buffer = vec![0; bytes];
            assert!(mapping.read(offset as u64, &mut buffer));
            assert_eq!(buffer, content()[offset..offset + bytes]);
            mapping.approach(offset as u64, bytes);
        }
        assert!(!mapping.read(BYTES as u64, &mut [0]) && !mapping.read(u64::MAX, &mut [0]));
    }

    #[test]
    fn a_page_that_is_gone_fails_the_read_and_all_later_ones() {
        let directory = TestDirectory::new("mapped-fault");
        let (_file, mapping) = mapped(&directory);
        let mut buffer = [0; 100];
        assert!(mapping.read(0, &mut buffer));
        fs::OpenOptions::new().write(true).open(directory.0.join("file")).unwrap().set_len(100).unwrap();
        assert!(!mapping.read(2 * PAGE_BYTES as u64 - 50, &mut buffer), "two pages beyond the end");
        assert!(!mapping.read(0, &mut buffer), "it fails all reads from then on");
    }

    #[test]
    fn threads_that_meet_pages_that_are_gone_at_once_live_and_other_mappings_stay_of_use() {
        let directories = ["mapped-fault-a", "mapped-fault-b"].map(TestDirectory::new);
        let ((_a, bad), (_b, good)) = (mapped(&directories[0]), mapped(&directories[1]));
        fs::OpenOptions::new().write(true).open(directories[0].0.join("file")).unwrap().set_len(0).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (bad, good) = (&bad, &good);
                scope.spawn(move || {
                    for round in 0..50 {
                        let at = (thread + round) % 5 * PAGE_BYTES;
                        let mut buffer = [1; 100];
                        assert!(!bad.read(at as u64, &mut buffer));
                        assert!(good.read(at as u64, &mut buffer));
                        assert_eq!(buffer, content()[at..at + 100]);
                    }
                });
            }
        });
    }
}
