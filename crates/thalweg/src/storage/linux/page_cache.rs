//! The page cache's part of a file: whether it holds a range ([`is_cached`]), and its write-back ([`write_out`],
//! [`begin_write_back`]).
//!
//! `cachestat` (Linux 6.5) counts pages and starts no read. A read that does not wait (`RWF_NOWAIT`) would tell too,
//! but the kernel then begins to read ahead, which callers want to avoid.
//!
//! Locks: none. Allocates nothing.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The system call's number (linux/include/uapi/asm-generic/unistd.h). On MIPS no call has this number, so it fails.
const CACHESTAT: libc::c_long = 451;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// `struct cachestat_range` (linux/mman.h).
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat` (linux/mman.h).
#[repr(C)]
#[derive(Default)]
struct Found {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether all pages of the range are in the page cache, or are being read into it. `None` where the kernel does not
/// tell: it is too old, its pages are not of [`PAGE_BYTES`], or the file has another owner.
pub(super) fn is_cached(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Option<bool> {
    if rustix::param::page_size() as u64 != PAGE_BYTES {
        return None;
    }
    let end = offset.checked_add(bytes)?;
    let pages = end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    let range = Range { offset, bytes };
    let mut found = Found::default();
    // SAFETY: both pointers are to live values laid out as the kernel's; the kernel reads one and fills the
    // other, and keeps neither.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0 as libc::c_uint) };
    (result == 0).then_some(found.cached >= pages)
}

/// Writes every dirty page of the file to the device, and waits for them and for writes in flight. Reports, as a sync
/// does, an earlier write-back error that this open file has not reported.
pub(super) fn write_out(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes no memory; a length of 0 means the rest of the file.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Begins to write the dirty pages of the range to the device, and does not wait. An earlier write-back error stays
/// unreported. An error of this call says that pages were dropped, and perhaps nothing else reports that.
pub(super) fn begin_write_back(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let range = (libc::off64_t::try_from(offset), libc::off64_t::try_from(bytes));
    let (Ok(offset), Ok(bytes)) = range else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: the call takes no memory.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::super::calls::create;
    use super::*;
    use crate::storage::tests::TestDirectory;
    use std::os::fd::AsFd;

    #[test]
    fn pages_that_were_written_are_cached_and_dropped_ones_are_not() {
        let directory = TestDirectory::new("cached");
        let file = create(&directory.0.join("file")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 5 * 4096], 0).unwrap();
        file.sync_all().unwrap();
        let Some(cached) = is_cached(file.as_fd(), 4095, 4098) else { return };
        assert!(cached);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert_eq!(is_cached(file.as_fd(), 4095, 4098), Some(false));
        assert_eq!(is_cached(file.as_fd(), u64::MAX, 2), None);
    }
}
