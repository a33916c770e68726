//! [`LinuxLock`]: the advisory lock on a database, and its holder.
//!
//! `flock` belongs to the open file description: a second call in this process conflicts too, and the death of a
//! process releases its locks. NFS emulates `flock` by a lock of bytes, so an exclusive lock needs a descriptor that
//! can write (else `EBADF`). A shared lock needs only a descriptor that reads, so readers can lock on a read-only file
//! system.
//!
//! An exclusive holder writes its process id to the file, and removes it at the end. A process that is refused the lock
//! reads the id. The id is no proof: it may be missing (on a full disk, or before it is written), or it may be that of
//! a process that died, until the holder has written its own.
//!
//! Locks: one mutex over the locks that this process holds, for one call that does not wait.

use crate::error::{Error, LockHolder, Result};
use crate::storage::StorageLock;
use crate::sync::{Mutex, MutexGuard};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Device and inode of a file.
type Identity = (u64, u64);

/// The files that this process has locked.
static HELD: LazyLock<Mutex<Vec<Identity>>> = LazyLock::new(Mutex::default);

/// Bytes to read of the file: more than any process id and the end of the line.
const ID_BYTES_MAX: u64 = 16;

/// A lock on a file, until dropped.
pub(super) struct LinuxLock {
    file: fs::File,
    identity: Identity,
    is_shared: bool,
}

impl StorageLock for LinuxLock {}

/// Takes the lock on the existing file at `path`.
pub(super) fn take(path: &Path, is_shared: bool) -> Result<LinuxLock> {
    let failed = |error| Error::io("lock", path, error);
    let file = fs::OpenOptions::new().read(true).write(!is_shared).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let identity = (metadata.dev(), metadata.ino());
    let is_taken = {
        // One lock covers both steps, so that a caller that is refused meanwhile finds the file in the list.
        let mut held = held();
        let is_taken = try_lock(&file, is_shared).map_err(failed)?;
        held.extend(is_taken.then_some(identity));
        is_taken
    };
    if !is_taken {
        return Err(Error::Locked { path: Arc::from(path), holder: holder(file, identity, is_shared) });
    }
    if !is_shared {
        let id = format!("{}\n", std::process::id());
        // The lock also holds without the id, as on a full disk.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(id.as_bytes(), 0));
    }
    Ok(LinuxLock { file, identity, is_shared })
}

fn try_lock(file: &fs::File, is_shared: bool) -> io::Result<bool> {
    let operation =
        if is_shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The holder of a lock that was just refused. Consumes the descriptor of the refused call.
fn holder(mut file: fs::File, identity: Identity, was_shared: bool) -> LockHolder {
    if held().contains(&identity) {
        return LockHolder::ThisProcess;
    }
    // Readers hold it if one more shared lock is possible. That lock ends with the descriptor, at once.
    if !was_shared && matches!(try_lock(&file, true), Ok(true)) {
        return LockHolder::Readers;
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(ID_BYTES_MAX).read_to_string(&mut text);
    match read.ok().and_then(|_| text.trim_end().parse().ok()) {
        // This process does not hold the lock. A process with the same id is in another container.
        Some(id) if id != std::process::id() => LockHolder::Writer(id),
        _ => LockHolder::Unknown,
    }
}

fn held() -> MutexGuard<'static, Vec<Identity>> {
    HELD.lock()
}

impl Drop for LinuxLock {
    fn drop(&mut self) {
        if !self.is_shared {
            // If the id stays, it misleads only callers that are refused before the next holder writes its own.
            let _ = self.file.set_len(0);
        }
        let mut held = held();
        if let Some(at) = held.iter().position(|found| *found == self.identity) {
            held.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::TestDirectory;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    fn lock_file(name: &str) -> (TestDirectory, std::path::PathBuf) {
        let directory = TestDirectory::new(name);
        let path = directory.0.join("lock");
        fs::write(&path, b"").unwrap();
        (directory, path)
    }

    #[test]
    fn a_shared_lock_needs_only_permission_to_read() {
        let (_directory, path) = lock_file("read-only-lock");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let _first = take(&path, true).unwrap();
        take(&path, true).unwrap();
    }

    #[test]
    fn an_exclusive_lock_has_a_descriptor_that_can_write_as_nfs_needs_and_a_shared_one_has_not() {
        let (_directory, path) = lock_file("lock-mode");
        for (is_shared, access_mode) in [(true, 0), (false, 2)] {
            let lock = take(&path, is_shared).unwrap();
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", lock.file.as_fd().as_raw_fd())).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            assert_eq!(u32::from_str_radix(flags.trim(), 8).unwrap() & 3, access_mode, "O_RDONLY is 0, O_RDWR 2");
        }
    }

    /// Starts a process that holds the lock until its standard input closes, and waits until it has the lock.
    fn other_process(path: &Path, kind: &str) -> std::process::Child {
        let mut child = Command::new("flock")
            .args([kind, path.to_str().unwrap(), "sh", "-c", "echo locked; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        child
    }

    fn holder_of(path: &Path, is_shared: bool) -> LockHolder {
        match take(path, is_shared) {
            Err(Error::Locked { holder, .. }) => holder,
            other => panic!("{:?}", other.map(|_| "locked")),
        }
    }

    #[test]
    fn who_is_refused_is_told_by_whom() {
        let (_directory, path) = lock_file("holder");
        let lock = take(&path, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(holder_of(&path, true), LockHolder::ThisProcess);
        drop(lock);
        assert_eq!(fs::read_to_string(&path).unwrap(), "", "nobody has it");

        let mut readers = other_process(&path, "-s");
        assert_eq!(holder_of(&path, false), LockHolder::Readers);
        take(&path, true).unwrap();
        drop(readers.stdin.take());
        readers.wait().unwrap();

        let mut writer = other_process(&path, "-x");
        assert_eq!(holder_of(&path, false), LockHolder::Unknown, "it wrote no id");
        fs::write(&path, format!("{}\n", writer.id())).unwrap();
        assert_eq!(holder_of(&path, false), LockHolder::Writer(writer.id()));
        assert_eq!(holder_of(&path, true), LockHolder::Writer(writer.id()));
        fs::write(&path, b"\xff no id").unwrap();
        assert_eq!(holder_of(&path, true), LockHolder::Unknown);
        drop(writer.stdin.take());
        writer.wait().unwrap();
        take(&path, false).unwrap();
    }
}
