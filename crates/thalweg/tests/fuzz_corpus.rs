//! The seeds of the fuzz targets as an ordinary test: each one, cut at every length, and with every byte changed.
//!
//! Whatever the bytes are, a decoder gives an error or a value; it neither panics nor hangs. The seeds under
//! `fuzz/corpus` are small files that the engine wrote; `THALWEG_BLESS=1` before the command below writes them anew.
//! The targets exist only with the feature `simulation`:
//!
//!     cargo test -p thalweg --features simulation --test fuzz_corpus

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use thalweg::{Compression, Database, Durability, fuzzing};

type Target = fn(&[u8]);

#[test]
fn no_log_segment_makes_the_scan_panic() {
    run("log_segment", fuzzing::log_segment);
}

#[test]
fn no_manifest_makes_its_reader_panic() {
    run("manifest", fuzzing::manifest);
}

#[test]
fn no_table_makes_its_reader_panic() {
    run("table", fuzzing::table);
}

#[test]
fn no_block_makes_its_cursor_panic() {
    run("block", fuzzing::block);
}

fn run(name: &str, target: Target) {
    static BLESSED: Once = Once::new();
    if std::env::var_os("THALWEG_BLESS").is_some() {
        BLESSED.call_once(write_seeds);
    }
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no seeds for {name} in {}", corpus(name).display());
    for (path, seed) in seeds {
        target(&seed);
        for length in 0..seed.len() {
            target(&seed[..length]);
        }
        let mut bytes = seed.clone();
        for at in 0..bytes.len() {
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

/// Writes small databases and takes their files; the zeros at the end of a log segment are left out.
fn write_seeds() {
    for (name, compression, filter_bits) in [("plain", Compression::None, 0), ("packed", Compression::Lz4, 10)] {
        let root = std::env::temp_dir().join(format!("thalweg-seeds-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        write_database(&root, compression, filter_bits);
        let (mut logs, mut manifests, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        files(&root, &mut |file, bytes| match file {
            _ if file.ends_with(".log") => logs.push(without_zeros(bytes)),
            _ if file.starts_with("manifest-") => manifests.push(bytes),
            _ if file.ends_with(".table") => tables.push(bytes),
            _ => {}
        });
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
        fs::remove_dir_all(&root).unwrap();
    }
}

fn write_database(root: &Path, compression: Compression, filter_bits: u32) {
    let database = Database::builder(root)
        .log_segment_bytes(64 << 10)
        .compression(compression)
        .filter_bits_per_key(filter_bits)
        .durability(Durability::Sync)
        .open()
        .unwrap();
    let keyspace = database.create_keyspace("river", &[b"m"]).unwrap();
    for number in 0..40 {
        keyspace.insert(format!("bank{number:03}"), format!("value {}", number * number)).unwrap();
    }
    keyspace.remove("bank007").unwrap();
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
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    bytes
}

fn save(target: &str, name: &str, seeds: Vec<Vec<u8>>) {
    fs::create_dir_all(corpus(target)).unwrap();
    for (number, seed) in seeds.into_iter().enumerate().filter(|(_, seed)| !seed.is_empty()) {
        assert!(seed.len() < 16 << 10, "a seed of {} bytes for {target} takes too long", seed.len());
        fs::write(corpus(target).join(format!("{name}-{number}")), seed).unwrap();
    }
}
