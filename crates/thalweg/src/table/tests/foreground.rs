//! Foreground reads: through the page cache, past it, in batches; and the errors of those that fail.

use super::bench::{Bench, options};
use super::entries::{Entry, put};
use crate::error::ErrorKind;
use crate::format::SeqNo;
use crate::table::{BlockNumber, Compression, PointKey, Table, batch_read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ENTRIES: u32 = 400;

/// Returns entries of a tenth of a block each.
fn entries() -> Vec<Entry> {
    (0..ENTRIES).map(|n| put(&n.to_be_bytes(), 1, &[n as u8; 400])).collect()
}

/// Returns a table, and a cache that keeps nothing, so that every read is one of the file.
fn written(compression: Compression) -> (Bench, Arc<Table>) {
    let bench = Bench::new(options(4096, compression, 10), 0);
    let meta = bench.write(&entries());
    let table = bench.store.open(meta);
    (bench, table)
}

fn read_all(table: &Arc<Table>) {
    for entry in entries() {
        let found = table.get(&entry.key, SeqNo(1)).unwrap().unwrap();
        assert_eq!(found.value, entry.value);
    }
}

fn direct_reads(bench: &Bench) -> u64 {
    bench.metrics.all_reads(|reads| &reads.direct_reads)
}

/// Returns the blocks of the table, each once, with a key of each.
fn blocks(table: &Table) -> Vec<(BlockNumber, [u8; 4])> {
    let mut blocks = Vec::new();
    for n in 0..ENTRIES {
        let key = n.to_be_bytes();
        let block = table.locate(&PointKey::new(&key, SeqNo(1))).unwrap().unwrap();
        if blocks.last().is_none_or(|(last, _)| *last != block) {
            blocks.push((block, key));
        }
    }
    blocks
}

#[test]
fn while_the_page_cache_keeps_its_pages_nothing_is_read_past_it() {
    let (bench, table) = written(Compression::None);
    bench.disk.is_cached.store(true, Ordering::Relaxed);
    read_all(&table);
    assert_eq!(direct_reads(&bench), 0);
}

#[test]
fn where_the_page_cache_loses_its_pages_blocks_are_read_past_it_and_are_the_same() {
    for compression in [Compression::None, Compression::Lz4] {
        let (bench, table) = written(compression);
        read_all(&table);
        read_all(&table);
        let direct = direct_reads(&bench);
        // A block that is read again at once goes through the page cache, as the other entries of a block do here.
        assert!(direct > 20, "{direct}");
        let calls = bench.disk.medium_reads.load(Ordering::Relaxed);
        assert!(
            (direct..=2 * direct).contains(&calls),
            "one each, and one more at the end of the file: {direct} {calls}"
        );
        bench.disk.is_cached.store(true, Ordering::Relaxed);
        read_all(&table);
        let after = direct_reads(&bench);
        read_all(&table);
        assert_eq!(direct_reads(&bench), after, "the page cache keeps them again");
    }
}

#[test]
fn where_direct_reads_are_refused_all_go_through_the_page_cache() {
    let (bench, table) = written(Compression::None);
    bench.disk.refuses_medium.store(true, Ordering::Relaxed);
    read_all(&table);
    read_all(&table);
    assert_eq!(direct_reads(&bench), 0);
}

#[test]
fn blocks_of_a_batch_are_as_those_read_alone_and_are_cached() {
    for past_the_cache in [false, true] {
        let bench = Bench::new(options(4096, Compression::None, 10), if past_the_cache { 0 } else { 1 << 20 });
        let table = bench.store.open(bench.write(&entries()));
        if past_the_cache {
            read_all(&table);
        }
        let blocks = blocks(&table);
        let batch: Vec<_> = blocks.iter().map(|(block, _)| (&*table, *block)).collect();
        assert!(batch.len() > 30 && !table.is_at_hand(batch[0].1).unwrap());
        for (read, (block, key)) in batch_read(&batch).into_iter().zip(&blocks) {
            let point = PointKey::new(key, SeqNo(1));
            let found = table.find_in_read(&read.unwrap(), &point).unwrap().unwrap();
            assert_eq!(found.value, [key[3]; 400]);
            assert_eq!(table.is_at_hand(*block).unwrap(), !past_the_cache);
        }
        assert_eq!(direct_reads(&bench) > 0, past_the_cache);
    }
}

#[test]
fn a_block_of_a_batch_that_fails_or_is_damaged_is_an_error_and_the_others_are_whole() {
    for past_the_cache in [false, true] {
        let (bench, table) = written(Compression::None);
        if past_the_cache {
            read_all(&table);
        }
        let blocks = blocks(&table);
        let batch: Vec<_> = blocks.iter().map(|(block, _)| (&*table, *block)).collect();
        let (failing, damaged) = (5, 9);
        let at = |block: usize| table.table_file().unwrap().index.handle(block).unwrap();
        bench.disk.failing.store(at(failing).offset + 100, Ordering::Relaxed);
        let path = bench.store.path(table.meta().id);
        bench.disk.flip(&path, at(damaged).offset + 50);
        for (number, read) in batch_read(&batch).into_iter().enumerate() {
            match read {
                Ok(_) => assert!(number != failing && number != damaged, "{number}"),
                Err(error) => {
                    let kind = if number == damaged { ErrorKind::Corruption } else { ErrorKind::Io };
                    assert_eq!(error.kind(), kind, "{number}: {error}");
                    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
                    // A direct read takes whole pages, so it may fail in a page that it shares with its neighbour.
                    let near = number == damaged || number.abs_diff(failing) <= usize::from(past_the_cache);
                    assert!(near, "{number}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_file_that_ends_within_a_block_is_corruption_however_it_is_read() {
    for past_the_cache in [false, true] {
        let (bench, table) = written(Compression::None);
        if past_the_cache {
            read_all(&table);
        }
        let blocks = blocks(&table);
        let (last, key) = blocks.last().unwrap();
        let path = bench.store.path(table.meta().id);
        let cut = table.table_file().unwrap().index.handle(blocks.len() - 1).unwrap().offset + 10;
        let bytes = bench.disk.contents(&path);
        bench.disk.cut(&path, cut as usize);
        assert_eq!(table.find_in(*last, &PointKey::new(key, SeqNo(1))).unwrap_err().kind(), ErrorKind::Corruption);
        let batch: Vec<_> = blocks.iter().map(|(block, _)| (&*table, *block)).collect();
        let mut read = batch_read(&batch);
        let error = read.pop().unwrap().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("the end of the file"), "{error}");
        assert!(read.iter().all(Result::is_ok));
        assert!(bytes.len() > cut as usize);
    }
}
