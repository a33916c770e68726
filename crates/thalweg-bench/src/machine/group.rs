//! [`Group`]: a memory control group, so that a worker's data exceeds what the page cache may hold.
//!
//! The parent makes the group, and puts the worker in before the worker has its task. The group is removed when the
//! value is dropped. Version 1 counts page cache and anonymous memory together in `memory.limit_in_bytes`, version 2 in
//! `memory.max`. Swap is forbidden if the kernel allows this; with swap the limit would not bind.

use crate::error::{Error, Result};
use procfs::process::{MountInfo, Process};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A memory control group with a limit. It is removed on drop; the processes in it must have ended.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
}

/// The beginning of every group's name, before the number of the process that made it.
const PREFIX: &str = "thalweg-bench-";

/// Numbers the groups of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Attempts at removing a group, 10 ms apart: the kernel releases a group a moment after its last process was waited
/// for.
const ATTEMPTS_MAX: u32 = 100;

impl Group {
    /// Makes a group that may have `limit` bytes.
    ///
    /// # Errors
    /// `Said`, with what to do about it: there is no memory controller, or it may not be used.
    pub fn new(limit: u64) -> Result<Group> {
        let mounts = Process::myself().and_then(|process| process.mountinfo());
        let mounts: Vec<MountInfo> =
            mounts.map_err(|error| super::refused("read /proc/self/mountinfo", error))?.into_iter().collect();
        let one = mounts.iter().find(|m| m.fs_type == "cgroup" && m.super_options.contains_key("memory"));
        if let Some(mount) = one {
            return Group::with(
                &mount.mount_point,
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                limit,
                limit,
            );
        }
        let two = mounts.iter().filter(|m| m.fs_type == "cgroup2").find(|m| hands_down_memory(&m.mount_point));
        let Some(mount) = two else {
            return Err(Error::Said(
                "--memory-limit needs the memory control group: mount cgroup version 1's memory controller, or write \
                 +memory to cgroup.subtree_control in the root of version 2; or leave the limit out"
                    .into(),
            ));
        };
        Group::with(&mount.mount_point, "memory.max", "memory.swap.max", limit, 0)
    }

    /// Makes a group below `root` and writes its limits; the file `swap` may not exist.
    fn with(root: &Path, memory: &str, swap: &str, limit: u64, swap_limit: u64) -> Result<Group> {
        sweep(root);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| not_permitted("make", &directory, &error))?;
        let group = Group { directory };
        let file = group.directory.join(memory);
        fs::write(&file, limit.to_string()).map_err(|error| not_permitted("write", &file, &error))?;
        // Not every kernel counts swap.
        let _ = fs::write(group.directory.join(swap), swap_limit.to_string());
        Ok(group)
    }

    /// Puts a process in.
    ///
    /// # Errors
    /// `Said`, with what to do about it.
    pub fn add(&self, pid: u32) -> Result<()> {
        let file = self.directory.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(|error| not_permitted("write", &file, &error))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS_MAX {
            match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                // Other errors do not go away by waiting, and a drop cannot report them.
                _ => return,
            }
        }
    }
}

/// Removes groups whose makers were killed before they could remove them. The kernel refuses to remove a group that
/// holds a process.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        let maker = maker.and_then(|pid| pid.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another process may have removed the group first.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether groups below this root of version 2 have a memory controller.
fn hands_down_memory(root: &Path) -> bool {
    let controllers = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|controller| controller == "memory")
}

fn not_permitted(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Said(format!(
        "--memory-limit needs a memory control group, but cannot {what} {}: {error}; run it as root, or in a group \
         that is yours, or leave the limit out",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_holds_a_process_and_goes_with_the_value_or_says_what_to_do() {
        let group = match Group::new(64 << 20) {
            Ok(group) => group,
            Err(error) => {
                assert!(error.to_string().contains("--memory-limit needs"), "{error}");
                return;
            }
        };
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let added = group.add(child.id());
        let members = fs::read_to_string(group.directory.join("cgroup.procs")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        added.unwrap();
        assert_eq!(members.trim(), child.id().to_string());
        let directory = group.directory.clone();
        drop(group);
        assert!(!directory.exists());
    }

    #[test]
    fn groups_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let root = std::env::temp_dir().join(format!("thalweg-sweep-{}", std::process::id()));
        // No process has a number above 2^22.
        let (dead, other) = (root.join("thalweg-bench-4194305-0"), root.join("thalweg-bench-x"));
        let living = root.join(format!("thalweg-bench-{}-7", std::process::id()));
        for directory in [&dead, &other, &living] {
            fs::create_dir_all(directory).unwrap();
        }
        sweep(&root);
        let left = [&dead, &other, &living].map(|directory| directory.exists());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn a_folder_that_refuses_is_named_with_what_to_do() {
        let error = Group::with(Path::new("/proc"), "memory.max", "memory.swap.max", 1, 0).unwrap_err().to_string();
        assert!(error.contains("cannot make /proc/thalweg-bench-"), "{error}");
        assert!(error.contains("leave the limit out"), "{error}");
    }
}
