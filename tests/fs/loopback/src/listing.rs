//! Lists directories. A place in a listing is the cookie of the file system below.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{Errno, FileAttr, FileHandle, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::fs::{RawDir, SeekFrom};

use crate::data::call;
use crate::handle::borrowed;
use crate::nodes::{Nodes, kind, time};

/// Bytes of entries below that fill about one reply, so that little is read twice.
const LIST_BYTES: usize = 32 << 10;

/// As above, of a reply with attributes: an entry of it is 128 bytes longer than one below.
const LIST_PLUS_BYTES: usize = 6 << 10;

/// Attributes of which only the number counts: zero, of a name that is not there, or that of a dot in a listing.
pub(crate) fn bare(ino: INodeNo) -> FileAttr {
    let never = time(0, 0);
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Answers with names.
pub(crate) fn names(nodes: &Nodes, fh: &FileHandle, offset: u64, mut reply: ReplyDirectory) {
    let listed = list::<LIST_BYTES>(fh, offset, |place, name, ino, file_type| {
        Ok(reply.add(nodes.number(ino), place, kind(file_type.as_raw_mode()), name))
    });
    match listed {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Answers with names and attributes: a lookup of each name.
pub(crate) fn entries(nodes: &Nodes, ttl: &Duration, fh: &FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
    let directory = borrowed(fh);
    let listed = list::<LIST_PLUS_BYTES>(fh, offset, |place, name, ino, _| {
        let ino = nodes.number(ino);
        if name == "." || name == ".." {
            return Ok(reply.add(ino, place, name, ttl, &bare(ino), Generation(0)));
        }
        let found = match nodes.find(directory, name) {
            Ok(found) => found,
            // Gone meanwhile, or a mount point.
            Err(Errno::ENOENT | Errno::EXDEV) => return Ok(false),
            Err(error) => return Err(error),
        };
        let full = reply.add(found.attr.ino, place, name, ttl, &found.attr, Generation(found.generation));
        // Counted before the reply is sent, and only if the entry found room.
        if !full {
            nodes.count(&found);
        }
        Ok(full)
    });
    match listed {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Reads a directory from `offset` on. `add` gets place, name, inode number and type of each entry, and says when the
/// reply is full.
fn list<const BYTES: usize>(
    fh: &FileHandle,
    offset: u64,
    mut add: impl FnMut(u64, &OsStr, u64, rustix::fs::FileType) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    let fd = borrowed(fh);
    call(rustix::fs::seek(fd, SeekFrom::Start(offset)))?;
    let mut buffer = [MaybeUninit::uninit(); BYTES];
    let mut entries = RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = call(entry)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if add(entry.next_entry_cookie(), name, entry.ino(), entry.file_type())? {
            break;
        }
    }
    Ok(())
}
