//! Tests of the simulated disk: what a crash leaves, faults, and long histories.

mod crashes;
mod faults;
mod histories;
mod journal;

use super::{SimulatedDisk, Strictness};
use crate::error::Result;
use crate::storage::{File, OpenMode, Storage};
use std::path::Path;
use std::sync::Arc;

const POWER_CUTS: [Strictness; 4] =
    [Strictness::LoseUnsynced, Strictness::RandomPages, Strictness::TornSectors, Strictness::Ext4Ordered];

const DIRECTORY: &str = "/db";

/// A disk with a durable, empty directory.
fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.create_directory(Path::new(DIRECTORY)).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk
}

fn at(name: &str) -> std::path::PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// A file of these bytes, durable with its name.
fn synced(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(&at(name)).unwrap();
    file.write_all_at(0, bytes).unwrap();
    file.sync().unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    file
}

fn open(disk: &SimulatedDisk, name: &str, mode: OpenMode) -> Arc<dyn File> {
    disk.open(&at(name), mode).unwrap().unwrap()
}

fn medium(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let file = open(disk, name, OpenMode::ReadMedium);
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.list(Path::new(DIRECTORY)).unwrap().unwrap().into_iter().map(|entry| entry.name).collect()
}

/// Everything on a disk, to compare.
fn everything(disk: &SimulatedDisk) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    disk.files().into_iter().map(|(path, _)| (path.clone(), disk.read_file(&path))).collect()
}

fn is_power_cut<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.to_string().contains("simulated power cut"))
}
