//! A node, and the names of a directory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};
use parking_lot::{Mutex, MutexGuard};

/// The names of a directory, by name and in the order of their making. A place in that order never comes back, so a
/// listing can go on from it.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) by_name: HashMap<OsString, (u64, u64)>,
    by_place: BTreeMap<u64, (OsString, Arc<Node>)>,
    last_place: u64,
}

/// A file or a directory.
pub(crate) struct Node {
    pub(crate) attr: Mutex<FileAttr>,
    /// References that the kernel has.
    pub(crate) lookups: AtomicU64,
    names: Option<Mutex<Names>>,
}

impl Names {
    /// Lists from behind `place`: place, name, node.
    pub(crate) fn after(&self, place: u64) -> impl Iterator<Item = (u64, &OsStr, &Arc<Node>)> {
        self.by_place.range(place + 1..).map(|(&place, (name, node))| (place, name.as_os_str(), node))
    }

    pub(crate) fn get(&self, name: &OsStr) -> Option<&Arc<Node>> {
        let (_, place) = self.by_name.get(name)?;
        self.by_place.get(place).map(|(_, node)| node)
    }

    pub(crate) fn insert(&mut self, name: &OsStr, ino: u64, node: Arc<Node>) {
        self.last_place += 1;
        self.by_name.insert(name.to_owned(), (ino, self.last_place));
        self.by_place.insert(self.last_place, (name.to_owned(), node));
    }

    pub(crate) fn remove(&mut self, name: &OsStr) -> Option<Arc<Node>> {
        let (_, place) = self.by_name.remove(name)?;
        self.by_place.remove(&place).map(|(_, node)| node)
    }
}

impl Node {
    pub(crate) fn new(ino: u64, mode: u32, rdev: u32, uid: u32, gid: u32) -> Self {
        let now = SystemTime::now();
        let kind = kind(mode);
        let is_directory = kind == FileType::Directory;
        Self {
            attr: Mutex::new(FileAttr {
                ino: INodeNo(ino),
                size: 0,
                blocks: 0,
                atime: now,
                mtime: now,
                ctime: now,
                crtime: now,
                kind,
                perm: (mode & 0o7777) as u16,
                nlink: if is_directory { 2 } else { 1 },
                uid,
                gid,
                rdev,
                blksize: 4096,
                flags: 0,
            }),
            lookups: AtomicU64::new(0),
            names: is_directory.then(Mutex::default),
        }
    }

    /// The names of a directory, locked.
    pub(crate) fn names(&self) -> Result<MutexGuard<'_, Names>, Errno> {
        self.names.as_ref().map(Mutex::lock).ok_or(Errno::ENOTDIR)
    }

    /// Counts a reference of the kernel and returns the attributes.
    pub(crate) fn looked_up(&self) -> FileAttr {
        self.lookups.fetch_add(1, Relaxed);
        *self.attr.lock()
    }

    /// Takes note of a change of a directory's names. `links` is the change of its subdirectories' number.
    pub(crate) fn touch(&self, links: i32) {
        let mut attr = self.attr.lock();
        attr.mtime = SystemTime::now();
        attr.ctime = attr.mtime;
        attr.nlink = attr.nlink.saturating_add_signed(links);
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.names.is_some()
    }
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// Checks that a call for a directory, or for a file, may take `node` away.
pub(crate) fn replaceable(node: &Node, directory: bool) -> Result<(), Errno> {
    match (&node.names, directory) {
        (Some(names), true) if names.lock().by_name.is_empty() => Ok(()),
        (Some(_), true) => Err(Errno::ENOTEMPTY),
        (Some(_), false) => Err(Errno::EISDIR),
        (None, true) => Err(Errno::ENOTDIR),
        (None, false) => Ok(()),
    }
}
