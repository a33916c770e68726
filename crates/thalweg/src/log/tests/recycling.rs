//! Releasing segments and using their slots again.

use super::*;
use crate::format::EditId;
use crate::log::header::{SegmentHeader, SegmentId};
use crate::log::preparation::{NewBlocks, Preparation};
use crate::log::sizing::AHEAD_MAX;
use crate::runtime::Lane;
use crate::storage::BufferPool;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn segments_are_recycled_and_their_old_bytes_never_come_back() {
    let bench = Bench::new();
    let mut seed = 0;
    for _ in 0..60 {
        for _ in 0..10 {
            bench.write_synced(&record(seed, 5000));
            seed += 1;
        }
        bench.log.let_go(bench.log.published());
        bench.scheduler.settle();
    }
    assert!(bench.disk.paths().len() <= 6 + AHEAD_MAX, "{} files", bench.disk.paths().len());
    let start = bench.log.published();
    let tail = [record(1000, 70_000), record(1001, 20)];
    tail.iter().for_each(|record| bench.write_synced(record));
    let found = scan(&bench.disk.after_crash(false), start).unwrap();
    assert_eq!(found.end, bench.log.published());
    let bodies: Vec<_> = replay(&found).unwrap().into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, tail.map(|record| record.body().to_vec()));
}

#[test]
fn what_was_let_go_counts_as_durable_and_is_never_written_to_the_medium() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    let bench = Bench::try_begin(&disk, 1, None).unwrap();
    let mut before = bench.log.durable();
    for seed in 0..200 {
        before = bench.write(&record(seed, 5000)).unwrap();
        if seed % 20 == 0 {
            bench.log.let_go(bench.log.published());
            bench.scheduler.settle();
        }
    }
    let start = bench.log.published();
    bench.log.let_go(start);
    bench.scheduler.settle();
    assert_eq!(bench.log.durable(), start.position);
    assert!(disk.paths().len() <= 6 + AHEAD_MAX, "{} files", disk.paths().len());
    let left = disk.after_crash(false);
    for path in left.paths() {
        assert!(left.read(&path)[HEADER_BYTES as usize..].iter().all(|byte| *byte == 0), "{}", path.display());
    }
    assert_eq!(scan(&left, start).unwrap().end, start);
    let tail = [record(1000, 70_000), record(1001, 20)];
    for record in &tail {
        bench.write(record).unwrap();
    }
    bench.write_synced(&tail[1]);
    let found = scan(&disk.after_crash(false), start).unwrap();
    assert_eq!((found.records, found.end), (3, bench.log.published()));
    disk.fails_syncs.store(true, Ordering::SeqCst);
    bench.log.sync(before).unwrap();
}

#[test]
fn a_segment_is_not_recycled_before_it_is_let_go_or_while_it_is_pinned() {
    let bench = Bench::new();
    let start = bench.log.published();
    let records: Vec<_> = (0..40).map(|seed| record(seed, 5000)).collect();
    for record in &records {
        bench.write(record).unwrap();
    }
    let end = bench.log.published();
    bench.log.sync(end.position).unwrap();
    let pin = bench.log.pin(start);
    bench.log.let_go(end);
    bench.scheduler.settle();
    assert_eq!(replay(&scan(&bench.disk.after_crash(false), start).unwrap()).unwrap(), expected(&records));
    assert!(bench.log.backlog_bytes() <= 2 * u64::from(SEGMENT_BYTES));
    let copy = PathBuf::from("copy/log");
    bench.log.copy_to(start, end, &copy).unwrap();
    drop(pin);
    // Kept until a spare is taken.
    bench.scheduler.settle();
    records.iter().for_each(|record| bench.write_synced(record));
    bench.scheduler.settle();
    assert!(scan(&bench.disk.after_crash(false), start).is_err(), "the first segment is used again");
    let found = Scan::run(&bench.environment, &copy, start, DamagePolicy::Strict, true).unwrap();
    assert_eq!((found.end, replay(&found).unwrap()), (end, expected(&records)));
    assert!(bench.log.copy_to(start, end, Path::new("other")).is_err());
}

#[test]
fn a_slot_that_the_page_cache_has_evicted_is_not_read_to_be_overwritten() {
    const BYTES: u32 = (2 << 20) + SEGMENT_BYTES;
    const PAGE: usize = 4096;
    let renewed = |evicts: bool, maps: bool, is_for_callers: bool| {
        let disk = Arc::<Disk>::default();
        disk.evicts.store(evicts, Ordering::SeqCst);
        disk.maps.store(maps, Ordering::SeqCst);
        let (environment, _scheduler) = fake::environment(&disk, 1, false);
        let path = PathBuf::from("00000001.log");
        let file = environment.storage.create(&path).unwrap();
        file.write_all_at(0, &vec![7; BYTES as usize]).unwrap();
        file.sync().unwrap();
        let header = SegmentHeader { id: SegmentId { index: 3, generation: 4 }, bytes: BYTES, settled: EditId(0) };
        let recycled = Preparation::recycle(path.clone(), header);
        let mut preparation = if is_for_callers { recycled.for_callers() } else { recycled };
        let metrics = Metrics::default();
        let segment = loop {
            if let Some(segment) = preparation.step(&environment, &metrics).unwrap() {
                break segment;
            }
        };
        let mut from = Some(0);
        while let Some(at) = from {
            from = segment.make_ready(at).unwrap();
        }
        let bytes = disk.read(&path);
        assert_eq!(bytes[..HEADER_BYTES as usize], header.encode());
        let is_old = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 7);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        assert!(is_zero(&bytes[HEADER_BYTES as usize..PAGE]), "a part of a page would be read to be written");
        assert!(is_old(&bytes[PAGE..]) || is_zero(&bytes[PAGE..]));
        (is_zero(&bytes[PAGE..]), disk.announced.load(Ordering::SeqCst))
    };
    assert_eq!(renewed(false, true, false), (false, 0));
    assert_eq!(renewed(true, true, false), (true, 0));
    let all = u64::from(BYTES) - PAGE as u64;
    assert_eq!(renewed(true, true, true), (false, all), "a sync would write the zeros");
    assert_eq!(renewed(true, false, false), (false, all));
}

#[test]
fn a_new_file_is_filled_with_zeros_whatever_the_memory_had() {
    const BYTES: u32 = 1 << 20;
    let disk = Arc::<Disk>::default();
    let (environment, scheduler) = fake::environment(&disk, 1, false);
    // Buffers of the same size have been here, and are free again.
    let dirty: Vec<_> = (0..8).map(|_| BufferPool::new(512 << 10).take()).collect();
    for mut buffer in dirty {
        buffer.bytes_mut().fill(7);
    }
    let path = PathBuf::from("00000001.log");
    let header = SegmentHeader { id: SegmentId { index: 3, generation: 4 }, bytes: BYTES, settled: EditId(0) };
    let mut preparation = Preparation::create(path.clone(), header, NewBlocks::Filled);
    let prepare = async move {
        let metrics = Metrics::default();
        while preparation.step_in_background(&environment, &metrics).await.unwrap().is_none() {}
    };
    scheduler.spawn(Lane::Log, Box::pin(prepare));
    scheduler.settle();
    let bytes = disk.read(&path);
    assert_eq!((bytes.len(), &bytes[..HEADER_BYTES as usize]), (BYTES as usize, &*header.encode()));
    assert!(bytes[HEADER_BYTES as usize..].iter().all(|byte| *byte == 0));
}

#[test]
fn slots_that_were_in_use_at_once_are_kept_and_used_again() {
    let bench = Bench::new();
    let fill = |from: u64| (from..from + 150).for_each(|seed| bench.write_synced(&record(seed, 5000)));
    fill(0);
    bench.log.let_go(bench.log.published());
    bench.scheduler.settle();
    let (slots, prepared) = (bench.disk.paths(), bench.metrics.log_prepared_bytes.get());
    assert!(slots.len() >= 12, "{} slots", slots.len());
    fill(1000);
    assert_eq!(bench.disk.paths(), slots);
    let headers = bench.metrics.log_prepared_bytes.get() - prepared;
    assert!(headers < u64::from(SEGMENT_BYTES), "{headers} bytes to make segments ready again");
}

#[test]
fn new_segments_are_filled_only_for_callers_that_wait_for_syncs() {
    let prepared = |allocates: bool, is_synced: bool| {
        let disk = Arc::<Disk>::default();
        disk.allocates.store(allocates, Ordering::SeqCst);
        let bench = Bench::try_begin(&disk, 1, None).unwrap();
        for seed in 0..150 {
            bench.write(&record(seed, 5000)).unwrap();
            bench.scheduler.settle();
            // As the sync at intervals, which no caller waits for.
            let end = bench.log.published().position;
            match is_synced {
                true => bench.log.sync(end).unwrap(),
                false => {
                    let log = Arc::clone(&bench.log);
                    let sync = async move { log.sync_in_background(end).await.unwrap() };
                    bench.scheduler.spawn(Lane::Log, Box::pin(sync));
                    bench.scheduler.settle();
                    assert!(bench.log.durable() >= end);
                }
            }
        }
        let segments = bench.disk.paths().len() as u64;
        assert!(segments >= 12, "{segments} segments");
        bench.metrics.log_prepared_bytes.get() / segments
    };
    let whole = u64::from(SEGMENT_BYTES);
    assert!(prepared(true, false) < whole / 4, "only headers, and the first segment");
    assert!(prepared(true, true) >= whole, "a sync of filled blocks needs no commit of a journal");
    assert!(prepared(false, false) >= whole, "the file system cannot allocate");
}

#[test]
fn records_are_stored_unless_callers_often_wait_for_syncs() {
    // 5 kB a record: a caller for each record, or for each 30.
    for (records_a_caller, is_stored) in [(1, false), (30, true)] {
        let disk = Arc::<Disk>::default();
        disk.maps.store(true, Ordering::SeqCst);
        let bench = Bench::try_begin(&disk, 1, None).unwrap();
        assert!(bench.log.lock_tail().segment.mapping().is_some(), "the first segment");
        for seed in 0..150 {
            let end = bench.write(&record(seed, 5000)).unwrap();
            if seed % records_a_caller == 0 {
                bench.log.sync(end).unwrap();
            }
            bench.scheduler.settle();
        }
        let segment = || Arc::clone(&bench.log.lock_tail().segment);
        let for_callers = segment();
        assert_eq!(for_callers.is_for_callers, !is_stored, "a caller for each {records_a_caller} records");
        assert_eq!(bench.log.is_by_position(&for_callers), !is_stored);
        // Nobody waits any more: records are stored again, also to segments that were made before.
        for seed in 0..60 {
            bench.scheduler.settle();
            bench.write(&record(seed, 5000)).unwrap();
        }
        assert!(segment().mapping().is_some());
        assert!(!bench.log.is_by_position(&segment()) && !bench.log.is_by_position(&for_callers));
    }
}

#[test]
fn a_spare_that_is_not_wanted_any_more_is_unmapped_outside_the_lock() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    let bench = Bench::try_begin(&disk, 1, None).unwrap();
    bench.log.lock_tail().supply.wanted = 9;
    bench.log.wanted.notify_all();
    bench.scheduler.settle();
    assert_eq!(bench.log.lock_tail().supply.spares.len(), 9);
    let (closed, log) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(&bench.log));
    let count = Arc::clone(&closed);
    *disk.on_close.lock().unwrap() = Some(Arc::new(move || {
        let log = log.upgrade().unwrap();
        assert!(log.tail.try_lock().is_some(), "writers would wait for the kernel to unmap a segment");
        count.fetch_add(1, Ordering::SeqCst);
    }));
    bench.log.lock_tail().supply.wanted = 0;
    bench.log.wanted.notify_all();
    bench.scheduler.settle();
    *disk.on_close.lock().unwrap() = None;
    assert_eq!(bench.log.lock_tail().supply.spares.len(), 4);
    assert_eq!(closed.load(Ordering::SeqCst), 5 * 4, "two files and two mappings each");
}
