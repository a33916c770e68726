//! Extended attributes: a row each, at (inode, name).

use crate::caller::{Caller, READ, WRITE};
use crate::error::{Error, Result, refuse};
use crate::row::{Attributes, HAS_XATTRS, Ino, Kind, inode_key, xattr_key, xattr_name};
use crate::store::{Batch, Space};
use crate::volume::Volume;
use thalweg::Slice;

/// The longest name and value, in bytes, as the kernel has them.
const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The longest list of names, in bytes.
const LIST_BYTES_MAX: usize = 64 << 10;

/// How setting an extended attribute treats one that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrFlags {
    /// It is replaced.
    #[default]
    Any,
    /// There must be none.
    Create,
    /// There must be one.
    Replace,
}

impl Volume {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `EOPNOTSUPP` for access control lists and labels, `EACCES`, `ERANGE`, `ESTALE`,
    /// `EIO`.
    pub fn xattr(&self, caller: &Caller<'_>, ino: Ino, name: &[u8]) -> Result<Slice> {
        check_name(name)?;
        let pin = self.nodes.pin(ino)?;
        let state = pin.read();
        if state.is_dead() && !pin.is_directory() {
            return refuse(libc::ESTALE);
        }
        check_access(caller, &state.attributes, name, READ)?;
        if state.is_dead() || !state.attributes.has(HAS_XATTRS) {
            return refuse(libc::ENODATA);
        }
        self.store.row(Space::Xattrs, &xattr_key(ino, name))?.ok_or(Error::posix(libc::ENODATA))
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST` or `ENODATA` by `flags`, `E2BIG` for more than 64 KiB, `ENOSPC`, `EROFS`, `EPERM`; see
    /// [`Volume::xattr`].
    pub fn set_xattr(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        (name, value): (&[u8], &[u8]),
        flags: XattrFlags,
    ) -> Result<()> {
        check_name(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return refuse(libc::E2BIG);
        }
        let pin = self.nodes.pin(ino)?;
        let mut state = pin.write();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        check_access(caller, &state.attributes, name, WRITE)?;
        let is_there = state.attributes.has(HAS_XATTRS) && self.has_xattr(ino, name)?;
        match flags {
            XattrFlags::Create if is_there => return refuse(libc::EEXIST),
            XattrFlags::Replace if !is_there => return refuse(libc::ENODATA),
            _ => {}
        }
        if !is_there && self.names_bytes(ino)? + name.len() + 1 > LIST_BYTES_MAX {
            return refuse(libc::ENOSPC);
        }
        let mut next = state.clone();
        next.attributes.flags |= HAS_XATTRS;
        next.attributes.ctime = self.now();
        let mut batch = Batch::new();
        batch.put(Space::Xattrs, xattr_key(ino, name), value);
        next.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        *state = next;
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`; see [`Volume::set_xattr`].
    pub fn remove_xattr(&self, caller: &Caller<'_>, ino: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let pin = self.nodes.pin(ino)?;
        let mut state = pin.write();
        if state.is_dead() {
            return refuse(libc::ESTALE);
        }
        check_access(caller, &state.attributes, name, WRITE)?;
        if !state.attributes.has(HAS_XATTRS) || !self.has_xattr(ino, name)? {
            return refuse(libc::ENODATA);
        }
        let mut next = state.clone();
        next.attributes.ctime = self.now();
        let mut batch = Batch::new();
        batch.set_frees_space();
        batch.remove(Space::Xattrs, xattr_key(ino, name));
        next.put(&mut batch);
        self.commit(&batch)?;
        drop(batch);
        *state = next;
        Ok(())
    }

    /// The names of the extended attributes, ascending. Only root sees those that begin with "trusted.".
    ///
    /// # Errors
    /// `ESTALE`, `EIO`.
    pub fn list_xattrs(&self, caller: &Caller<'_>, ino: Ino) -> Result<Vec<Box<[u8]>>> {
        let pin = self.nodes.pin(ino)?;
        let state = pin.read();
        if state.is_dead() && !pin.is_directory() {
            return refuse(libc::ESTALE);
        }
        let mut names = Vec::new();
        if !state.is_dead() && state.attributes.has(HAS_XATTRS) {
            for row in self.store.rows(Space::Xattrs, &inode_key(ino), &inode_key(ino + 1)) {
                let (key, _) = row?;
                let name = xattr_name(&key).unwrap_or_default();
                if caller.is_root() || !name.starts_with(b"trusted.") {
                    names.push(name.into());
                }
            }
        }
        Ok(names)
    }

    fn has_xattr(&self, ino: Ino, name: &[u8]) -> Result<bool> {
        Ok(self.store.row(Space::Xattrs, &xattr_key(ino, name))?.is_some())
    }

    /// The length of the list of names, each with its end.
    fn names_bytes(&self, ino: Ino) -> Result<usize> {
        let rows = self.store.rows(Space::Xattrs, &inode_key(ino), &inode_key(ino + 1));
        rows.map(|row| Ok(xattr_name(&row?.0).unwrap_or_default().len() + 1)).sum()
    }
}

/// # Errors
/// `ERANGE` for the length; `EOPNOTSUPP` for names that a volume does not keep: with `ENODATA` instead, `ls -l` asks
/// twice for each file.
fn check_name(name: &[u8]) -> Result<()> {
    let kept = [&b"user."[..], b"trusted.", b"security."];
    match name {
        [] => refuse(libc::ERANGE),
        _ if name.len() > NAME_BYTES_MAX => refuse(libc::ERANGE),
        b"security.selinux" => refuse(libc::EOPNOTSUPP),
        _ if kept.iter().any(|prefix| name.starts_with(prefix) && name.len() > prefix.len()) => Ok(()),
        _ => refuse(libc::EOPNOTSUPP),
    }
}

/// Checks access as the kernel does. Names in "trusted." are for root alone. Names in "user." are on files and
/// directories, for callers that may read or write them; in a sticky directory only the owner may write them. Names in
/// "security." are for everybody to read and for root to write.
fn check_access(caller: &Caller<'_>, attributes: &Attributes, name: &[u8], access: u8) -> Result<()> {
    if caller.is_checked {
        return Ok(());
    }
    if name.starts_with(b"trusted.") {
        let errno = if access == READ { libc::ENODATA } else { libc::EPERM };
        return if caller.is_root() { Ok(()) } else { refuse(errno) };
    }
    if name.starts_with(b"security.") {
        return if access == READ || caller.is_root() { Ok(()) } else { refuse(libc::EPERM) };
    }
    if !matches!(attributes.kind, Kind::File | Kind::Directory) {
        let errno = if access == READ { libc::ENODATA } else { libc::EPERM };
        return refuse(errno);
    }
    let is_sticky_directory = attributes.is_directory() && attributes.mode & 0o1000 != 0;
    if access == WRITE && is_sticky_directory {
        caller.check_owner(attributes)?;
    }
    caller.check(attributes, access)
}
