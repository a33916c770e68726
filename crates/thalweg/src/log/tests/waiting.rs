//! Writers that wait for segments, and closes that wait for writers.

use super::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Small records that a writer makes at most beside the large one.
const SMALL_MAX: u64 = 3000;

#[test]
fn a_record_of_many_segments_gets_its_turn_beside_small_writers() {
    let disk = Arc::<Disk>::default();
    let (environment, scheduler) = fake::environment(&disk, 1, true);
    let options = options(&environment, SEGMENT_BYTES);
    let log = Log::begin(environment, Arc::default(), Arc::default(), directory(), options, None).unwrap();
    log.tasks().into_iter().for_each(|(lane, task)| scheduler.spawn(lane, task));
    let write = |record: &Record| {
        let reservation = log.reserve(record).unwrap();
        let mark = reservation.mark();
        log.copy_in(&reservation, record, false).unwrap();
        log.publish(reservation).unwrap();
        mark.position.segment()
    };
    let (is_large_done, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let waited_segments = std::thread::scope(|scope| {
        let small = |writer: u64| {
            let (write, is_large_done) = (&write, &is_large_done);
            move || {
                for i in 0..SMALL_MAX {
                    write(&record(writer * SMALL_MAX + i, 9000));
                    if is_large_done.load(Ordering::SeqCst) {
                        return;
                    }
                }
            }
        };
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(small(writer))).collect();
        let background = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                scheduler.poll();
                log.let_go(log.published());
                std::thread::yield_now();
            }
        });
        let large = record(1 << 40, 200 * SEGMENT_BYTES as usize);
        while log.published().position.segment() < 20 {
            std::thread::yield_now();
        }
        let before = log.lock_tail().segment.id.index;
        let first = write(&large);
        is_large_done.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        background.join().unwrap();
        first - before
    });
    assert!(waited_segments < 150, "small writers took {waited_segments} segments before the large record");
}

#[test]
fn a_close_of_a_poisoned_log_waits_for_writers_that_have_reserved() {
    for is_given_up in [false, true] {
        let bench = Bench::blocking();
        let parked = bench.log.reserve(&record(1, 10)).unwrap();
        // It is done behind the parked one, which will never be published before it.
        let behind = bench.log.reserve(&record(2, 10)).unwrap();
        let failure = crate::Error::io("sync", Path::new("x"), std::io::Error::other("medium error"));
        bench.health.poison(failure);
        let is_closed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                let closed = bench.log.finish_writes();
                is_closed.store(true, Ordering::SeqCst);
                closed
            });
            let looks = || std::thread::sleep(std::time::Duration::from_millis(30));
            looks();
            assert!(bench.log.publish(behind).is_err(), "it waits for a record of a poisoned log");
            looks();
            assert!(!is_closed.load(Ordering::SeqCst), "a writer may still store into the log");
            match is_given_up {
                true => drop(parked),
                false => bench.log.publish(parked).unwrap(),
            }
            assert!(closing.join().unwrap().is_err(), "the log is poisoned");
        });
    }
}
