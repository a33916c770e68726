//! Makes and alters files below for a caller that is not root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileHandle, INodeNo, Request, TimeOrNow};
use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, chmod, chownat, fstat,
    ftruncate, removexattr, setxattr, statat, utimensat,
};

use crate::handle::borrowed;
use crate::nodes::Nodes;

/// The fields of a SETATTR request.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

/// A path that leads to what a descriptor names, for calls that have no form with a descriptor.
pub(crate) fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Gives what was just made, `name` in `directory`, to its maker.
pub(crate) fn own(request: &Request, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let Some((uid, gid)) = owner(request, directory, &stat)? else { return Ok(()) };
    chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFLNK && stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
        // A change of the owner clears these bits.
        rustix::fs::chmodat(directory, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
    }
    Ok(())
}

/// Gives a file that was just made and opened to its maker.
pub(crate) fn own_open(request: &Request, directory: &OwnedFd, file: &OwnedFd) -> io::Result<()> {
    let stat = fstat(file)?;
    let Some((uid, gid)) = owner(request, directory, &stat)? else { return Ok(()) };
    rustix::fs::fchown(file, Some(uid), Some(gid))?;
    if stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
        rustix::fs::fchmod(file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    }
    Ok(())
}

/// The owner that a new file must get, if it has another.
fn owner(request: &Request, directory: &OwnedFd, stat: &Stat) -> io::Result<Option<(Uid, Gid)>> {
    if (stat.st_uid, stat.st_gid) == (request.uid(), request.gid()) {
        return Ok(None);
    }
    // A directory with setgid hands its group down; the file system below has done so.
    let inherits = fstat(directory)?.st_mode & libc::S_ISGID != 0;
    let gid = if inherits { stat.st_gid } else { request.gid() };
    let differs = (stat.st_uid, stat.st_gid) != (request.uid(), gid);
    Ok(differs.then(|| (Uid::from_raw(request.uid()), Gid::from_raw(gid))))
}

impl Change {
    /// Whether the request sets nothing. It then asks to clear setuid and setgid, and to drop the capability: a write
    /// that does not come by here has been done.
    fn is_empty(&self) -> bool {
        self.mode.is_none()
            && self.uid.is_none()
            && self.gid.is_none()
            && self.size.is_none()
            && self.atime.is_none()
            && self.mtime.is_none()
    }

    /// Makes the change and returns the attributes after it.
    pub(crate) fn make(
        self,
        request: &Request,
        nodes: &Nodes,
        ino: INodeNo,
        fh: Option<FileHandle>,
    ) -> Result<Stat, Errno> {
        let node = nodes.path(ino)?;
        self.apply(request, nodes, ino, fh, &node)?;
        Ok(fstat(&node).map_err(io::Error::from)?)
    }

    fn apply(
        self,
        request: &Request,
        nodes: &Nodes,
        ino: INodeNo,
        fh: Option<FileHandle>,
        node: &OwnedFd,
    ) -> Result<(), Errno> {
        if self.is_empty() {
            drop_privileges(node)?;
        }
        if self.uid.is_some() || self.gid.is_some() {
            let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
            chownat(node, "", uid, gid, AtFlags::EMPTY_PATH).map_err(io::Error::from)?;
        }
        if let Some(size) = self.size {
            match &fh {
                Some(fh) => ftruncate(borrowed(fh), size),
                None => ftruncate(nodes.open(ino, libc::O_WRONLY)?, size),
            }
            .map_err(io::Error::from)?;
            if request.uid() != 0 {
                drop_privileges(node)?;
            }
        }
        // Behind the change of owner, which clears bits of the mode.
        if let Some(mode) = self.mode {
            chmod(path_of(node), Mode::from_raw_mode(mode & 0o7777)).map_err(io::Error::from)?;
        }
        if self.atime.is_some() || self.mtime.is_some() {
            let times = Timestamps { last_access: timespec(self.atime), last_modification: timespec(self.mtime) };
            utimensat(node, "", &times, AtFlags::EMPTY_PATH).map_err(io::Error::from)?;
        }
        Ok(())
    }
}

/// Clears setuid, setgid of what its group may execute, and the capability, of a regular file.
pub(crate) fn drop_privileges(file: &OwnedFd) -> io::Result<()> {
    let stat = fstat(file)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Ok(());
    }
    let mut mode = stat.st_mode & 0o7777 & !libc::S_ISUID;
    if mode & libc::S_IXGRP != 0 {
        mode &= !libc::S_ISGID;
    }
    if mode != stat.st_mode & 0o7777 {
        chmod(path_of(file), Mode::from_raw_mode(mode))?;
    }
    // Most files have none.
    let _ = removexattr(path_of(file), "security.capability");
    Ok(())
}

/// Extended attributes that nobody below keeps for the kernel above: refused by name, so that it asks once.
pub(crate) fn is_refused(name: &OsStr) -> bool {
    name == "system.posix_acl_access" || name == "system.posix_acl_default" || name == "security.selinux"
}

/// Sets an extended attribute.
pub(crate) fn set_xattr(node: &OwnedFd, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
    setxattr(path_of(node), name, value, XattrFlags::from_bits_retain(flags as u32))?;
    Ok(())
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => specific(time),
    }
}

/// Undoes what fuser makes of a time: for one before 1970 it *subtracts* the nanoseconds from the seconds, where the
/// kernel means them added.
fn specific(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: i64::from(since.subsec_nanos()) },
        Err(error) => {
            let before = error.duration();
            Timespec { tv_sec: -(before.as_secs() as i64), tv_nsec: i64::from(before.subsec_nanos()) }
        }
    }
}

/// As `drop_privileges`, of a file that is open for writing.
pub(crate) fn drop_privileges_of(fh: &FileHandle) -> io::Result<()> {
    let file = borrowed(fh).as_fd().try_clone_to_owned()?;
    drop_privileges(&file)
}
