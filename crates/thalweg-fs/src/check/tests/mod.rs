//! Each kind of finding, by a row that says something wrong.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::row::{Attributes, DirectoryRow, EntryRow, IS_OBJECT, Ino, Kind, ROOT, Totals, data_key, encode_number};
use crate::store::{Batch, Space};
use crate::volume::Volume;
use crate::{Caller, FormatOptions, NewInode, OpenOptions};

const ME: Caller<'static> = Caller::ROOT;

/// A volume with a directory "d", the file "d/f" of 100 000 bytes, and the file "a" with the second name "b".
struct Bench {
    _folder: tempfile::TempDir,
    volume: Volume,
    directory: Ino,
    file: Ino,
    linked: Ino,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        Volume::format(&path, FormatOptions::default()).unwrap();
        let volume = OpenOptions::new().open(&path).unwrap();
        let directory = volume.create(&ME, ROOT, b"d", NewInode::directory(0o755)).unwrap().ino;
        let file = volume.create(&ME, directory, b"f", NewInode::file(0o644)).unwrap().ino;
        volume.write(&ME, file, 0, &[7; 100_000]).unwrap();
        let linked = volume.create(&ME, ROOT, b"a", NewInode::file(0o644)).unwrap().ino;
        volume.link(&ME, linked, ROOT, b"b").unwrap();
        let bench = Bench { _folder: folder, volume, directory, file, linked };
        assert_eq!(bench.found_after(|_| ()), Vec::<String>::new());
        bench
    }

    /// The findings of a check after these changes of rows.
    fn found_after(&self, change: impl FnOnce(&mut Batch<'_>)) -> Vec<String> {
        let mut batch = Batch::new();
        change(&mut batch);
        if !batch.is_empty() {
            self.volume.store.commit(&batch).unwrap();
        }
        let mut found = Vec::new();
        self.volume.check(&mut |finding| found.push(finding.to_string())).unwrap();
        found
    }

    /// Puts the row of "d/f", changed.
    fn with_file(&self, change: impl FnOnce(&mut Attributes)) -> Vec<String> {
        let mut attributes = self.volume.attributes(self.file).unwrap();
        change(&mut attributes);
        let row = EntryRow::Whole(attributes, Box::default()).encode(self.directory, b"f");
        self.found_after(|batch| batch.put_entry(self.directory, b"f", row))
    }

    /// Puts the row of "d", changed.
    fn with_directory(&self, change: impl FnOnce(&mut DirectoryRow)) -> Vec<String> {
        let attributes = self.volume.attributes(self.directory).unwrap();
        let mut row = DirectoryRow { attributes, parent: ROOT, entries: attributes.size };
        change(&mut row);
        self.found_after(|batch| batch.put_entry(self.directory, DirectoryRow::NAME, row.encode()))
    }

    fn about(&self, ino: Ino, what: &str) -> Vec<String> {
        vec![format!("finding: inode {ino}: {what}")]
    }
}

#[test]
fn bytes_that_do_not_add_up_are_found() {
    let bench = Bench::new();
    let found = bench.with_file(|file| file.bytes += 5);
    assert_eq!(found, bench.about(bench.file, "its rows have 5 bytes fewer than it counts"));
    let found = bench.with_file(|file| file.bytes -= 5);
    assert_eq!(found, bench.about(bench.file, "its rows have 5 bytes more than it counts"));
    let found = bench.with_file(|file| file.size -= 1);
    assert_eq!(found, bench.about(bench.file, "its rows go beyond its size of 99999 bytes"));
    let found = bench.with_file(|file| file.flags |= IS_OBJECT);
    let expected = ["its bytes are in an object that no row knows", "it is an object and has rows of bytes"];
    assert_eq!(found, expected.map(|what| bench.about(bench.file, what)).concat());
    assert_eq!(bench.with_file(|_| ()), Vec::<String>::new());
}

#[test]
fn rows_of_bytes_in_wrong_places_are_found() {
    let bench = Bench::new();
    let put = |ino, offset, bytes: usize| {
        let mut found = bench.found_after(|batch| batch.put(Space::Data, data_key(ino, offset), vec![7; bytes]));
        bench.found_after(|batch| batch.remove(Space::Data, data_key(ino, offset)));
        // What the row makes wrong beside its own place is another test's.
        found.truncate(1);
        found
    };
    let of = |ino, what: &str| vec![format!("finding: data of inode {ino}: {what}")];
    assert_eq!(put(999, 0, 5), of(999, "the row at 0 is of no inode"));
    let is_misplaced = |offset, bytes| format!("the row at {offset} with {bytes} bytes is where it must not be");
    assert_eq!(put(bench.file, 10, 5), of(bench.file, &is_misplaced(10, 5)));
    assert_eq!(put(bench.linked, 65_000, 5000), of(bench.linked, &is_misplaced(65_000, 5000)));
    // The first row of a file begins anew, whatever the file before it had.
    assert_eq!(put(bench.linked, 0, 5), bench.about(bench.linked, "its rows go beyond its size of 0 bytes"));
}

#[test]
fn counts_of_names_and_entries_that_are_wrong_are_found() {
    let bench = Bench::new();
    let found = bench.with_directory(|row| row.entries = 7);
    assert_eq!(found, bench.about(bench.directory, "it counts 7 entries and has 1"));
    let found = bench.with_directory(|row| row.attributes.nlink = 3);
    assert_eq!(found, bench.about(bench.directory, "it counts 3 links and has 2"));
    let found = bench.with_directory(|row| row.parent = 77);
    assert_eq!(found, bench.about(bench.directory, "it names 77 as the directory it is in, and is in 1"));
    assert_eq!(bench.with_directory(|_| ()), Vec::<String>::new());
    let found = bench.with_file(|file| file.nlink = 2);
    assert_eq!(found, bench.about(bench.file, "it counts 2 names and has 1"));
    bench.with_file(|_| ());
    let mut attributes = bench.volume.attributes(bench.linked).unwrap();
    attributes.nlink = 3;
    let row = EntryRow::encode_inode(&attributes, &[]);
    let found = bench.found_after(|batch| batch.put(Space::Inodes, bench.linked.to_be_bytes(), row));
    assert_eq!(found, bench.about(bench.linked, "it counts 3 names and has 2"));
}

#[test]
fn directories_that_are_not_in_the_tree_are_found() {
    let bench = Bench::new();
    // A directory that is in itself alone; the root has one entry and one link fewer than it counts.
    let own = EntryRow::Pointer(bench.directory, Kind::Directory).encode(bench.directory, b"self");
    let found = bench.found_after(|batch| {
        batch.remove_entry(ROOT, b"d");
        batch.put_entry(bench.directory, b"self", own);
    });
    let ino = bench.directory;
    let unreachable = format!("finding: inode {ino}: it is in no directory below the root");
    assert!(found.contains(&unreachable), "{found:?}");
    assert!(found.contains(&"finding: inode 1: it counts 3 entries and has 2".to_owned()), "{found:?}");
    let found = bench.found_after(|batch| batch.remove_entry(bench.directory, DirectoryRow::NAME));
    assert!(found.contains(&format!("finding: directory {ino}: it has entries, and no row of its own")), "{found:?}");
    assert!(found.contains(&format!("finding: inode {ino}: 1 names lead to it, and it has no row")), "{found:?}");
}

#[test]
fn numbers_of_the_volume_that_no_mount_could_use_are_found() {
    let bench = Bench::new();
    let (file, linked) = (bench.file, bench.linked);
    let number = |key: &'static [u8], number| (key, encode_number(key, number));
    let put = |(key, row): (&'static [u8], Vec<u8>)| bench.found_after(|batch| batch.put(Space::Volume, key, row));
    let found = put(number(Totals::HIGH_WATER, linked));
    assert_eq!(found, bench.about(linked, &format!("numbers from {linked} on are given to new inodes")));
    assert_eq!(put(number(Totals::HIGH_WATER, linked + 1)), Vec::<String>::new());
    for key in [Totals::HIGH_WATER, Totals::KEY] {
        let found = put((key, b"no number".to_vec()));
        assert!(found.len() == 1 && found[0].starts_with("finding: the volume: "), "{found:?}");
        put(number(key, 1 << 20));
    }
    // An object whose own row is damaged.
    bench.volume.write(&ME, file, 0, &vec![7; 2 << 20]).unwrap();
    assert_eq!(bench.found_after(|_| ()), Vec::<String>::new());
    let found = bench.found_after(|batch| batch.put(Space::Objects, file.to_be_bytes(), b"no epoch".to_vec()));
    assert!(found.len() == 1 && found[0].starts_with(&format!("finding: object {file}: ")), "{found:?}");
}

#[test]
fn a_file_without_a_name_that_nothing_would_remove_is_found() {
    let bench = Bench::new();
    bench.volume.open(&ME, bench.file, crate::READ).unwrap();
    bench.volume.unlink(&ME, bench.directory, b"f").unwrap();
    assert_eq!(bench.found_after(|_| ()), Vec::<String>::new());
    let found = bench.found_after(|batch| batch.remove(Space::Reclaim, bench.file.to_be_bytes()));
    assert_eq!(found, bench.about(bench.file, "it has no name, and no row says that it is to be removed"));
}

#[test]
fn a_damaged_debt_holds_no_other_up() {
    let bench = Bench::new();
    bench.volume.write(&ME, bench.file, 0, &vec![7; 2 << 20]).unwrap();
    let other = bench.volume.create(&ME, ROOT, b"other", NewInode::file(0o644)).unwrap().ino;
    bench.volume.write(&ME, other, 0, &vec![7; 2 << 20]).unwrap();
    bench.volume.sync().unwrap();
    bench.volume.unlink(&ME, ROOT, b"other").unwrap();
    let damaged = |batch: &mut Batch<'_>| batch.put(Space::Reclaim, bench.file.to_be_bytes(), b"no debt".to_vec());
    assert_eq!(bench.found_after(damaged).len(), 1);
    let Bench { _folder, volume, .. } = bench;
    volume.close().unwrap();
    let volume = OpenOptions::new().open(_folder.path().join("volume")).unwrap();
    assert_eq!(volume.work().unwrap_err().errno(), libc::EIO);
    assert_eq!(volume.objects.attributes(other).unwrap(), None, "its debt is paid");
    volume.work().unwrap();
}

#[test]
fn an_inode_with_two_rows_or_kinds_is_found() {
    let bench = Bench::new();
    let attributes = bench.volume.attributes(bench.file).unwrap();
    let again = EntryRow::Whole(attributes, Box::default()).encode(bench.directory, b"again");
    let found = bench.found_after(|batch| batch.put_entry(bench.directory, b"again", again));
    let is_twice = |line: &String| line.ends_with(&format!("inode {} has another name", bench.file));
    assert_eq!(found.iter().filter(|line| is_twice(line)).count(), 1, "{found:?}");
    bench.found_after(|batch| batch.remove_entry(bench.directory, b"again"));
    let row = EntryRow::encode_inode(&attributes, &[]);
    let found = bench.found_after(|batch| batch.put(Space::Inodes, bench.file.to_be_bytes(), row));
    assert_eq!(found, bench.about(bench.file, "it has a row in its entry and another in `inodes`"));
}

#[test]
fn entries_that_cannot_be_read_are_listed_beside_the_others() {
    let bench = Bench::new();
    let volume = &bench.volume;
    let lost = volume.create(&ME, ROOT, b"lost", NewInode::directory(0o755)).unwrap().ino;
    volume.forget(lost, 1);
    volume.forget(bench.linked, 2);
    bench.found_after(|batch| {
        batch.remove_entry(lost, DirectoryRow::NAME);
        batch.remove(Space::Inodes, crate::row::inode_key(bench.linked));
        batch.put_entry(ROOT, b"damaged", vec![1, 2, 3]);
    });
    for with_attributes in [false, true] {
        let mut listed = volume.list(ROOT, 2, 100, with_attributes).unwrap();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        let told: Vec<_> = listed.iter().map(|entry| (&*entry.name, entry.ino, entry.attributes.is_some())).collect();
        let expected = [
            (&b"a"[..], bench.linked, false),
            (b"b", bench.linked, false),
            (b"d", bench.directory, with_attributes),
            (b"damaged", 0, false),
            (b"lost", lost, false),
        ];
        assert_eq!(told, expected);
        for (name, ..) in expected.iter().filter(|(_, ino, _)| *ino != bench.directory) {
            assert_eq!(volume.lookup(&ME, ROOT, name).unwrap_err().errno(), libc::EIO);
        }
    }
    let in_use = volume.inodes_in_use();
    volume.forget(bench.directory, 1);
    assert_eq!(volume.inodes_in_use(), in_use, "its creator still refers to it");
    volume.forget(bench.directory, 1);
    assert_eq!(volume.inodes_in_use(), in_use - 1);
}
