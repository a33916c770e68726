//! A volume does the same on every engine. An engine whose library is missing is left out, with a message.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, and says what it left out")]

use std::path::Path;
use thalweg_bench::{Error, Settings};
use thalweg_fs::{Caller, NewInode, READ, ROOT, RenameFlags, Volume, WRITE};
use thalweg_peers::volume::{STORES, Store, open};

const ME: Caller<'static> = Caller::ROOT;

/// Gives each engine's name and an empty folder to `check`, if the engine's library can be loaded.
fn each(check: impl Fn(&str, &Path)) {
    for store in STORES {
        let folder = tempfile::tempdir().unwrap();
        match open(store, &folder.path().join("trial"), &Settings::default()) {
            Ok(_) => check(store, &folder.path().join("volume")),
            Err(error @ Error::Engine { operation: "load its library", .. }) => eprintln!("left out: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn open_at(store: &str, path: &Path) -> Store {
    open(store, path, &Settings::default()).unwrap()
}

fn assert_sound(volume: &Volume) {
    let mut findings = Vec::new();
    volume.check(&mut |finding| findings.push(finding.to_string())).unwrap();
    assert_eq!(findings, Vec::<String>::new());
}

/// The names of a directory, listed `at_once` at a time.
fn names(volume: &Volume, directory: u64, at_once: usize) -> Vec<Vec<u8>> {
    let (mut names, mut offset) = (Vec::new(), 0);
    loop {
        let entries = volume.list(directory, offset, at_once, false).unwrap();
        let Some(last) = entries.last() else { break };
        offset = last.offset;
        names.extend(entries.into_iter().map(|entry| entry.name.to_vec()));
    }
    names.sort();
    names
}

#[test]
fn names_come_go_and_move() {
    each(|store, path| {
        let Store { volume, .. } = open_at(store, path);
        let rivers = volume.create(&ME, ROOT, b"rivers", NewInode::directory(0o755)).unwrap();
        let lakes = volume.create(&ME, ROOT, b"lakes", NewInode::directory(0o755)).unwrap();
        let rhine = volume.create(&ME, rivers.ino, b"rhine", NewInode::file(0o644)).unwrap();
        assert_eq!(volume.create(&ME, rivers.ino, b"rhine", NewInode::file(0)).unwrap_err().errno(), libc::EEXIST);
        volume.link(&ME, rhine.ino, lakes.ino, b"constance").unwrap();
        volume.rename(&ME, (rivers.ino, b"rhine"), (lakes.ino, b"rhein"), RenameFlags::default()).unwrap();
        assert_eq!(names(&volume, lakes.ino, 1), [&b"."[..], b"..", b"constance", b"rhein"]);
        assert_eq!(names(&volume, rivers.ino, 9), [&b"."[..], b".."]);
        assert_sound(&volume);
        volume.unlink(&ME, lakes.ino, b"constance").unwrap();
        assert_eq!(volume.lookup(&ME, lakes.ino, b"constance").unwrap_err().errno(), libc::ENOENT);
        assert_eq!(volume.lookup(&ME, lakes.ino, b"rhein").unwrap().nlink, 1);
        assert_eq!(volume.remove_directory(&ME, ROOT, b"lakes").unwrap_err().errno(), libc::ENOTEMPTY);
        volume.remove_directory(&ME, ROOT, b"rivers").unwrap();
        assert_sound(&volume);
        volume.close().unwrap();
    });
}

#[test]
fn a_listing_in_parts_has_every_name_once() {
    each(|store, path| {
        let Store { volume, .. } = open_at(store, path);
        let mut expected = vec![b".".to_vec(), b"..".to_vec()];
        for number in 0..1000 {
            let name = format!("n{number:04}").into_bytes();
            volume.create(&ME, ROOT, &name, NewInode::file(0o644)).unwrap();
            expected.push(name);
        }
        assert_eq!(names(&volume, ROOT, 7), expected, "{store}");
        assert_eq!(names(&volume, ROOT, 5000), expected, "{store}");
        volume.close().unwrap();
    });
}

#[test]
fn what_was_written_is_there_after_a_reopen() {
    each(|store, path| {
        let Store { volume, .. } = open_at(store, path);
        let file = volume.create(&ME, ROOT, b"bytes", NewInode::file(0o644)).unwrap();
        volume.open(&ME, file.ino, READ | WRITE).unwrap();
        volume.write(&ME, file.ino, 100_000, b"end").unwrap();
        volume.sync_file(file.ino).unwrap();
        volume.release(file.ino).unwrap();
        volume.close().unwrap();
        assert!(volume.lookup(&ME, ROOT, b"bytes").is_err());
        drop(volume);
        let store = open_at(store, path);
        let found = store.volume.resolve(&ME, b"/bytes").unwrap();
        assert_eq!((found.ino, found.size), (file.ino, 100_003));
        assert_eq!(store.volume.read(found.ino, 99_999, 9).unwrap(), b"\0end");
        assert_sound(&store.volume);
        store.settle().unwrap();
        store.volume.close().unwrap();
    });
}
