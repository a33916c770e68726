//! The attributes that `stat` reads, and their changes by `chmod`, `chown`, `truncate` and `utimensat`: [`Change`].

use crate::caller::{Caller, WRITE, without_privileges};
use crate::error::{Result, refuse};
use crate::node::State;
use crate::planted::{Bug, planted};
use crate::row::{Attributes, HAS_XATTRS, Ino, Kind, Mode, Time, xattr_key};
use crate::store::{Batch, Space};
use crate::volume::Volume;

const SET_GROUP: Mode = 0o2000;
/// The extended attribute that has the capabilities of a program.
const CAPABILITY: &[u8] = b"security.capability";

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The volume's time.
    Now,
    /// A given time.
    To(Time),
}

/// A change of an inode's attributes. The empty change (`Change::default()`) removes a file's privileges: the bits
/// set-user-ID and set-group-ID, and its capabilities. The kernel asks for the empty change before somebody writes to
/// the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<Mode>,
    /// Its user.
    pub uid: Option<u32>,
    /// Its group.
    pub gid: Option<u32>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The time of access.
    pub atime: Option<SetTime>,
    /// The time of change.
    pub mtime: Option<SetTime>,
}

impl Volume {
    /// The attributes of an inode, as `stat` tells them.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        self.pinned_attributes(&self.nodes.pin(ino)?)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for anything else, `ESTALE`.
    pub fn read_link(&self, ino: Ino) -> Result<Box<[u8]>> {
        let pin = self.nodes.pin(ino)?;
        if pin.kind() == Kind::Symlink { Ok(pin.read().target.clone()) } else { refuse(libc::EINVAL) }
    }

    /// Checks access as `access` does: all of [`READ`](crate::READ), [`WRITE`] and [`EXECUTE`](crate::EXECUTE) in
    /// `access`.
    ///
    /// # Errors
    /// `EACCES`, `ESTALE`.
    pub fn access(&self, caller: &Caller<'_>, ino: Ino, access: u8) -> Result<()> {
        if caller.may(&self.nodes.pin(ino)?.read().attributes, access) { Ok(()) } else { refuse(libc::EACCES) }
    }

    /// Changes an inode, all or nothing.
    ///
    /// # Errors
    /// `EPERM`, `EACCES`; `EISDIR`, `EINVAL`, `EFBIG` for a size; `ENOSPC`, `EROFS`, `EIO`, `ESTALE`.
    pub fn change(&self, caller: &Caller<'_>, ino: Ino, change: &Change) -> Result<Attributes> {
        let pin = self.nodes.pin(ino)?;
        if change.size.is_some() {
            Self::check_file(&pin)?;
        }
        let mut state = pin.write();
        if change.size.is_some() && state.is_dead() {
            return refuse(libc::ESTALE);
        }
        change.check(caller, &state.attributes)?;
        self.refresh(&mut state)?;
        let now = self.now();
        let mut next = state.clone();
        change.apply(caller, &mut next.attributes, now);
        let mut batch = Batch::new();
        if change.takes_privileges(caller) {
            self.take_privileges(caller, state.attributes.gid, &mut next, &mut batch)?;
        } else if change.size.is_some() {
            self.take_capabilities(&next, &mut batch)?;
        }
        let mut rows = Vec::new();
        if let Some(size) = change.size {
            if size <= state.attributes.size && !planted(Bug::ShrinkNeedsRoom) {
                batch.set_needs_no_room();
            }
            rows = self.resize(&mut next, size, now)?;
        }
        for row in &rows {
            row.put(ino, &mut batch);
        }
        next.put(&mut batch);
        if let Err(error) = self.commit(&batch) {
            if next.is_object() && next.attributes.size > state.attributes.size {
                let _ = self.objects.truncate(ino, state.attributes.size);
            }
            return Err(error);
        }
        drop(batch);
        *state = next;
        if let Some(mtime) = change.mtime
            && state.is_object()
            && !state.is_dead()
        {
            self.with_file(&state.attributes, || self.objects.set_mtime(ino, mtime.at(now)))?;
            // Takes the file's own time of this change, which is not exactly the volume's.
            self.take_object_size(&mut state)?;
        }
        Ok(state.attributes)
    }

    /// Removes set-user-ID, set-group-ID and capabilities from a file that has, or had before this change, the group
    /// `gid`.
    pub(crate) fn take_privileges(
        &self,
        caller: &Caller<'_>,
        gid: u32,
        next: &mut State,
        batch: &mut Batch<'_>,
    ) -> Result<()> {
        let Attributes { kind, mode, .. } = next.attributes;
        next.attributes.mode = without_privileges(caller, gid, kind, mode);
        self.take_capabilities(next, batch)
    }

    /// Removes the capabilities of a file whose bytes change, for every caller, as `cap_inode_need_killpriv` does.
    pub(crate) fn take_capabilities(&self, next: &State, batch: &mut Batch<'_>) -> Result<()> {
        let attributes = &next.attributes;
        if attributes.kind != Kind::Directory && attributes.has(HAS_XATTRS) {
            let key = xattr_key(attributes.ino, CAPABILITY);
            if self.store.row(Space::Xattrs, &key)?.is_some() {
                batch.remove(Space::Xattrs, key);
            }
        }
        Ok(())
    }
}

impl SetTime {
    fn at(self, now: Time) -> Time {
        match self {
            SetTime::Now => now,
            SetTime::To(time) => time,
        }
    }
}

impl Change {
    fn check(&self, caller: &Caller<'_>, attributes: &Attributes) -> Result<()> {
        if caller.is_checked {
            return Ok(());
        }
        if self.mode.is_some() {
            caller.check_owner(attributes)?;
        }
        let gives_away = self.uid.is_some_and(|uid| uid != attributes.uid);
        let is_foreign = self.gid.is_some_and(|gid| gid != attributes.gid && !caller.is_in_group(gid));
        if !caller.is_root() && (gives_away || is_foreign) {
            return refuse(libc::EPERM);
        }
        if self.uid.is_some() || self.gid.is_some() {
            caller.check_owner(attributes)?;
        }
        if self.size.is_some() {
            caller.check(attributes, WRITE)?;
        }
        let times = [self.atime, self.mtime];
        // Only the owner may set one of the two times alone, even to the current time (utimensat(2)).
        let is_now = times.into_iter().all(|time| time == Some(SetTime::Now));
        if times.iter().any(Option::is_some) && caller.check_owner(attributes).is_err() {
            return if is_now { caller.check(attributes, WRITE) } else { refuse(libc::EPERM) };
        }
        Ok(())
    }

    /// Applies everything but the size, which also changes rows.
    fn apply(&self, caller: &Caller<'_>, attributes: &mut Attributes, now: Time) {
        attributes.ctime = now;
        if let Some(uid) = self.uid {
            attributes.uid = uid;
        }
        if let Some(gid) = self.gid {
            attributes.gid = gid;
        }
        if let Some(mode) = self.mode {
            attributes.mode = mode & 0o7777;
            if !caller.may_set_group(attributes.gid) {
                attributes.mode &= !SET_GROUP;
            }
        }
        if let Some(atime) = self.atime {
            attributes.atime = atime.at(now);
        }
        if let Some(mtime) = self.mtime {
            attributes.mtime = mtime.at(now);
        }
    }

    /// Whether the change takes set-user-ID, set-group-ID and capabilities from the file. The empty change does, a
    /// change of owner that sets no mode, and a truncation by another user than root, also to the same size.
    fn takes_privileges(&self, caller: &Caller<'_>) -> bool {
        let changes_owner = self.uid.is_some() || self.gid.is_some();
        changes_owner && self.mode.is_none() || self.size.is_some() && !caller.is_root() || *self == Change::default()
    }
}
