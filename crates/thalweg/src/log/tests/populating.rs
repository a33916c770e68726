//! Segments that are durable ahead of their use, and the few of them whose pages are ready.

use super::*;
use crate::error::ErrorKind;
use crate::log::slots::Slots;
use crate::storage::OpenMode;
use std::sync::atomic::Ordering;

const MIB: u32 = 1 << 20;

/// A log of segments up to 4 MiB on a disk that maps files. Its page cache has lost every page of a released segment.
fn begin() -> Bench {
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    disk.allocates.store(true, Ordering::SeqCst);
    disk.evicts.store(true, Ordering::SeqCst);
    let environment = fake::environment(&disk, 1, false);
    let options = options(&environment.0, 4 * MIB);
    Bench::begin_with(&disk, environment, options, None).unwrap()
}

/// Writes records from `seed` on until the log has grown by `segments`, with a poll after each. Returns the next seed.
fn fill(bench: &Bench, mut seed: u64, segments: u32) -> u64 {
    let until = bench.log.published().position.segment() + segments;
    while bench.log.published().position.segment() < until {
        bench.write(&record(seed, 50_000)).unwrap();
        bench.scheduler.poll();
        seed += 1;
    }
    seed
}

fn counts(bench: &Bench) -> (usize, usize) {
    let supply = &bench.log.lock_tail().supply;
    (supply.spares.len(), supply.unpopulated.len())
}

#[test]
fn a_busy_log_has_many_segments_durable_and_two_of_them_ready() {
    let bench = begin();
    let seed = fill(&bench, 0, 12);
    bench.scheduler.settle();
    assert_eq!(counts(&bench), (2, 6));
    let (in_use, populated) = {
        let tail = bench.log.lock_tail();
        let ready = tail.segments.values().chain(&tail.supply.spares);
        (ready.map(|segment| u64::from(segment.bytes)).sum::<u64>(), bench.disk.populated.load(Ordering::SeqCst))
    };
    assert_eq!(populated, in_use, "segments in use and spares");

    let prepared: Vec<_> = bench.log.lock_tail().supply.prepared().map(|segment| segment.id).collect();
    assert!(prepared.len() == 8 && prepared.is_sorted_by_key(|id| id.index));
    let environment = fake::environment(&bench.disk.after_crash(false), 1, false).0;
    let slots = Slots::load(&environment, &directory(), OpenMode::Read).unwrap();
    for id in prepared {
        assert!(slots.find(id).is_some(), "the header of segment {} is not durable", id.index);
    }

    fill(&bench, seed, 1);
    bench.scheduler.settle();
    assert_eq!(counts(&bench).0, 2, "the next one is ready");
}

#[test]
fn zeros_in_recycled_segments_never_replace_records() {
    let bench = begin();
    let mut seed = fill(&bench, 0, 12);
    for _ in 0..12 {
        bench.log.let_go(bench.log.published());
        let (start, from) = (bench.log.published(), seed);
        seed = fill(&bench, seed, 3);
        let found = replay(&scan(&bench.disk.after_crash(true), start).unwrap()).unwrap();
        let bodies: Vec<_> = found.into_iter().map(|(_, body)| body).collect();
        let written: Vec<_> = (from..seed).map(|seed| record(seed, 50_000).body().to_vec()).collect();
        assert!(bodies == written, "{} of {} records came back unharmed", bodies.len(), written.len());
    }
    let segments = bench.log.lock_tail().segment.id.index;
    assert!((bench.disk.paths().len() as u32) < segments / 2, "segments were recycled");
}

#[test]
fn a_segment_that_is_given_back_while_it_is_made_ready_is_no_spare() {
    let bench = begin();
    // With a ring the populater yields between its steps.
    bench.scheduler.has_ring.store(true, Ordering::SeqCst);
    fill(&bench, 0, 12);
    bench.scheduler.settle();
    // One is taken, and the populater is in the middle of the next one.
    let (index, mut seed) = (bench.log.lock_tail().segment.id.index, 1000);
    while bench.log.lock_tail().segment.id.index == index {
        bench.write(&record(seed, 50_000)).unwrap();
        seed += 1;
    }
    let before = bench.disk.populated.load(Ordering::SeqCst);
    while bench.disk.populated.load(Ordering::SeqCst) == before {
        bench.scheduler.poll();
    }
    assert!(bench.disk.populated.load(Ordering::SeqCst) - before < u64::from(4 * MIB));
    assert_eq!(counts(&bench).0, 1);
    let at = {
        let tail = bench.log.lock_tail();
        (tail.segment.id.index, tail.offset)
    };
    bench.log.give_back_idle(at);
    bench.log.wanted.notify_all();
    bench.scheduler.settle();
    assert_eq!(counts(&bench), (0, 0));
    assert_eq!(bench.disk.paths().len(), bench.log.segments(), "the files of the prepared segments are removed");
    fill(&bench, seed, 3);
}

#[test]
fn a_writer_gets_no_error_while_a_prepared_segment_is_left() {
    let bench = begin();
    fill(&bench, 0, 12);
    bench.scheduler.settle();
    assert_eq!(counts(&bench), (2, 6));
    bench.disk.refuses_space.store(true, Ordering::SeqCst);
    let before = bench.log.published().position.segment();
    let error = (0..).find_map(|seed| bench.write(&record(seed, 50_000)).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    // A full disk gets some of them back.
    let taken = bench.log.published().position.segment() - before;
    assert!(taken > 2, "{taken} of 8");
    assert_eq!(counts(&bench), (0, 0));
}

#[test]
fn a_segment_that_cannot_be_made_ready_is_replaced() {
    let bench = begin();
    let mut seed = fill(&bench, 0, 12);
    bench.log.let_go(bench.log.published());
    seed = fill(&bench, seed, 10);
    bench.scheduler.settle();
    assert!(bench.log.lock_tail().supply.unpopulated.iter().any(|segment| segment.is_recycled));
    // Zeros cannot be written until the file of the segment is removed.
    bench.disk.refuses_overwrites.store(true, Ordering::SeqCst);
    let start = bench.log.published();
    let written = seed..fill(&bench, seed, 12);
    assert!(!bench.disk.refuses_overwrites.load(Ordering::SeqCst), "no file was removed");
    let found = replay(&scan(&bench.disk.after_crash(true), start).unwrap()).unwrap();
    assert_eq!(found.len() as u64, written.end - written.start);
}
