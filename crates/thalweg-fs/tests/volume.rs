//! A volume, operation by operation.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use tempfile::TempDir;
use thalweg_fs::{
    Caller, CheckEvent, CheckProgress, FormatOptions, NewInode, OpenOptions, READ, ROOT, Reclaimable, RenameFlags,
    Volume, WRITE,
};

const ME: Caller<'static> = Caller::ROOT;

fn volume() -> (TempDir, Volume) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    Volume::format(&path, FormatOptions::default()).unwrap();
    let volume = OpenOptions::new().open(&path).unwrap();
    (folder, volume)
}

fn reopened(folder: &TempDir, volume: Volume) -> Volume {
    volume.close().unwrap();
    drop(volume);
    OpenOptions::new().open(folder.path().join("volume")).unwrap()
}

fn assert_sound(volume: &Volume) {
    let mut findings = Vec::new();
    volume.check(&mut |finding| findings.push(finding.to_string())).unwrap();
    assert_eq!(findings, Vec::<String>::new());
}

#[test]
fn what_was_written_is_there_after_a_reopen() {
    let (folder, volume) = volume();
    let directory = volume.create(&ME, ROOT, b"rivers", NewInode::directory(0o755)).unwrap();
    let file = volume.create(&ME, directory.ino, b"rhine", NewInode::file(0o644)).unwrap();
    volume.open(&ME, file.ino, READ | WRITE).unwrap();
    volume.write(&ME, file.ino, 0, b"1233 km").unwrap();
    volume.write(&ME, file.ino, 200_000, &[7; 100_000]).unwrap();
    volume.write(&ME, file.ino, 1, b"999").unwrap();
    volume.release(file.ino).unwrap();
    assert_sound(&volume);
    let volume = reopened(&folder, volume);
    let found = volume.resolve(&ME, b"/rivers/rhine").unwrap();
    assert_eq!((found.ino, found.size), (file.ino, 300_000));
    assert_eq!(volume.read(found.ino, 0, 8).unwrap(), b"1999 km\0");
    assert_eq!(volume.read(found.ino, 199_999, 3).unwrap(), [0, 7, 7]);
    assert_sound(&volume);
}

#[test]
fn data_and_holes_are_found_in_blocks() {
    let (_folder, volume) = volume();
    let ino = volume.create(&ME, ROOT, b"holed", NewInode::file(0o644)).unwrap().ino;
    volume.open(&ME, ino, WRITE).unwrap();
    volume.write(&ME, ino, 10_000, b"x").unwrap();
    volume.write(&ME, ino, 99_999, b"y").unwrap();
    let seek = |offset, is_hole| volume.seek(ino, offset, is_hole).map_err(|error| error.errno());
    assert_eq!((seek(0, false), seek(0, true)), (Ok(8192), Ok(0)));
    assert_eq!((seek(9000, false), seek(9000, true)), (Ok(9000), Ok(12_288)));
    assert_eq!((seek(11_000, false), seek(12_288, false)), (Ok(11_000), Ok(98_304)));
    assert_eq!((seek(98_304, true), seek(99_999, true)), (Ok(100_000), Ok(100_000)));
    assert_eq!((seek(100_000, true), seek(100_000, false)), (Err(libc::ENXIO), Err(libc::ENXIO)));
    volume.release(ino).unwrap();
}

#[test]
fn a_large_file_becomes_an_object_and_goes_with_its_name() {
    let (folder, volume) = volume();
    let file = volume.create(&ME, ROOT, b"large", NewInode::file(0o644)).unwrap();
    volume.open(&ME, file.ino, WRITE).unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|byte| (byte % 251) as u8).collect();
    for (index, part) in bytes.chunks(70_000).enumerate() {
        volume.write(&ME, file.ino, index as u64 * 70_000, part).unwrap();
    }
    assert!(volume.has_object(file.ino));
    assert_eq!(volume.read(file.ino, 0, bytes.len()).unwrap(), bytes);
    assert_sound(&volume);
    volume.release(file.ino).unwrap();
    volume.forget(file.ino, 1);
    let volume = reopened(&folder, volume);
    let found = volume.lookup(&ME, ROOT, b"large").unwrap();
    assert_eq!(found.size, 3_000_000);
    assert_eq!(volume.read(found.ino, 0, bytes.len()).unwrap(), bytes);
    volume.unlink(&ME, ROOT, b"large").unwrap();
    let left = volume.reclaimable().unwrap();
    assert_eq!((left.orphans, left.objects), (0, 1), "open only as far as it is known by its number");
    assert!(left.object_bytes >= 3_000_000, "{left:?}");
    assert_eq!(volume.work().unwrap().removed, 1);
    assert_eq!(volume.reclaimable().unwrap(), Reclaimable::default());
    let report = volume.check(&mut |finding| panic!("{finding}")).unwrap();
    assert_eq!((report.objects, report.files), (0, 0));
}

#[test]
fn an_open_file_without_a_name_can_be_read_until_it_is_closed() {
    let (folder, volume) = volume();
    let file = volume.create(&ME, ROOT, b"a", NewInode::file(0o600)).unwrap();
    volume.open(&ME, file.ino, READ | WRITE).unwrap();
    volume.write(&ME, file.ino, 0, b"kept").unwrap();
    volume.unlink(&ME, ROOT, b"a").unwrap();
    assert_eq!(volume.lookup(&ME, ROOT, b"a").unwrap_err().errno(), libc::ENOENT);
    assert_eq!(volume.read(file.ino, 0, 9).unwrap(), b"kept");
    assert_eq!(volume.reclaimable().unwrap(), Reclaimable { orphans: 1, ..Default::default() });
    assert_sound(&volume);
    // Left open, as by a killed process: the next mount removes it.
    let volume = reopened(&folder, volume);
    assert_eq!(volume.work().unwrap().orphans, 1);
    let report = volume.check(&mut |finding| panic!("{finding}")).unwrap();
    assert_eq!((report.orphans, report.files, report.row_bytes), (0, 0, 0));
}

#[test]
fn a_database_that_is_no_volume_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = thalweg::Database::open(&path).unwrap();
    database.keyspace("rivers").unwrap().insert("Rhine", "1233 km").unwrap();
    database.close().unwrap();
    let refused = OpenOptions::new().open(folder.path()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("no volume"), "{refused}");
    assert!(Volume::check_at(folder.path(), &mut |_| ()).is_err());
    let database = thalweg::Database::open(&path).unwrap();
    assert_eq!(database.keyspaces(), ["rivers"]);
}

/// As a shell sees it whose working directory was removed.
#[test]
fn a_removed_directory_that_is_in_use_can_be_opened_and_is_empty() {
    let (_folder, volume) = volume();
    let directory = volume.create(&ME, ROOT, b"d", NewInode::directory(0o755)).unwrap().ino;
    volume.remove_directory(&ME, ROOT, b"d").unwrap();
    volume.open(&ME, directory, READ).unwrap();
    assert_eq!(volume.list_xattrs(&ME, directory).unwrap(), Vec::<Box<[u8]>>::new());
    assert_eq!(volume.xattr(&ME, directory, b"user.a").unwrap_err().errno(), libc::ENODATA);
    let created = volume.create(&ME, directory, b"f", NewInode::file(0o644));
    assert_eq!(created.unwrap_err().errno(), libc::ENOENT);
    volume.release(directory).unwrap();
    volume.forget(directory, 1);
    assert_sound(&volume);
}

/// The kernel knows all groups of a caller that it has checked.
#[test]
fn set_group_id_of_a_new_file_is_for_members_of_the_group() {
    let (_folder, volume) = volume();
    let directory = volume.create(&ME, ROOT, b"d", NewInode::directory(0o2777)).unwrap().ino;
    let made = |caller: &Caller<'_>, name: &[u8]| {
        volume.create(caller, directory, name, NewInode::file(0o2775)).unwrap().mode & 0o7777
    };
    assert_eq!(made(&Caller { uid: 5, gid: 5, groups: &[], is_checked: false }, b"other"), 0o775);
    assert_eq!(made(&Caller { uid: 5, gid: 5, groups: &[0], is_checked: false }, b"member"), 0o2775);
    assert_eq!(made(&Caller::checked(5, 5), b"checked"), 0o2775);
}

#[test]
fn names_move_replace_and_change_places() {
    let (_folder, volume) = volume();
    let a = volume.create(&ME, ROOT, b"a", NewInode::directory(0o755)).unwrap().ino;
    let b = volume.create(&ME, a, b"b", NewInode::directory(0o755)).unwrap().ino;
    let file = volume.create(&ME, b, b"file", NewInode::file(0o644)).unwrap().ino;
    let errno = |result: thalweg_fs::Result<()>| result.unwrap_err().errno();
    let replace = RenameFlags::Replace;
    assert_eq!(errno(volume.rename(&ME, (ROOT, b"a"), (b, b"a"), replace)), libc::EINVAL);
    assert_eq!(errno(volume.rename(&ME, (a, b"b"), (ROOT, b"a"), replace)), libc::ENOTEMPTY);
    volume.link(&ME, file, ROOT, b"second").unwrap();
    volume.rename(&ME, (ROOT, b"second"), (b, b"file"), replace).unwrap();
    assert_eq!(volume.attributes(file).unwrap().nlink, 2, "two names of one file: nothing happens");
    let other = volume.create(&ME, ROOT, b"other", NewInode::file(0o644)).unwrap().ino;
    volume.rename(&ME, (ROOT, b"other"), (b, b"file"), replace).unwrap();
    assert_eq!(volume.attributes(file).unwrap().nlink, 1);
    assert_eq!(volume.lookup(&ME, b, b"file").unwrap().ino, other);
    volume.rename(&ME, (a, b"b"), (ROOT, b"second"), RenameFlags::Exchange).unwrap();
    assert_eq!(volume.lookup(&ME, ROOT, b"second").unwrap().ino, b);
    assert_eq!(volume.attributes(a).unwrap().nlink, 2);
    assert_eq!(volume.attributes(ROOT).unwrap().nlink, 4);
    assert_sound(&volume);
}

#[test]
fn a_listing_goes_on_from_each_of_its_entries() {
    let (_folder, volume) = volume();
    for number in 0..300 {
        volume.create(&ME, ROOT, format!("file {number}").as_bytes(), NewInode::file(0o644)).unwrap();
    }
    let all = volume.list(ROOT, 0, 1000, false).unwrap();
    assert_eq!(all.len(), 302);
    let mut one_by_one = Vec::new();
    let mut offset = 0;
    while let [entry] = &volume.list(ROOT, offset, 1, true).unwrap()[..] {
        offset = entry.offset;
        one_by_one.push(entry.name.clone());
    }
    assert_eq!(one_by_one, all.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>());
}

#[test]
fn a_path_leads_to_the_same_inode_for_root_and_for_others() {
    let (_folder, volume) = volume();
    let a = volume.create(&ME, ROOT, b"a", NewInode::directory(0o755)).unwrap();
    let b = volume.create(&ME, a.ino, b"b", NewInode::directory(0o755)).unwrap();
    let c = volume.create(&ME, b.ino, b"c", NewInode::file(0o644)).unwrap();
    let closed = volume.create(&ME, ROOT, b"closed", NewInode::directory(0o700)).unwrap();
    volume.create(&ME, closed.ino, b"d", NewInode::directory(0o755)).unwrap();
    volume.create(&ME, b.ino, b"up", NewInode::symlink(b"../../a/b")).unwrap();
    for ino in [a.ino, b.ino, c.ino, closed.ino] {
        volume.forget(ino, 1);
    }
    let somebody = Caller { uid: 1000, gid: 1000, groups: &[], is_checked: false };
    let long = [&b"/a/"[..], &[b'n'; 300], b"/c"].concat();
    let paths: [(&[u8], _); 10] = [
        (b"/", Ok(ROOT)),
        (b"/a/b/c", Ok(c.ino)),
        (b"/a/b/../b/./c", Ok(c.ino)),
        (b"a/b/up/up/c", Ok(c.ino)),
        (b"//a//b/", Ok(b.ino)),
        (b"/../../a", Ok(a.ino)),
        (b"/a/none/c", Err(libc::ENOENT)),
        (b"/a/b/c/d", Err(libc::ENOTDIR)),
        (b"/a/b/c/", Err(libc::ENOTDIR)),
        (&long, Err(libc::ENAMETOOLONG)),
    ];
    for (path, expected) in paths {
        for caller in [ME, somebody, Caller::checked(1000, 1000)] {
            let found = volume.resolve(&caller, path).map(|found| found.ino).map_err(|error| error.errno());
            assert_eq!(found, expected, "{} {caller:?}", path.escape_ascii());
        }
    }
    assert_eq!(volume.resolve(&somebody, b"/closed/d").unwrap_err().errno(), libc::EACCES);
    // Directories in use, of which one is removed and one moves.
    volume.resolve(&ME, b"/closed").unwrap();
    volume.resolve(&ME, b"/closed/d").unwrap();
    volume.remove_directory(&ME, closed.ino, b"d").unwrap();
    assert_eq!(volume.resolve(&ME, b"/closed/d/e").unwrap_err().errno(), libc::ENOENT);
    volume.rename(&ME, (ROOT, b"a"), (ROOT, b"z"), RenameFlags::default()).unwrap();
    assert_eq!(volume.resolve(&ME, b"/a/b/c").unwrap_err().errno(), libc::ENOENT);
    assert_eq!(volume.resolve(&ME, b"/z/b/c").unwrap().ino, c.ino);
    assert_sound(&volume);
}

#[test]
fn a_check_tells_how_far_it_is() {
    let (_folder, volume) = volume();
    for number in 0..1100 {
        let file = volume.create(&ME, ROOT, format!("file {number}").as_bytes(), NewInode::file(0o644)).unwrap();
        volume.write(&ME, file.ino, 0, b"a row of bytes").unwrap();
    }
    volume.save_totals().unwrap();
    let mut told = Vec::new();
    let report = volume.check_with(&mut |event| match event {
        CheckEvent::Progress(progress) => told.push(progress),
        CheckEvent::Found(finding) => panic!("{finding}"),
    });
    assert_eq!(report.unwrap().files, 1100);
    // The root, then its rows in the order of their hashes, which differ in each volume: of the first 1 024, one may be
    // the directory's own row, which is no further inode. Then the rows of bytes.
    assert!(matches!(told[0], CheckProgress { inodes: 1023..=1024, inodes_total: 1101, rows: 1024 }), "{told:?}");
    assert_eq!(told[1..], [CheckProgress { inodes: 1101, inodes_total: 1101, rows: 2048 }]);
}

#[test]
fn after_a_crash_the_inodes_are_counted_again() {
    let (folder, volume) = volume();
    let path = folder.path().join("volume");
    for number in 0..2000 {
        let name = format!("file {number}");
        let file = volume.create(&ME, ROOT, name.as_bytes(), NewInode::file(0o644)).unwrap();
        if number == 7 {
            volume.link(&ME, file.ino, ROOT, b"second").unwrap();
        }
    }
    volume.create(&ME, ROOT, b"directory", NewInode::directory(0o755)).unwrap();
    assert_eq!(volume.recount(&|| true).unwrap(), None, "nothing to count after a clean close");
    let inodes = |volume: &Volume| volume.usage().unwrap().inodes;
    assert_eq!(inodes(&volume), 2002);
    // As a kill: the number was never stored.
    drop(volume);
    let volume = OpenOptions::new().open(&path).unwrap();
    assert_eq!(inodes(&volume), 1);
    assert_eq!(volume.recount(&|| false).unwrap(), None, "it was ended");
    // A close before the count leaves it to the next mount.
    let volume = reopened(&folder, volume);
    volume.remove_directory(&ME, ROOT, b"directory").unwrap();
    assert_eq!(volume.recount(&|| true).unwrap(), Some(2001));
    assert_eq!((inodes(&volume), volume.recount(&|| true).unwrap()), (2001, None));
    // The search for objects, too, must have ended before a close is clean.
    volume.work().unwrap();
    let volume = reopened(&folder, volume);
    assert_eq!((inodes(&volume), volume.recount(&|| true).unwrap()), (2001, None));
}
