//! Answers the kernel's requests from the tree.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::tree::Tree;

/// Zeros, as many as one read asks for.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Places 1 and 2 of a listing are the dots; the names follow.
const DOTS: u64 = 2;

/// The file system.
pub(crate) struct Null {
    tree: Tree,
    timeout: Duration,
}

impl Null {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { tree: Tree::new(), timeout }
    }

    fn entry(&self, result: Result<FileAttr, Errno>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&self.timeout, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }
}

fn empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Attributes of which only the number and the kind count: those of a dot, and of a name that is not there.
fn bare(ino: u64) -> FileAttr {
    let never = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
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

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

impl Filesystem for Null {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        yardstick_session::negotiate(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.tree.lookup(parent, name) {
            // A node number of zero: the kernel keeps that there is no such name.
            Err(Errno::ENOENT) => reply.entry(&self.timeout, &bare(0), Generation(0)),
            result => self.entry(result, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        self.tree.forget(ino, lookups);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.tree.node(ino) {
            Ok(node) => reply.attr(&self.timeout, &node.attr.lock()),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = match self.tree.node(ino) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let mut attr = node.attr.lock();
        if let Some(mode) = mode {
            attr.perm = (mode & 0o7777) as u16;
        }
        attr.uid = uid.unwrap_or(attr.uid);
        attr.gid = gid.unwrap_or(attr.gid);
        attr.ctime = SystemTime::now();
        if let Some(size) = size {
            attr.size = size;
            attr.blocks = size.div_ceil(512);
            attr.mtime = attr.ctime;
        }
        attr.atime = atime.map_or(attr.atime, time);
        attr.mtime = mtime.map_or(attr.mtime, time);
        reply.attr(&self.timeout, &attr);
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
        self.entry(self.tree.make(request, parent, name, mode, rdev), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.entry(self.tree.make(request, parent, name, mode | libc::S_IFDIR, 0), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.tree.make(request, parent, name, mode, 0) {
            Ok(attr) => reply.created(&self.timeout, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.tree.remove(parent, name, false), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.tree.remove(parent, name, true), reply);
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
        let keep = flags.bits() == libc::RENAME_NOREPLACE;
        if !keep && flags.bits() != 0 {
            return reply.error(Errno::EINVAL);
        }
        empty(self.tree.rename((parent, name), (newparent, newname), keep), reply);
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.0 & libc::O_TRUNC != 0
            && let Ok(node) = self.tree.node(ino)
        {
            node.attr.lock().size = 0;
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.tree.node(ino) {
            Ok(node) => {
                let left = node.attr.lock().size.saturating_sub(offset);
                let length = left.min(u64::from(size)).min(ZEROS.len() as u64) as usize;
                reply.data(&ZEROS[..length]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.tree.node(ino) {
            Ok(node) => {
                let mut attr = node.attr.lock();
                attr.size = attr.size.max(offset + data.len() as u64);
                attr.blocks = attr.size.div_ceil(512);
                attr.mtime = SystemTime::now();
                attr.ctime = attr.mtime;
                reply.written(data.len() as u32);
            }
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // The kernel asks once and never again.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        // ENOSYS would make the kernel ask no more, and the rate of fsync that of nothing.
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let node = match self.tree.node(ino) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let names = match node.names() {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        for (place, name) in [(1, "."), (2, "..")] {
            if place > offset && reply.add(ino, place, FileType::Directory, name) {
                return reply.ok();
            }
        }
        for (place, name, node) in names.after(offset.saturating_sub(DOTS)) {
            let attr = *node.attr.lock();
            if reply.add(attr.ino, place + DOTS, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let node = match self.tree.node(ino) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let names = match node.names() {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        for (place, name) in [(1, "."), (2, "..")] {
            let attr = bare(ino.0);
            if place > offset && reply.add(ino, place, name, &self.timeout, &attr, Generation(0)) {
                return reply.ok();
            }
        }
        for (place, name, node) in names.after(offset.saturating_sub(DOTS)) {
            let attr = *node.attr.lock();
            if reply.add(attr.ino, place + DOTS, name, &self.timeout, &attr, Generation(0)) {
                break;
            }
            // Counted before the reply is sent, and only if the entry found room.
            node.looked_up();
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let free = 1 << 30;
        reply.statfs(free, free, free, self.tree.made() + free, free, 4096, 255, 4096);
    }

    fn getxattr(&self, _request: &Request, _ino: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        // Also asked once.
        reply.error(Errno::ENOSYS);
    }
}
