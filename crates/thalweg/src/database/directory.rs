//! The directory of a database: its lock, the files that may be in it, and the syncs that make its name durable.

use crate::error::{Error, Result};
use crate::lineage::FAST;
use crate::runtime::Environment;
use crate::storage::{Storage, StorageLock};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file whose lock is held by the process that has the database open.
pub(super) const LOCK: &str = "LOCK";

/// Whether a file or folder of this name belongs to a database. A directory that has other files and no database is
/// refused.
fn is_ours(name: &str) -> bool {
    matches!(
        name,
        LOCK | "STATUS" | "CURRENT" | "CURRENT.new" | "RESERVE" | FAST | "FAST.new" | "log" | "tables" | "lost"
    ) || name.starts_with("manifest-")
}

pub(super) fn lock_for_writing(storage: &dyn Storage, root: &Path, create: bool) -> Result<Box<dyn StorageLock>> {
    let path = root.join(LOCK);
    if storage.list(root)?.is_none() {
        if !create {
            return Err(Error::NoDatabase { path: Arc::from(root) });
        }
        storage.create_directory(root)?;
    }
    if storage.file_bytes(&path)?.is_none() {
        refuse_foreign(storage, root, create)?;
        match storage.create(&path) {
            // Another first open was faster: the lock decides which one has the database.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
    }
    storage.lock(&path, false)
}

/// Makes the names of a new directory, and of those above it that may be new too, durable.
pub(super) fn sync_ancestors(storage: &dyn Storage, root: &Path) -> Result<()> {
    let parents = root.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let working = root.is_relative().then_some(Path::new("."));
    for parent in parents.chain(working) {
        match storage.sync_directory(parent) {
            // A directory that may not be opened was not created by us either.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => break,
            // The file system of `parent` (squashfs, autofs, proc) has no sync of directories, and does not lose names.
            // The file system of the database is mounted below it.
            Err(Error::Io { source, .. }) if has_no_sync(&source) => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Whether the error of `fsync` says that the file system has no sync of directories.
fn has_no_sync(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::ReadOnlyFilesystem)
}

fn refuse_foreign(storage: &dyn Storage, root: &Path, create: bool) -> Result<()> {
    let entries = storage.list(root)?.unwrap_or_default();
    // A creation that was cut off leaves `FAST` without `CURRENT`: its fast tier may lie in the root, under any name.
    if entries.iter().any(|entry| entry.name == "CURRENT") || create && entries.iter().any(|entry| entry.name == FAST) {
        return Ok(());
    }
    if !create {
        return Err(Error::NoDatabase { path: Arc::from(root) });
    }
    match entries.iter().find(|entry| !is_ours(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(Error::invalid_input(format!(
            "{} holds no database but other files ({:?}); give a new or empty directory",
            root.display(),
            entry.name
        ))),
    }
}

pub(super) fn lock_for_reading(environment: &Environment, root: &Path) -> Result<Option<Box<dyn StorageLock>>> {
    let path: PathBuf = root.join("LOCK");
    if environment.storage.file_bytes(&path)?.is_none() {
        // Never opened for writing (a checkpoint), or no database at all: recovery will tell.
        return Ok(None);
    }
    environment.storage.lock(&path, true).map(Some)
}

/// Creates what a new database needs, durably.
pub(super) fn create_layout(environment: &Environment, root: &Path, create: bool) -> Result<()> {
    refuse_foreign(&*environment.storage, root, create)?;
    // Here and not where the directory is created: an earlier open may have created it and crashed before this.
    sync_ancestors(&*environment.storage, root)?;
    environment.storage.create_directory(&root.join("log"))?;
    environment.storage.create_directory(&root.join("tables"))?;
    environment.storage.sync_directory(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LinuxStorage;
    use crate::storage::simulated::{SimulatedDisk, Strictness};
    use std::sync::Barrier;

    #[test]
    fn of_first_opens_at_once_one_gets_the_lock_and_the_others_hear_that_it_is_taken() {
        let root = std::env::temp_dir().join(format!("thalweg-{}-first-opens", std::process::id()));
        for _ in 0..300 {
            let (start, end) = (Barrier::new(4), Barrier::new(4));
            let open = || {
                start.wait();
                let lock = lock_for_writing(&LinuxStorage, &root, true);
                // Nobody lets go before everybody has tried.
                end.wait();
                lock.map(drop)
            };
            let outcomes = std::thread::scope(|scope| {
                let threads = [0; 4].map(|_| scope.spawn(open));
                threads.map(|thread| thread.join().unwrap())
            });
            let _ = std::fs::remove_dir_all(&root);
            assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
            let is_locked = |error: &Error| matches!(error, Error::Locked { .. });
            assert_eq!(
                outcomes.iter().filter(|outcome| outcome.as_ref().is_err_and(is_locked)).count(),
                3,
                "{outcomes:?}"
            );
        }
    }

    #[test]
    fn a_file_system_above_that_cannot_sync_directories_is_no_obstacle() {
        let disk = SimulatedDisk::new(1);
        disk.mount_below(2);
        disk.create_directory(Path::new("/a/b/c/d")).unwrap();
        assert!(disk.sync_directory(Path::new("/")).is_err() && disk.sync_directory(Path::new("/a")).is_err());
        sync_ancestors(&disk, Path::new("/a/b/c/d")).unwrap();
        let after = disk.crash(Strictness::LoseUnsynced);
        assert!(after.list(Path::new("/a/b/c/d")).unwrap().is_some(), "its own names are durable");
        sync_ancestors(&LinuxStorage, Path::new("/proc/self/task/database")).unwrap();
    }

    #[test]
    fn an_ancestor_that_fails_to_sync_is_an_error() {
        use crate::storage::simulated::{FaultPlan, OperationKinds};
        let disk = SimulatedDisk::new(1);
        disk.create_directory(Path::new("/a/b")).unwrap();
        disk.set_faults(Some(FaultPlan::once(2).only(OperationKinds::SYNCS)));
        assert!(sync_ancestors(&disk, Path::new("/a/b")).is_err());
    }
}
