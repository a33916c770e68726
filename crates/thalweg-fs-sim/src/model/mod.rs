//! [`Model`]: a plain POSIX file system in memory, written from the specifications of POSIX and Linux, and not from the
//! volume's code.
//!
//! - `names.rs`: create, link, unlink, rmdir, lookup, paths.
//! - `rename.rs`: rename and its kinds.
//! - `inode.rs`: attributes, open and close, extended attributes.
//! - `data.rs`: bytes.
//!
//! The order of errors is Linux's, with one exception: the rename of a non-directory to a directory above it gives
//! `EISDIR`, as POSIX says. From the volume's interface come two rules: a number without references is `ESTALE`, and so
//! is the use of the bytes of a removed file. A removed directory can be opened, and is empty.

mod data;
mod inode;
mod names;
mod rename;

use std::collections::BTreeMap;
use std::rc::Rc;
use thalweg_fs::{Caller, Ino, Kind, ROOT, Time};

/// The result of an operation: a value or an errno.
pub type Outcome<T> = Result<T, i32>;

/// The answer of `stat`, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of the inode.
    pub ino: Ino,
    /// The kind of the inode.
    pub kind: Kind,
    /// The permission bits.
    pub mode: u16,
    /// The number of names.
    pub nlink: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its device.
    pub rdev: u32,
    /// Its size.
    pub size: u64,
    /// Access, modification, change, birth.
    pub times: [Time; 4],
}

/// Whether an inode has a name, is kept by an open, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has a name.
    Named,
    /// It has no name, and is open.
    Orphan,
    /// It is gone, but a caller may still know its number.
    Dead,
}

/// An inode.
#[derive(Clone, Debug)]
pub struct Inode {
    /// The answer of `stat`; the size of a directory is its number of entries.
    pub stat: Stat,
    /// Whether the inode is named, an orphan or dead.
    pub life: Life,
    /// The bytes of a file.
    pub bytes: Rc<Vec<u8>>,
    /// Whether the volume has the bytes in an object: then the times are not compared. The test sets this.
    pub is_object: bool,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The entries of a directory.
    pub entries: BTreeMap<Vec<u8>, Ino>,
    /// The directory above a directory.
    pub parent: Ino,
}

/// How callers use an inode.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    lookups: u64,
    opens: u64,
}

/// A file system.
#[derive(Clone, Debug)]
pub struct Model {
    inodes: BTreeMap<Ino, Rc<Inode>>,
    uses: BTreeMap<Ino, Use>,
    /// The time of the operation.
    pub now: Time,
}

impl Model {
    /// An empty file system, whose root directory root owns.
    pub fn new(now: Time, mode: u16) -> Self {
        let stat = Stat {
            ino: ROOT,
            kind: Kind::Directory,
            mode,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            times: [now; 4],
        };
        let inodes = BTreeMap::from([(ROOT, Rc::new(Inode::new(stat, ROOT)))]);
        Model { inodes, uses: BTreeMap::from([(ROOT, Use { lookups: 1, opens: 0 })]), now }
    }

    /// The inode of a number that exists or is known.
    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino).map(Rc::as_ref)
    }

    /// Every inode that has a name or is open.
    pub fn inodes(&self) -> impl Iterator<Item = &Inode> {
        self.inodes.values().map(Rc::as_ref).filter(|inode| inode.life != Life::Dead)
    }

    /// The numbers that callers may use.
    pub fn numbers_in_use(&self) -> impl Iterator<Item = Ino> {
        self.uses.keys().copied()
    }

    /// How many references to an inode callers have from lookups.
    pub fn lookups(&self, ino: Ino) -> u64 {
        self.uses.get(&ino).map_or(0, |usage| usage.lookups)
    }

    /// How often an inode is open.
    pub fn opens(&self, ino: Ino) -> u64 {
        self.uses.get(&ino).map_or(0, |usage| usage.opens)
    }

    /// An inode in use.
    fn used(&self, ino: Ino) -> Outcome<&Inode> {
        if self.uses.contains_key(&ino) { self.inode(ino).ok_or(libc::ESTALE) } else { Err(libc::ESTALE) }
    }

    fn directory(&self, ino: Ino) -> Outcome<&Inode> {
        let inode = self.used(ino)?;
        if inode.is_directory() { Ok(inode) } else { Err(libc::ENOTDIR) }
    }

    /// Returns an inode to change.
    ///
    /// # Panics
    /// If the inode does not exist.
    pub fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        Rc::make_mut(self.inodes.get_mut(&ino).unwrap_or_else(|| panic!("the model has no inode {ino}")))
    }

    fn refer(&mut self, ino: Ino) {
        self.uses.entry(ino).or_default().lookups += 1;
    }

    /// Releases references.
    pub fn forget(&mut self, ino: Ino, lookups: u64) {
        let Some(usage) = self.uses.get_mut(&ino) else { return };
        usage.lookups -= lookups;
        self.drop_unused(ino);
    }

    fn drop_unused(&mut self, ino: Ino) {
        if self.uses.get(&ino).is_some_and(|usage| usage.lookups == 0 && usage.opens == 0) {
            self.uses.remove(&ino);
            if self.inode(ino).is_some_and(|inode| inode.life == Life::Dead) {
                self.inodes.remove(&ino);
            }
        }
    }

    /// The file system after a mount: no inode is in use, and files without a name are gone.
    pub fn remount(&mut self) {
        self.uses = BTreeMap::from([(ROOT, Use { lookups: 1, opens: 0 })]);
        self.inodes.retain(|_, inode| inode.life == Life::Named);
    }

    /// Removes one name of an inode.
    fn drop_name(&mut self, ino: Ino) {
        let (now, opens) = (self.now, self.opens(ino));
        let is_used = self.uses.contains_key(&ino);
        let inode = self.inode_mut(ino);
        inode.stat.times[2] = now;
        if inode.is_directory() {
            inode.stat.nlink = 0;
            inode.life = Life::Dead;
        } else {
            inode.stat.nlink -= 1;
            if inode.stat.nlink == 0 {
                inode.life = if opens > 0 { Life::Orphan } else { Life::Dead };
            }
        }
        if !is_used && self.inode(ino).is_some_and(|inode| inode.life == Life::Dead) {
            self.inodes.remove(&ino);
        }
    }

    /// Adds or removes an entry, with the consequences for its directory.
    fn set_entry(&mut self, directory: Ino, name: &[u8], ino: Option<Ino>) {
        let now = self.now;
        let kind_of = |model: &Self, ino: Option<Ino>| {
            i64::from(ino.and_then(|ino| model.inode(ino)).is_some_and(Inode::is_directory))
        };
        let before = self.inode(directory).and_then(|inode| inode.entries.get(name).copied());
        let change = kind_of(self, ino) - kind_of(self, before);
        let inode = self.inode_mut(directory);
        match ino {
            Some(ino) => inode.entries.insert(name.to_vec(), ino),
            None => inode.entries.remove(name),
        };
        inode.stat.nlink = u32::try_from(i64::from(inode.stat.nlink) + change).unwrap_or(0);
        inode.stat.size = inode.entries.len() as u64;
        (inode.stat.times[1], inode.stat.times[2]) = (now, now);
    }
}

impl Inode {
    fn new(stat: Stat, parent: Ino) -> Self {
        Inode {
            stat,
            life: Life::Named,
            bytes: Rc::default(),
            is_object: false,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.stat.kind == Kind::Directory
    }

    /// # Errors
    /// `EACCES` if the caller may not do all of `access`.
    fn allow(&self, caller: &Caller<'_>, access: u8) -> Outcome<()> {
        if may(caller, &self.stat, access) { Ok(()) } else { Err(libc::EACCES) }
    }

    fn is_owned_by(&self, caller: &Caller<'_>) -> bool {
        caller.uid == 0 || caller.uid == self.stat.uid
    }

    /// Clears the bits that a write clears: set-user-ID; and set-group-ID if the group may execute, or if the caller is
    /// neither root nor in the group. `gid` is this group, as before a change of the owner.
    fn take_set_id_bits(&mut self, caller: &Caller<'_>, gid: u32) {
        self.stat.mode &= !0o4000;
        if self.stat.mode & 0o010 != 0 || caller.uid != 0 && !is_in_group(caller, gid) {
            self.stat.mode &= !0o2000;
        }
    }
}

fn is_in_group(caller: &Caller<'_>, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

/// POSIX 4.5, file access permissions: the first class that fits the caller decides.
fn may(caller: &Caller<'_>, stat: &Stat, access: u8) -> bool {
    if caller.uid == 0 {
        return access & 1 == 0 || stat.kind == Kind::Directory || stat.mode & 0o111 != 0;
    }
    let class = if caller.uid == stat.uid {
        stat.mode >> 6
    } else if is_in_group(caller, stat.gid) {
        stat.mode >> 3
    } else {
        stat.mode
    };
    class & u16::from(access) == u16::from(access)
}
