//! Rename: with replacement, without, and as an exchange (rename(2), `vfs_rename`).

use super::names::check_name;
use super::{Inode, Life, Model, Outcome};
use thalweg_fs::{Caller, EXECUTE, Ino, ROOT, RenameFlags, WRITE};

impl Model {
    /// Moves an entry.
    pub fn rename(
        &mut self,
        caller: &Caller<'_>,
        (old, old_name): (Ino, &[u8]),
        (new, new_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Outcome<()> {
        for name in [old_name, new_name] {
            check_name(name)?;
            if name == b"." || name == b".." {
                return Err(libc::EBUSY);
            }
        }
        self.used(old)?;
        self.used(new)?;
        for directory in [old, new] {
            self.directory(directory)?;
        }
        for directory in [old, new] {
            self.directory(directory)?.allow(caller, EXECUTE)?;
        }
        let moved = self.entry(caller, old, old_name)?;
        if self.directory(new)?.life == Life::Dead {
            return Err(libc::ENOENT);
        }
        let there = self.directory(new)?.entries.get(new_name).copied();
        match (flags, there) {
            (RenameFlags::NoReplace, Some(_)) => return Err(libc::EEXIST),
            (RenameFlags::Exchange, None) => return Err(libc::ENOENT),
            _ => {}
        }
        let is_exchange = flags == RenameFlags::Exchange;
        if self.is_at_or_above(moved, new) || is_exchange && there.is_some_and(|there| self.is_at_or_above(there, old))
        {
            return Err(libc::EINVAL);
        }
        if there == Some(moved) {
            return Ok(());
        }
        self.check_rename(caller, (old, moved), (new, there), is_exchange)?;
        let now = self.now;
        self.set_entry(old, old_name, there.filter(|_| is_exchange));
        self.set_entry(new, new_name, Some(moved));
        for (ino, parent) in [(Some(moved), new), (there.filter(|_| is_exchange), old)] {
            if let Some(ino) = ino {
                let inode = self.inode_mut(ino);
                inode.stat.times[2] = now;
                inode.parent = parent;
            }
        }
        if let Some(there) = there.filter(|_| !is_exchange) {
            self.drop_name(there);
        }
        Ok(())
    }

    /// Whether one directory is the other, or above it.
    fn is_at_or_above(&self, above: Ino, below: Ino) -> bool {
        let mut at = below;
        while at != above && at != ROOT {
            let Some(inode) = self.inode(at) else { return false };
            at = inode.parent;
        }
        at == above && self.inode(above).is_some_and(Inode::is_directory)
    }

    fn check_rename(
        &self,
        caller: &Caller<'_>,
        (old, moved): (Ino, Ino),
        (new, there): (Ino, Option<Ino>),
        is_exchange: bool,
    ) -> Outcome<()> {
        self.check_removal(caller, old, moved)?;
        let is_directory = |ino: Ino| self.inode(ino).is_some_and(Inode::is_directory);
        match there {
            None => self.directory(new)?.allow(caller, WRITE | EXECUTE)?,
            Some(there) => {
                self.check_removal(caller, new, there)?;
                match (is_directory(moved), is_directory(there)) {
                    (true, false) if !is_exchange => return Err(libc::ENOTDIR),
                    (false, true) if !is_exchange => return Err(libc::EISDIR),
                    _ => {}
                }
            }
        }
        // ".." of a directory changes, so the directory must be writable.
        let changed = [Some(moved), there.filter(|_| is_exchange)];
        for ino in changed.into_iter().flatten().filter(|ino| old != new && is_directory(*ino)) {
            self.inode(ino).ok_or(libc::ENOENT)?.allow(caller, WRITE)?;
        }
        let is_full = |ino: Ino| self.inode(ino).is_some_and(|inode| !inode.entries.is_empty());
        if !is_exchange && there.is_some_and(is_full) { Err(libc::ENOTEMPTY) } else { Ok(()) }
    }
}
