//! Files that are closed and opened again, on a simulated disk that counts descriptors.

use crate::error::Result;
use crate::storage::descriptors::{PART, frugal};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{File, OpenMode, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk with a limit of `open_files_max` descriptors and with `files` files, each of 10 bytes of its own number.
fn disk(open_files_max: u64, files: u8) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    disk.create_directory(Path::new("/d")).unwrap();
    disk.tell_open_files_max(Some(open_files_max));
    for number in 0..files {
        disk.create(&path(number)).unwrap().write_all_at(0, &[number; 10]).unwrap();
    }
    disk
}

fn path(number: u8) -> PathBuf {
    Path::new("/d").join(number.to_string())
}

fn read(file: &dyn File) -> Result<u8> {
    let mut bytes = [0xff; 10];
    file.read_exact_at(0, &mut bytes)?;
    assert_eq!(bytes, [bytes[0]; 10]);
    Ok(bytes[0])
}

#[test]
fn only_a_part_is_open_at_a_time_and_all_are_read() {
    let disk = disk(10 * PART, 100);
    let storage = frugal(Arc::new(disk.clone()));
    let files: Vec<_> = (0..100).map(|number| storage.open_evictable(&path(number)).unwrap()).collect();
    for round in 0..3 {
        for (number, file) in files.iter().enumerate() {
            assert_eq!(usize::from(read(&**file).unwrap()), number, "round {round}");
            assert!(disk.open_files() <= 10, "{}", disk.open_files());
        }
    }
    drop(files);
    assert_eq!(disk.open_files(), 0);
}

#[test]
fn what_is_read_again_and_again_stays_open() {
    let disk = disk(4 * PART, 20);
    let storage = frugal(Arc::new(disk.clone()));
    let hot = storage.open_evictable(&path(0)).unwrap();
    let others: Vec<_> = (1..20).map(|number| storage.open_evictable(&path(number)).unwrap()).collect();
    read(&*hot).unwrap();
    let opens = |disk: &SimulatedDisk| disk.operations();
    let before = opens(&disk);
    for other in &others {
        read(&**other).unwrap();
        read(&*hot).unwrap();
    }
    // Two reads and an open each: the hot file was not opened again.
    assert_eq!(opens(&disk) - before, 3 * 19, "the hot file was closed");
}

#[test]
fn a_shortage_closes_what_is_idle_and_passes() {
    let disk = disk(100 * PART, 20);
    let storage = frugal(Arc::new(disk.clone()));
    let files: Vec<_> = (0..10).map(|number| storage.open_evictable(&path(number)).unwrap()).collect();
    assert_eq!(disk.open_files(), 10);
    disk.limit_open_files(Some(10));
    let new = storage.create(&path(100)).unwrap();
    assert!(disk.open_files() < 10, "idle ones were closed for it");
    let others: Vec<_> = (10..19).map(|number| storage.open(&path(number), OpenMode::Read).unwrap()).collect();
    assert_eq!(disk.open_files(), 10);
    let error = read(&*files[3]).unwrap_err();
    assert!(error.is_shortage(), "{error}");
    assert!(storage.sync_directory(Path::new("/d")).unwrap_err().is_shortage());
    drop((new, others));
    assert_eq!(read(&*files[3]).unwrap(), 3);
    storage.sync_directory(Path::new("/d")).unwrap();
}

#[test]
fn a_file_that_is_held_stays_open_while_others_are_closed() {
    let disk = disk(4 * PART, 20);
    let storage = frugal(Arc::new(disk.clone()));
    let file = storage.open_evictable(&path(0)).unwrap();
    let held = file.held().unwrap();
    drop(file);
    disk.remove(&path(0)).unwrap();
    let _others: Vec<_> = (1..20).map(|number| storage.open_evictable(&path(number)).unwrap()).collect();
    assert_eq!(read(&*held).unwrap(), 0);
}
