//! Creating: files of every kind, directories, symbolic links, and further names.

use super::{check_name, check_new_name};
use crate::caller::{Caller, EXECUTE, WRITE};
use crate::error::{Result, refuse};
use crate::node::{Locked, Place, State};
use crate::planted::{Bug, planted};
use crate::row::{Attributes, EntryRow, Ino, Kind, Mode, Time};
use crate::store::Batch;
use crate::volume::{TARGET_BYTES_MAX, Volume};

/// The most names a file may have, and the most directories a directory.
const LINKS_MAX: u32 = 1 << 30;
const SET_GROUP: Mode = 0o2000;

/// An inode to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// The kind of the new inode.
    pub kind: Kind,
    /// Its permission bits; the caller's umask was applied to them.
    pub mode: Mode,
    /// The number of a device; 0 of anything else.
    pub rdev: u32,
    /// The target of a symbolic link; nothing of anything else.
    pub target: &'a [u8],
}

impl<'a> NewInode<'a> {
    /// An empty file.
    pub fn file(mode: Mode) -> Self {
        NewInode { kind: Kind::File, mode, rdev: 0, target: &[] }
    }

    /// A directory.
    pub fn directory(mode: Mode) -> Self {
        NewInode { kind: Kind::Directory, mode, rdev: 0, target: &[] }
    }

    /// A symbolic link.
    pub fn symlink(target: &'a [u8]) -> Self {
        NewInode { kind: Kind::Symlink, mode: 0o777, rdev: 0, target }
    }
}

impl Volume {
    /// Creates an inode as the entry `name` of a directory, and refers to it.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT` if the directory was removed; `ENOTDIR`, `ENAMETOOLONG`, `EINVAL` for a name with a slash or
    /// a NUL, `EACCES`, `EPERM` for a device of a caller that is not root, `EMLINK`, `ENOSPC`, `EROFS`, `EIO`.
    pub fn create(&self, caller: &Caller<'_>, directory: Ino, name: &[u8], new: NewInode<'_>) -> Result<Attributes> {
        check_new_name(name)?;
        new.check()?;
        let parent = self.nodes.pin(directory)?;
        if !parent.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        let mut state = parent.write();
        self.check_free(caller, &state, directory, name)?;
        if matches!(new.kind, Kind::BlockDevice | Kind::CharacterDevice) && !caller.is_checked && !caller.is_root() {
            return refuse(libc::EPERM);
        }
        let is_directory = new.kind == Kind::Directory;
        if is_directory && state.attributes.nlink >= LINKS_MAX {
            return refuse(libc::EMLINK);
        }
        let now = self.now();
        let made = new.state(self.new_number()?, &state, caller, (directory, name), now);
        let next = state.with_entries(1, i32::from(is_directory), now);
        let mut batch = Batch::new();
        if is_directory {
            let pointer = EntryRow::Pointer(made.attributes.ino, Kind::Directory);
            batch.put_entry(directory, name, pointer.encode(directory, name));
        }
        made.put(&mut batch);
        next.put(&mut batch);
        self.commit_counted(&batch, 1)?;
        drop(batch);
        *state = next;
        let attributes = made.attributes;
        self.nodes.enter_new(made).keep();
        Ok(attributes)
    }

    /// Gives a file a further name, and refers to it.
    ///
    /// # Errors
    /// `EPERM` for a directory, `ENOENT` for a file without a name, `EMLINK`; see [`Volume::create`].
    pub fn link(&self, caller: &Caller<'_>, file: Ino, directory: Ino, name: &[u8]) -> Result<Attributes> {
        check_new_name(name)?;
        let (file, parent) = (self.nodes.pin(file)?, self.nodes.pin(directory)?);
        if !parent.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        let mut locked = Locked::new(&[&parent, &file]);
        self.check_free(caller, locked.get(directory), directory, name)?;
        if file.is_directory() {
            return refuse(libc::EPERM);
        }
        let now = self.now();
        let mut linked = locked.get(file.ino()).clone();
        self.refresh(&mut linked)?;
        if linked.is_dead() || linked.is_orphan() {
            return refuse(libc::ENOENT);
        }
        if linked.attributes.nlink >= LINKS_MAX {
            return refuse(libc::EMLINK);
        }
        let first = std::mem::replace(&mut linked.place, Place::Inode);
        linked.attributes.nlink += 1;
        linked.attributes.ctime = now;
        let pointer = EntryRow::Pointer(file.ino(), file.kind());
        let next = locked.get(directory).with_entries(1, 0, now);
        let mut batch = Batch::new();
        if let Place::Entry { directory, name } = &first
            && !planted(Bug::FirstNameForgotten)
        {
            batch.put_entry(*directory, name, pointer.encode(*directory, name));
        }
        batch.put_entry(directory, name, pointer.encode(directory, name));
        linked.put(&mut batch);
        next.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        let attributes = linked.attributes;
        *locked.get_mut(file.ino()) = linked;
        *locked.get_mut(directory) = next;
        drop(locked);
        file.keep();
        Ok(attributes)
    }

    /// Checks that a caller may create an entry, and that the name is free.
    fn check_free(&self, caller: &Caller<'_>, parent: &State, directory: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        caller.check(&parent.attributes, EXECUTE)?;
        if parent.is_dead() {
            return refuse(libc::ENOENT);
        }
        if self.store.entry(directory, name)?.is_some() {
            return refuse(libc::EEXIST);
        }
        caller.check(&parent.attributes, WRITE | EXECUTE)
    }
}

impl NewInode<'_> {
    fn check(&self) -> Result<()> {
        match self.kind {
            Kind::Symlink if self.target.is_empty() => refuse(libc::ENOENT),
            Kind::Symlink if self.target.len() > TARGET_BYTES_MAX => refuse(libc::ENAMETOOLONG),
            Kind::Symlink if self.target.contains(&0) => refuse(libc::EINVAL),
            _ => Ok(()),
        }
    }

    /// The state of the inode after its creation in a directory.
    fn state(
        &self,
        ino: Ino,
        parent: &State,
        caller: &Caller<'_>,
        (directory, name): (Ino, &[u8]),
        now: Time,
    ) -> State {
        let is_inherited = parent.attributes.mode & SET_GROUP != 0 && !planted(Bug::GroupNotInherited);
        let gid = if is_inherited { parent.attributes.gid } else { caller.gid };
        let mut mode = self.mode & 0o7777;
        if is_inherited && self.kind == Kind::Directory {
            mode |= SET_GROUP;
        } else if is_inherited && mode & 0o2010 == 0o2010 && !caller.may_set_group(gid) {
            mode &= !SET_GROUP;
        }
        let mut attributes = Attributes::new(ino, self.kind, mode, (caller.uid, gid), now);
        attributes.rdev = self.rdev;
        let (mut place, mut target) = (Place::Directory { parent: directory, entries: 0 }, Box::default());
        if self.kind != Kind::Directory {
            place = Place::Entry { directory, name: name.into() };
        }
        if self.kind == Kind::Symlink {
            target = self.target.into();
            attributes.size = self.target.len() as u64;
        }
        State::new(attributes, place, target)
    }
}
