//! Answers the kernel's requests from the volume. The kernel checks permissions (`default_permissions`), keeps names
//! and attributes for ever, as nobody but this mount changes them, and has all locks of `flock` and `fcntl`.

use crate::convert::{attributes, bare, set_time};
use crate::daemon::{Daemon, FOREVER, GENERATION, caller, mode, sized};
use crate::opening::{CACHED, Opening, THROUGH_DAEMON};
use crate::operations::Operation;
use crate::options::negotiate;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_fs::{Allocation, Caller, Change, Kind, NewInode, READ, Volume, WRITE, XattrFlags};

const BLOCK_BYTES: u64 = 4096;
/// The number of free inodes that `statfs` reports: numbers do not run out.
const FREE_INODES: u64 = 1 << 40;

impl Filesystem for Daemon {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if !negotiate(config, self.wants) {
            self.passthrough.refuse(if self.wants.passthrough {
                "the kernel has it from Linux 6.9 on"
            } else {
                "-o no_passthrough"
            });
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = self.begin(Operation::lookup);
        match self.volume.lookup(&caller(request), parent.0, name.as_bytes()) {
            Err(error) if error.errno() == libc::ENOENT => {
                self.operations.end(&begun, true);
                // Number 0 tells the kernel to keep that there is no such name.
                reply.entry(&FOREVER, &bare(0), GENERATION);
            }
            found => self.entry(&begun, parent, found, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        self.volume.forget(ino.0, lookups);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let begun = self.begin(Operation::getattr);
        self.attr(&begun, ino, self.volume.attributes(ino.0), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        new_mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let begun = self.begin(Operation::setattr);
        let (atime, mtime) = (atime.map(set_time), mtime.map(set_time));
        let change = Change { mode: new_mode.map(mode), uid, gid, size, atime, mtime };
        self.change(begun, caller(request), ino, change, reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let begun = self.begin(Operation::readlink);
        match self.end(&begun, ino, self.volume.read_link(ino.0)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let begun = self.begin(Operation::mknod);
        let Some(kind) = Kind::from_bits(new_mode).filter(|kind| !matches!(kind, Kind::Directory | Kind::Symlink))
        else {
            return reply.error(Errno::EINVAL);
        };
        let new = NewInode { kind, mode: mode(new_mode), rdev, target: &[] };
        self.new_inode(begun, request, (parent, name), new, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, new_mode: u32, _umask: u32, reply: ReplyEntry) {
        let begun = self.begin(Operation::mkdir);
        self.new_inode(begun, request, (parent, name), NewInode::directory(mode(new_mode)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let begun = self.begin(Operation::symlink);
        let new = NewInode::symlink(target.as_os_str().as_bytes());
        self.new_inode(begun, request, (parent, name), new, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let begun = self.begin(Operation::create);
        let (caller, new, name) = (caller(request), NewInode::file(mode(new_mode)), name.as_bytes().to_vec());
        let create = move |volume: &Volume| {
            let made = volume.create(&caller, parent.0, &name, new)?;
            volume.open(&caller, made.ino, READ | WRITE).inspect_err(|_| volume.forget(made.ino, 1))
        };
        self.name(create, move |shared, made| match shared.end(&begun, parent, made) {
            Ok(made) => {
                shared.passthrough.enter(made.ino, None, None);
                reply.created(&FOREVER, &attributes(&made), GENERATION, THROUGH_DAEMON, CACHED);
            }
            Err(error) => reply.error(error),
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.begin(Operation::unlink);
        let done = self.volume.unlink(&caller(request), parent.0, name.as_bytes());
        let shared = Arc::clone(&self.shared);
        self.when_named(done, move |done| shared.empty(&begun, parent, done, reply));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.begin(Operation::rmdir);
        let done = self.volume.remove_directory(&caller(request), parent.0, name.as_bytes());
        let shared = Arc::clone(&self.shared);
        self.when_named(done, move |done| shared.empty(&begun, parent, done, reply));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let begun = self.begin(Operation::rename);
        let flags = match flags.bits() {
            0 => thalweg_fs::RenameFlags::Replace,
            libc::RENAME_NOREPLACE => thalweg_fs::RenameFlags::NoReplace,
            libc::RENAME_EXCHANGE => thalweg_fs::RenameFlags::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        self.rename_from(begun, caller(request), ((parent, name), (new_parent, new_name)), flags, reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = self.begin(Operation::link);
        let (caller, name) = (caller(request), name.as_bytes().to_vec());
        let link = move |volume: &Volume| volume.link(&caller, ino.0, parent.0, &name);
        self.name(link, move |shared, linked| shared.entry(&begun, ino, linked, reply));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let begun = self.begin(Operation::open);
        self.open_at(Opening { begun, caller: caller(request), ino, flags: flags.0 }, reply);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_at(self.begin(Operation::read), ino, (offset, size), reply);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let begun = self.begin(Operation::write);
        // The kernel says whether the writer may keep the file's privileges; its user alone does not tell.
        let is_privileged = !write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let caller = if is_privileged { Caller::ROOT } else { Caller::checked(request.uid().max(1), request.gid()) };
        self.write_at(begun, caller, ino, (offset, data), reply);
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // The kernel asks once and never again: a close has nothing to write.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let begun = self.begin(Operation::release);
        self.empty(&begun, ino, self.close_file(ino, handle), reply);
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(self.begin(Operation::fsync), ino, reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let begun = self.begin(Operation::opendir);
        match self.end(&begun, ino, self.volume.open(&caller(request), ino.0, READ)) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        let begun = self.begin(Operation::release);
        self.empty(&begun, ino, self.volume.release(ino.0), reply);
    }

    fn fsyncdir(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(self.begin(Operation::fsyncdir), ino, reply);
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.list_names(ino, offset, reply);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_entries(ino, offset, reply);
    }

    fn statfs(&self, _request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let begun = self.begin(Operation::statfs);
        match self.end(&begun, ino, self.volume.usage()) {
            Ok(usage) => {
                let blocks = |bytes: u64| bytes / BLOCK_BYTES;
                let (total, free) = (blocks(usage.room.total_bytes), blocks(usage.room.free_bytes));
                let (available, files) = (blocks(usage.room.available_bytes), usage.inodes + FREE_INODES);
                let (block, name) = (BLOCK_BYTES as u32, thalweg_fs::NAME_BYTES_MAX as u32);
                reply.statfs(total, free, available, files, FREE_INODES, block, name, block);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let begun = self.begin(Operation::setxattr);
        let flags = match flags {
            libc::XATTR_CREATE => XattrFlags::Create,
            libc::XATTR_REPLACE => XattrFlags::Replace,
            _ => XattrFlags::Any,
        };
        let (caller, name, value) = (caller(request), name.as_bytes().to_vec(), value.to_vec());
        let set = move |volume: &Volume| volume.set_xattr(&caller, ino.0, (&name, &value), flags);
        let shared = Arc::clone(&self.shared);
        self.make(set, move |done| shared.empty(&begun, ino, done, reply));
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let begun = self.begin(Operation::getxattr);
        match self.end(&begun, ino, self.volume.xattr(&caller(request), ino.0, name.as_bytes())) {
            Ok(value) => sized(&value, size, reply),
            Err(error) => reply.error(error),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let begun = self.begin(Operation::listxattr);
        match self.end(&begun, ino, self.volume.list_xattrs(&caller(request), ino.0)) {
            Ok(names) => {
                let list: Vec<u8> = names.iter().flat_map(|name| name.iter().copied().chain([0])).collect();
                sized(&list, size, reply);
            }
            Err(error) => reply.error(error),
        }
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.begin(Operation::removexattr);
        let done = self.volume.remove_xattr(&caller(request), ino.0, name.as_bytes());
        self.empty(&begun, ino, done, reply);
    }

    fn access(&self, _request: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel checks by itself, and asks no more.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let begun = self.begin(Operation::fallocate);
        let keeps_size = flags & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = match flags & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocation::Allocate,
            libc::FALLOC_FL_PUNCH_HOLE => Allocation::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        self.allocate(begun, caller(request), ino, (what, keeps_size), (offset, length), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let begun = self.begin(Operation::lseek);
        if !matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE) {
            return reply.error(Errno::EINVAL);
        }
        // No file has bytes at a negative offset: for these two that is `ENXIO`, and no invalid argument.
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = self.volume.seek(ino.0, from, whence == libc::SEEK_HOLE);
        match self.end(&begun, ino, found) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }
}
