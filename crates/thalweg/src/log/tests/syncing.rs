//! Group commit, the frontier, the sync at intervals, and failed syncs.

use super::*;
use crate::error::ErrorKind;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

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
fn waiting_callers_are_not_forgotten_when_the_log_is_let_go_under_it() {
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

/// Writes records until this number of segments is not durable. Returns the end of the last record.
fn write_segments(bench: &Bench, segments: u32) -> LogPosition {
    let is_enough = |end: &LogPosition| end.segment() + 1 >= bench.log.durable().segment() + segments;
    (1..200).map(|seed| bench.write(&record(seed, 5000)).unwrap()).find(is_enough).unwrap()
}

#[test]
fn a_thread_leaves_a_sync_of_many_segments_to_a_coroutine_that_has_a_ring() {
    for has_ring in [true, false] {
        let bench = Bench::new();
        bench.scheduler.has_ring.store(has_ring, Ordering::SeqCst);
        bench.log.sync(bench.write(&record(1, 10)).unwrap()).unwrap();
        assert!(bench.log.last_in_background().is_none(), "one segment is synced by the thread");
        let end = write_segments(&bench, 4);
        bench.log.sync(end).unwrap();
        assert!(bench.log.durable() >= end);
        assert_eq!(bench.log.last_in_background().is_some(), has_ring);
    }
}

#[test]
fn a_thread_syncs_many_segments_itself_once_the_coroutines_have_ended() {
    let bench = Bench::new();
    bench.scheduler.has_ring.store(true, Ordering::SeqCst);
    let end = write_segments(&bench, 4);
    bench.log.stop();
    bench.log.sync(end).unwrap();
    assert!(bench.log.durable() >= end && bench.log.last_in_background().is_none());
}

#[test]
fn a_thread_that_left_its_sync_to_a_coroutine_gets_the_poison() {
    let bench = Bench::new();
    bench.scheduler.has_ring.store(true, Ordering::SeqCst);
    let end = write_segments(&bench, 4);
    bench.disk.fails_syncs.store(true, Ordering::SeqCst);
    assert_eq!(bench.log.sync(end).unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(bench.log.sync(end).is_err(), "nothing is tried again");
}

#[test]
fn a_sync_that_its_leader_gives_up_fails_for_every_waiting_caller() {
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
fn every_caller_gets_a_poison_that_comes_between_the_wake_up_of_a_leader_and_its_look() {
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
fn a_record_published_while_the_interval_joins_a_callers_sync_has_waited_since() {
    const INTERVAL_NS: u64 = 1_000_000_000;
    let disk = Arc::default();
    let (environment, scheduler) = fake::environment(&disk, 1, false);
    let sync_interval = Some(Duration::from_nanos(INTERVAL_NS));
    let options = LogOptions { sync_interval, ..options(&environment, SEGMENT_BYTES) };
    let bench = Bench::begin_with(&disk, (environment, scheduler), options, None).unwrap();
    let end = bench.write(&record(1, 10)).unwrap();
    bench.scheduler.settle();
    let callers = bench.log.issue_for_tests(end).unwrap();
    bench.scheduler.pass(INTERVAL_NS);
    bench.scheduler.settle();
    let later_end = bench.write(&record(2, 10)).unwrap();
    bench.scheduler.pass(INTERVAL_NS / 2);
    bench.log.finish_sync(callers, Ok(())).unwrap();
    bench.scheduler.settle();
    assert_eq!(bench.log.durable(), end, "half an interval is left");
    bench.scheduler.pass(INTERVAL_NS / 2);
    bench.scheduler.settle();
    assert_eq!(bench.log.durable(), later_end);
}
