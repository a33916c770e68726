//! Reads of random tables give what a sorted vector gives, for every shape of table.

use super::disk::{Bench, Entry, Random, advance, options, put, run, tombstone};
use crate::format::{Cursor, EntryKind, SeqNo, Version};
use crate::table::{Compression, KeyRange, Table, check, verify_file};
use std::cmp::Ordering;
use std::sync::Arc;

fn order(entry: &Entry, key: &[u8], seq: u64) -> Ordering {
    entry.key.as_slice().cmp(key).then(seq.cmp(&entry.seq))
}

fn here(cursor: &dyn Cursor) -> Option<Entry> {
    cursor.valid().then(|| Entry {
        key: cursor.key().to_vec(),
        seq: cursor.seq().0,
        kind: cursor.kind(),
        value: cursor.value().to_vec(),
    })
}

/// Every way of reading `table` agrees with `entries`.
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

/// Scans of ranges between some of the probes' keys give what `entries` have there.
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

/// Every entry, its neighbours in sequence numbers, and random and extreme keys.
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
fn the_largest_key_and_value_are_taken() {
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

#[test]
fn keys_outside_the_range_of_a_table_cost_no_io() {
    let bench = Bench::new(options(256, Compression::None, 10), 1 << 20);
    let table = bench.store.open(bench.write(&[put(b"m", 5, b"v")]));
    for (key, seq) in [(&b"a"[..], 9), (b"z", 9), (b"m", 4)] {
        assert_eq!(table.get(key, SeqNo(seq)).unwrap(), None);
    }
    assert_eq!(bench.disk.reads.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(table.get(b"m", SeqNo(5)).unwrap().is_some());
}

#[test]
fn a_block_is_read_once_while_it_is_cached_and_scans_leave_the_cache_alone() {
    let bench = Bench::new(options(4096, Compression::Lz4, 10), 1 << 20);
    let entries: Vec<_> = (0..2000u32).map(|n| put(&n.to_be_bytes(), 1, b"value")).collect();
    let meta = bench.write(&entries);
    let table = bench.store.open(meta.clone());
    run(async {
        let mut scan = table.scan(&Arc::default());
        while advance(&mut scan).await.unwrap() {}
    });
    assert_eq!(bench.cache.bytes_used(), 0);
    assert!(bench.metrics.compaction_read_bytes.get() > meta.bytes / 2);
    for _ in 0..3 {
        assert!(table.get(&7u32.to_be_bytes(), SeqNo::MAX).unwrap().is_some());
    }
    assert_eq!(
        (bench.metrics.all_reads(|reads| &reads.cache_misses), bench.metrics.all_reads(|reads| &reads.cache_hits)),
        (1, 2)
    );
    assert!(bench.cache.bytes_used() > 0);
}

#[test]
fn a_scan_of_what_is_not_cached_reads_many_blocks_at_once() {
    for (cache_bytes, compression) in [(0, Compression::None), (16 << 20, Compression::Lz4)] {
        let bench = Bench::new(options(1000, compression, 10), cache_bytes);
        let entries: Vec<_> = (0..20_000u32).map(|n| put(&n.to_be_bytes(), 1, &[n as u8; 40])).collect();
        let meta = bench.write(&entries);
        let table = bench.store.open(meta.clone());
        let reads = || bench.disk.reads.load(std::sync::atomic::Ordering::Relaxed);
        assert!(table.get(b"\0\0\0\0", SeqNo::MAX).unwrap().is_some());
        let before = reads();
        let mut cursor = table.cursor();
        cursor.seek(&100u32.to_be_bytes(), SeqNo::MAX).unwrap();
        for entry in &entries[100..] {
            assert_eq!(here(&cursor).as_ref(), Some(entry));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        // A read of this disk gives 100 000 bytes at most.
        let most = 10 + meta.bytes / 80_000;
        assert!(reads() - before <= most, "{} reads, {most} expected", reads() - before);
    }
}

#[test]
fn a_block_that_its_writer_put_into_the_cache_is_not_read() {
    let bench = Bench::new(options(4096, Compression::Lz4, 10), 1 << 20);
    let misses = || bench.metrics.all_reads(|reads| &reads.cache_misses);
    let entries: Vec<_> = (0..2000u32).map(|n| put(&n.to_be_bytes(), 1, &n.to_le_bytes().repeat(9))).collect();
    let get = |meta| bench.store.open_written(meta).get(&7u32.to_be_bytes(), SeqNo::MAX).unwrap().unwrap();
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "nobody had read anything when it was written");
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "its writer kept what it wrote");
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "a hit is a read too");
    get(bench.write(&entries));
    bench.write(&entries);
    let meta = bench.write(&entries);
    get(meta);
    assert_eq!(misses(), 2, "nobody had read since the table before it was begun");
}

#[test]
fn what_was_written_through_the_page_cache_compactions_read_there() {
    let bench = Bench::new(options(4096, Compression::None, 10), 0);
    bench.disk.file_room.store(1 << 20, std::sync::atomic::Ordering::Relaxed);
    let table = |level| bench.store.open_written(bench.write_to(level, &[put(b"a", 1, b"v")]));
    assert!(table(0).open_direct(0).unwrap().is_some(), "nobody reads");
    let lower = table(5);
    assert!(lower.open_direct(0).unwrap().is_some(), "memory was needed for others");
    bench.disk.is_cached.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(lower.open_direct(0).unwrap().is_none());
    assert!(bench.store.open(lower.meta().clone()).open_direct(0).unwrap().is_some(), "of an earlier life");
    assert_eq!((bench.metrics.tables_through_cache.get(), bench.metrics.tables_refused_direct.get()), (1, 1));
}

#[test]
fn the_filter_spares_reads_of_absent_keys() {
    let bench = Bench::new(options(4096, Compression::None, 10), 1 << 20);
    let entries: Vec<_> = (0..10_000u32).map(|n| put(&(n * 2).to_be_bytes(), 1, b"")).collect();
    let table = bench.store.open(bench.write(&entries));
    for n in 0..9_999u32 {
        assert_eq!(table.get(&(n * 2 + 1).to_be_bytes(), SeqNo::MAX).unwrap(), None);
    }
    let (checks, negatives) = (
        bench.metrics.all_reads(|reads| &reads.filter_checks),
        bench.metrics.all_reads(|reads| &reads.filter_negatives),
    );
    assert_eq!(checks, 9_999);
    assert!(negatives * 1000 > checks * 985, "{negatives} of {checks}");
}
