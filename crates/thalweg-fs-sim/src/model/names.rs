//! Names: lookup, create, link, unlink, rmdir, paths.

use super::{Inode, Life, Model, Outcome, Stat, is_in_group};
use std::rc::Rc;
use thalweg_fs::{Caller, EXECUTE, Ino, Kind, NewInode, ROOT, WRITE};

/// # Errors
/// The error of a name that no entry can have.
pub(super) fn check_name(name: &[u8]) -> Outcome<()> {
    match name.len() {
        0 => Err(libc::ENOENT),
        1..=255 if name.contains(&b'/') || name.contains(&0) => Err(libc::EINVAL),
        1..=255 => Ok(()),
        _ => Err(libc::ENAMETOOLONG),
    }
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl Model {
    /// The entry of a directory that the caller may search.
    pub(super) fn entry(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<Ino> {
        let inode = self.directory(directory)?;
        inode.allow(caller, EXECUTE)?;
        inode.entries.get(name).copied().ok_or(libc::ENOENT)
    }

    /// Finds an entry.
    pub fn lookup(&mut self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<Ino> {
        let ino = self.step(caller, directory, name)?;
        self.refer(ino);
        Ok(ino)
    }

    fn step(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<Ino> {
        let inode = self.inode(directory).ok_or(libc::ESTALE)?;
        if !inode.is_directory() {
            return Err(libc::ENOTDIR);
        }
        inode.allow(caller, EXECUTE)?;
        match name {
            b"." => Ok(directory),
            b".." if inode.life == Life::Dead => Err(libc::ENOENT),
            b".." => Ok(inode.parent),
            _ => {
                check_name(name)?;
                inode.entries.get(name).copied().ok_or(libc::ENOENT)
            }
        }
    }

    /// Like [`Model::lookup`], but refuses a `directory` that is not in use.
    pub fn lookup_used(&mut self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<Ino> {
        self.used(directory)?;
        self.lookup(caller, directory, name)
    }

    /// Finds what a path leads to (path_resolution(7)).
    pub fn resolve(&mut self, caller: &Caller<'_>, path: &[u8], follows_last: bool) -> Outcome<Ino> {
        if path.is_empty() {
            return Err(libc::ENOENT);
        }
        if path.len() >= 4096 {
            return Err(libc::ENAMETOOLONG);
        }
        let mut links = 0;
        let ino = self.walk(caller, ROOT, path, follows_last, &mut links)?;
        self.refer(ino);
        Ok(ino)
    }

    fn walk(&self, caller: &Caller<'_>, from: Ino, path: &[u8], follows_last: bool, links: &mut u32) -> Outcome<Ino> {
        let mut at = if path.starts_with(b"/") { ROOT } else { from };
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        let ends_in_slash = path.ends_with(b"/");
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len() && !ends_in_slash;
            let next = self.step(caller, at, name)?;
            let inode = self.inode(next).ok_or(libc::ESTALE)?;
            if inode.stat.kind != Kind::Symlink || is_last && !follows_last {
                at = next;
                continue;
            }
            *links += 1;
            if *links > 40 {
                return Err(libc::ELOOP);
            }
            at = self.walk(caller, at, &inode.target, true, links)?;
        }
        if ends_in_slash {
            // A slash at the end means the same as "/.".
            at = self.step(caller, at, b".")?;
        }
        Ok(at)
    }

    /// # Errors
    /// Those of a new entry: `EEXIST` before the right to write.
    fn check_free(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<()> {
        let inode = self.directory(directory)?;
        inode.allow(caller, EXECUTE)?;
        if inode.life == Life::Dead {
            return Err(libc::ENOENT);
        }
        if inode.entries.contains_key(name) {
            return Err(libc::EEXIST);
        }
        inode.allow(caller, WRITE | EXECUTE)
    }

    /// Creates an inode, whose number is `ino`.
    pub fn create(
        &mut self,
        caller: &Caller<'_>,
        directory: Ino,
        name: &[u8],
        new: &NewInode<'_>,
        ino: Ino,
    ) -> Outcome<Ino> {
        if is_dots(name) {
            return Err(libc::EEXIST);
        }
        check_name(name)?;
        if new.kind == Kind::Symlink {
            match new.target.len() {
                0 => return Err(libc::ENOENT),
                1..=4095 if new.target.contains(&0) => return Err(libc::EINVAL),
                1..=4095 => {}
                _ => return Err(libc::ENAMETOOLONG),
            }
        }
        self.check_free(caller, directory, name)?;
        if matches!(new.kind, Kind::BlockDevice | Kind::CharacterDevice) && caller.uid != 0 {
            return Err(libc::EPERM);
        }
        let above = &self.directory(directory)?.stat;
        let is_inherited = above.mode & 0o2000 != 0;
        let gid = if is_inherited { above.gid } else { caller.gid };
        let mut mode = new.mode & 0o7777;
        if is_inherited && new.kind == Kind::Directory {
            mode |= 0o2000;
        }
        let keeps_group_bit = caller.uid == 0 || is_in_group(caller, gid);
        if is_inherited && new.kind != Kind::Directory && mode & 0o2010 == 0o2010 && !keeps_group_bit {
            mode &= !0o2000;
        }
        let (size, nlink) = (new.target.len() as u64, if new.kind == Kind::Directory { 2 } else { 1 });
        let (kind, rdev, uid, times) = (new.kind, new.rdev, caller.uid, [self.now; 4]);
        let mut inode = Inode::new(Stat { ino, kind, mode, nlink, uid, gid, rdev, size, times }, directory);
        inode.target = new.target.to_vec();
        self.inodes.insert(ino, Rc::new(inode));
        self.set_entry(directory, name, Some(ino));
        self.refer(ino);
        Ok(ino)
    }

    /// Gives a file a further name.
    pub fn link(&mut self, caller: &Caller<'_>, file: Ino, directory: Ino, name: &[u8]) -> Outcome<Ino> {
        if is_dots(name) {
            return Err(libc::EEXIST);
        }
        check_name(name)?;
        self.used(file)?;
        self.check_free(caller, directory, name)?;
        let inode = self.used(file)?;
        if inode.is_directory() {
            return Err(libc::EPERM);
        }
        if inode.life != Life::Named {
            return Err(libc::ENOENT);
        }
        let now = self.now;
        let inode = self.inode_mut(file);
        inode.stat.nlink += 1;
        inode.stat.times[2] = now;
        self.set_entry(directory, name, Some(file));
        self.refer(file);
        Ok(file)
    }

    /// # Errors
    /// `EACCES`; `EPERM` in a sticky directory for a caller who owns neither the directory nor the entry.
    pub(super) fn check_removal(&self, caller: &Caller<'_>, directory: Ino, victim: Ino) -> Outcome<()> {
        let directory = self.directory(directory)?;
        directory.allow(caller, WRITE | EXECUTE)?;
        let victim = self.inode(victim).ok_or(libc::ENOENT)?;
        let is_sticky = directory.stat.mode & 0o1000 != 0;
        let is_mine = victim.is_owned_by(caller) || directory.is_owned_by(caller);
        if is_sticky && !is_mine { Err(libc::EPERM) } else { Ok(()) }
    }

    /// Removes a name that is not a directory's.
    pub fn unlink(&mut self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<()> {
        check_name(name)?;
        if is_dots(name) {
            return Err(libc::EISDIR);
        }
        let victim = self.entry(caller, directory, name)?;
        self.check_removal(caller, directory, victim)?;
        if self.inode(victim).is_some_and(Inode::is_directory) {
            return Err(libc::EISDIR);
        }
        self.set_entry(directory, name, None);
        self.drop_name(victim);
        Ok(())
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Outcome<()> {
        match name {
            b"." => return Err(libc::EINVAL),
            b".." => return Err(libc::ENOTEMPTY),
            _ => check_name(name)?,
        }
        let victim = self.entry(caller, directory, name)?;
        self.check_removal(caller, directory, victim)?;
        let inode = self.inode(victim).ok_or(libc::ENOENT)?;
        if !inode.is_directory() {
            return Err(libc::ENOTDIR);
        }
        if !inode.entries.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.set_entry(directory, name, None);
        self.drop_name(victim);
        Ok(())
    }

    /// The names of a directory with the inodes, "." and ".." first. A removed directory has none.
    pub fn list(&self, directory: Ino) -> Outcome<Vec<(Vec<u8>, Ino)>> {
        let inode = self.directory(directory)?;
        if inode.life == Life::Dead {
            return Ok(Vec::new());
        }
        let mut all = vec![(b".".to_vec(), directory), (b"..".to_vec(), inode.parent)];
        all.extend(inode.entries.iter().map(|(name, ino)| (name.clone(), *ino)));
        Ok(all)
    }

    /// Refers to an inode that a listing returned with its attributes.
    pub fn refer_listed(&mut self, ino: Ino) {
        self.refer(ino);
    }
}
