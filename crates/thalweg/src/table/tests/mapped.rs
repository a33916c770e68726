//! Reads from mappings: of which tables, until when, and the errors of those that fail.

use super::bench::{Bench, options};
use super::entries::{Entry, put};
use crate::error::ErrorKind;
use crate::format::{Cursor, SeqNo};
use crate::table::{Compression, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ENTRIES: u32 = 400;

fn entries() -> Vec<Entry> {
    (0..ENTRIES).map(|n| put(&n.to_be_bytes(), 1, &[n as u8; 400])).collect()
}

/// As [`unsettled`], but a settle round has synced the table.
fn mapped(compression: Compression, cache_bytes: u64) -> (Bench, Arc<Table>) {
    let (bench, table) = unsettled(compression, cache_bytes);
    bench.store.forget_unsynced(table.meta().id, true);
    (bench, table)
}

/// Returns a table that was written through the page cache, which has all of it, on a disk that can map files.
fn unsettled(compression: Compression, cache_bytes: u64) -> (Bench, Arc<Table>) {
    let bench = Bench::new(options(4096, compression, 10), cache_bytes);
    bench.disk.file_room.store(1 << 30, Ordering::Relaxed);
    bench.disk.is_mapped.store(true, Ordering::Relaxed);
    bench.disk.is_cached.store(true, Ordering::Relaxed);
    let table = bench.store.open_written(bench.write_to(5, &entries()));
    table.ensure_open().unwrap();
    (bench, table)
}

fn read_all(table: &Table) {
    for entry in entries() {
        assert_eq!(table.get(&entry.key, SeqNo(1)).unwrap().unwrap().value, entry.value);
    }
}

fn scan_all(table: &Arc<Table>) {
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    let mut before = None;
    for entry in entries() {
        let value = cursor.value();
        assert_eq!((cursor.key(), &*value), (&*entry.key, &*entry.value));
        // The previous value must not change with the step.
        assert!(before.replace((value, entry.value)).is_none_or(|(found, expected)| found == expected));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

/// Returns the blocks read, those of them from mappings, and those past the page cache.
fn counts(bench: &Bench) -> (u64, u64, u64) {
    let metrics = &bench.metrics;
    (
        metrics.all_reads(|reads| &reads.cache_misses),
        metrics.all_reads(|reads| &reads.mapped_reads),
        metrics.all_reads(|reads| &reads.direct_reads),
    )
}

#[test]
fn a_table_in_the_page_cache_is_read_without_a_call() {
    let (bench, table) = mapped(Compression::None, 0);
    let calls = bench.disk.reads.load(Ordering::Relaxed);
    read_all(&table);
    scan_all(&table);
    let (misses, mapped, direct) = counts(&bench);
    assert!(misses == mapped && mapped > u64::from(ENTRIES) && direct == 0);
    assert_eq!(bench.disk.reads.load(Ordering::Relaxed), calls);
}

#[test]
fn a_table_is_not_mapped_before_it_is_synced() {
    let (bench, table) = unsettled(Compression::None, 1 << 20);
    (0..7).for_each(|_| drop(table.get(&7_u32.to_be_bytes(), SeqNo(1)).unwrap()));
    let (misses, mapped, _) = counts(&bench);
    assert_eq!((misses, mapped), (7, 0));
    assert_eq!(bench.cache.bytes_used(), 0, "the cache gets what it gets of a mapped table");
    drop(table.get(&7_u32.to_be_bytes(), SeqNo(1)).unwrap());
    assert!(bench.cache.bytes_used() > 4096);
    bench.store.forget_unsynced(table.meta().id, true);
    scan_all(&table);
    let (misses, mapped, _) = counts(&bench);
    assert!(mapped == misses - 8 && mapped > 30, "{misses} {mapped}");
}

#[test]
fn a_replaced_table_that_was_never_synced_is_not_mapped() {
    let (bench, table) = unsettled(Compression::None, 0);
    bench.store.forget_unsynced(table.meta().id, false);
    read_all(&table);
    assert_eq!(counts(&bench).1, 0);
}

#[test]
fn of_mapped_blocks_the_cache_gets_compressed_ones_and_those_that_point_reads_need_often() {
    let (bench, table) = mapped(Compression::None, 1 << 20);
    scan_all(&table);
    assert_eq!(bench.cache.bytes_used(), 0);
    (0..8).for_each(|_| drop(table.get(&7_u32.to_be_bytes(), SeqNo(1)).unwrap()));
    let used = bench.cache.bytes_used();
    assert!(used > 4096 && used < 3 * 4096, "one block: {used}");
    let (bench, table) = mapped(Compression::Lz4, 1 << 20);
    scan_all(&table);
    let misses = counts(&bench).0;
    scan_all(&table);
    assert_eq!(counts(&bench).0, misses);
}

#[test]
fn while_memory_is_short_the_mapping_is_not_read() {
    let (bench, table) = mapped(Compression::None, 0);
    bench.disk.is_cached.store(false, Ordering::Relaxed);
    (0..3).for_each(|_| read_all(&table));
    let (_, mapped, direct) = counts(&bench);
    assert!(mapped > 0 && direct > 20, "{mapped} {direct}");
    read_all(&table);
    assert_eq!(counts(&bench).1, mapped);
    bench.disk.is_cached.store(true, Ordering::Relaxed);
    read_all(&table);
    assert!(counts(&bench).1 > mapped, "it is read there again");
}

#[test]
fn once_the_tables_do_not_fit_mappings_are_not_read() {
    let (bench, table) = mapped(Compression::None, 0);
    read_all(&table);
    let (_, mapped, direct) = counts(&bench);
    assert!(mapped > 0 && direct == 0, "{mapped} {direct}");
    // Pages of this table stay in memory, so that probes find nothing.
    bench.disk.file_room.store(1000, Ordering::Relaxed);
    (0..20).for_each(|_| read_all(&table));
    let (_, still_mapped, _) = counts(&bench);
    assert!(
        still_mapped < mapped + 4096 + u64::from(ENTRIES),
        "the room is asked for every 4096 reads: {still_mapped}"
    );
    read_all(&table);
    assert_eq!(counts(&bench).1, still_mapped);
    bench.disk.file_room.store(1 << 30, Ordering::Relaxed);
    (0..20).for_each(|_| read_all(&table));
    assert!(counts(&bench).1 > still_mapped, "it is read there again");
}

#[test]
fn a_table_that_is_not_known_to_be_in_memory_is_not_mapped() {
    let (bench, table) = mapped(Compression::None, 0);
    read_all(&bench.store.open(table.meta().clone()));
    assert_eq!(counts(&bench).1, 0);
}

#[test]
fn a_block_that_a_mapping_cannot_read_or_has_damaged_is_an_error_that_names_the_file() {
    let (bench, table) = mapped(Compression::None, 0);
    let path = bench.store.path(table.meta().id);
    let (failing, damaged) = (10_u32, 300_u32);
    let at = |key: u32| {
        let opened = table.table_file().unwrap();
        opened.index.handle(opened.index.find(&key.to_be_bytes(), SeqNo(1))).unwrap().offset + 100
    };
    bench.disk.failing.store(at(failing), Ordering::Relaxed);
    bench.disk.flip(&path, at(damaged));
    for (key, kind) in [(failing, ErrorKind::Io), (damaged, ErrorKind::Corruption)] {
        for _ in 0..2 {
            let error = table.get(&key.to_be_bytes(), SeqNo(1)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
            let error = table.cursor().seek(&key.to_be_bytes(), SeqNo(1)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
    assert!(table.get(&100_u32.to_be_bytes(), SeqNo(1)).unwrap().is_some());
}
