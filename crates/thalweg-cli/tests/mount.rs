//! `thalweg mount` and its kin, on this machine's kernel. A machine without FUSE, or a user who may not mount, skips
//! what mounts, with a line that says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn thalweg(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().unwrap()
}

fn done(arguments: &[&str]) -> String {
    let output = thalweg(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The standard error of a command that must end with a code.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = thalweg(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

struct Place {
    _folder: TempDir,
    volume: PathBuf,
    directory: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (volume, directory) = (folder.path().join("volume"), folder.path().join("mount point"));
        fs::create_dir(&directory).unwrap();
        done(&["fs", "format", volume.to_str().unwrap()]);
        Place { _folder: folder, volume, directory }
    }

    fn volume(&self) -> &str {
        self.volume.to_str().unwrap()
    }

    fn directory(&self) -> &str {
        self.directory.to_str().unwrap()
    }

    /// Mounts, unless this machine cannot.
    fn is_mounted(&self) -> bool {
        let can_mount = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
            && fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0\t");
        if can_mount {
            done(&["mount", self.volume(), self.directory()]);
        } else {
            eprintln!("skipped: needs /dev/fuse and root");
        }
        can_mount
    }

    /// The process that serves the mount.
    fn daemon(&self) -> i32 {
        let is_daemon = |process: &Path| {
            let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
            let has = |wanted: &str| arguments.split(|&byte| byte == 0).any(|argument| argument == wanted.as_bytes());
            has(self.volume()) && has("--foreground")
        };
        let mut processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let found = processes.find(|process| is_daemon(process)).expect("a daemon");
        found.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        thalweg(&["umount", "--lazy", self.directory()]);
    }
}

#[test]
fn what_was_written_is_there_after_an_unmount() {
    let place = Place::new();
    if !place.is_mounted() {
        return;
    }
    let file = place.directory.join("folder/rhine");
    fs::create_dir(place.directory.join("folder")).unwrap();
    fs::write(&file, "1233 km").unwrap();
    fs::hard_link(&file, place.directory.join("second")).unwrap();
    fs::write(place.directory.join("large"), vec![7; 3 << 20]).unwrap();
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
    assert!(done(&["fs", "stat", place.volume()]).contains("create"));
    done(&["fs", "sync", place.volume()]);
    done(&["umount", place.directory()]);
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    assert!(done(&["fs", "check", place.volume()]).contains("objects        1"));
    assert!(done(&["fs", "dump", place.volume()]).contains("/second pointer"));
    assert!(place.is_mounted());
    assert_eq!(fs::read(place.directory.join("second")).unwrap(), b"1233 km");
    assert_eq!(fs::read(place.directory.join("large")).unwrap(), vec![7; 3 << 20]);
    done(&["umount", place.directory()]);
}

#[test]
fn a_killed_daemon_loses_nothing_and_the_next_mount_takes_its_place() {
    let place = Place::new();
    if !place.is_mounted() {
        return;
    }
    for number in 0..200 {
        fs::write(place.directory.join(format!("file {number}")), format!("{number}")).unwrap();
    }
    let killed = Command::new("kill").args(["-9", &place.daemon().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(place.is_mounted());
    for number in 0..200 {
        let text = fs::read_to_string(place.directory.join(format!("file {number}"))).unwrap();
        assert_eq!(text, format!("{number}"));
    }
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
    done(&["umount", place.directory()]);
}

#[test]
fn a_mount_waits_for_the_daemon_of_the_mount_before() {
    let place = Place::new();
    for round in 0..5 {
        if !place.is_mounted() {
            return;
        }
        fs::write(place.directory.join(format!("file {round}")), vec![7; 300_000]).unwrap();
        // It returns while the daemon is still closing the volume.
        let unmounted = Command::new("umount").arg(&place.directory).status().unwrap();
        assert!(unmounted.success());
    }
    assert!(place.is_mounted());
    let other = place.directory.with_file_name("other");
    fs::create_dir(&other).unwrap();
    assert!(refused(&["mount", place.volume(), other.to_str().unwrap()], 32).contains("is open for writing"));
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 5);
    done(&["umount", place.directory()]);
}

#[test]
fn what_cannot_be_mounted_is_refused_with_a_reason() {
    let place = Place::new();
    let (volume, directory) = (place.volume(), place.directory());
    assert!(refused(&["mount", volume, directory, "-o", "ro,quota"], 2).contains("unknown mount option 'quota'"));
    assert!(refused(&["fs", "format", volume], 3).contains("is not empty"));
    assert!(refused(&["umount", directory], 1).contains("no volume is mounted on"));
    assert!(refused(&["fs", "stat", volume], 1).contains("is not mounted"));
    assert!(refused(&["fs", "check", directory], 1).contains("has no volume"));
    let inside = place.volume.join("objects");
    assert!(refused(&["mount", volume, inside.to_str().unwrap()], 32).contains("one is inside the other"));
    assert!(refused(&["mount", directory, volume], 32).contains("cannot mount"));
    if place.is_mounted() {
        let second = place.volume.with_file_name("second");
        fs::create_dir(&second).unwrap();
        let text = refused(&["mount", volume, second.to_str().unwrap()], 32);
        assert!(text.contains("open"), "{text}");
        let text = refused(&["fs", "dump", volume], 3);
        assert!(text.contains("open"), "{text}");
    }
}
