//! [`are_written`], [`are_allocated`]: whether a file's bytes lie in blocks, by the file system's block map (`FIEMAP`,
//! which writes nothing for the answer).
//!
//! On ext4 a write-back that meets a damaged block map drops the pages, and reports that only to the caller that began
//! the write-back. If the kernel's own flusher began it, the loss is reported to nobody. The file then has a hole, or
//! blocks that were reserved and never written; this module looks for both. A file whose write-out was awaited has
//! neither.
//!
//! Locks: none. Allocates nothing.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Extents that one call returns at most.
const EXTENTS: usize = 32;

/// The flag of the file's last extent (linux/fiemap.h).
const LAST: u32 = 0x1;

/// The flags of an extent without blocks: of unknown place, not allocated yet.
const NOT_ALLOCATED: u32 = 0x2 | 0x4;

/// The flags of an extent without written blocks. Blocks that are allocated and read as zeros also count as unwritten.
const NOT_WRITTEN: u32 = NOT_ALLOCATED | 0x800;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    bytes: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

/// `struct fiemap`, with room for its extents.
#[repr(C)]
struct Map {
    start: u64,
    bytes: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// `_IOWR('f', 11, struct fiemap)`. The size is that of the structure without extents.
const FIEMAP: libc::Ioctl = libc::_IOWR::<[u64; 4]>(b'f' as u32, 11);

/// Whether the first `bytes` of the file lie in blocks that were written. `None` where the file system does not tell.
pub(super) fn are_written(file: BorrowedFd<'_>, bytes: u64) -> Option<bool> {
    lie_in_extents(file, bytes, NOT_WRITTEN)
}

/// Whether the first `bytes` of the file lie in blocks, written or not. `None` where the file system does not tell.
pub(super) fn are_allocated(file: BorrowedFd<'_>, bytes: u64) -> Option<bool> {
    lie_in_extents(file, bytes, NOT_ALLOCATED)
}

/// Whether the first `bytes` of the file lie in extents that have none of the flags `unfit`.
fn lie_in_extents(file: BorrowedFd<'_>, bytes: u64, unfit: u32) -> Option<bool> {
    let mut at = 0;
    while at < bytes {
        let room = EXTENTS as u32;
        let extents = [Extent::default(); EXTENTS];
        let mut map = Map { start: at, bytes: bytes - at, flags: 0, mapped: 0, room, reserved: 0, extents };
        // SAFETY: the pointer is to a live structure laid out as the kernel's, with room for the number of
        // extents that it states; the kernel fills it and keeps nothing.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) };
        if result != 0 {
            return None;
        }
        let found = map.extents.get(..map.mapped as usize)?;
        for extent in found {
            if extent.logical > at || extent.flags & unfit != 0 {
                return Some(false);
            }
            at = at.max(extent.logical.saturating_add(extent.bytes));
            if extent.flags & LAST != 0 {
                return Some(at >= bytes);
            }
        }
        if found.is_empty() {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::calls::create;
    use super::*;
    use crate::storage::tests::TestDirectory;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_was_written_out_is_there_and_holes_and_reserved_blocks_are_not() {
        let directory = TestDirectory::new("extents");
        let file = create(&directory.0.join("file")).unwrap();
        file.write_all_at(&[1; 100_000], 0).unwrap();
        file.sync_all().unwrap();
        // Some file systems do not tell.
        let Some(is_written) = are_written(file.as_fd(), 100_000) else { return };
        assert!(is_written);
        assert_eq!(are_written(file.as_fd(), 300_000), Some(false), "it ends before");
        file.write_all_at(&[1; 100_000], 200_000).unwrap();
        file.sync_all().unwrap();
        assert_eq!(are_written(file.as_fd(), 300_000), Some(false), "a hole in the middle");
        assert_eq!(are_allocated(file.as_fd(), 300_000), Some(false), "a hole in the middle");
        let reserved = create(&directory.0.join("reserved")).unwrap();
        if rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, 100_000).is_ok() {
            assert_eq!(are_written(reserved.as_fd(), 100_000), Some(false), "reserved only");
            assert_eq!(are_allocated(reserved.as_fd(), 100_000), Some(true));
            assert_eq!(are_allocated(reserved.as_fd(), 300_000), Some(false), "it ends before");
        }
        let many = create(&directory.0.join("many")).unwrap();
        for piece in (0..200_u64).rev() {
            many.write_all_at(&[2; 4096], piece * 4096).unwrap();
            many.sync_data().unwrap();
        }
        assert_eq!(are_written(many.as_fd(), 200 * 4096), Some(true), "in many extents, perhaps");
        assert_eq!(are_written(many.as_fd(), 0), Some(true));
    }
}
