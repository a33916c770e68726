//! Recycling, the frontier, poison, full disks, many threads.

use super::*;
use crate::error::ErrorKind;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

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
    assert!(bench.disk.paths().len() <= 8, "{} files", bench.disk.paths().len());
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
    assert!(disk.paths().len() <= 8, "{} files", disk.paths().len());
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
fn a_sync_begins_where_the_log_is_needed_though_an_older_one_is_in_flight() {
    let bench = Bench::new();
    let log = &bench.log;
    let first = log.issue_for_tests(bench.write(&record(1, 10)).unwrap()).unwrap();
    for seed in 2..30 {
        bench.write(&record(seed, 5000)).unwrap();
    }
    let start = log.published();
    log.let_go(start);
    bench.scheduler.settle();
    let last = record(40, 10);
    let end = bench.write(&last).unwrap();
    let second = log.issue_for_tests(end).unwrap();
    log.finish_sync(first, Ok(())).unwrap();
    assert_eq!(log.durable(), start.position, "not back to the end of the first");
    log.finish_sync(second, Ok(())).unwrap();
    assert_eq!(log.durable(), end);
}

#[test]
fn those_who_wait_for_a_leader_are_not_forgotten_when_the_log_is_let_go_under_it() {
    let bench = Bench::blocking();
    let write = |seed| bench.write(&record(seed, 10)).unwrap();
    let in_flight = [1, 2].map(|seed| bench.log.issue_for_tests(write(seed)).unwrap());
    let came_back = Arc::new(AtomicUsize::new(0));
    let wait_until = |done: &dyn Fn() -> bool| {
        (0..5000).any(|_| {
            std::thread::sleep(MILLISECOND);
            done()
        })
    };
    let join = |count: usize, end: LogPosition| {
        let (log, came_back) = (Arc::clone(&bench.log), Arc::clone(&came_back));
        std::thread::spawn(move || {
            log.sync(end).unwrap();
            came_back.fetch_add(1, Ordering::SeqCst);
        });
        assert!(wait_until(&|| bench.log.waiting_for_tests() == count));
        // Asleep, so that they are woken in this order.
        std::thread::sleep(20 * MILLISECOND);
    };
    join(1, write(3));
    join(2, write(4));
    let start = bench.log.published();
    join(3, write(5));
    bench.log.let_go(start);
    in_flight.into_iter().for_each(|sync| bench.log.finish_sync(sync, Ok(())).unwrap());
    assert!(wait_until(&|| came_back.load(Ordering::SeqCst) == 3), "one waits for ever");
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
fn the_frontier_moves_in_the_order_of_issue() {
    let bench = Bench::new();
    let log = &bench.log;
    let start = log.durable();
    let first_end = bench.write(&record(1, 10)).unwrap();
    let first = log.issue_for_tests(first_end).unwrap();
    let second_end = bench.write(&record(2, 10)).unwrap();
    let second = log.issue_for_tests(second_end).unwrap();
    let third_end = bench.write(&record(3, 10)).unwrap();
    assert!(log.issue_for_tests(third_end).is_none(), "at most two are in flight");
    log.finish_sync(second, Ok(())).unwrap();
    assert_eq!(log.durable(), start, "the first may still fail");
    let third = log.issue_for_tests(third_end).unwrap();
    log.finish_sync(first, Ok(())).unwrap();
    assert_eq!(log.durable(), second_end);
    log.finish_sync(third, Ok(())).unwrap();
    assert_eq!(log.durable(), third_end);
}

#[test]
fn a_second_sync_waits_until_its_group_is_as_large_as_the_one_in_flight() {
    let bench = Bench::new();
    let log = &bench.log;
    let write = |seed| bench.write(&record(seed, 10)).unwrap();
    let first = log.issue_for_tests(write(1)).unwrap();
    let second = log.issue_for_tests(write(2)).unwrap();
    // Each look is that of one more member.
    for seed in 3..5 {
        assert!(log.issue_for_tests(write(seed)).is_none(), "both places are taken");
    }
    log.finish_sync(first, Ok(())).unwrap();
    let third = log.issue_for_tests(write(5)).unwrap();
    log.finish_sync(second, Ok(())).unwrap();
    for seed in 6..8 {
        assert!(log.issue_for_tests(write(seed)).is_none(), "two wait, and three are covered");
    }
    let fourth = log.issue_for_tests(write(8)).unwrap();
    log.finish_sync(third, Ok(())).unwrap();
    assert!(log.issue_for_tests(write(9)).is_none(), "one waits, and three are covered");
    log.finish_sync(fourth, Ok(())).unwrap();
    let end = write(10);
    log.sync(end).unwrap();
    assert_eq!(log.durable(), end, "beside no other sync, one is enough");
}

#[test]
fn a_sync_that_its_leader_gives_up_fails_for_everybody_who_waits() {
    let bench = Bench::new();
    let log = &bench.log;
    let covered_end = bench.write(&record(1, 10)).unwrap();
    let (first, second) = (log.issue_for_tests(covered_end).unwrap(), bench.write(&record(2, 10)).unwrap());
    let second = log.issue_for_tests(second).unwrap();
    let later_end = bench.write(&record(3, 10)).unwrap();
    let mut covered = std::pin::pin!(log.sync_in_background(covered_end));
    let mut later = std::pin::pin!(log.sync_in_background(later_end));
    let mut context = Context::from_waker(Waker::noop());
    assert!(covered.as_mut().poll(&mut context).is_pending() && later.as_mut().poll(&mut context).is_pending());
    let leader = std::panic::AssertUnwindSafe(move || {
        let _lost = first;
        panic!("an assertion of the leader");
    });
    assert!(std::panic::catch_unwind(leader).is_err());
    for waiter in [covered.as_mut(), later.as_mut()] {
        let Poll::Ready(Err(error)) = waiter.poll(&mut context) else { panic!("it waits for ever") };
        assert_eq!(error.kind(), ErrorKind::Poisoned);
    }
    log.finish_sync(second, Ok(())).unwrap();
    assert!(log.durable() < covered_end, "the sync that was given up covered it");
}

#[test]
fn everybody_hears_of_a_poison_that_comes_between_the_wake_up_of_a_leader_and_its_look() {
    // Whether it comes between is chance, and a matter of half of the rounds.
    for _ in 0..12 {
        let bench = Bench::blocking();
        let write = |seed| bench.write(&record(seed, 10)).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        // A sync in flight for eight: they came together while there were two others.
        let others = [1, 2].map(|seed| bench.log.issue_for_tests(write(seed)).unwrap());
        let mut eight: Vec<_> = (3..11).map(|seed| Box::pin(bench.log.sync_in_background(write(seed)))).collect();
        assert!(eight.iter_mut().all(|one| one.as_mut().poll(&mut context).is_pending()));
        others.into_iter().for_each(|sync| bench.log.finish_sync(sync, Ok(())).unwrap());
        let led = bench.log.issue_for_tests(write(11)).unwrap();
        // Six more wait for the next.
        let came_back = Arc::new(AtomicUsize::new(0));
        for end in (20..26).map(write) {
            let (log, came_back) = (Arc::clone(&bench.log), Arc::clone(&came_back));
            std::thread::spawn(move || {
                let _ = log.sync(end);
                came_back.fetch_add(1, Ordering::SeqCst);
            });
        }
        let wait_until = |done: &dyn Fn() -> bool| {
            (0..2000).any(|_| {
                std::thread::sleep(MILLISECOND);
                done()
            })
        };
        assert!(wait_until(&|| bench.log.waiting_for_tests() == 6));
        bench.log.finish_sync(led, Ok(())).unwrap();
        bench.health.poison(crate::Error::io("sync a table", Path::new("x"), std::io::Error::other("medium error")));
        assert!(wait_until(&|| came_back.load(Ordering::SeqCst) == 6), "some wait for ever");
    }
}

#[test]
fn a_failed_sync_poisons_and_the_frontier_stays() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 10));
    let durable = bench.log.durable();
    let end = bench.write(&record(2, 10)).unwrap();
    let first = bench.log.issue_for_tests(end).unwrap();
    let later = bench.write(&record(3, 10)).unwrap();
    let second = bench.log.issue_for_tests(later).unwrap();
    let failure = crate::Error::io("sync", Path::new("x"), std::io::Error::other("medium error"));
    assert!(bench.log.finish_sync(first, Err(failure)).is_err());
    bench.log.finish_sync(second, Ok(())).unwrap();
    assert_eq!(bench.log.durable(), durable);
    assert_eq!(bench.log.sync(end).err().unwrap().kind(), ErrorKind::Poisoned);
    assert_eq!(bench.write(&record(4, 10)).err().unwrap().kind(), ErrorKind::Poisoned);
    assert!(bench.log.close(1, 1).is_err());
}

#[test]
fn a_sync_that_the_disk_refuses_poisons() {
    let bench = Bench::new();
    bench.scheduler.settle();
    let end = bench.write(&record(1, 10)).unwrap();
    bench.disk.fails_syncs.store(true, Ordering::SeqCst);
    assert_eq!(bench.log.sync(end).err().unwrap().kind(), ErrorKind::Poisoned);
    bench.disk.fails_syncs.store(false, Ordering::SeqCst);
    assert!(bench.log.sync(end).is_err(), "nothing is tried again");
}

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
fn the_interval_syncer_makes_published_records_durable() {
    let disk = Arc::default();
    let (environment, scheduler) = fake::environment(&disk, 1, false);
    let sync_interval = Some(Duration::from_micros(50));
    let options = LogOptions { sync_interval, ..options(&environment, SEGMENT_BYTES) };
    let log = Log::begin(environment, Arc::default(), Arc::default(), directory(), options, None).unwrap();
    log.tasks().into_iter().for_each(|(lane, task)| scheduler.spawn(lane, task));
    let record = record(1, 10);
    let reservation = log.reserve(&record).unwrap();
    log.copy_in(&reservation, &record, false).unwrap();
    log.publish(reservation).unwrap();
    assert!(log.durable() < log.published().position);
    scheduler.settle();
    assert_eq!(log.durable(), log.published().position);
    log.stop();
    scheduler.settle();
    assert!(scheduler.tasks.lock().unwrap().is_empty());
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
        assert!(log.tail.try_lock().is_ok(), "writers would wait for the kernel to unmap a segment");
        count.fetch_add(1, Ordering::SeqCst);
    }));
    bench.log.lock_tail().supply.wanted = 0;
    bench.log.wanted.notify_all();
    bench.scheduler.settle();
    *disk.on_close.lock().unwrap() = None;
    assert_eq!(bench.log.lock_tail().supply.spares.len(), 4);
    assert_eq!(closed.load(Ordering::SeqCst), 5 * 4, "two files and two mappings each");
}
