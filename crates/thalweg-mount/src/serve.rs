//! Answers the kernel's requests from the volume. The kernel checks permissions (`default_permissions`), keeps names
//! and attributes for ever, as nobody but this mount changes them, and has all locks of `flock` and `fcntl`.
//!
//! No thread that reads requests waits for the device: a sync of an object goes to the pool, and one of rows is answered
//! by the log when its promise is kept.

use crate::convert::{attributes, bare, errno, file_type, set_time};
use crate::operations::{Begun, Operation, Operations};
use crate::options::negotiate;
use crate::pool::Pool;
use crate::session::say;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner,
    Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use thalweg_fs::{
    Allocation, Attributes, Caller, Change, Error, Kind, Mode, NewInode, READ, Result, Volume, WRITE, XattrFlags,
};

/// A year is for ever to a mount.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
const GENERATION: Generation = Generation(1);
/// Entries that are listed at once.
const LISTED: usize = 128;
/// As above with attributes, of which those that do not fit the answer must be given back.
const LISTED_PLUS: usize = 32;
const BLOCK_BYTES: u64 = 4096;
/// Inodes that `statfs` tells to be free: numbers do not run out.
const FREE_INODES: u64 = 1 << 40;
/// The flags of a handle: its pages stay in the kernel's cache when the file is opened again.
const CACHED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

/// The file system, as `fuser` calls it.
pub(crate) struct Serve {
    volume: Arc<Volume>,
    pool: Arc<Pool>,
    operations: Arc<Operations>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Serve {
    pub(crate) fn new(volume: Arc<Volume>, pool: Arc<Pool>) -> Self {
        Serve { volume, pool, operations: Arc::new(Operations::new()), notifier: Arc::default() }
    }

    pub(crate) fn operations(&self) -> Arc<Operations> {
        Arc::clone(&self.operations)
    }

    /// Where the way to the kernel goes, once there is one.
    pub(crate) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    fn begin(&self, operation: Operation) -> Begun {
        self.operations.begin(operation)
    }

    /// Counts an operation that ends; gives the number of its error. A fault goes to the log, with its operation.
    fn end<T>(&self, begun: &Begun, ino: INodeNo, result: Result<T>) -> std::result::Result<T, Errno> {
        self.operations.end(begun, result.is_ok());
        result.map_err(|error| {
            note(begun, ino, &error);
            errno(&error)
        })
    }

    fn empty(&self, begun: &Begun, ino: INodeNo, result: Result<()>, reply: ReplyEmpty) {
        match self.end(begun, ino, result) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn entry(&self, begun: &Begun, ino: INodeNo, result: Result<Attributes>, reply: ReplyEntry) {
        match self.end(begun, ino, result) {
            Ok(found) => reply.entry(&FOREVER, &attributes(&found), GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, begun: &Begun, ino: INodeNo, result: Result<Attributes>, reply: ReplyAttr) {
        match self.end(begun, ino, result) {
            Ok(found) => reply.attr(&FOREVER, &attributes(&found)),
            Err(error) => reply.error(error),
        }
    }

    fn new_inode(
        &self,
        begun: &Begun,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: NewInode<'_>,
        reply: ReplyEntry,
    ) {
        let made = self.volume.create(&caller(request), parent.0, name.as_bytes(), new);
        self.entry(begun, parent, made, reply);
    }

    fn truncate_on_open(&self, request: &Request, ino: INodeNo, flags: i32) -> Result<()> {
        if flags & libc::O_TRUNC == 0 {
            return Ok(());
        }
        let before = self.volume.attributes(ino.0)?.mode;
        let change = Change { size: Some(0), ..Change::default() };
        let after = self.volume.change(&caller(request), ino.0, &change)?.mode;
        if before != after
            && let Some(notifier) = self.notifier.get()
        {
            // The kernel expects a new size and new times of a truncating open, and no new mode.
            // Attributes alone are dropped at once, also from a thread that answers requests.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        Ok(())
    }

    /// Answers a sync when it is done, without waiting for it here.
    fn sync(&self, begun: Begun, ino: INodeNo, reply: ReplyEmpty) {
        let operations = Arc::clone(&self.operations);
        let answer = move |result: Result<()>| {
            operations.end(&begun, result.is_ok());
            match result {
                Ok(()) => reply.ok(),
                Err(error) => {
                    note(&begun, ino, &error);
                    reply.error(errno(&error));
                }
            }
        };
        if !self.volume.has_object(ino.0) {
            return match self.volume.promise() {
                Ok(promise) => promise.when_durable(Box::new(answer)),
                Err(error) => answer(Err(error)),
            };
        }
        let volume = Arc::clone(&self.volume);
        self.pool.run(move || match volume.begin_sync(ino.0) {
            Ok(promise) => promise.when_durable(Box::new(answer)),
            Err(error) => answer(Err(error)),
        });
    }
}

/// Says a fault in the log.
fn note(begun: &Begun, ino: INodeNo, error: &Error) {
    if error.is_fault() {
        say(&format!("{:?} of inode {}: {error}", begun.operation(), ino.0));
    }
}

fn caller(request: &Request) -> Caller<'static> {
    Caller::checked(request.uid(), request.gid())
}

fn mode(mode: u32) -> Mode {
    (mode & 0o7777) as Mode
}

impl Filesystem for Serve {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = self.begin(Operation::lookup);
        match self.volume.lookup(&caller(request), parent.0, name.as_bytes()) {
            Err(error) if error.errno() == libc::ENOENT => {
                self.operations.end(&begun, true);
                // An inode of number 0: the kernel keeps that there is no such name.
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
        self.attr(&begun, ino, self.volume.change(&caller(request), ino.0, &change), reply);
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
        self.new_inode(&begun, request, (parent, name), new, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, new_mode: u32, _umask: u32, reply: ReplyEntry) {
        let begun = self.begin(Operation::mkdir);
        self.new_inode(&begun, request, (parent, name), NewInode::directory(mode(new_mode)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let begun = self.begin(Operation::symlink);
        let new = NewInode::symlink(target.as_os_str().as_bytes());
        self.new_inode(&begun, request, (parent, name), new, reply);
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
        let (caller, new) = (caller(request), NewInode::file(mode(new_mode)));
        let made = self.volume.create(&caller, parent.0, name.as_bytes(), new).and_then(|made| {
            self.volume.open(&caller, made.ino, READ | WRITE).inspect_err(|_| self.volume.forget(made.ino, 1))
        });
        match self.end(&begun, parent, made) {
            Ok(made) => reply.created(&FOREVER, &attributes(&made), GENERATION, FileHandle(0), CACHED),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.begin(Operation::unlink);
        let done = self.volume.unlink(&caller(request), parent.0, name.as_bytes());
        self.empty(&begun, parent, done, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.begin(Operation::rmdir);
        let done = self.volume.remove_directory(&caller(request), parent.0, name.as_bytes());
        self.empty(&begun, parent, done, reply);
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
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        self.empty(&begun, parent, self.volume.rename(&caller(request), from, to, flags), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = self.begin(Operation::link);
        let linked = self.volume.link(&caller(request), ino.0, parent.0, name.as_bytes());
        self.entry(&begun, ino, linked, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let begun = self.begin(Operation::open);
        let access = if flags.0 & libc::O_ACCMODE == libc::O_RDONLY { READ } else { READ | WRITE };
        let opened = self
            .volume
            .open(&caller(request), ino.0, access)
            .and_then(|_| self.truncate_on_open(request, ino, flags.0).inspect_err(|_| _ = self.volume.release(ino.0)));
        match self.end(&begun, ino, opened) {
            Ok(()) => reply.opened(FileHandle(0), CACHED),
            Err(error) => reply.error(error),
        }
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
        let begun = self.begin(Operation::read);
        match self.end(&begun, ino, self.volume.read(ino.0, offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
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
        match self.end(&begun, ino, self.volume.write(&caller, ino.0, offset, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // The kernel asks once and never again: a close has nothing to write.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let begun = self.begin(Operation::release);
        self.empty(&begun, ino, self.volume.release(ino.0), reply);
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

    fn readdir(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let begun = self.begin(Operation::readdir);
        let mut at = offset;
        loop {
            let entries = match self.volume.list(ino.0, at, LISTED, false) {
                Ok(entries) => entries,
                // What was listed before the fault is answered; the next request meets the fault.
                Err(_) if at != offset => break,
                Err(error) => return reply.error(self.end::<()>(&begun, ino, Err(error)).err().unwrap_or(Errno::EIO)),
            };
            let Some(last) = entries.last().map(|entry| entry.offset) else { break };
            let add = |entry: &thalweg_fs::Entry| {
                reply.add(INodeNo(entry.ino), entry.offset, file_type(entry.kind), OsStr::from_bytes(&entry.name))
            };
            if entries.iter().any(add) {
                break;
            }
            at = last;
        }
        self.operations.end(&begun, true);
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let begun = self.begin(Operation::readdirplus);
        let (mut at, mut is_full) = (offset, false);
        while !is_full {
            let entries = match self.volume.list(ino.0, at, LISTED_PLUS, true) {
                Ok(entries) => entries,
                Err(_) if at != offset => break,
                Err(error) => return reply.error(self.end::<()>(&begun, ino, Err(error)).err().unwrap_or(Errno::EIO)),
            };
            let Some(last) = entries.last().map(|entry| entry.offset) else { break };
            for entry in &entries {
                let found = entry.attributes.as_ref().map_or_else(|| bare(entry.ino), attributes);
                let name = OsStr::from_bytes(&entry.name);
                is_full = is_full || reply.add(found.ino, entry.offset, name, &FOREVER, &found, GENERATION);
                // The kernel refers to what it gets; the rest is given back.
                if is_full && entry.attributes.is_some() {
                    self.volume.forget(entry.ino, 1);
                }
            }
            at = last;
        }
        self.operations.end(&begun, true);
        reply.ok();
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
        let done = self.volume.set_xattr(&caller(request), ino.0, (name.as_bytes(), value), flags);
        self.empty(&begun, ino, done, reply);
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
        let done = self.volume.allocate(&caller(request), ino.0, (what, keeps_size), (offset, length));
        self.empty(&begun, ino, done, reply);
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
        let (Ok(from), true) = (u64::try_from(offset), matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE)) else {
            return reply.error(Errno::EINVAL);
        };
        let found = self.volume.seek(ino.0, from, whence == libc::SEEK_HOLE);
        match self.end(&begun, ino, found) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }
}

/// Answers with bytes, or with how many they are, as the kernel asks for either.
fn sized(bytes: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(bytes.len() as u32),
        size if size < bytes.len() => reply.error(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}
