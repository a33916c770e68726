//! Programs that run from a mount. Skipped, with a line that says so, where nothing can be mounted.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

/// `O_TRUNC`.
const TRUNCATE: i32 = 0o1000;

fn thalweg(arguments: &[&str]) -> bool {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().unwrap().status.success()
}

#[test]
fn a_program_that_runs_is_not_truncated() {
    let can_mount = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
        && fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0\t");
    if !can_mount {
        return eprintln!("skipped: needs /dev/fuse and root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (volume, mount) = (folder.path().join("volume"), folder.path().join("mount"));
    let (volume, mount) = (volume.to_str().unwrap(), mount.to_str().unwrap());
    fs::create_dir(mount).unwrap();
    assert!(thalweg(&["fs", "format", volume]) && thalweg(&["mount", volume, mount]));
    let program = format!("{mount}/sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let bytes = fs::metadata(&program).unwrap().len();
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    // Opened for reading only: for writing, the kernel refuses before it asks anybody.
    let opened = File::options().read(true).custom_flags(TRUNCATE).open(&program);
    let left = fs::metadata(&program).unwrap().len();
    let runs = running.try_wait().unwrap().is_none();
    running.kill().unwrap();
    running.wait().unwrap();
    let truncated = File::create(&program).map(|_| fs::metadata(&program).unwrap().len());
    assert!(thalweg(&["umount", mount]) || thalweg(&["umount", "--lazy", mount]));
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(26), "ETXTBSY");
    assert_eq!((left, runs), (bytes, true));
    assert_eq!(truncated.unwrap(), 0, "once it has ended");
}
