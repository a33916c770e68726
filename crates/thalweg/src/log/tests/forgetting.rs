//! Which pages of the log the page cache forgets.

use super::*;
use crate::log::forgetting::Forgetting;
use crate::log::header::SegmentId;
use crate::log::segment::Segment;
use std::sync::atomic::Ordering;

/// Lets the page cache forget a log of about thirty segments, half of them let go, while tables have this many direct
/// reads for each of its records. Returns the number of pieces, and asserts that none is of a segment in use or let go.
fn forgotten(maps: bool, reads_a_record: u64) -> usize {
    let disk = Arc::<Disk>::default();
    disk.maps.store(maps, Ordering::SeqCst);
    let bench = Bench::try_begin(&disk, 1, None).unwrap();
    for seed in 0..300 {
        let end = bench.write(&record(seed, 5000)).unwrap();
        if seed % 30 == 0 {
            // With more syncs that are waited for, records would be written by position.
            bench.log.sync(end).unwrap();
        }
        bench.metrics.reads().direct_reads.add(reads_a_record);
        if seed == 150 {
            bench.log.let_go(bench.log.published());
            disk.forgotten.lock().unwrap().clear();
        }
        bench.scheduler.settle();
        let in_use = bench.log.published().position.segment();
        let tail = bench.log.lock_tail();
        let kept: Vec<_> = tail.segments.range(..in_use).map(|(_, segment)| segment.path.clone()).collect();
        assert!(disk.forgotten.lock().unwrap().iter().all(|(path, _)| kept.contains(path)));
    }
    let pieces = disk.forgotten.lock().unwrap();
    pieces.len()
}

#[test]
fn durable_segments_are_forgotten_while_reads_of_tables_miss() {
    assert!(forgotten(true, 1) >= 8, "{} pieces", forgotten(true, 1));
}

#[test]
fn nothing_is_forgotten_while_hardly_a_read_misses_or_where_records_are_written_by_position() {
    assert_eq!(forgotten(true, 0), 0);
    assert_eq!(forgotten(false, 1), 0, "missing pages would be read when the file is used again");
}

#[test]
fn a_segment_is_forgotten_once_in_steps_and_only_as_long_as_it_is_kept() {
    const BYTES: u32 = (5 << 20) / 2;
    let disk = Arc::<Disk>::default();
    disk.maps.store(true, Ordering::SeqCst);
    let (environment, _) = fake::environment(&disk, 1, false);
    let segment = |index: u32| {
        let path = PathBuf::from(format!("{index:08}.log"));
        environment.storage.create(&path).unwrap().set_bytes(u64::from(BYTES)).unwrap();
        let id = SegmentId { index, generation: 1 };
        Arc::new(Segment::open_mapped(&environment, path, id, BYTES).unwrap())
    };
    // Newest first, as they are closed.
    let closed: Vec<_> = [5, 4, 3].map(segment).into();
    let enough = 3 * u64::from(BYTES) / (16 << 10);
    let mut forgetting = Forgetting::default();
    forgetting.look(&closed, 4, enough - 1);
    assert!(forgetting.next(|_| true).is_none(), "one read too few");
    forgetting.look(&closed, 4, 2 * enough - 2);
    assert!(forgetting.next(|_| true).is_none(), "reads count once");
    forgetting.look(&closed, 4, 3 * enough - 2);
    let mut steps = Vec::new();
    while let Some(step) = forgetting.next(|index| index != 5 || steps.len() < 5) {
        steps.push((step.path.to_string_lossy().into_owned(), step.from..step.to));
    }
    let [first, second] = ["00000004.log", "00000005.log"].map(String::from);
    let whole = [0..1 << 20, 1 << 20..2 << 20, 2 << 20..BYTES];
    let wanted: Vec<_> = whole.iter().map(|step| (first.clone(), step.clone())).collect();
    assert_eq!(steps[..3], wanted, "segment 3 is let go");
    assert_eq!(steps[3..], [(second.clone(), 0..1 << 20), (second, 1 << 20..2 << 20)], "then it was released");
}
