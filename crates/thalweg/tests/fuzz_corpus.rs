//! The seeds of the fuzz targets as an ordinary test: each one, cut at every length, and with every byte changed (of
//! long seeds: a sample of lengths and bytes). Logs and manifests also with every checksum put right afterwards, so
//! that what is behind the checksums meets damage too.
//!
//! Whatever the bytes are, a decoder gives an error or a value; it neither panics nor hangs. The seeds under
//! `fuzz/corpus` are small files that the engine wrote; `THALWEG_BLESS=1` before the command below writes them anew.
//! The targets exist only with the feature `simulation`:
//!
//!     cargo test -p thalweg --features simulation --test fuzz_corpus

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../fuzz/checksums.rs"]
mod checksums;
#[path = "../fuzz/directory_operations.rs"]
mod directory_operations;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use thalweg::{Compression, Database, Durability, fuzzing};

/// Lengths and bytes of one seed that are tried at most.
const PLACES_MAX: usize = 2_500;

#[test]
fn no_log_segment_makes_the_scan_panic() {
    run("log_segment", fuzzing::log_segment);
    run("log_segment", |bytes| fuzzing::log_segment(&put_right(bytes, checksums::of_log_segment)));
}

#[test]
fn no_manifest_makes_its_reader_panic() {
    run("manifest", fuzzing::manifest);
    run("manifest", |bytes| fuzzing::manifest(&put_right(bytes, checksums::of_manifest)));
}

#[test]
fn no_table_makes_its_reader_panic() {
    run("table", fuzzing::table);
}

#[test]
fn no_fast_table_makes_its_reader_panic() {
    run("fast_table", fuzzing::fast_table);
}

#[test]
fn no_block_makes_its_cursor_panic() {
    run("block", fuzzing::block);
}

#[test]
fn no_pack_makes_its_reader_panic() {
    run("pack", fuzzing::pack);
    run("pack", |bytes| fuzzing::pack(&put_right(bytes, checksums::of_pack)));
}

#[test]
fn no_block_of_a_pack_makes_its_decoder_panic() {
    run("pack_block", fuzzing::pack_block);
}

/// Several bytes at once, of packs that have right checksums afterwards.
#[test]
fn no_pack_with_random_changes_makes_its_reader_panic() {
    bless_if_asked();
    let mut random = fastrand::Rng::with_seed(5);
    for (_, seed) in seeds("pack") {
        for _ in 0..4_000 {
            let mut bytes = seed.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                let length = random.usize(1..9).min(bytes.len() - at);
                match random.u32(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at..at + length].fill([0, 0xff][random.usize(..2)]),
                    _ => {
                        let from = random.usize(..=bytes.len() - length);
                        bytes.copy_within(from..from + length, at);
                    }
                }
            }
            fuzzing::pack(&put_right(&bytes, checksums::of_pack));
        }
    }
}

/// The seeds of the target, and random bytes.
#[test]
fn a_directory_keyspace_agrees_with_a_map_whatever_the_operations_are() {
    let mut random = fastrand::Rng::with_seed(3);
    let random = std::iter::repeat_with(|| (0..3_000).map(|_| random.u8(..)).collect()).take(12);
    for bytes in seeds("directory_operations").into_iter().map(|(_, bytes)| bytes).chain(random) {
        let directory = tempfile::tempdir().unwrap();
        directory_operations::run(&directory.path().join("database"), &bytes);
    }
}

/// Else neither these tests nor the fuzzers would come past a checksum.
#[test]
fn right_checksums_stay_and_wrong_ones_are_put_right() {
    bless_if_asked();
    for (name, all) in [
        ("log_segment", checksums::of_log_segment as fn(&mut [u8])),
        ("manifest", checksums::of_manifest),
        ("pack", checksums::of_pack),
    ] {
        for (path, seed) in seeds(name) {
            assert_eq!(put_right(&seed, all), seed, "{} changed", path.display());
            // A generation is part of every checksum, and the contents of a block of its own.
            let mut other = seed.clone();
            other.iter_mut().skip(20).take(4).for_each(|byte| *byte ^= 0xff);
            let sealed = put_right(&other, all);
            assert_ne!(sealed, other, "{}: nothing was put right", path.display());
        }
    }
}

fn put_right(bytes: &[u8], all: fn(&mut [u8])) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    all(&mut sealed);
    sealed
}

fn bless_if_asked() {
    static BLESSED: Once = Once::new();
    if std::env::var_os("THALWEG_BLESS").is_some() {
        BLESSED.call_once(write_seeds);
    }
}

fn run(name: &str, target: fn(&[u8])) {
    bless_if_asked();
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no seeds for {name} in {}", corpus(name).display());
    for (path, seed) in seeds {
        target(&seed);
        let step = seed.len().div_ceil(PLACES_MAX).max(1);
        for length in (0..seed.len()).step_by(step) {
            target(&seed[..length]);
        }
        let mut bytes = seed.clone();
        for at in (0..bytes.len()).step_by(step) {
            for change in [0x01, 0x80, 0xff] {
                bytes[at] ^= change;
                target(&bytes);
                bytes[at] ^= change;
            }
        }
        assert_eq!(bytes, seed, "{}", path.display());
    }
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(corpus(name)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Writes small databases and takes their files; the zeros after the last byte of a log segment are left out.
fn write_seeds() {
    for (name, compression, filter_bits) in [("plain", Compression::None, 0), ("packed", Compression::Lz4, 10)] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write_database(root, compression, filter_bits);
        let (mut logs, mut manifests, mut tables, mut packs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        files(root, &mut |file, bytes| match file {
            _ if file.ends_with(".log") => logs.push(without_zeros(bytes)),
            _ if file.starts_with("manifest-") => manifests.push(bytes),
            _ if file.ends_with(".table") && bytes.ends_with(b"thalwegP") => packs.push(bytes),
            _ if file.ends_with(".table") => tables.push(bytes),
            _ => {}
        });
        let pack_blocks = packs.iter().map(|pack| pack[..usize::from(pack[4]) + usize::from(pack[5]) * 256].to_vec());
        save("pack_block", name, pack_blocks.collect());
        save("pack", name, packs);
        // Without a filter the one data block, with its trailer of 5 bytes, ends where the index block begins.
        let blocks = tables.iter().filter(|_| filter_bits == 0).map(|table| {
            let footer = &table[table.len() - 72..];
            let index = u64::from_le_bytes(footer[8..16].try_into().unwrap());
            table[..usize::try_from(index).unwrap() - 5].to_vec()
        });
        save("block", name, blocks.collect());
        save("log_segment", name, logs);
        save("manifest", name, manifests);
        save("table", name, tables);
    }
    save("log_segment", "long", long_segments());
    save("fast_table", "layout", fuzzing::fast_table_seeds());
}

/// Segments with a record that goes on in the next block, and one that goes on in the next segment.
fn long_segments() -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let database = Database::builder(root).log_segment_bytes(64 << 10).open().unwrap();
    let keyspace = database.keyspace("river").unwrap();
    for number in 0..3 {
        keyspace.insert(format!("reach{number}"), vec![b'r'; 25_000]).unwrap();
    }
    let mut logs = Vec::new();
    files(root, &mut |file, bytes| logs.extend(file.ends_with(".log").then(|| without_zeros(bytes))));
    drop((keyspace, database));
    logs
}

fn write_database(root: &Path, compression: Compression, filter_bits: u32) {
    let database = Database::builder(root)
        .log_segment_bytes(64 << 10)
        .compression(compression)
        .filter_bits_per_key(filter_bits)
        .pack_block_bytes(300)
        .durability(Durability::Sync)
        .open()
        .unwrap();
    let keyspace = database.create_keyspace("river", &[b"m"]).unwrap();
    for number in 0..40 {
        keyspace.insert(format!("bank{number:03}"), format!("value {}", number * number)).unwrap();
    }
    keyspace.remove("bank007").unwrap();
    let files = database.directory_keyspace("files").unwrap();
    for number in 0..50 {
        files.insert(number % 4 * 1000, format!("name {number}"), format!("{number}").repeat(number as usize)).unwrap();
    }
    files.remove(0, "name 4").unwrap();
    files.insert(1000, "long", vec![b'l'; 2100]).unwrap();
    keyspace.insert("delta", vec![b'd'; 300]).unwrap();
    database.flush().unwrap();
    let mut batch = database.batch();
    batch.insert(&keyspace, "mouth", "wide").unwrap();
    batch.remove(&keyspace, "bank001").unwrap();
    batch.commit().unwrap();
    database.keyspace("empty").unwrap();
    database.close().unwrap();
}

fn files(directory: &Path, each: &mut dyn FnMut(&str, Vec<u8>)) {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, each);
        } else {
            each(path.file_name().unwrap().to_str().unwrap(), fs::read(&path).unwrap());
        }
    }
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| (last + 1).max(64));
    bytes.truncate(used);
    bytes
}

fn save(target: &str, name: &str, seeds: Vec<Vec<u8>>) {
    fs::create_dir_all(corpus(target)).unwrap();
    for (number, seed) in seeds.into_iter().enumerate().filter(|(_, seed)| !seed.is_empty()) {
        assert!(seed.len() <= 64 << 10, "a seed of {} bytes for {target} is too long", seed.len());
        fs::write(corpus(target).join(format!("{name}-{number}")), seed).unwrap();
    }
}
