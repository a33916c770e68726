//! The bytes of files, and of their extended attributes.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use fuser::{Errno, FileHandle, ReplyData, ReplyXattr};
use rustix::fs::SeekFrom;

use crate::change::path_of;
use crate::handle::borrowed;

/// The most that one read returns.
const READ_MAX: usize = 1 << 20;

/// The longest copy that one reply can tell of: its length has 32 bits.
const COPY_MAX: u64 = 1 << 30;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The result of a call below, with the error as the kernel gets it.
pub(crate) fn call<T>(result: rustix::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_i32(error.raw_os_error()))
}

/// Answers a read.
pub(crate) fn read(fh: &FileHandle, offset: u64, size: u32, reply: ReplyData) {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(READ_MAX, 0);
        let wanted = READ_MAX.min(size as usize);
        let mut got = 0;
        // A short reply means the end of the file to the kernel.
        while got < wanted {
            match rustix::io::pread(borrowed(fh), &mut buffer[got..wanted], offset + got as u64) {
                Ok(0) => break,
                Ok(bytes) => got += bytes,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) if got == 0 => return reply.error(Errno::from_i32(error.raw_os_error())),
                Err(_) => break,
            }
        }
        reply.data(&buffer[..got]);
    });
}

/// Finds data or a hole from `offset` on.
pub(crate) fn seek(fh: &FileHandle, offset: i64, whence: i32) -> Result<u64, Errno> {
    let target = match whence {
        libc::SEEK_DATA => SeekFrom::Data(offset as u64),
        libc::SEEK_HOLE => SeekFrom::Hole(offset as u64),
        _ => return Err(Errno::EINVAL),
    };
    call(rustix::fs::seek(borrowed(fh), target))
}

/// Copies between two files, or within one, at most what one reply can tell of.
pub(crate) fn copy(from: (&FileHandle, u64), to: (&FileHandle, u64), length: u64) -> Result<u32, Errno> {
    let (mut read_at, mut write_at) = (from.1, to.1);
    let length = length.min(COPY_MAX) as usize;
    let (input, output) = (borrowed(from.0), borrowed(to.0));
    let copied = rustix::fs::copy_file_range(input, Some(&mut read_at), output, Some(&mut write_at), length);
    call(copied).map(|bytes| bytes as u32)
}

/// An extended attribute or a list of their names: the bytes, or their number alone.
type Xattr = (Vec<u8>, usize);

/// Reads an extended attribute of at most `size` bytes. Size zero asks for its length.
pub(crate) fn xattr(node: &OwnedFd, name: &OsStr, size: u32) -> Result<Xattr, Errno> {
    let path = path_of(node);
    if size == 0 {
        return Ok((Vec::new(), call(rustix::fs::getxattr_query(path, name))?));
    }
    let mut value = vec![0; size as usize];
    let length = call(rustix::fs::getxattr(path, name, value.as_mut_slice()))?;
    Ok((value, length))
}

/// Reads the names of the extended attributes, as `xattr` reads one.
pub(crate) fn xattr_names(node: &OwnedFd, size: u32) -> Result<Xattr, Errno> {
    let path = path_of(node);
    if size == 0 {
        return Ok((Vec::new(), call(rustix::fs::listxattr_query(path))?));
    }
    let mut names = vec![0; size as usize];
    let length = call(rustix::fs::listxattr(path, names.as_mut_slice()))?;
    Ok((names, length))
}

/// Answers with what `xattr` or `xattr_names` returned.
pub(crate) fn xattr_reply(result: Result<Xattr, Errno>, size: u32, reply: ReplyXattr) {
    match result {
        Ok((_, length)) if size == 0 => reply.size(length as u32),
        Ok((value, length)) => reply.data(&value[..length]),
        Err(error) => reply.error(error),
    }
}
