//! The promises of every [`Storage`], tested on each: the simulated disk must be neither more lenient nor stricter than
//! Linux.

use super::TestDirectory;
use crate::error::{Error, ErrorKind, LockHolder, Result};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{ALIGNMENT, BufferPool, File, LinuxStorage, Mapping, OpenMode, Storage};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Runs one test on Linux and on a simulated disk, each with an empty directory.
fn on_each(name: &str, test: impl Fn(&dyn Storage, &Path)) {
    let directory = TestDirectory::new(name);
    test(&LinuxStorage, &directory.0);
    let disk = SimulatedDisk::new(7);
    disk.create_directory(Path::new("/data")).unwrap();
    test(&disk, Path::new("/data"));
}

fn open(storage: &dyn Storage, path: &Path, mode: OpenMode) -> Arc<dyn File> {
    storage.open(path, mode).unwrap().unwrap()
}

fn create_with(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = storage.create(path).unwrap();
    file.write_all_at(0, bytes).unwrap();
    file
}

fn read_all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.bytes().unwrap()).unwrap()];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn contents(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    read_all(&*open(storage, path, OpenMode::Read))
}

fn io_kind<T>(result: Result<T>) -> io::ErrorKind {
    match result {
        Err(Error::Io { source, .. }) => source.kind(),
        Err(other) => panic!("not an error of the system: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn writes_are_read_back_and_holes_are_zeros() {
    on_each("holes", |storage, directory| {
        let file = create_with(storage, &directory.join("a"), b"head");
        file.write_all_at(10_000, b"tail").unwrap();
        let mut expected = vec![0; 10_004];
        expected[..4].copy_from_slice(b"head");
        expected[10_000..].copy_from_slice(b"tail");
        assert_eq!(read_all(&*file), expected);
        assert_eq!(file.read_at(10_004, &mut [0; 9]).unwrap(), 0);
        assert_eq!(file.read_at(10_002, &mut [0; 9]).unwrap(), 2);
    });
}

#[test]
fn reading_beyond_the_end_exactly_is_corruption() {
    on_each("beyond", |storage, directory| {
        let file = create_with(storage, &directory.join("a"), b"head");
        let error = file.read_exact_at(2, &mut [0; 3]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    });
}

#[test]
fn a_cut_file_that_grows_again_has_zeros() {
    on_each("cut", |storage, directory| {
        let file = create_with(storage, &directory.join("a"), &[9; 9000]);
        file.set_bytes(5000).unwrap();
        file.set_bytes(9000).unwrap();
        let expected: Vec<u8> = (0..9000).map(|i| if i < 5000 { 9 } else { 0 }).collect();
        assert_eq!(read_all(&*file), expected);
    });
}

#[test]
fn creating_a_name_twice_fails() {
    on_each("twice", |storage, directory| {
        let path = directory.join("a");
        create_with(storage, &path, b"first");
        assert_eq!(io_kind(storage.create(&path)), io::ErrorKind::AlreadyExists);
        assert_eq!(contents(storage, &path), b"first");
    });
}

#[test]
fn what_is_missing_is_not_found() {
    on_each("missing", |storage, directory| {
        let path = directory.join("none");
        assert_eq!(io_kind(storage.open(&path, OpenMode::Read)), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.open(&path, OpenMode::ReadMedium)), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.remove(&path)), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.rename(&path, &directory.join("b"))), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.hard_link(&path, &directory.join("b"))), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.lock(&path, true)), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.sync_directory(&path)), io::ErrorKind::NotFound);
        assert_eq!(io_kind(storage.create(&path.join("a"))), io::ErrorKind::NotFound);
        assert_eq!(storage.file_bytes(&path).unwrap(), None);
        assert_eq!(storage.list(&path).unwrap(), None);
    });
}

#[test]
fn a_listing_is_sorted_and_tells_directories_from_files() {
    on_each("listing", |storage, directory| {
        for name in ["b", "a10", "a2"] {
            create_with(storage, &directory.join(name), name.as_bytes());
        }
        storage.create_directory(&directory.join("c/d")).unwrap();
        storage.create_directory(&directory.join("c")).unwrap();
        let found = storage.list(directory).unwrap().unwrap();
        let found: Vec<_> = found.iter().map(|e| (e.name.as_str(), e.is_directory, e.bytes)).collect();
        assert_eq!(found, [("a10", false, 3), ("a2", false, 2), ("b", false, 1), ("c", true, 0)]);
        assert_eq!(storage.file_bytes(&directory.join("a10")).unwrap(), Some(3));
        assert_eq!(storage.file_bytes(&directory.join("c")).unwrap(), None);
        assert_eq!(io_kind(storage.remove(&directory.join("c"))), io::ErrorKind::DirectoryNotEmpty);
        storage.remove(&directory.join("c/d")).unwrap();
        assert_eq!(storage.list(&directory.join("c")).unwrap().unwrap(), []);
    });
}

#[test]
fn a_rename_replaces_and_a_link_does_not() {
    on_each("rename", |storage, directory| {
        let (a, b) = (directory.join("a"), directory.join("b"));
        create_with(storage, &a, b"new");
        let old = create_with(storage, &b, b"old");
        assert_eq!(io_kind(storage.hard_link(&a, &b)), io::ErrorKind::AlreadyExists);
        storage.rename(&a, &b).unwrap();
        assert_eq!(contents(storage, &b), b"new");
        assert_eq!(storage.file_bytes(&a).unwrap(), None);
        assert_eq!(read_all(&*old), b"old");
    });
}

#[test]
fn linked_names_are_one_file() {
    on_each("links", |storage, directory| {
        let (a, b) = (directory.join("a"), directory.join("b"));
        let file = create_with(storage, &a, b"one");
        assert!(storage.hard_link(&a, &b).unwrap());
        file.write_all_at(0, b"two").unwrap();
        storage.rename(&a, &b).unwrap();
        assert_eq!(contents(storage, &a), b"two", "a rename between names of one file does nothing");
        storage.remove(&a).unwrap();
        assert_eq!(contents(storage, &b), b"two");
    });
}

#[test]
fn a_removed_file_lives_until_its_handle_closes() {
    on_each("unlinked", |storage, directory| {
        let path = directory.join("a");
        let file = create_with(storage, &path, b"still here");
        storage.remove(&path).unwrap();
        file.write_all_at(10, b"!").unwrap();
        file.sync().unwrap();
        assert_eq!(read_all(&*file), b"still here!");
        create_with(storage, &path, b"another");
        assert_eq!(read_all(&*file), b"still here!");
    });
}

#[test]
fn links_are_names_and_a_file_without_one_can_still_be_cut() {
    on_each("link-count", |storage, directory| {
        let (a, b) = (directory.join("a"), directory.join("b"));
        let file = create_with(storage, &a, &[5; 9000]);
        let reader = open(storage, &a, OpenMode::Read);
        assert_eq!(file.links().unwrap(), Some(1), "handles are no names");
        assert!(storage.hard_link(&a, &b).unwrap());
        storage.remove(&a).unwrap();
        assert_eq!((file.links().unwrap(), reader.links().unwrap()), (Some(1), Some(1)));
        storage.rename(&b, &a).unwrap();
        assert_eq!(file.links().unwrap(), Some(1));
        create_with(storage, &b, &[6; 9000]);
        storage.rename(&b, &a).unwrap();
        assert_eq!(file.links().unwrap(), Some(0), "another file has taken the name");
        file.set_bytes(4096).unwrap();
        assert_eq!((read_all(&*reader), contents(storage, &a)), (vec![5; 4096], vec![6; 9000]));
    });
}

#[test]
fn what_the_page_cache_is_to_forget_reads_the_same() {
    on_each("forgotten", |storage, directory| {
        let path = directory.join("a");
        let file = create_with(storage, &path, &[7; 20_000]);
        file.forget_cached(0, 20_000);
        file.sync().unwrap();
        file.forget_cached(4096, 8192);
        file.forget_cached(0, 1 << 40);
        assert_eq!(contents(storage, &path), [7; 20_000]);
    });
}

#[test]
fn a_handle_that_reads_does_not_write() {
    on_each("reading", |storage, directory| {
        let path = directory.join("a");
        create_with(storage, &path, b"kept").sync().unwrap();
        let modes = [OpenMode::Read, OpenMode::ReadMedium];
        for file in modes.iter().filter_map(|mode| storage.open(&path, *mode).unwrap()) {
            assert_eq!(file.write_all_at(0, b"lost").unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(file.set_bytes(0).unwrap_err().kind(), ErrorKind::Io);
            file.sync().unwrap();
        }
        assert_eq!(contents(storage, &path), b"kept");
    });
}

#[test]
fn reads_of_the_medium_see_what_was_synced_at_any_offset() {
    on_each("medium", |storage, directory| {
        let path = directory.join("a");
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        create_with(storage, &path, &bytes).sync().unwrap();
        let Some(file) = storage.open(&path, OpenMode::ReadMedium).unwrap() else { return };
        assert_eq!(file.bytes().unwrap(), 20_000);
        for (offset, length) in [(0, 20_000), (1, 19_999), (4095, 2), (4096, 4096), (12_345, 7), (19_999, 1)] {
            let mut found = vec![0; length];
            file.read_exact_at(offset as u64, &mut found).unwrap();
            assert_eq!(found, bytes[offset..offset + length], "{length} bytes at {offset}");
        }
        assert_eq!(file.read_at(20_000, &mut [0; 5]).unwrap(), 0);
    });
}

#[test]
fn locks_are_shared_by_readers_and_let_go_when_dropped() {
    on_each("locks", |storage, directory| {
        let path = directory.join("lock");
        drop(storage.create(&path).unwrap());
        let refused = |shared| match storage.lock(&path, shared) {
            Err(Error::Locked { path: told, holder }) => *told == *path && holder == LockHolder::ThisProcess,
            _ => false,
        };
        let first = storage.lock(&path, true).unwrap();
        let second = storage.lock(&path, true).unwrap();
        assert!(refused(false));
        drop(first);
        assert!(refused(false));
        drop(second);
        let alone = storage.lock(&path, false).unwrap();
        assert!(refused(true) && refused(false));
        drop(alone);
        storage.lock(&path, true).unwrap();
    });
}

#[test]
fn directories_sync_and_files_in_the_way_are_errors() {
    on_each("ways", |storage, directory| {
        storage.sync_directory(directory).unwrap();
        create_with(storage, &directory.join("a"), b"");
        assert_eq!(io_kind(storage.create(&directory.join("a/b"))), io::ErrorKind::NotADirectory);
        assert_eq!(io_kind(storage.list(&directory.join("a"))), io::ErrorKind::NotADirectory);
        assert!(storage.create_directory(&directory.join("a")).is_err());
        assert!(storage.create_directory(&directory.join("a/b")).is_err());
    });
}

/// A mapping of a file of `bytes` ones; `None` where the file system does not support mappings.
fn mapped(storage: &dyn Storage, path: &Path, bytes: usize) -> Option<(Arc<dyn File>, Arc<dyn Mapping>)> {
    let file = create_with(storage, path, &vec![1; bytes]);
    file.sync().unwrap();
    let mapping = file.map(bytes as u64).unwrap()?;
    Some((file, mapping))
}

#[test]
fn stores_to_a_mapping_are_read_back_and_synced_by_range() {
    on_each("mapping", |storage, directory| {
        let path = directory.join("a");
        let Some((file, mapping)) = mapped(storage, &path, 20_000) else { return };
        mapping.populate(0, 20_000).unwrap();
        assert_eq!(contents(storage, &path), vec![1; 20_000], "populating changes nothing");
        mapping.write(4090, &[2; 12]);
        mapping.write(19_999, &[3]);
        let mut expected = vec![1; 20_000];
        expected[4090..4102].fill(2);
        expected[19_999] = 3;
        assert_eq!(contents(storage, &path), expected);
        mapping.sync_range(4090, 4102).unwrap();
        mapping.sync_range(19_999, 20_000).unwrap();
        file.write_all_at(4092, &[4; 4]).unwrap();
        expected[4092..4096].fill(4);
        drop((file, mapping));
        assert_eq!(contents(storage, &path), expected, "a mapping and writes by position see each other");
    });
}

#[test]
fn what_was_released_of_a_mapping_stays_and_can_be_stored_to_again() {
    on_each("released", |storage, directory| {
        let path = directory.join("a");
        let Some((_file, mapping)) = mapped(storage, &path, 100_000) else { return };
        mapping.write(0, &[2; 100_000]);
        for (from, to) in [(5000, 90_001), (0, 100_000), (4096, 4097), (7, 7)] {
            mapping.release(from, to);
        }
        assert_eq!(contents(storage, &path), vec![2; 100_000], "nothing that was stored is lost");
        mapping.write(50_000, &[3; 10]);
        mapping.sync_range(0, 100_000).unwrap();
        assert_eq!(contents(storage, &path)[49_999..50_011], [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2]);
    });
}

#[test]
fn a_mapping_outlives_the_handle_it_was_made_from() {
    on_each("outlives", |storage, directory| {
        let path = directory.join("a");
        let Some((file, mapping)) = mapped(storage, &path, 5000) else { return };
        drop(file);
        mapping.write(0, b"later");
        mapping.sync_range(0, 5).unwrap();
        assert_eq!(contents(storage, &path)[..6], *b"later\x01");
    });
}

#[test]
fn what_was_allocated_reads_as_zeros_and_can_be_mapped() {
    on_each("allocated", |storage, directory| {
        let path = directory.join("a");
        let file = storage.create(&path).unwrap();
        if !file.allocate(100_000).unwrap() {
            assert_eq!(file.bytes().unwrap(), 0);
            return;
        }
        assert_eq!(contents(storage, &path), vec![0; 100_000]);
        file.sync().unwrap();
        // Not every file system is mapped; where one is, blocks that were never written are enough.
        let written = create_with(storage, &directory.join("written"), &[1; 100_000]);
        written.sync().unwrap();
        let mapping = file.map(100_000).unwrap();
        assert_eq!(mapping.is_some(), written.map(100_000).unwrap().is_some());
        let Some(mapping) = mapping else { return };
        mapping.populate(0, 100_000).unwrap();
        mapping.write(50_000, &[2; 10]);
        mapping.sync_range(50_000, 50_010).unwrap();
        drop((mapping, file));
        let mut expected = vec![0; 100_000];
        expected[50_000..50_010].fill(2);
        assert_eq!(contents(storage, &path), expected);
        assert!(open(storage, &path, OpenMode::ReadWrite).map(100_000).unwrap().is_some(), "partly written");
    });
}

#[test]
fn what_has_holes_or_is_too_short_is_not_mapped() {
    on_each("holes-unmapped", |storage, directory| {
        let sparse = storage.create(&directory.join("sparse")).unwrap();
        sparse.set_bytes(1 << 20).unwrap();
        sparse.write_all_at(0, &[1; 4096]).unwrap();
        assert!(sparse.map(1 << 20).unwrap().is_none());
        let short = create_with(storage, &directory.join("short"), &[1; 4096]);
        assert!(short.map(4097).unwrap().is_none());
    });
}

#[test]
fn a_store_beyond_a_mapping_panics() {
    on_each("beyond-mapping", |storage, directory| {
        let Some((_file, mapping)) = mapped(storage, &directory.join("a"), 5000) else { return };
        let beyond = || mapping.write(4999, &[1, 2]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(beyond)).is_err());
    });
}

#[test]
fn a_file_written_in_aligned_pieces_and_cut_has_exactly_its_bytes() {
    on_each("direct", |storage, directory| {
        let path = directory.join("a");
        let file = storage.create_direct(&path).unwrap();
        assert_eq!(io_kind(storage.create_direct(&path)), io::ErrorKind::AlreadyExists);
        file.reserve(10 * ALIGNMENT as u64).unwrap();
        assert!(file.bytes().unwrap() <= 10 * ALIGNMENT as u64);
        let mut buffer = BufferPool::new(2 * ALIGNMENT).take();
        for (piece, len) in [2 * ALIGNMENT, 100].into_iter().enumerate() {
            buffer.bytes_mut().fill(piece as u8 + 1);
            buffer.set_len(len);
            buffer.pad();
            file.write_all_at(2 * (piece * ALIGNMENT) as u64, buffer.filled()).unwrap();
        }
        file.reserve(ALIGNMENT as u64).unwrap();
        let len = 2 * ALIGNMENT + 100;
        file.set_bytes(len as u64).unwrap();
        file.sync().unwrap();
        let expected: Vec<u8> = (0..len).map(|at| if at < 2 * ALIGNMENT { 1 } else { 2 }).collect();
        assert_eq!(contents(storage, &path), expected);
        let medium = open(storage, &path, OpenMode::ReadMedium);
        assert_eq!(medium.read_at(2 * ALIGNMENT as u64, buffer.bytes_mut()).unwrap(), 100, "up to the end of the file");
    });
}
