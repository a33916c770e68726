//! The calls that cached and direct files share.

use crate::error::{Error, Result};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Creates a file for reads and writes; an error when the name exists.
pub(super) fn create(path: &Path) -> Result<fs::File> {
    let created = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
    created.map_err(|error| Error::io("create", path, error))
}

/// Reads at `offset`; repeats the read after an interruption.
pub(super) fn read(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The length of the file.
pub(super) fn bytes(file: &fs::File, path: &Path) -> Result<u64> {
    file.metadata().map(|metadata| metadata.len()).map_err(|error| Error::io("look at", path, error))
}

/// Allocates space for the first `bytes` bytes. `false` where the file system cannot.
pub(super) fn allocate(file: &fs::File, path: &Path, bytes: u64) -> Result<bool> {
    loop {
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => continue,
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(Error::io("reserve space for", path, error.into())),
        };
    }
}
