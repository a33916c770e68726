//! The first steps of an open: who may have the directory, and whose names are made durable.

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
        assert_eq!(outcomes.iter().filter(|outcome| outcome.as_ref().is_err_and(is_locked)).count(), 3, "{outcomes:?}");
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
