//! Finding: an entry of a directory, or what a path leads to.

use super::check_name;
use crate::caller::{Caller, EXECUTE};
use crate::error::{Result, refuse};
use crate::node::{Pin, Place};
use crate::row::{Attributes, EntryRow, Ino, Kind, ROOT};
use crate::volume::Volume;
use std::borrow::Cow;

/// How many symbolic links a path may go through.
const SYMLINKS_MAX: usize = 40;
/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

impl Volume {
    /// Finds the entry `name` of a directory, and refers to its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `EACCES`, `ESTALE`, `EIO`.
    pub fn lookup(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Result<Attributes> {
        let directory = self.nodes.pin(directory)?;
        let found = self.step(caller, &directory, name)?;
        let attributes = self.pinned_attributes(&found)?;
        found.keep();
        Ok(attributes)
    }

    /// Goes one name further, also to "." and "..".
    fn step(&self, caller: &Caller<'_>, directory: &Pin<'_>, name: &[u8]) -> Result<Pin<'_>> {
        if !directory.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        {
            let state = directory.read();
            caller.check(&state.attributes, EXECUTE)?;
            if !matches!(name, b"." | b"..") {
                check_name(name)?;
                return if state.is_dead() { refuse(libc::ENOENT) } else { self.find(directory.ino(), name) };
            }
        }
        if name == b"." { self.directory(directory.ino()) } else { self.parent(directory) }
    }

    /// The directory above another. Both may be removed during the search.
    fn parent(&self, directory: &Pin<'_>) -> Result<Pin<'_>> {
        let above = || match directory.read().place {
            Place::Directory { parent, .. } => Ok(parent),
            _ => refuse(libc::ENOENT),
        };
        loop {
            let parent = above()?;
            match self.directory(parent) {
                Err(_) if above()? != parent => {}
                found => return found,
            }
        }
    }

    /// A directory by its number, in use or not. It must have a name.
    fn directory(&self, ino: Ino) -> Result<Pin<'_>> {
        loop {
            if let Some(pin) = self.nodes.try_pin(ino) {
                return Ok(pin);
            }
            let seen = self.nodes.removals();
            if let Some(pin) = self.nodes.enter(&seen, self.directory_state(ino)?) {
                return Ok(pin);
            }
        }
    }

    /// Finds what a path from the root leads to, through symbolic links, and refers to its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `EACCES`, `ELOOP` for more than 40 symbolic links, `EIO`.
    pub fn resolve(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Attributes> {
        let found = self.walk(caller, path, true)?;
        let attributes = self.pinned_attributes(&found)?;
        found.keep();
        Ok(attributes)
    }

    /// As [`Volume::resolve`], but does not follow a symbolic link at the end of the path.
    ///
    /// # Errors
    /// As for [`Volume::resolve`].
    pub fn resolve_link(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Attributes> {
        let found = self.walk(caller, path, false)?;
        let attributes = self.pinned_attributes(&found)?;
        found.keep();
        Ok(attributes)
    }

    fn walk(&self, caller: &Caller<'_>, path: &[u8], follow_last: bool) -> Result<Pin<'_>> {
        if path.is_empty() {
            return refuse(libc::ENOENT);
        }
        if path.len() >= PATH_BYTES_MAX {
            return refuse(libc::ENAMETOOLONG);
        }
        // The names that are left, the next one last.
        let mut names = names_of(path);
        let mut at = match caller.may_search_all().then(|| self.descend(&mut names)).flatten() {
            Some(at) => at,
            None => self.nodes.pin(ROOT)?,
        };
        let mut links = 0;
        while let Some(name) = names.pop() {
            let next = self.step(caller, &at, &name)?;
            let is_followed = next.kind() == Kind::Symlink && (follow_last || !names.is_empty());
            if !is_followed {
                at = next;
                continue;
            }
            links += 1;
            if links > SYMLINKS_MAX {
                return refuse(libc::ELOOP);
            }
            let target = next.read().target.clone();
            if target.starts_with(b"/") {
                at = self.nodes.pin(ROOT)?;
            }
            names.extend(names_of(&target).into_iter().map(|name| Cow::Owned(name.into_owned())));
        }
        Ok(at)
    }

    /// Walks from the root through directories by their numbers, as long as the next name is an entry of a directory
    /// and not the last name. That reads half of what [`Volume::step`] reads, because `step` also reads each
    /// directory's own row, for who may search it. Takes the names of the walk from `names`. `None`, with no name
    /// taken: the directory has just been removed.
    ///
    /// No directory is locked. A directory that moves meanwhile is found where it was or where it is.
    fn descend(&self, names: &mut Vec<Cow<'_, [u8]>>) -> Option<Pin<'_>> {
        let (mut at, mut left) = (ROOT, names.len());
        for name in names.iter().skip(1).rev() {
            let is_entry = !matches!(&**name, b"." | b"..") && check_name(name).is_ok();
            match is_entry.then(|| self.entry_row(at, name)) {
                Some(Ok(Some(EntryRow::Pointer(ino, Kind::Directory)))) => at = ino,
                // The caller's walk goes on here, and finds what is wrong.
                _ => break,
            }
            left -= 1;
        }
        let pin = self.directory(at).ok()?;
        names.truncate(left);
        Some(pin)
    }
}

/// The names of a path, the last one first. A slash at the end stands for ".", as a directory must be there.
fn names_of(path: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let mut names: Vec<Cow<'_, [u8]>> = names.map(Cow::Borrowed).collect();
    if path.ends_with(b"/") {
        names.push(Cow::Borrowed(b"."));
    }
    names.reverse();
    names
}
