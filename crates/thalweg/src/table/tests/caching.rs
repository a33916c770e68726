//! Which reads go to the device, to the block cache and to the page cache.

use super::bench::{Bench, advance, options, run};
use super::entries::{here, put};
use crate::format::{Cursor, SeqNo};
use crate::table::Compression;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn keys_outside_the_range_of_a_table_cost_no_io() {
    let bench = Bench::new(options(256, Compression::None, 10), 1 << 20);
    let table = bench.store.open(bench.write(&[put(b"m", 5, b"v")]));
    for (key, seq) in [(&b"a"[..], 9), (b"z", 9), (b"m", 4)] {
        assert_eq!(table.get(key, SeqNo(seq)).unwrap(), None);
    }
    assert_eq!(bench.disk.reads.load(Ordering::Relaxed), 0);
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
fn a_scan_of_uncached_blocks_reads_many_at_once() {
    for (cache_bytes, compression) in [(0, Compression::None), (16 << 20, Compression::Lz4)] {
        let bench = Bench::new(options(1000, compression, 10), cache_bytes);
        let entries: Vec<_> = (0..20_000u32).map(|n| put(&n.to_be_bytes(), 1, &[n as u8; 40])).collect();
        let meta = bench.write(&entries);
        let table = bench.store.open(meta.clone());
        let reads = || bench.disk.reads.load(Ordering::Relaxed);
        assert!(table.get(b"\0\0\0\0", SeqNo::MAX).unwrap().is_some());
        let before = reads();
        let mut cursor = table.cursor();
        cursor.seek(&100u32.to_be_bytes(), SeqNo::MAX).unwrap();
        for entry in &entries[100..] {
            assert_eq!(here(&cursor).as_ref(), Some(entry));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        // A read of this disk returns 100 000 bytes at most.
        let most = 10 + meta.bytes / 80_000;
        assert!(reads() - before <= most, "{} reads, {most} expected", reads() - before);
    }
}

#[test]
fn a_block_that_its_writer_kept_is_not_read_from_the_file() {
    let bench = Bench::new(options(4096, Compression::Lz4, 10), 1 << 20);
    let misses = || bench.metrics.all_reads(|reads| &reads.cache_misses);
    let entries: Vec<_> = (0..2000u32).map(|n| put(&n.to_be_bytes(), 1, &n.to_le_bytes().repeat(9))).collect();
    let get = |meta| bench.store.open_written(meta).get(&7u32.to_be_bytes(), SeqNo::MAX).unwrap().unwrap();
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "there were no reads before it was written");
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "its writer kept the block");
    assert_eq!(&*get(bench.write(&entries)).value, 7u32.to_le_bytes().repeat(9));
    assert_eq!(misses(), 1, "a hit is a read, too");
    get(bench.write(&entries));
    bench.write(&entries);
    let meta = bench.write(&entries);
    get(meta);
    assert_eq!(misses(), 2, "there were no reads since the previous table was begun");
}

#[test]
fn compactions_read_a_table_written_through_the_page_cache_there() {
    let bench = Bench::new(options(4096, Compression::None, 10), 0);
    bench.disk.file_room.store(1 << 20, Ordering::Relaxed);
    let table = |level| bench.store.open_written(bench.write_to(level, &[put(b"a", 1, b"v")]));
    let lower = table(5);
    assert!(lower.open_direct(0).unwrap().is_some(), "its pages were evicted");
    bench.disk.is_cached.store(true, Ordering::Relaxed);
    assert!(lower.open_direct(0).unwrap().is_none());
    assert!(bench.store.open(lower.meta().clone()).open_direct(0).unwrap().is_some(), "of an earlier life");
    assert_eq!((bench.metrics.tables_through_cache.get(), bench.metrics.tables_refused_direct.get()), (1, 0));
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
