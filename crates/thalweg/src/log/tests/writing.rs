//! Writing: order, mappings, many threads, full disks, and records that are given up.

use super::*;
use crate::error::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_full_disk_is_told_and_poisons_nothing() {
    let bench = Bench::new();
    bench.disk.refuses_space.store(true, Ordering::SeqCst);
    let mut written = Vec::new();
    let error = loop {
        match bench.write(&record(7, 9000)) {
            Ok(_) => written.push(record(7, 9000)),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(bench.health.check().is_ok());
    let small = record(8, 1);
    bench.write(&small).unwrap();
    written.push(small);
    assert_eq!(bench.write(&record(7, 9000)).err().unwrap().kind(), ErrorKind::NoSpace);
    bench.disk.refuses_space.store(false, Ordering::SeqCst);
    bench.write(&record(7, 9000)).unwrap();
    written.push(record(7, 9000));
    assert!(bench.metrics.stalls_log.count.get() >= 3);
    assert_eq!(replayed(&bench.disk.after_crash(true)), expected(&written));
}

#[test]
fn where_overwriting_takes_space_the_reserve_is_spent_before_the_database_is_poisoned() {
    for has_reserve in [false, true] {
        let bench = Bench::new();
        if has_reserve {
            let reserve = bench.environment.storage.create(Path::new("db/RESERVE")).unwrap();
            reserve.write_all_at(0, &[1; 4096]).unwrap();
        }
        bench.write(&record(1, 1)).unwrap();
        bench.disk.refuses_overwrites.store(true, Ordering::SeqCst);
        let written = bench.write(&record(2, 1));
        assert_eq!(written.is_ok(), has_reserve);
        assert_eq!(bench.health.check().is_ok(), has_reserve);
        let expected_records = if has_reserve { vec![record(1, 1), record(2, 1)] } else { vec![record(1, 1)] };
        assert_eq!(replayed(&bench.disk.after_crash(true)), expected(&expected_records));
    }
}

#[test]
fn a_record_given_up_poisons_and_what_follows_is_not_visible() {
    let bench = Bench::new();
    bench.write(&record(1, 1)).unwrap();
    let given_up = bench.log.reserve(&record(2, 1)).unwrap();
    let later = bench.log.reserve(&record(3, 1)).unwrap();
    bench.log.copy_in(&later, &record(3, 1), false).unwrap();
    drop(given_up);
    assert_eq!(bench.log.publish(later).err().unwrap().kind(), ErrorKind::Poisoned);
    assert_eq!(bench.log.visible(), SeqNo(1));
    assert_eq!(replayed(&bench.disk.after_crash(true)).len(), 1);
}

#[test]
fn records_become_visible_in_order() {
    let bench = Bench::new();
    let first = bench.log.reserve(&record(1, 1)).unwrap();
    let mut builder = RecordBuilder::new();
    (0..3).for_each(|_| builder.push(&Operation::DropKeyspace { keyspace: KeyspaceId(1) }));
    let second = bench.log.reserve(&builder.finish()).unwrap();
    assert_eq!((first.first_seq(), second.first_seq()), (SeqNo(1), SeqNo(2)));
    assert_eq!(second.mark().seq, SeqNo(1));
    assert_eq!(bench.log.at_seal_point(|seq| seq), SeqNo(4));
    assert_eq!(bench.log.visible(), SeqNo(0));
    bench.log.copy_in(&first, &record(1, 1), false).unwrap();
    bench.log.publish(first).unwrap();
    assert_eq!(bench.log.visible(), SeqNo(1));
    std::mem::forget(second);
}

#[test]
fn a_record_of_too_many_segments_is_refused_and_a_large_one_is_not() {
    let bench = Bench::new();
    let large = record(1, 20 * SEGMENT_BYTES as usize);
    bench.write(&large).unwrap();
    let error = bench.write(&record(2, 256 * SEGMENT_BYTES as usize)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(replayed(&bench.disk.after_crash(true)), expected(&[large]));
}

#[test]
fn threads_write_and_sync_together() {
    write_and_sync_in_threads(4, 7, &Arc::default());
}

#[test]
fn threads_write_and_sync_together_through_mappings() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    write_and_sync_in_threads(4, 7, &disk);
}

#[test]
fn many_threads_that_all_sync_are_all_woken() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    write_and_sync_in_threads(12, 1, &disk);
}

fn write_and_sync_in_threads(writers: u64, sync_one_in: u64, disk: &Arc<Disk>) {
    let (environment, scheduler) = fake::environment(disk, 1, true);
    let options = options(&environment, SEGMENT_BYTES);
    let log = Log::begin(environment, Arc::default(), Arc::default(), directory(), options, None).unwrap();
    log.tasks().into_iter().for_each(|(lane, task)| scheduler.spawn(lane, task));
    let is_done = AtomicBool::new(false);
    const EACH: u64 = 300;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let log = Arc::clone(&log);
                scope.spawn(move || {
                    for i in 0..EACH {
                        let record = record(writer * 1_000_000 + i, (i * 37 % 3000) as usize);
                        let reservation = log.reserve(&record).unwrap();
                        let (end, seq) = (reservation.end(), reservation.first_seq());
                        log.copy_in(&reservation, &record, i % sync_one_in == 0 && i % 2 == 0).unwrap();
                        log.publish(reservation).unwrap();
                        assert!(log.visible() >= seq);
                        if i % sync_one_in == 0 {
                            log.sync(end).unwrap();
                            assert!(log.durable() >= end);
                        }
                    }
                })
            })
            .collect();
        let background = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                scheduler.poll();
                std::thread::yield_now();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
        background.join().unwrap();
    });
    assert_eq!(log.visible(), SeqNo(writers * EACH));
    log.sync(log.published().position).unwrap();
    let found = scan(&disk.after_crash(false), LogMark::default()).unwrap();
    assert_eq!((found.end, found.records), (log.published(), writers * EACH));
}

#[test]
fn a_buffered_put_in_a_mapped_segment_calls_no_file() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    let bench = Bench::try_begin(&disk, 1, None).unwrap();
    // So much that a spare is due, and so little that it holds the rest.
    let records: Vec<_> = (0..22).map(|seed| record(seed, 5000)).collect();
    let (first, rest) = records.split_at(4);
    for record in first {
        bench.write(record).unwrap();
    }
    bench.scheduler.settle();
    *disk.changes_left.lock().unwrap() = Some(0);
    for record in rest {
        bench.write(record).unwrap();
    }
    assert_eq!(replayed(&disk.after_crash(true)), expected(&records));
    assert!(replayed(&disk.after_crash(false)).is_empty());
}

#[test]
fn range_syncs_keep_all_that_was_synced_over_blocks_and_segments() {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    let bench = Bench::try_begin(&disk, 1, None).unwrap();
    let sizes = [0, 1, 31, 32_000, 5, 33_000, 100, 70_000, 300_000, 40, 65_000, 12, 32_600, 32_650, 32_668];
    let records: Vec<_> = (0..).zip(sizes).map(|(seed, bytes)| record(seed, bytes)).collect();
    for (written, record) in (1..).zip(&records) {
        let end = bench.write_as(record, written % 3 == 0).unwrap();
        bench.log.sync(end).unwrap();
        assert_eq!(replayed(&disk.after_crash(false)), expected(&records[..written]));
    }
    bench.health.close();
    bench.log.close(7, 1234).unwrap();
    assert_eq!(scan(&disk.after_crash(false), LogMark::default()).unwrap().closed, Some((7, 1234)));
}
