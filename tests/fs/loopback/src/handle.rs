//! Kernel file handles: names of inodes that outlive renames, cost no descriptor, and reach a file that has no name.
//!
//! This file holds the program's unsafe code: the two calls of the handles, and descriptors as numbers.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use fuser::FileHandle;

/// The most bytes of a handle (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 128;

/// A handle of an inode: `struct file_handle` with room for its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    length: u32,
    kind: i32,
    bytes: [u8; BYTES_MAX],
}

impl Handle {
    /// Returns the handle of `name` in `directory`, or of `directory` itself if `name` is empty. Follows no symlink.
    pub(crate) fn of(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Self> {
        let name = CString::new(name)?;
        let mut handle = Self { length: BYTES_MAX as u32, kind: 0, bytes: [0; BYTES_MAX] };
        let mut mount = 0;
        // SAFETY: `handle` has the layout of `file_handle` and room for the length it names; the name ends with a zero;
        // both live through the call.
        let code = unsafe {
            libc::name_to_handle_at(
                directory.as_raw_fd(),
                name.as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if code == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// Opens the inode. `mount` is any directory of its file system. Needs `CAP_DAC_READ_SEARCH`.
    pub(crate) fn open(mut self, mount: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
        // SAFETY: `self` is a handle that the kernel filled, and lives through the call.
        let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut self).cast(), flags | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned the descriptor; nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// A number that differs between the inodes that one inode number names over time. 32 bits: the kernel compares it
    /// with a field of that size, and takes an inode for stale if more bits are set.
    pub(crate) fn generation(&self) -> u64 {
        let bytes = self.bytes.get(..self.length as usize).unwrap_or(&self.bytes);
        u64::from(bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}

/// Hands a descriptor to the kernel as the number of an open file.
pub(crate) fn given(fd: OwnedFd) -> FileHandle {
    FileHandle(fd.into_raw_fd() as u64)
}

/// Borrows the descriptor of an open file.
pub(crate) fn borrowed(fh: &FileHandle) -> BorrowedFd<'_> {
    // SAFETY: the kernel sends only numbers that `given` returned, and none after its release.
    unsafe { BorrowedFd::borrow_raw(fh.0 as RawFd) }
}

/// Takes the descriptor of an open file back, at its release.
pub(crate) fn taken(fh: FileHandle) -> OwnedFd {
    // SAFETY: as above; each number is released once.
    unsafe { OwnedFd::from_raw_fd(fh.0 as RawFd) }
}
