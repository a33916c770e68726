//! Answers the kernel's requests by calls on the directory below.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};

use crate::change::{self, Change};
use crate::data::{self, call};
use crate::handle::{borrowed, given, taken};
use crate::listing::{self, bare};
use crate::nodes::{Found, Nodes};

/// Of the flags of an open, those that the file below is opened with. The kernel above appends, and its pages stand
/// between a reader and direct I/O.
const OPEN_FLAGS: i32 = libc::O_ACCMODE | libc::O_TRUNC | libc::O_DSYNC | libc::O_SYNC;

/// The file system.
pub(crate) struct Loopback {
    nodes: Nodes,
    timeout: Duration,
    notifier: Arc<OnceLock<Notifier>>,
}

type Result<T> = std::result::Result<T, Errno>;

impl Loopback {
    pub(crate) fn new(nodes: Nodes, timeout: Duration, notifier: Arc<OnceLock<Notifier>>) -> Self {
        Self { nodes, timeout, notifier }
    }

    fn entry(&self, found: Result<Found>, reply: ReplyEntry) {
        match found {
            Ok(found) => {
                self.nodes.count(&found);
                reply.entry(&self.timeout, &found.attr, Generation(found.generation));
            }
            Err(error) => reply.error(error),
        }
    }

    /// Makes something in `parent` by `call`, gives it to the caller, and finds it.
    fn made(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        call: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<Found> {
        let directory = self.nodes.directory(parent)?;
        call(&directory).map_err(io::Error::from)?;
        change::own(request, &directory, name)?;
        self.nodes.find(&directory, name)
    }

    fn create_below(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(Found, OwnedFd)> {
        let directory = self.nodes.directory(parent)?;
        let flags = flags & (OPEN_FLAGS | libc::O_EXCL) | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let flags = OFlags::from_bits_retain(flags as u32);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let file = rustix::fs::openat(&directory, name, flags, mode).map_err(io::Error::from)?;
        change::own_open(request, &directory, &file)?;
        Ok((self.nodes.find_open(&file)?, file))
    }

    fn open_below(&self, request: &Request, ino: INodeNo, flags: i32) -> Result<OwnedFd> {
        let file = self.nodes.open(ino, flags & OPEN_FLAGS)?;
        if flags & libc::O_TRUNC != 0 && request.uid() != 0 {
            change::drop_privileges(&file)?;
            // The reply to an open has no attributes: the kernel would keep the mode it knows.
            if let Some(notifier) = self.notifier.get() {
                notifier.inval_inode(ino, -1, 0)?;
            }
        }
        Ok(file)
    }
}

fn empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Loopback {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        yardstick_session::negotiate(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.nodes.directory(parent).and_then(|directory| self.nodes.find(&directory, name)) {
            // A node number of zero: the kernel keeps that there is no such name.
            Err(Errno::ENOENT) => reply.entry(&self.timeout, &bare(INodeNo(0)), Generation(0)),
            found => self.entry(found, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        self.nodes.forget(ino, lookups);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let stat = match fh {
            Some(fh) => call(rustix::fs::fstat(borrowed(&fh))),
            None => self.nodes.path(ino).and_then(|node| call(rustix::fs::fstat(&node))),
        };
        match stat {
            Ok(stat) => reply.attr(&self.timeout, &self.nodes.attr(&stat)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, atime, mtime };
        match change.make(request, &self.nodes, ino, fh) {
            Ok(stat) => reply.attr(&self.timeout, &self.nodes.attr(&stat)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.nodes.path(ino).and_then(|node| call(rustix::fs::readlinkat(&node, "", Vec::new()))) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let device = rustix::fs::makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00));
        let file_type = rustix::fs::FileType::from_raw_mode(mode);
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        let found = self.made(request, parent, name, |directory| {
            rustix::fs::mknodat(directory, name, file_type, permissions, device)
        });
        self.entry(found, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let found = self.made(request, parent, name, |directory| rustix::fs::mkdirat(directory, name, mode));
        self.entry(found, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let found = self.made(request, parent, name, |directory| rustix::fs::symlinkat(target, directory, name));
        self.entry(found, reply);
    }

    fn link(&self, _request: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let link = || {
            let node = self.nodes.path(ino)?;
            let directory = self.nodes.directory(newparent)?;
            call(rustix::fs::linkat(&node, "", &directory, newname, AtFlags::EMPTY_PATH))?;
            self.nodes.find(&directory, newname)
        };
        self.entry(link(), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let directory = self.nodes.directory(parent);
        let unlink = |directory| call(rustix::fs::unlinkat(directory, name, AtFlags::empty()));
        empty(directory.and_then(unlink), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let directory = self.nodes.directory(parent);
        let remove = |directory| call(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR));
        empty(directory.and_then(remove), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || {
            let (from, to) = (self.nodes.directory(parent)?, self.nodes.directory(newparent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            call(rustix::fs::renameat_with(&from, name, &to, newname, flags))
        };
        empty(rename(), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_below(request, parent, name, mode, flags) {
            Ok((found, file)) => {
                self.nodes.count(&found);
                let generation = Generation(found.generation);
                reply.created(&self.timeout, &found.attr, generation, given(file), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_below(request, ino, flags.0) {
            Ok(file) => reply.opened(given(file), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        data::read(&fh, offset, size, reply);
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || {
            let written = call(rustix::io::pwrite(borrowed(&fh), data, offset))?;
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                change::drop_privileges_of(&fh)?;
            }
            Ok(written as u32)
        };
        match write() {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // The kernel asks once and never again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        drop(taken(fh));
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let file = borrowed(&fh);
        empty(call(if datasync { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }), reply);
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.nodes.open(ino, libc::O_RDONLY | libc::O_DIRECTORY) {
            Ok(directory) => reply.opened(given(directory), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        listing::names(&self.nodes, &fh, offset, reply);
    }

    fn readdirplus(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        listing::entries(&self.nodes, &self.timeout, &fh, offset, reply);
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        drop(taken(fh));
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let directory = borrowed(&fh);
        empty(call(if datasync { rustix::fs::fdatasync(directory) } else { rustix::fs::fsync(directory) }), reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match call(rustix::fs::fstatvfs(self.nodes.root())) {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if change::is_refused(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let node = self.nodes.path(ino);
        empty(node.and_then(|node| Ok(change::set_xattr(&node, name, value, flags)?)), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if change::is_refused(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let value = self.nodes.path(ino).and_then(|node| data::xattr(&node, name, size));
        data::xattr_reply(value, size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.nodes.path(ino).and_then(|node| data::xattr_names(&node, size));
        data::xattr_reply(names, size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if change::is_refused(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let remove = |node: OwnedFd| call(rustix::fs::removexattr(change::path_of(&node), name));
        empty(self.nodes.path(ino).and_then(remove), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        empty(call(rustix::fs::fallocate(borrowed(&fh), mode, offset, length)), reply);
    }

    fn lseek(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match data::seek(&fh, offset, whence) {
            Ok(position) => reply.offset(position as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        _ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        match data::copy((&fh_in, offset_in), (&fh_out, offset_out), len) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(error),
        }
    }
}
