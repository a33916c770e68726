//! The seeds of the fuzz target `rows` as an ordinary test: each one, cut at every length, with every bit changed, and
//! with random changes. Whatever the bytes are, a decoder gives an error or a row; it does not panic.
//!
//! The seeds in `fuzz/corpus/rows` are rows of every kind without their checksums, which the target puts right.
//! `THALWEG_BLESS=1` before the command below writes them anew. The target needs the feature `fuzzing`:
//!
//!     cargo test -p thalweg-fs --features fuzzing --test fuzz_corpus

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use thalweg_fs::fuzzing;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/rows");
    if std::env::var_os("THALWEG_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fuzzing::seeds().iter().for_each(|(name, row)| fs::write(folder.join(name), row).unwrap());
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn every_kind_of_row_is_in_the_corpus_as_it_is_written_now() {
    let corpus = corpus();
    for (name, row) in fuzzing::seeds() {
        let found = corpus.iter().find(|(path, _)| path.ends_with(name));
        assert_eq!(found.map(|(_, bytes)| bytes), Some(&row), "{name}");
        assert!(fuzzing::rows(&row) >= 1, "{name} is no row");
    }
}

#[test]
fn no_row_makes_its_decoder_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut decoded = 0;
    for (_, seed) in corpus() {
        fuzzing::rows(&seed);
        for length in 0..seed.len() {
            fuzzing::rows(&seed[..length]);
        }
        for bit in 0..seed.len() * 8 {
            let mut bytes = seed.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            decoded += fuzzing::rows(&bytes);
        }
        for _ in 0..20_000 {
            let mut bytes = seed.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.usize(..4)],
                    2 => bytes.insert(at, random.u8(..)),
                    _ if bytes.len() > 1 => _ = bytes.remove(at),
                    _ => {}
                }
            }
            decoded += fuzzing::rows(&bytes);
        }
    }
    assert!(decoded > 10_000, "only {decoded} rows were read: most changes never came to a decoder");
}
