//! Attributes, open and close, extended attributes.

use super::{Inode, Life, Model, Outcome, Stat, is_in_group};
use thalweg_fs::{Caller, Change, Ino, Kind, READ, SetTime, Time, WRITE, XattrFlags};

impl Model {
    /// The answer of `stat`.
    pub fn stat(&self, ino: Ino) -> Outcome<&Stat> {
        Ok(&self.used(ino)?.stat)
    }

    /// `readlink`.
    pub fn read_link(&self, ino: Ino) -> Outcome<&[u8]> {
        let inode = self.used(ino)?;
        if inode.stat.kind == Kind::Symlink { Ok(&inode.target) } else { Err(libc::EINVAL) }
    }

    /// `access`.
    pub fn access(&self, caller: &Caller<'_>, ino: Ino, access: u8) -> Outcome<()> {
        self.used(ino)?.allow(caller, access)
    }

    /// `open`: for a file or a directory.
    pub fn open(&mut self, caller: &Caller<'_>, ino: Ino, access: u8) -> Outcome<()> {
        let inode = self.used(ino)?;
        if inode.is_directory() && access & WRITE != 0 {
            return Err(libc::EISDIR);
        }
        if inode.life == Life::Dead && !inode.is_directory() {
            return Err(libc::ESTALE);
        }
        inode.allow(caller, access)?;
        self.uses.entry(ino).or_default().opens += 1;
        Ok(())
    }

    /// Ends an open whose file without a name could not be removed: the next mount removes this file.
    pub fn end_open(&mut self, ino: Ino) {
        if let Some(usage) = self.uses.get_mut(&ino) {
            usage.opens = usage.opens.saturating_sub(1);
        }
        self.drop_unused(ino);
    }

    /// `close`.
    ///
    /// # Panics
    /// If the inode is not open.
    pub fn release(&mut self, ino: Ino) {
        let Some(usage) = self.uses.get_mut(&ino) else { panic!("inode {ino} is not in use") };
        usage.opens -= 1;
        if usage.opens == 0 && self.inode(ino).is_some_and(|inode| inode.life == Life::Orphan) {
            self.inode_mut(ino).life = Life::Dead;
        }
        self.drop_unused(ino);
    }

    /// One of `chmod`, `chown`, `truncate`, `utimensat` in a call.
    pub fn change(&mut self, caller: &Caller<'_>, ino: Ino, change: &Change) -> Outcome<()> {
        let inode = self.used(ino)?;
        if change.size.is_some() {
            inode.check_file()?;
        }
        inode.check_change(caller, change)?;
        let now = self.now;
        let inode = self.inode_mut(ino);
        if let Some(mode) = change.mode {
            inode.stat.mode = mode & 0o7777;
            if caller.uid != 0 && !is_in_group(caller, inode.stat.gid) {
                inode.stat.mode &= !0o2000;
            }
        }
        let gid = inode.stat.gid;
        if change.uid.is_some() || change.gid.is_some() {
            (inode.stat.uid, inode.stat.gid) =
                (change.uid.unwrap_or(inode.stat.uid), change.gid.unwrap_or(inode.stat.gid));
            if !inode.is_directory() {
                inode.take_set_id_bits(caller, gid);
                inode.xattrs.remove(&b"security.capability"[..]);
            }
        }
        // As chown with neither a user nor a group.
        if *change == Change::default() && !inode.is_directory() {
            inode.take_set_id_bits(caller, gid);
            inode.xattrs.remove(&b"security.capability"[..]);
        }
        if let Some(size) = change.size {
            inode.resize(size);
            inode.written(caller, now);
        }
        for (index, time) in [(0, change.atime), (1, change.mtime)] {
            match time {
                Some(SetTime::Now) => inode.stat.times[index] = now,
                Some(SetTime::To(time)) => inode.stat.times[index] = time,
                None => {}
            }
        }
        inode.stat.times[2] = now;
        Ok(())
    }

    fn check_xattr(&self, caller: &Caller<'_>, ino: Ino, name: &[u8], access: u8) -> Outcome<&Inode> {
        if name.is_empty() || name.len() > 255 {
            return Err(libc::ERANGE);
        }
        let is_kept = [&b"user."[..], b"trusted.", b"security."]
            .iter()
            .any(|prefix| name.starts_with(prefix) && name.len() > prefix.len());
        if !is_kept || name == b"security.selinux" {
            return Err(libc::EOPNOTSUPP);
        }
        let inode = self.used(ino)?;
        if inode.life == Life::Dead && !(inode.is_directory() && access == READ) {
            return Err(libc::ESTALE);
        }
        let refused = if access == READ { libc::ENODATA } else { libc::EPERM };
        if name.starts_with(b"trusted.") && caller.uid != 0 {
            return Err(refused);
        }
        if name.starts_with(b"security.") && access == WRITE && caller.uid != 0 {
            return Err(libc::EPERM);
        }
        if name.starts_with(b"user.") {
            if !matches!(inode.stat.kind, Kind::File | Kind::Directory) {
                return Err(refused);
            }
            let is_sticky = inode.is_directory() && inode.stat.mode & 0o1000 != 0;
            if access == WRITE && is_sticky && !inode.is_owned_by(caller) {
                return Err(libc::EPERM);
            }
            inode.allow(caller, access)?;
        }
        Ok(inode)
    }

    /// `getxattr`.
    pub fn xattr(&self, caller: &Caller<'_>, ino: Ino, name: &[u8]) -> Outcome<&[u8]> {
        let inode = self.check_xattr(caller, ino, name, READ)?;
        if inode.life == Life::Dead {
            return Err(libc::ENODATA);
        }
        inode.xattrs.get(name).map(Vec::as_slice).ok_or(libc::ENODATA)
    }

    /// `setxattr`.
    pub fn set_xattr(
        &mut self,
        caller: &Caller<'_>,
        ino: Ino,
        (name, value): (&[u8], &[u8]),
        flags: XattrFlags,
    ) -> Outcome<()> {
        let inode = self.check_xattr(caller, ino, name, WRITE)?;
        match (flags, inode.xattrs.contains_key(name)) {
            (XattrFlags::Create, true) => return Err(libc::EEXIST),
            (XattrFlags::Replace, false) => return Err(libc::ENODATA),
            _ => {}
        }
        let now = self.now;
        let inode = self.inode_mut(ino);
        inode.xattrs.insert(name.to_vec(), value.to_vec());
        inode.stat.times[2] = now;
        Ok(())
    }

    /// `removexattr`.
    pub fn remove_xattr(&mut self, caller: &Caller<'_>, ino: Ino, name: &[u8]) -> Outcome<()> {
        if !self.check_xattr(caller, ino, name, WRITE)?.xattrs.contains_key(name) {
            return Err(libc::ENODATA);
        }
        let now = self.now;
        let inode = self.inode_mut(ino);
        inode.xattrs.remove(name);
        inode.stat.times[2] = now;
        Ok(())
    }

    /// `listxattr`: "trusted." is shown to root alone.
    pub fn list_xattrs(&self, caller: &Caller<'_>, ino: Ino) -> Outcome<Vec<Vec<u8>>> {
        let is_shown = |name: &&Vec<u8>| caller.uid == 0 || !name.starts_with(b"trusted.");
        let inode = self.used(ino)?;
        if inode.life == Life::Dead {
            return if inode.is_directory() { Ok(Vec::new()) } else { Err(libc::ESTALE) };
        }
        Ok(inode.xattrs.keys().filter(is_shown).cloned().collect())
    }
}

impl Inode {
    /// `setattr_prepare` of Linux.
    fn check_change(&self, caller: &Caller<'_>, change: &Change) -> Outcome<()> {
        let is_owner = self.is_owned_by(caller);
        if change.mode.is_some() && !is_owner {
            return Err(libc::EPERM);
        }
        if caller.uid != 0 {
            let gives_away = change.uid.is_some_and(|uid| !is_owner || uid != self.stat.uid);
            let joins = |gid: u32| is_owner && (gid == self.stat.gid || is_in_group(caller, gid));
            if gives_away || change.gid.is_some_and(|gid| !joins(gid)) {
                return Err(libc::EPERM);
            }
        }
        if change.size.is_some() {
            if self.life == Life::Dead {
                return Err(libc::ESTALE);
            }
            self.allow(caller, WRITE)?;
            if change.size > Some(i64::MAX as u64) {
                return Err(libc::EFBIG);
            }
        }
        let times = (change.atime, change.mtime);
        if times != (None, None) && !is_owner {
            return if times == (Some(SetTime::Now), Some(SetTime::Now)) {
                self.allow(caller, WRITE)
            } else {
                Err(libc::EPERM)
            };
        }
        Ok(())
    }

    /// Records that a caller changed the bytes of the file.
    pub(super) fn written(&mut self, caller: &Caller<'_>, now: Time) {
        (self.stat.times[1], self.stat.times[2]) = (now, now);
        if caller.uid != 0 {
            self.take_set_id_bits(caller, self.stat.gid);
        }
        // A change of bytes removes capabilities, for any caller (`cap_inode_need_killpriv`).
        self.xattrs.remove(&b"security.capability"[..]);
    }

    /// # Errors
    /// `EISDIR`, or `EINVAL` for an inode without bytes.
    pub(super) fn check_file(&self) -> Outcome<()> {
        match self.stat.kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }
}
