//! The inodes that the kernel knows, by number.
//!
//! A node's number is the inode number below; the root has 1. A number that comes back for another file
//! gets another generation. Directories keep a descriptor, up to a limit; the eldest goes first.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, Stat, fstat, statat};

use crate::handle::Handle;

const SHARDS: usize = 64;

/// Directories that keep a descriptor, at most.
const DIRECTORIES_OPEN_MAX: usize = 4096;

struct Node {
    handle: Handle,
    /// References that the kernel has.
    lookups: u64,
    directory: Option<Arc<OwnedFd>>,
}

/// What a lookup found: attributes with the node's number in them, and the generation of that number.
pub(crate) struct Found {
    pub(crate) attr: FileAttr,
    pub(crate) generation: u64,
    handle: Handle,
}

/// The table of nodes.
pub(crate) struct Nodes {
    shards: [Mutex<HashMap<u64, Node>>; SHARDS],
    root: Arc<OwnedFd>,
    root_ino: u64,
    device: u64,
    /// Directories with a descriptor, the eldest first.
    open: Mutex<VecDeque<u64>>,
}

impl Nodes {
    pub(crate) fn new(root: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&root)?;
        let handle = Handle::of(root.as_fd(), b"")?;
        let root = Arc::new(root);
        let nodes = Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            root: Arc::clone(&root),
            root_ino: stat.st_ino,
            device: stat.st_dev,
            open: Mutex::default(),
        };
        nodes.shard(1).insert(1, Node { handle, lookups: 1, directory: Some(root) });
        Ok(nodes)
    }

    fn shard(&self, ino: u64) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.shards[ino as usize % SHARDS].lock()
    }

    /// The directory below the mount.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Finds `name` in an open directory. Counts nothing.
    pub(crate) fn find(&self, directory: impl AsFd, name: &OsStr) -> Result<Found, Errno> {
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        let handle = Handle::of(directory.as_fd(), name.as_bytes())?;
        self.found(&stat, handle)
    }

    /// What `find` returns, of a file that is open.
    pub(crate) fn find_open(&self, file: &OwnedFd) -> Result<Found, Errno> {
        let stat = fstat(file).map_err(io::Error::from)?;
        let handle = Handle::of(file.as_fd(), b"")?;
        self.found(&stat, handle)
    }

    fn found(&self, stat: &Stat, handle: Handle) -> Result<Found, Errno> {
        if stat.st_dev != self.device {
            // Another file system is mounted below: its inode numbers are not ours.
            return Err(Errno::EXDEV);
        }
        Ok(Found { attr: self.attr(stat), generation: handle.generation(), handle })
    }

    /// Counts a reference of the kernel to what was found.
    pub(crate) fn count(&self, found: &Found) {
        let ino = found.attr.ino.0;
        let mut shard = self.shard(ino);
        let node = shard.entry(ino).or_insert_with(|| Node { handle: found.handle, lookups: 0, directory: None });
        node.lookups += 1;
        if node.handle.generation() != found.generation {
            // The number came back for another file before the kernel forgot the first.
            node.handle = found.handle;
            node.directory = None;
        }
    }

    /// Gives references of the kernel back.
    pub(crate) fn forget(&self, ino: INodeNo, lookups: u64) {
        let mut shard = self.shard(ino.0);
        if let Some(node) = shard.get_mut(&ino.0) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 && ino != INodeNo::ROOT {
                shard.remove(&ino.0);
            }
        }
    }

    fn handle(&self, ino: INodeNo) -> Result<Handle, Errno> {
        self.shard(ino.0).get(&ino.0).map(|node| node.handle).ok_or(Errno::ESTALE)
    }

    /// Opens a node with `flags`.
    pub(crate) fn open(&self, ino: INodeNo, flags: i32) -> Result<OwnedFd, Errno> {
        Ok(self.handle(ino)?.open(self.root.as_fd(), flags)?)
    }

    /// Returns a descriptor that names the node and reads nothing.
    pub(crate) fn path(&self, ino: INodeNo) -> Result<OwnedFd, Errno> {
        self.open(ino, libc::O_PATH | libc::O_NOFOLLOW)
    }

    /// Returns the descriptor of a directory.
    pub(crate) fn directory(&self, ino: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        let handle = {
            let shard = self.shard(ino.0);
            let node = shard.get(&ino.0).ok_or(Errno::ESTALE)?;
            if let Some(directory) = &node.directory {
                return Ok(Arc::clone(directory));
            }
            node.handle
        };
        let directory = Arc::new(handle.open(self.root.as_fd(), libc::O_PATH | libc::O_DIRECTORY)?);
        if let Some(node) = self.shard(ino.0).get_mut(&ino.0)
            && node.handle.generation() == handle.generation()
        {
            node.directory = Some(Arc::clone(&directory));
        }
        self.close_eldest(ino.0);
        Ok(directory)
    }

    /// Takes note that directory `ino` has a descriptor, and closes another's if they are too many.
    fn close_eldest(&self, ino: u64) {
        let eldest = {
            let mut open = self.open.lock();
            open.push_back(ino);
            if open.len() > DIRECTORIES_OPEN_MAX { open.pop_front() } else { None }
        };
        if let Some(eldest) = eldest
            && let Some(node) = self.shard(eldest).get_mut(&eldest)
        {
            node.directory = None;
        }
    }

    /// The attributes that the kernel is told.
    pub(crate) fn attr(&self, stat: &Stat) -> FileAttr {
        let ino = if stat.st_ino == self.root_ino { 1 } else { stat.st_ino };
        FileAttr {
            ino: INodeNo(ino),
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec as u32),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec as u32),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec as u32),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(stat.st_mode),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // The kernel's packing: twelve bits of the major number between the halves of the minor number.
            rdev: device_number(stat.st_rdev),
            blksize: stat.st_blksize as u32,
            flags: 0,
        }
    }

    /// The node number of an inode number of a listing.
    pub(crate) fn number(&self, ino: u64) -> INodeNo {
        INodeNo(if ino == self.root_ino { 1 } else { ino })
    }
}

/// Seconds may be negative: times before 1970.
pub(crate) fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = if seconds < 0 {
        SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs())
    } else {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
    };
    whole + Duration::from_nanos(u64::from(nanoseconds))
}

/// The kind of a file, by its mode.
pub(crate) fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn device_number(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}
