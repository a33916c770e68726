//! [`Caller`]: the caller of an operation, and what POSIX lets it do.

use crate::error::{Result, refuse};
use crate::planted::{Bug, planted};
use crate::row::{Attributes, Kind, Mode};

/// Access for reading.
pub const READ: u8 = 4;
/// Access for writing.
pub const WRITE: u8 = 2;
/// Access for executing a file, or for going through a directory.
pub const EXECUTE: u8 = 1;

/// The caller of an operation of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// Further groups.
    pub groups: &'a [u32],
    /// Whether the kernel has checked permissions, as it does for a FUSE mount with `default_permissions`. Everything
    /// else that follows from the caller's identity, such as the loss of set-user-ID, is the volume's work in either
    /// case.
    pub is_checked: bool,
}

impl Caller<'static> {
    /// The superuser.
    pub const ROOT: Caller<'static> = Caller { uid: 0, gid: 0, groups: &[], is_checked: false };

    /// A caller whose permissions the kernel has checked.
    pub fn checked(uid: u32, gid: u32) -> Self {
        Caller { uid, gid, groups: &[], is_checked: true }
    }
}

impl Caller<'_> {
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller belongs to a group. Of a caller that the kernel checked, only the effective group is known.
    pub(crate) fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the caller may give set-group-ID to a file of this group. The kernel knows all groups: if it has checked
    /// the caller, it has removed the bit where necessary.
    pub(crate) fn may_set_group(&self, gid: u32) -> bool {
        self.is_checked || self.is_root() || self.is_in_group(gid)
    }

    /// Whether the permission bits of an inode let the caller do all of `access`.
    pub(crate) fn may(&self, attributes: &Attributes, access: u8) -> bool {
        if self.is_root() {
            let is_executable = attributes.is_directory() || attributes.mode & 0o111 != 0;
            return access & EXECUTE == 0 || is_executable;
        }
        let shift = match () {
            () if self.uid == attributes.uid => 6,
            () if self.is_in_group(attributes.gid) => 3,
            () => 0,
        };
        (attributes.mode >> shift) & Mode::from(access) == Mode::from(access)
    }

    /// Whether the caller may search every directory, or the kernel has checked that.
    pub(crate) fn may_search_all(&self) -> bool {
        self.is_checked || self.is_root()
    }

    /// # Errors
    /// `EACCES` if the caller may not, unless the kernel has checked that.
    pub(crate) fn check(&self, attributes: &Attributes, access: u8) -> Result<()> {
        if self.is_checked || self.may(attributes, access) { Ok(()) } else { refuse(libc::EACCES) }
    }

    /// # Errors
    /// `EPERM` if the caller is neither the owner nor root, unless the kernel has checked that.
    pub(crate) fn check_owner(&self, attributes: &Attributes) -> Result<()> {
        if self.is_checked || self.is_root() || self.uid == attributes.uid { Ok(()) } else { refuse(libc::EPERM) }
    }

    /// Checks whether an entry may be removed from a directory. In a sticky directory only the owner of either may
    /// remove it.
    pub(crate) fn check_removal(&self, directory: &Attributes, entry: &Attributes) -> Result<()> {
        self.check(directory, WRITE | EXECUTE)?;
        let is_sticky = directory.mode & Mode::try_from(libc::S_ISVTX).unwrap_or(0) != 0;
        let is_owner = self.is_root() || self.uid == entry.uid || self.uid == directory.uid;
        if self.is_checked || !is_sticky || is_owner { Ok(()) } else { refuse(libc::EPERM) }
    }
}

/// The mode of a file of the group `gid` whose contents or owner `caller` changes: without set-user-ID, and without
/// set-group-ID where the group may execute it, or where the caller is neither root nor of the group (as Linux 6.0 and
/// later, `setattr_should_drop_sgid`). Directories keep theirs.
pub(crate) fn without_privileges(caller: &Caller<'_>, gid: u32, kind: Kind, mode: Mode) -> Mode {
    if kind == Kind::Directory || planted(Bug::PrivilegesKept) {
        return mode;
    }
    let is_group_executable = mode & 0o010 != 0;
    let is_foreign = !caller.is_root() && !caller.is_in_group(gid);
    mode & !0o4000 & if is_group_executable || is_foreign { !0o2000 } else { !0 }
}
