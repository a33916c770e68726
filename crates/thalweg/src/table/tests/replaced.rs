//! The pages of replaced tables in the page cache.

use super::bench::{Bench, options};
use super::entries::put;
use crate::format::SeqNo;
use crate::table::{Compression, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

/// Polls the coroutine that drops pages until it has nothing to do. Returns how many bytes it dropped.
fn forgotten(bench: &Bench) -> u64 {
    let mut coroutine = Box::pin(bench.store.warming());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        assert!(coroutine.as_mut().poll(&mut context).is_pending());
    }
    bench.disk.forgotten_bytes.swap(0, Ordering::Relaxed)
}

/// Returns a store with a table of level 2, and memory that is enough for one and a half tables to go through it.
fn bench() -> (Bench, Arc<Table>) {
    let bench = Bench::new(options(4096, Compression::None, 10), 0);
    bench.disk.file_room.store(64 << 10, Ordering::Relaxed);
    let first = table(&bench, 2);
    bench.disk.file_room.store(first.meta().bytes * 3 / 16, Ordering::Relaxed);
    (bench, first)
}

fn table(bench: &Bench, level: usize) -> Arc<Table> {
    bench.store.open_written(bench.write_to(level, &[put(b"a", 1, &[7; 3000])]))
}

fn written_through(bench: &Bench) -> u64 {
    bench.metrics.tables_through_cache.get()
}

#[test]
fn its_pages_are_dropped_before_the_next_table_gets_their_room() {
    let (bench, first) = bench();
    let bytes = first.meta().bytes;
    let second = table(&bench, 2);
    assert_eq!(written_through(&bench), 2);
    bench.store.let_go(first);
    table(&bench, 2);
    assert_eq!(written_through(&bench), 2, "both are still in memory");
    assert_eq!(forgotten(&bench), bytes);
    table(&bench, 2);
    assert_eq!(written_through(&bench), 3);
    drop(second);
}

#[test]
fn a_table_written_past_the_page_cache_and_not_read_has_no_pages_to_drop() {
    let (bench, first) = bench();
    let past = bench.store.open(first.meta().clone());
    bench.store.let_go(past);
    assert_eq!(forgotten(&bench), 0);
    let read = bench.store.open(first.meta().clone());
    read.get(b"a", SeqNo::MAX).unwrap();
    bench.store.let_go(read);
    assert_eq!(forgotten(&bench), first.meta().bytes);
}

#[test]
fn a_table_that_was_removed_or_has_a_reader_is_left_alone() {
    let (bench, first) = bench();
    bench.store.let_go(Arc::clone(&first));
    assert_eq!(forgotten(&bench), 0, "it has a reader");
    bench.store.remove(first.meta().id).unwrap();
    bench.store.let_go(first);
    assert_eq!(forgotten(&bench), 0);
}
