//! What the tests of fast tiers share: small options, random writes beside a model, and a comparison with it.

use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thalweg::{Builder, Compression, Database, Keyspace};

const KEYS: u32 = 5_000;
pub const TIER_BYTES: u64 = 1 << 20;
pub const MEMTABLE_BYTES: usize = 32 << 10;

pub fn builder(path: &Path) -> Builder {
    Database::builder(path)
        .memtable_bytes(MEMTABLE_BYTES)
        .table_bytes(64 << 10)
        .level1_bytes(256 << 10)
        .growth_factor(4)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(256 << 10)
        .compression(Compression::None)
}

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes and removes random keys, also to the model.
pub fn write(keyspace: &Keyspace, model: &mut Model, random: &mut Rng, times: u32) {
    for _ in 0..times {
        let key = random.u32(..KEYS).to_be_bytes().to_vec();
        if random.u32(..5) == 0 {
            keyspace.remove(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![random.u8(..); random.usize(..300)];
            keyspace.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

fn entries(keyspace: &Keyspace) -> Model {
    keyspace.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

pub fn verify(keyspace: &Keyspace, model: &Model) {
    assert!(entries(keyspace) == *model, "ranges differ");
    let backwards: Vec<_> = keyspace.iter().rev().map(Result::unwrap).map(|(key, _)| key.to_vec()).collect();
    assert!(backwards.iter().eq(model.keys().rev()), "ranges backwards differ");
    let keys: Vec<[u8; 4]> = (0..KEYS).step_by(7).map(u32::to_be_bytes).collect();
    let together = keyspace.multi_get(&keys).unwrap();
    for (key, found) in keys.iter().zip(together) {
        assert_eq!(found.as_deref(), model.get(&key[..]).map(Vec::as_slice));
        assert_eq!(keyspace.get(key).unwrap().as_deref(), model.get(&key[..]).map(Vec::as_slice));
        assert_eq!(keyspace.contains_key(key).unwrap(), model.contains_key(&key[..]));
    }
}

/// Copies a directory and what is in it, without locks. The copy of a database that is open and that nobody writes to
/// is as one whose process was killed at that moment. If the background changes files meanwhile, the copy is made
/// again.
pub fn copied(from: &Path, to: &Path) {
    loop {
        let before = files(from);
        copy_files(from, to);
        if files(from) == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &target);
        } else if entry.file_name() != "LOCK" {
            // A file of the background may be gone by now.
            let _ = fs::copy(entry.path(), target);
        }
    }
}

/// The files below a directory, with their lengths and the times of their last writes.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&path)),
            Ok(metadata) => drop(found.insert(path, (metadata.len(), metadata.modified().ok()))),
            Err(_) => {}
        }
    }
    found
}
