//! How many segments there are, and how large: busy, quiet and full.

use super::*;
use crate::error::ErrorKind;
use crate::log::sizing::{PAUSE_NS, QUIET_NS};
use std::sync::atomic::Ordering;

fn begin(disk: &Arc<Disk>, recovered: Option<Scan>) -> Bench {
    let environment = fake::environment(disk, 1, false);
    let options = options(&environment.0, 4 << 20);
    let bench = Bench::begin_with(disk, environment, options, recovered).unwrap();
    bench.scheduler.settle();
    bench
}

/// Writes until the log has taken `bytes`, as fast as the clock of the test allows: all in one moment.
fn write_bytes(bench: &Bench, bytes: u64) {
    let before = bench.metrics.log_written_bytes.get();
    let mut seed = 0;
    while bench.metrics.log_written_bytes.get() < before + bytes {
        bench.write(&record(seed, 5000)).unwrap();
        bench.scheduler.poll();
        seed += 1;
    }
    bench.scheduler.settle();
}

#[test]
fn segments_grow_with_the_load_and_what_is_idle_goes_when_the_log_is_quiet() {
    let bench = begin(&Arc::default(), None);
    assert_eq!(bench.disk.bytes(), 64 << 10, "a new log");
    write_bytes(&bench, 100 << 10);
    assert!(bench.disk.bytes() < 2 << 20, "{} bytes for 100 KiB", bench.disk.bytes());
    write_bytes(&bench, 20 << 20);
    let segments = bench.log.segments();
    assert!(segments < 12, "{segments} segments for 20 MiB");

    bench.log.let_go(bench.log.published());
    bench.scheduler.settle();
    assert!(bench.disk.bytes() > 20 << 20, "the next burst finds its segments again");
    bench.scheduler.pass(PAUSE_NS);
    bench.scheduler.settle();
    assert!(bench.disk.bytes() <= 20 << 20, "{} bytes after a pause", bench.disk.bytes());
    bench.scheduler.pass(QUIET_NS - PAUSE_NS);
    bench.scheduler.settle();
    assert_eq!(bench.disk.paths().len(), 1, "only the segment in use");
    let small = bench.log.published().position;
    while bench.log.published().position.segment() == small.segment() {
        write_bytes(&bench, 100_000);
    }
    let grown = bench.log.lock_tail().segment.bytes;
    assert!(grown <= 256 << 10, "{grown} bytes after the log was quiet");
}

#[test]
fn a_log_goes_on_in_smaller_segments_and_idle_slots_where_there_is_no_room() {
    let bench = begin(&Arc::default(), None);
    // More than there are spares.
    write_bytes(&bench, 48 << 20);
    let start = bench.log.published();
    bench.log.let_go(start);
    bench.scheduler.settle();
    let (slots, idle) = (bench.disk.paths().len(), bench.log.lock_tail().supply.free.len());
    assert!(idle > 0);
    bench.disk.refuses_space.store(true, Ordering::SeqCst);
    let mut seed = 0;
    let error = loop {
        match bench.write(&record(seed, 60_000)) {
            Ok(_) => seed += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(bench.log.lock_tail().supply.free.len(), 0, "all idle slots are in use");
    assert!(bench.disk.paths().len() <= slots && seed > 20, "{seed} records");

    // The same after a death of the process, with nothing let go and no room: the open needs a slot that is idle.
    let disk = bench.disk.after_crash(true);
    let end = bench.log.published();
    disk.refuses_space.store(true, Ordering::SeqCst);
    let found = scan(&disk, start).unwrap();
    assert_eq!(found.end, end);
    let environment = fake::environment(&disk, 1, false);
    let options = options(&environment.0, 4 << 20);
    let refused = Bench::begin_with(&disk, environment, options, Some(found));
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::NoSpace);
}

#[test]
fn an_open_without_room_takes_any_slot_that_nothing_names() {
    let bench = begin(&Arc::default(), None);
    write_bytes(&bench, 8 << 20);
    bench.log.let_go(bench.log.published());
    bench.scheduler.settle();
    let start = bench.log.published();
    bench.write(&record(1, 100)).unwrap();
    let disk = bench.disk.after_crash(true);
    let slots = disk.paths();
    disk.refuses_space.store(true, Ordering::SeqCst);
    let again = begin(&disk, Some(scan(&disk, start).unwrap()));
    assert!(disk.paths().iter().all(|path| slots.contains(path)), "a new slot");
    again.write(&record(2, 100)).unwrap();
    let found = scan(&disk.after_crash(true), start).unwrap();
    assert_eq!(found.records, 2);
}

#[test]
fn a_large_record_takes_few_segments_even_in_a_new_log() {
    let bench = begin(&Arc::default(), None);
    let large = record(1, 15 << 20);
    bench.write(&large).unwrap();
    assert!(bench.log.segments() < 8, "{} segments for 15 MiB", bench.log.segments());
    assert_eq!(replayed(&bench.disk.after_crash(true)), expected(&[large]));
}

#[test]
fn a_close_leaves_one_small_idle_slot_at_most() {
    let bench = begin(&Arc::default(), None);
    write_bytes(&bench, 8 << 20);
    bench.log.let_go(bench.log.published());
    bench.log.close(1, 1).unwrap();
    bench.scheduler.settle();
    bench.log.remove_idle();
    let in_use = bench.log.lock_tail().segments.values().map(|segment| u64::from(segment.bytes)).sum::<u64>();
    assert!(bench.disk.bytes() <= in_use + (128 << 10), "{} bytes, {in_use} in use", bench.disk.bytes());
    assert_eq!(scan(&bench.disk.after_crash(false), bench.log.published()).unwrap().closed, Some((1, 1)));
}
