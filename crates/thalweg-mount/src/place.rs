//! Where volumes are mounted: the checks before a mount, dead mounts, and the way from a mount point to its volume.

use crate::options::SUBTYPE;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Mounts and unmounts for users who are not root.
const HELPER: &str = "fusermount3";

/// A volume that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The volume's folder.
    pub volume: PathBuf,
    /// The directory that it is mounted on.
    pub directory: PathBuf,
}

/// Checks whether a volume can be mounted at a directory.
///
/// # Errors
/// What is wrong with the two paths.
pub(crate) fn check(volume: &Path, directory: &Path) -> io::Result<()> {
    let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !directory.is_dir() {
        return refused(format!("{} is no directory", directory.display()));
    }
    if directory.starts_with(volume) || volume.starts_with(directory) {
        let (volume, directory) = (volume.display(), directory.display());
        return refused(format!(
            "cannot mount {volume} on {directory}: one is inside the other, so that the volume would wait for itself"
        ));
    }
    Ok(())
}

/// Detaches the mounts on a directory whose process is gone. Returns whether there was one.
///
/// The kernel keeps attributes, so that `stat` may answer for a process that is gone; `statfs` asks the process. One
/// that is being killed ends the call with `ECONNABORTED`.
///
/// # Errors
/// Those of the unmount.
pub(crate) fn detach_dead(directory: &Path) -> io::Result<bool> {
    let mut is_dead = false;
    while find_mount(directory).is_ok_and(|mounted| mounted.is_some())
        && matches!(rustix::fs::statfs(directory), Err(Errno::NOTCONN | Errno::CONNABORTED))
    {
        unmount(directory, true)?;
        is_dead = true;
    }
    Ok(is_dead)
}

/// The volume that is mounted on a directory; the mount may be dead.
///
/// # Errors
/// Those of reading the list of mounts.
pub fn find_mount(directory: &Path) -> io::Result<Option<Mounted>> {
    // A dead mount has no canonical path of its own, but its parent has.
    let wanted = match (directory.canonicalize(), directory.parent(), directory.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            Path::new(".").canonicalize()?.join(name)
        }
        (Err(_), Some(parent), Some(name)) => parent.canonicalize()?.join(name),
        (Err(error), ..) => return Err(error),
    };
    Ok(mounts()?.into_iter().rev().find(|mounted| mounted.directory == wanted))
}

/// All volumes that are mounted.
fn mounts() -> io::Result<Vec<Mounted>> {
    let list = fs::read("/proc/self/mountinfo")?;
    let volumes = list.split(|&byte| byte == b'\n').filter_map(|line| {
        // ID, parent, device, root, MOUNT POINT, options, optional fields, "-", TYPE, SOURCE, …
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let (kind, source) = (fields.get(dash + 1)?, fields.get(dash + 2)?);
        let is_ours = *kind == format!("fuse.{SUBTYPE}").as_bytes();
        is_ours.then_some(Mounted { volume: unescaped(source), directory: unescaped(fields.get(4)?) })
    });
    Ok(volumes.collect())
}

/// A path as the kernel's list has it: spaces and the like are octal numbers.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.first_chunk::<3>().filter(|_| first == b'\\');
        let number = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Unmounts a directory; `is_lazy` detaches it, and the mount ends with its last user. A user who is not root unmounts
/// through the program fusermount3, with which it was mounted.
///
/// # Errors
/// `EBUSY` while somebody uses it, `EPERM`, `EINVAL` if nothing is mounted there.
pub fn unmount(directory: &Path, is_lazy: bool) -> io::Result<()> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(directory, flags) {
        Err(Errno::PERM) => unmount_by_helper(directory, is_lazy),
        done => Ok(done?),
    }
}

/// Sends SIGTERM to a process; nothing if it is gone.
pub fn ask_to_end(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

fn unmount_by_helper(directory: &Path, is_lazy: bool) -> io::Result<()> {
    let refused = |what: String| io::Error::new(io::ErrorKind::PermissionDenied, what);
    let mut helper = Command::new(HELPER);
    helper.arg("-u").args(is_lazy.then_some("-z")).arg("--").arg(directory).stdin(Stdio::null());
    let done = helper.output().map_err(|error| refused(format!("it needs root, or the program {HELPER}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if said.ends_with("busy") {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, said));
    }
    Err(refused(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_read_from_the_list_of_mounts() {
        assert_eq!(unescaped(br"/a\040b\134c"), PathBuf::from(r"/a b\c"));
        assert_eq!(unescaped(br"/plain\"), PathBuf::from(r"/plain\"));
    }
}
