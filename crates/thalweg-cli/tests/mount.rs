//! `thalweg mount` and its kin, on this machine's kernel. A machine without FUSE, or a user who may not mount, skips
//! what mounts, with a line that says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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
        // So that other users reach the mount.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
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
        self.is_mounted_with("rw")
    }

    /// Mounts so that the kernel reads and writes large files itself, unless this machine cannot.
    fn is_passed(&self) -> bool {
        let is_passed = self.is_mounted_with("suid") && self.stat("passthrough").starts_with("on");
        if !is_passed {
            eprintln!("skipped: needs passthrough (Linux 6.9, CAP_SYS_ADMIN)");
        }
        is_passed
    }

    fn is_mounted_with(&self, options: &str) -> bool {
        let can_mount = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
            && fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0\t");
        if can_mount {
            done(&["mount", self.volume(), self.directory(), "-o", options]);
        } else {
            eprintln!("skipped: needs /dev/fuse and root");
        }
        can_mount
    }

    /// What `fs stat` says of `name`; of an operation, how often it was asked for.
    fn stat(&self, name: &str) -> String {
        let text = done(&["fs", "stat", self.volume()]);
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0").trim_start().to_owned();
        if name == "passthrough" { line } else { line.split(' ').next().unwrap().to_owned() }
    }

    /// Writes a file that holds `bytes` times the letter 'a'. A file of more than 256 KiB is an object.
    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, vec![b'a'; bytes]).unwrap();
        path
    }

    fn kill_daemon(&self) {
        assert!(Command::new("kill").args(["-9", &self.daemon().to_string()]).status().unwrap().success());
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

/// What `fs check --json` prints of a volume that is sound.
fn checked_as_json(place: &Place) -> Value {
    let checked: Value = serde_json::from_str(&done(&["fs", "check", place.volume(), "--json"])).unwrap();
    assert_eq!((&checked["findings"], &checked["notes"]), (&json!([]), &json!([])));
    checked
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
    let counts = checked_as_json(&place)["counts"].clone();
    assert_eq!((counts["files"].as_u64(), counts["entries"].as_u64()), (Some(2), Some(4)));
    assert!(done(&["fs", "stat", place.volume()]).contains("create"));
    done(&["fs", "sync", place.volume()]);
    done(&["umount", place.directory()]);
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    assert!(done(&["fs", "check", place.volume()]).contains("objects        1"));
    assert_eq!(checked_as_json(&place)["counts"]["objects"], 1);
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
    place.kill_daemon();
    assert!(place.is_mounted());
    for number in 0..200 {
        let text = fs::read_to_string(place.directory.join(format!("file {number}"))).unwrap();
        assert_eq!(text, format!("{number}"));
    }
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
    done(&["umount", place.directory()]);
}

#[test]
fn a_check_finds_the_same_as_text_and_as_json() {
    let place = Place::new();
    let volume = place.volume();
    assert_eq!(checked_as_json(&place)["counts"]["directories"], 1);
    // A file that no row knows is a note; a root without its row is a finding.
    let folder = place.volume.join("objects/00");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0000000000000007"), "left").unwrap();
    let noted: Value = serde_json::from_str(&done(&["fs", "check", volume, "--json"])).unwrap();
    assert_eq!(noted["notes"].as_array().unwrap().len(), 1, "{noted}");
    assert!(done(&["fs", "check", volume]).starts_with("note: object 7: "));
    let database = thalweg::Database::open(place.volume.join("db")).unwrap();
    database.keyspace("data").unwrap().insert(vec![0; 16], "of nobody").unwrap();
    database.close().unwrap();
    let output = thalweg(&["fs", "check", volume, "--json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["findings"][0]["about"], "data of inode 0", "{found}");
    assert_eq!(found["counts"]["findings"], 1);
    assert_eq!(thalweg(&["fs", "check", volume]).status.code(), Some(3));
    if place.is_mounted() {
        let output = thalweg(&["fs", "check", volume, "--json"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["findings"], found["findings"]);
    }
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
    assert!(refused(&["fs", "check", directory, "--json"], 1).contains("has no volume"));
    let inside = place.volume.join("objects");
    assert!(refused(&["mount", volume, inside.to_str().unwrap()], 32).contains("one is inside the other"));
    assert!(refused(&["mount", directory, volume], 32).contains("cannot mount"));
    // Nothing is left where there is no volume.
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
    if place.is_mounted() {
        let second = place.volume.with_file_name("second");
        fs::create_dir(&second).unwrap();
        let text = refused(&["mount", volume, second.to_str().unwrap()], 32);
        assert!(text.contains("open"), "{text}");
        let text = refused(&["fs", "dump", volume], 3);
        assert!(text.contains("open"), "{text}");
    }
}

const MIB: usize = 1 << 20;

fn opened(path: &Path, flags: i32) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// Runs a command of the shell as nobody, with the file as `$0`.
fn as_nobody(command: &str, file: &Path) {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command];
    assert!(Command::new("setpriv").args(nobody).arg(file).status().unwrap().success());
}

/// Waits until something is so: the kernel tells the daemon of a close only after `close` has returned.
fn until(is_so: impl Fn() -> bool) {
    let mut looks = (0..500).inspect(|_| std::thread::sleep(std::time::Duration::from_millis(20)));
    assert!(is_so() || looks.any(|_| is_so()), "not within ten seconds");
}

/// Writes to a file through a mapping that outlives the handle, and then says the file's time of change.
const MAPPED_WRITE: &str = "
import mmap, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR)
mapped = mmap.mmap(handle, 4096)
private = mmap.mmap(handle, 4096, flags=mmap.MAP_PRIVATE)
os.close(handle)
mapped[0:6] = b'mapped'
private[0:7] = b'private'
if len(sys.argv) > 2:
    os.unlink(sys.argv[1])
    time.sleep(3)
    assert mapped[0:6] == b'mapped' and mapped[4095:4096] == b'a'
";

fn mapped_write(arguments: &[&str]) -> bool {
    let ran = Command::new("python3").args(["-c", MAPPED_WRITE]).args(arguments).status();
    let Ok(status) = ran else {
        eprintln!("skipped: needs python3");
        return false;
    };
    assert!(status.success());
    true
}

#[test]
fn the_kernel_writes_large_files_itself_and_everybody_sees_their_size_and_times() {
    let place = Place::new();
    if !place.is_passed() {
        return;
    }
    let path = place.file("large", 4 * MIB);
    let (writes, reads) = (place.stat("write"), place.stat("read "));
    let mut file = opened(&path, 0);
    assert!(place.stat("passthrough").ends_with("1 files"));
    let before = fs::metadata(&path).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(&vec![b'b'; MIB]).unwrap();
    let sizes = || (fs::metadata(&path).unwrap().len(), file.metadata().unwrap().len());
    assert_eq!(sizes(), (5 * MIB as u64, 5 * MIB as u64));
    let after = fs::metadata(&path).unwrap();
    assert!(after.modified().unwrap() > before.modified().unwrap());
    assert!((after.ctime(), after.ctime_nsec()) > (before.ctime(), before.ctime_nsec()));
    let listed = fs::read_dir(&place.directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(listed.collect::<Vec<_>>(), [5 * MIB as u64]);
    let mut read = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!((read.len(), read[4 * MIB - 1], read[4 * MIB]), (5 * MIB, b'a', b'b'));
    assert_eq!((place.stat("write"), place.stat("read ")), (writes, reads), "the daemon saw a read or a write");
    // By the daemon, of the same file.
    file.set_len(3 * MIB as u64).unwrap();
    assert_eq!(sizes(), (3 * MIB as u64, 3 * MIB as u64));
    file.write_all_at(b"end", 6 * MIB as u64).unwrap();
    file.sync_all().unwrap();
    drop(file);
    until(|| place.stat("passthrough").ends_with("0 files"));
    let told = fs::metadata(&path).unwrap();
    place.kill_daemon();
    assert!(place.is_passed());
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.len(), found.mtime_nsec()), (told.len(), told.mtime_nsec()));
    done(&["umount", place.directory()]);
    assert!(done(&["fs", "dump", place.volume()]).contains(&format!("size={} ", 6 * MIB + 3)));
    assert!(place.is_passed());
    assert_eq!(fs::metadata(&path).unwrap().len(), 6 * MIB as u64 + 3);
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
}

#[test]
fn a_write_past_the_daemon_takes_privileges() {
    let place = Place::new();
    if !place.is_mounted_with("suid") {
        return;
    }
    // Through the daemon, by the handle that was open before the file became an object, and past it.
    for options in ["suid", "suid,no_passthrough"] {
        let path = place.file("program", 2 * MIB);
        let privileges = || fs::metadata(&path).unwrap().mode() & 0o7777;
        let give = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        give(0o4777);
        as_nobody("printf x >> \"$0\"", &path);
        assert_eq!(privileges(), 0o777, "{options}");
        give(0o6777);
        as_nobody("printf x | dd of=\"$0\" conv=notrunc status=none", &path);
        assert_eq!(privileges(), 0o777, "{options}");
        give(0o4777);
        as_nobody(": > \"$0\"", &path);
        assert_eq!((privileges(), fs::metadata(&path).unwrap().len()), (0o777, 0), "{options}");
        give(0o4777);
        File::options().append(true).open(&path).unwrap().write_all(b"root").unwrap();
        assert_eq!(privileges(), 0o4777, "{options}");
        done(&["umount", place.directory()]);
        place.is_mounted_with(&format!("{options},no_passthrough"));
    }
}

#[test]
fn a_file_that_is_open_when_it_becomes_an_object_stays_with_the_daemon() {
    let place = Place::new();
    if !place.is_passed() {
        return;
    }
    let path = place.directory.join("growing");
    let first = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    first.write_all_at(b"small", 0).unwrap();
    first.write_all_at(b"large", 2 * MIB as u64).unwrap();
    let second = opened(&path, 0);
    second.write_all_at(b"other", 0).unwrap();
    assert!(place.stat("passthrough").ends_with("0 files"));
    let mut read = [0; 5];
    first.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"other");
    let releases = || place.stat("release").parse::<u64>().unwrap();
    let before = releases();
    drop((first, second));
    until(|| releases() >= before + 2);
    let third = opened(&path, 0);
    assert!(place.stat("passthrough").ends_with("1 files"));
    let fourth = opened(&path, 0);
    third.write_all_at(b"third", 0).unwrap();
    fourth.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"third");
    // Without its name and with another file in its place.
    let small = place.file("small", 10);
    fs::rename(&small, &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"aaaaaaaaaa");
    third.write_all_at(b"still", 3 * MIB as u64).unwrap();
    fourth.read_exact_at(&mut read, 3 * MIB as u64).unwrap();
    assert_eq!((&read, third.metadata().unwrap().nlink()), (b"still", 0));
    drop((third, fourth));
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
}

#[test]
fn a_large_file_that_is_open_replaces_another_and_is_synced() {
    let place = Place::new();
    if !place.is_passed() {
        return;
    }
    let (new, old) = (place.file("new", 2 * MIB), place.file("old", 2 * MIB));
    for flags in [0, libc::O_SYNC, libc::O_DSYNC, libc::O_DIRECT] {
        let file = opened(&new, flags);
        until(|| place.stat("passthrough").ends_with("1 files"));
        if flags != libc::O_DIRECT {
            file.write_all_at(b"new", 0).unwrap();
        }
        fs::copy(&new, &old).unwrap();
        fs::rename(&new, &old).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().ino(), fs::metadata(&old).unwrap().ino());
        fs::rename(&old, &new).unwrap();
    }
    done(&["fs", "sync", place.volume()]);
    assert_eq!(&fs::read(&new).unwrap()[..4], b"newa");
}

#[test]
fn a_mapped_file_is_written_past_the_daemon_also_after_its_last_close() {
    let place = Place::new();
    if !place.is_passed() {
        return;
    }
    let path = place.file("mapped", 2 * MIB);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    if !mapped_write(&[path.to_str().unwrap()]) {
        return;
    }
    // The daemon looks once a second.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > before);
    assert_eq!(&fs::read(&path).unwrap()[..7], b"mappeda");
    // Without a name and without a handle: its bytes are not cut while somebody has them.
    opened(&path, 0).set_len(3 << 30).unwrap();
    assert!(mapped_write(&[path.to_str().unwrap(), "unlink"]));
    assert!(done(&["fs", "check", place.volume()]).contains("findings       0"));
}

#[test]
fn a_program_runs_from_a_large_file_unless_somebody_writes_it() {
    let place = Place::new();
    if !place.is_passed() {
        return;
    }
    let path = place.directory.join("program");
    fs::copy("/bin/true", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    opened(&path, 0).set_len(3 * MIB as u64).unwrap();
    let writer = opened(&path, 0);
    assert_eq!(Command::new(&path).status().unwrap_err().raw_os_error(), Some(libc::ETXTBSY));
    drop(writer);
    assert!(Command::new(&path).status().unwrap().success());
}

#[test]
fn passthrough_can_be_turned_off() {
    let place = Place::new();
    if !place.is_mounted_with("no_passthrough") {
        return;
    }
    assert_eq!(place.stat("passthrough"), "off: -o no_passthrough");
    let path = place.file("large", 2 * MIB);
    let writes = place.stat("write");
    opened(&path, 0).write_all_at(b"x", 0).unwrap();
    assert_ne!(place.stat("write"), writes);
}

#[test]
fn a_disk_that_the_kernel_filled_has_room_for_removals() {
    let mut place = Place::new();
    let small = place.volume.with_file_name("small");
    fs::create_dir(&small).unwrap();
    let is_there = |done: std::io::Result<Output>| done.is_ok_and(|output| output.status.success());
    let mount = ["-t", "tmpfs", "-o", "size=512m", "none"];
    if !is_there(Command::new("mount").args(mount).arg(&small).output()) {
        eprintln!("skipped: needs root");
        return;
    }
    place.volume = small.join("volume");
    done(&["fs", "format", place.volume()]);
    if place.is_passed() {
        let path = place.file("large", 2 * MIB);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let error = (0..2048).find_map(|_| file.write_all(&vec![7; MIB]).err()).unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        drop(file);
        fs::remove_file(&path).unwrap();
        done(&["fs", "sync", place.volume()]);
        // The object's file goes in the background.
        let is_written = |_: &i32| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            fs::write(place.directory.join("again"), vec![7; 4 * MIB]).is_ok()
        };
        assert!((0..50).any(|round| is_written(&round)));
    }
    thalweg(&["umount", place.directory()]);
    assert!(is_there(Command::new("umount").arg("--lazy").arg(&small).output()));
}
