//! Reads of random tables of every shape return what a sorted vector has.

use super::bench::{Bench, advance, options, run};
use super::entries::{Entry, Random, here, put, tombstone};
use crate::format::{Cursor, EntryKind, SeqNo, Version};
use crate::table::{Compression, KeyRange, Table, check, verify_file};
use std::cmp::Ordering;
use std::sync::Arc;

fn order(entry: &Entry, key: &[u8], seq: u64) -> Ordering {
    entry.key.as_slice().cmp(key).then(seq.cmp(&entry.seq))
}

/// Checks that every way of reading `table` agrees with `entries`.
fn assert_reads(table: &Arc<Table>, entries: &[Entry], probes: &[(Vec<u8>, u64)]) {
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    for entry in entries {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    for entry in entries.iter().rev() {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    run(async {
        let mut scan = table.scan(&Arc::default());
        for entry in entries {
            assert!(advance(&mut scan).await.unwrap());
            assert_eq!((scan.key(), scan.seq().0, scan.kind(), scan.value()), fields(entry));
        }
        assert!(!advance(&mut scan).await.unwrap());
        assert!(!advance(&mut scan).await.unwrap());
    });
    assert_ranges(table, entries, probes);
    for (key, seq) in probes {
        let at = entries.partition_point(|entry| order(entry, key, *seq) == Ordering::Less);
        cursor.seek(key, SeqNo(*seq)).unwrap();
        assert_eq!(here(&cursor).as_ref(), entries.get(at), "seek {key:?} {seq}");
        if cursor.valid() {
            cursor.prev().unwrap();
            assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &entries[at]), "prev of {key:?} {seq}");
        }
        cursor.seek_before(key, SeqNo(*seq)).unwrap();
        assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &entries[at]), "before {key:?} {seq}");
        if cursor.valid() {
            cursor.next().unwrap();
            assert_eq!(here(&cursor).as_ref(), entries.get(at), "next of {key:?} {seq}");
        }
        let expected = entries.get(at).filter(|entry| entry.key == *key).map(version);
        assert_eq!(table.get(key, SeqNo(*seq)).unwrap(), expected, "get {key:?} {seq}");
    }
}

/// Checks that scans of ranges between some of the probes' keys return what `entries` have there.
fn assert_ranges(table: &Arc<Table>, entries: &[Entry], probes: &[(Vec<u8>, u64)]) {
    let ends = probes.chunks(probes.len() / 16 + 1).filter_map(|chunk| Some((&chunk.first()?.0, &chunk.last()?.0)));
    for (a, b) in ends {
        let (from, to) = (Some(Box::from(a.min(b).as_slice())), Some(Box::from(a.max(b).as_slice())));
        for range in [
            KeyRange { from: from.clone(), to: to.clone() },
            KeyRange { from: None, to: from },
            KeyRange { from: to, to: None },
        ] {
            let within = |entry: &&Entry| !range.is_after(fields(entry).0) && !range.is_before(fields(entry).0);
            let expected: Vec<_> = entries.iter().filter(within).map(fields).collect();
            run(async {
                let mut scan = table.scan(&Arc::new(range.clone()));
                for entry in &expected {
                    assert!(advance(&mut scan).await.unwrap(), "{range:?}");
                    assert_eq!((scan.key(), scan.seq().0, scan.kind(), scan.value()), *entry, "{range:?}");
                }
                assert!(!advance(&mut scan).await.unwrap() && !advance(&mut scan).await.unwrap(), "{range:?}");
            });
        }
    }
}

fn fields(entry: &Entry) -> (&[u8], u64, EntryKind, &[u8]) {
    (&entry.key, entry.seq, entry.kind, &entry.value)
}

fn version(entry: &Entry) -> Version {
    Version { seq: SeqNo(entry.seq), kind: entry.kind, value: entry.value.clone().into() }
}

/// Returns every entry, its neighbours in sequence numbers, and random and extreme keys.
fn probes(entries: &[Entry], random: &mut Random) -> Vec<(Vec<u8>, u64)> {
    let mut probes: Vec<_> = entries
        .iter()
        .flat_map(|entry| [entry.seq - 1, entry.seq, entry.seq + 1, SeqNo::MAX.0].map(|seq| (entry.key.clone(), seq)))
        .collect();
    probes.extend((0..200).map(|_| (random.key(), random.below(1200))));
    for key in [&b""[..], &[0], &[0xff; 40]] {
        probes.extend([0, 500, SeqNo::MAX.0].map(|seq| (key.to_vec(), seq)));
    }
    probes
}

#[test]
fn random_tables_read_as_a_sorted_vector_does() {
    let mut random = Random(42);
    for block_bytes in [1, 64, 1 << 10, 4 << 10, 64 << 10] {
        for compression in [Compression::None, Compression::Lz4] {
            for (bits, cache_bytes) in [(0, 0), (10, 64 << 10), (10, 16 << 20)] {
                let bench = Bench::new(options(block_bytes, compression, bits), cache_bytes);
                let count = random.below(600) + 1;
                let entries = random.entries(count);
                let meta = bench.write(&entries);
                assert_eq!(meta.entries, entries.len() as u64);
                let table = bench.store.open(meta.clone());
                assert_reads(&table, &entries, &probes(&entries, &mut random));
                check(&bench.environment, &bench.store.path(meta.id), &meta).unwrap();
                assert!(verify_file(&bench.environment, &bench.store.path(meta.id), &meta).unwrap());
            }
        }
    }
}

#[test]
fn a_table_of_one_entry_with_an_empty_key_reads() {
    for entry in [tombstone(b"", 1), put(b"", 1, b""), put(b"", SeqNo::MAX.0 - 1, b"v")] {
        let bench = Bench::new(options(4096, Compression::Lz4, 10), 0);
        let entries = [entry];
        let table = bench.store.open(bench.write(&entries));
        assert_reads(&table, &entries, &probes(&entries, &mut Random(1)));
    }
}

#[test]
fn the_largest_key_and_value_are_accepted() {
    for compression in [Compression::None, Compression::Lz4] {
        let bench = Bench::new(options(4096, compression, 10), 1 << 20);
        let (key, value) = (vec![b'k'; 64 << 10], vec![b'v'; 64 << 20]);
        let entries = [put(b"a", 1, b"small"), put(&key, 2, &value), put(b"z", 3, b"small")];
        let meta = bench.write(&entries);
        let table = bench.store.open(meta.clone());
        assert_reads(&table, &entries, &[(key, SeqNo::MAX.0), (b"z".to_vec(), 3)]);
        check(&bench.environment, &bench.store.path(meta.id), &meta).unwrap();
    }
}

#[test]
fn versions_of_one_key_over_many_blocks_are_all_found() {
    let mut entries = vec![put(b"a", 1, b"first")];
    entries.extend((1..=500).rev().map(|seq| put(b"key", seq * 2, format!("value {seq}").repeat(10).as_bytes())));
    entries.push(put(b"z", 1, b"last"));
    let bench = Bench::new(options(256, Compression::None, 10), 1 << 20);
    let table = bench.store.open(bench.write(&entries));
    assert_reads(&table, &entries, &probes(&entries, &mut Random(5)));
    assert_eq!(table.get(b"key", SeqNo(1)).unwrap(), None);
}
