//! A read of a damaged table returns the right answer or corruption that names the file, and `check` finds every
//! damage.

use super::bench::{Bench, advance, options, run};
use super::entries::{Entry, Random, put, tombstone};
use crate::error::{Error, Result};
use crate::format::{Cursor, SeqNo};
use crate::table::{Compression, TableMeta, check, fuzz_block, fuzz_table, verify_file};
use std::path::Path;

fn small_table(compression: Compression) -> (Bench, Vec<Entry>, TableMeta) {
    let bench = Bench::new(options(64, compression, 10), 0);
    let mut entries = Vec::new();
    for n in 0..8u64 {
        let key = format!("river/bed/{n}");
        entries.push(tombstone(key.as_bytes(), 100 + n));
        entries.push(put(key.as_bytes(), n + 1, &[n as u8; 30]));
    }
    let meta = bench.write(&entries);
    (bench, entries, meta)
}

/// Checks that the error is corruption of this file.
fn names_the_file(error: &Error, path: &Path) {
    match error {
        Error::Corruption(damage) => assert_eq!(damage.path, path),
        other => panic!("{other}"),
    }
}

/// Reads everything in every way. Each answer must be right, or an error that names the file. Returns whether all were
/// right.
fn reads_are_right_or_corruption(bench: &Bench, entries: &[Entry], meta: &TableMeta) -> bool {
    let path = bench.store.path(meta.id);
    let table = bench.store.open(meta.clone());
    let mut all_right = true;
    let mut fault = |error: Error| {
        names_the_file(&error, &path);
        all_right = false;
    };
    for entry in entries {
        match table.get(&entry.key, SeqNo(entry.seq)) {
            Ok(Some(version)) => assert_eq!((version.kind, &*version.value), (entry.kind, &*entry.value)),
            Ok(None) => panic!("{entry:?} is lost"),
            Err(error) => fault(error),
        }
    }
    let forward = || -> Result<()> {
        let mut cursor = table.cursor();
        cursor.seek_to_first()?;
        for entry in entries {
            assert!(cursor.valid());
            assert_eq!((cursor.key(), cursor.seq().0, &*cursor.value()), (&*entry.key, entry.seq, &*entry.value));
            cursor.next()?;
        }
        assert!(!cursor.valid());
        Ok(())
    };
    let backward = || -> Result<()> {
        let mut cursor = table.cursor();
        cursor.seek_to_last()?;
        for entry in entries.iter().rev() {
            assert!(cursor.valid());
            assert_eq!((cursor.key(), cursor.seq().0, &*cursor.value()), (&*entry.key, entry.seq, &*entry.value));
            cursor.prev()?;
        }
        Ok(())
    };
    let scanned = run(async {
        let mut scan = table.scan(&std::sync::Arc::default());
        for entry in entries {
            assert!(advance(&mut scan).await?);
            assert_eq!((scan.key(), scan.seq().0, scan.value()), (&*entry.key, entry.seq, &*entry.value));
        }
        advance(&mut scan).await.map(|more| assert!(!more))
    });
    for result in [forward(), backward(), scanned] {
        result.unwrap_or_else(&mut fault);
    }
    all_right
}

#[test]
fn every_flipped_byte_is_found() {
    for compression in [Compression::None, Compression::Lz4] {
        let (bench, entries, meta) = small_table(compression);
        let path = bench.store.path(meta.id);
        let good = bench.disk.contents(&path);
        assert!(reads_are_right_or_corruption(&bench, &entries, &meta));
        for at in 0..good.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= mask;
                bench.disk.put(&path, &bad);
                assert!(!reads_are_right_or_corruption(&bench, &entries, &meta), "byte {at} is under no checksum");
                names_the_file(&check(&bench.environment, &path, &meta).unwrap_err(), &path);
                assert!(!verify_file(&bench.environment, &path, &meta).unwrap());
                fuzz_table(&bad);
            }
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let (bench, entries, meta) = small_table(Compression::None);
    let path = bench.store.path(meta.id);
    let good = bench.disk.contents(&path);
    for len in 0..good.len() {
        bench.disk.put(&path, &good[..len]);
        assert!(!reads_are_right_or_corruption(&bench, &entries, &meta));
        names_the_file(&check(&bench.environment, &path, &meta).unwrap_err(), &path);
        assert!(!verify_file(&bench.environment, &path, &meta).unwrap());
        // A file system that grew the file before its data arrived leaves this.
        let mut zeros = good[..len].to_vec();
        zeros.resize(good.len(), 0);
        if zeros != good {
            bench.disk.put(&path, &zeros);
            assert!(!reads_are_right_or_corruption(&bench, &entries, &meta));
            assert!(check(&bench.environment, &path, &meta).is_err());
            assert!(!verify_file(&bench.environment, &path, &meta).unwrap());
        }
        fuzz_table(&good[..len]);
    }
    let mut longer = good.clone();
    longer.push(0);
    bench.disk.put(&path, &longer);
    assert!(check(&bench.environment, &path, &meta).is_err());
}

#[test]
fn swapped_blocks_are_found() {
    let bench = Bench::new(options(1, Compression::None, 0), 0);
    let meta = bench.write(&[put(b"a", 1, b"one"), put(b"b", 1, b"two"), put(b"c", 1, b"six")]);
    let path = bench.store.path(meta.id);
    let good = bench.disk.contents(&path);
    // Three blocks of one entry, all of one size: 3 varints, key, trailer, value, a restart, a count, a trailer.
    let block = 3 + 1 + 8 + 3 + 4 + 4 + 5;
    let mut bad = good.clone();
    bad[..block].copy_from_slice(&good[block..2 * block]);
    bad[block..2 * block].copy_from_slice(&good[..block]);
    bench.disk.put(&path, &bad);
    let error = bench.store.open(meta.clone()).get(b"a", SeqNo::MAX).unwrap_err();
    assert!(error.to_string().contains("block checksum"), "{error}");
    assert!(bench.store.open(meta).get(b"c", SeqNo::MAX).unwrap().is_some());
}

#[test]
fn a_manifest_that_differs_is_corruption() {
    let (bench, _, meta) = small_table(Compression::None);
    for wrong in [
        TableMeta { entries: meta.entries + 1, ..meta.clone() },
        TableMeta { tombstones: 0, ..meta.clone() },
        TableMeta { keys: meta.keys + 1, ..meta.clone() },
        TableMeta { seq_min: SeqNo(0), ..meta.clone() },
        TableMeta { key_max: Box::from(&b"z"[..]), ..meta.clone() },
    ] {
        let error = bench.store.open(wrong.clone()).cursor().seek_to_first().unwrap_err();
        assert!(error.to_string().contains("the manifest's"), "{error}");
        assert!(check(&bench.environment, &bench.store.path(meta.id), &wrong).is_err());
    }
    let wrong = TableMeta { checksum: meta.checksum ^ 1, ..meta.clone() };
    assert!(check(&bench.environment, &bench.store.path(meta.id), &wrong).is_err());
}

#[test]
fn any_bytes_as_a_block_neither_panic_nor_loop() {
    let mut random = Random(9);
    for _ in 0..200_000 {
        let len = random.below(60) as usize;
        let mut bytes: Vec<u8> =
            (0..len).map(|_| [random.below(5), random.below(256)][random.below(2) as usize] as u8).collect();
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&(random.below(3) as u32).to_le_bytes());
        fuzz_block(&bytes);
    }
}

#[test]
fn broken_tables_behind_their_checksums_neither_panic_nor_loop() {
    let mut random = Random(11);
    for compression in [Compression::None, Compression::Lz4] {
        let (bench, _, meta) = small_table(compression);
        let good = bench.disk.contents(&bench.store.path(meta.id));
        for _ in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bad.len() as u64) as usize;
                bad[at] = random.below(256) as u8;
            }
            fuzz_table(&bad);
        }
    }
}
