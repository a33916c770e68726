//! Torn tails, rotten bytes, crashes while a log begins.

use super::*;
use crate::error::{Error, ErrorKind};
use crate::format::EditId;
use crate::log::fuzz_segment;

fn first_slot() -> PathBuf {
    directory().join("00000000.log")
}

/// Three records, of which the last is not below any synced offset; and where the last begins and ends.
fn three_records() -> (Bench, Vec<Record>, u32, u32) {
    let bench = Bench::new();
    let records = vec![record(1, 50), record(2, 300), record(3, 200)];
    bench.write_synced(&records[0]);
    let from = bench.write(&records[1]).unwrap().offset();
    let to = bench.write(&records[2]).unwrap().offset();
    (bench, records, from, to)
}

#[test]
fn a_tail_torn_at_any_byte_ends_before_the_last_record() {
    let (bench, records, from, to) = three_records();
    for at in from..to {
        for garbage in [0, 0xa5] {
            let disk = bench.disk.after_crash(true);
            disk.edit(&first_slot(), |bytes| bytes[at as usize..to as usize].fill(garbage));
            let found = scan(&disk, LogMark::default()).unwrap();
            let lost = disk.read(&first_slot()) != bench.disk.read(&first_slot());
            let whole = if lost { 2 } else { 3 };
            assert_eq!(replay(&found).unwrap(), expected(&records[..whole]), "torn at {at}");
        }
    }
}

#[test]
fn a_flipped_byte_gives_an_error_that_names_it_or_right_data() {
    let bench = Bench::new();
    let records: Vec<_> = (0..40).map(|seed| record(seed, 3000)).collect();
    records.iter().for_each(|record| bench.write_synced(record));
    let good = expected(&records);
    let paths = bench.disk.paths();
    for path in &paths {
        let len = bench.disk.read(path).len();
        for at in (0..len).filter(|at| *at < 200 || at % 97 == 0 || len - at < 100) {
            let disk = bench.disk.after_crash(true);
            disk.edit(path, |bytes| bytes[at] ^= 0x10);
            match scan(&disk, LogMark::default()) {
                Err(Error::Corruption(damage)) => {
                    assert!(damage.path.starts_with("db/log"), "{damage:?}");
                    assert!(damage.offset <= at as u64 || damage.path != *path, "{at}: {damage:?}");
                }
                Err(other) => panic!("{other}"),
                Ok(found) => {
                    let got = replay(&found).unwrap();
                    // The last record is not below a synced offset: its loss looks like a torn tail.
                    assert!(got == good || got == good[..39], "{}:{at}: {} records", path.display(), got.len());
                }
            }
        }
    }
}

#[test]
fn a_rotten_seal_before_synced_records_is_corruption() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 40_000));
    bench.write_synced(&record(2, 40_000));
    bench.write_synced(&record(3, 100));
    let at = (SEGMENT_BYTES - 40 + 12) as usize;
    let disk = bench.disk.after_crash(false);
    disk.edit(&first_slot(), |bytes| bytes[at] ^= 1);
    assert_eq!(scan(&disk, LogMark::default()).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn a_missing_segment_in_the_log_is_corruption() {
    let bench = Bench::new();
    (0..40).for_each(|seed| bench.write_synced(&record(seed, 5000)));
    bench.scheduler.settle();
    for path in bench.disk.paths().into_iter().take(3) {
        let disk = bench.disk.after_crash(false);
        disk.files.lock().unwrap().remove(&path);
        assert_eq!(scan(&disk, LogMark::default()).err().unwrap().kind(), ErrorKind::Corruption, "{path:?}");
    }
}

#[test]
fn a_log_that_ends_before_a_known_end_is_corruption() {
    let (bench, _, _, _) = three_records();
    let end = bench.log.published();
    let found = scan(&bench.disk.after_crash(false), LogMark::default()).unwrap();
    assert!(found.expect_at_least(LogMark { seq: SeqNo(1), ..end }).is_ok());
    assert_eq!(found.expect_at_least(end).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn a_begin_after_a_torn_tail_may_be_cut_at_every_change() {
    let (bench, records, from, to) = three_records();
    let torn = bench.disk.after_crash(true);
    torn.edit(&first_slot(), |bytes| bytes[(from + 40) as usize..to as usize].fill(0x77));
    for changes in 0.. {
        let disk = torn.after_crash(true);
        let found = scan(&disk, LogMark::default()).unwrap();
        *disk.changes_left.lock().unwrap() = Some(changes);
        let begun = Bench::try_begin(&disk, 5, Some(found));
        let is_whole = begun.is_ok();
        if let Ok(bench) = &begun {
            drop(bench.write(&record(4, 60_000)));
            bench.scheduler.settle();
        }
        for keeps_unsynced in [false, true] {
            let disk = disk.after_crash(keeps_unsynced);
            let found = scan(&disk, LogMark::default()).unwrap();
            let kept = replay(&found).unwrap();
            assert_eq!(kept[..2], expected(&records[..2]), "cut after {changes} changes");
            assert!(kept.len() == 2 || is_whole);
            // And the log goes on after a second recovery.
            let again = Bench::try_begin(&disk, 6, Some(found)).unwrap();
            again.write_synced(&record(9, 10));
            let last = replayed(&disk.after_crash(false)).pop().unwrap();
            assert_eq!(last, (kept.len() as u64 + 1, record(9, 10).body().to_vec()));
        }
        if is_whole && changes > 40 {
            return;
        }
    }
}

#[test]
fn nothing_of_a_torn_tail_comes_back_once_the_log_went_on() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 100));
    // The middle one of three unsynced records is lost; the third is whole behind it.
    let from = bench.write(&record(2, 100)).unwrap().offset();
    bench.write(&record(3, 100)).unwrap();
    bench.write(&record(4, 100)).unwrap();
    let disk = bench.disk.after_crash(true);
    disk.edit(&first_slot(), |bytes| bytes[from as usize..from as usize + 50].fill(0));
    let found = scan(&disk, LogMark::default()).unwrap();
    assert_eq!(found.end.seq, SeqNo(2));
    let again = Bench::try_begin(&disk, 5, Some(found)).unwrap();
    again.write_synced(&record(7, 100));
    let kept = replayed(&disk.after_crash(false));
    assert_eq!(kept, expected(&[record(1, 100), record(2, 100), record(7, 100)]));
}

#[test]
fn point_in_time_ends_at_the_damage_and_keeps_a_copy() {
    let bench = Bench::new();
    let records: Vec<_> = (0..40).map(|seed| record(seed, 3000)).collect();
    records.iter().for_each(|record| bench.write_synced(record));
    let disk = bench.disk.after_crash(false);
    disk.edit(&first_slot(), |bytes| bytes[10_000] ^= 1);
    assert!(scan(&disk, LogMark::default()).is_err());
    let (environment, _) = fake::environment(&disk, 99, false);
    let policy = DamagePolicy::PointInTime;
    let found = Scan::run(&environment, &directory(), LogMark::default(), policy, false).unwrap();
    assert_eq!((found.ending, found.dropped.len()), (LogEnd::Damaged, 1));
    let kept = replay(&found).unwrap();
    assert_eq!(kept, expected(&records[..kept.len()]));
    let again = Bench::try_begin(&disk, 5, Some(found)).unwrap();
    again.write_synced(&record(7, 100));
    let disk = disk.after_crash(false);
    assert_eq!(replayed(&disk).len(), kept.len() + 1);
    assert!(disk.paths().iter().any(|path| path.starts_with("db/lost")));
}

#[test]
fn point_in_time_survives_the_loss_of_the_start() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 100));
    let mark = bench.log.published();
    bench.write_synced(&record(2, 100));
    bench.scheduler.settle();
    for start in [LogMark::default(), mark] {
        let disk = bench.disk.after_crash(false);
        disk.edit(&first_slot(), |bytes| bytes[3] ^= 1);
        assert!(scan(&disk, start).is_err());
        let (environment, _) = fake::environment(&disk, 99, false);
        let found = Scan::run(&environment, &directory(), start, DamagePolicy::PointInTime, false).unwrap();
        let again = Bench::try_begin(&disk, 5, Some(found)).unwrap();
        again.write_synced(&record(7, 100));
        let found = scan(&disk.after_crash(false), start).unwrap();
        assert_eq!(replay(&found).unwrap(), [(start.seq.0 + 1, record(7, 100).body().to_vec())]);
    }
}

/// A manifest that has lost its end must not give numbers again that such headers name.
#[test]
fn point_in_time_tells_which_edits_were_settled_although_the_start_is_lost() {
    let bench = Bench::new();
    bench.log.set_settled(EditId(9));
    for number in 1..20 {
        bench.write_synced(&record(number, 30_000));
        bench.scheduler.settle();
    }
    let disk = bench.disk.after_crash(false);
    disk.edit(&first_slot(), |bytes| bytes[3] ^= 1);
    let (environment, _) = fake::environment(&disk, 99, false);
    let start = LogMark::default();
    let found = Scan::run(&environment, &directory(), start, DamagePolicy::PointInTime, false).unwrap();
    assert_eq!((replay(&found).unwrap().len(), found.settled), (0, EditId(9)));
}

#[test]
fn padding_that_is_not_zeros_is_told_and_does_not_hinder_replay() {
    let bench = Bench::new();
    // Leaves fewer than 40 bytes of the first block.
    let end = bench.write(&record(1, 32_768 - 64 - 36 - 13 - 20)).unwrap();
    assert_eq!(end.offset(), 32_768);
    bench.log.sync(end).unwrap();
    bench.write_synced(&record(2, 10));
    let disk = bench.disk.after_crash(false);
    assert!(scan(&disk, LogMark::default()).unwrap().padding.is_empty());
    disk.edit(&first_slot(), |bytes| bytes[32_767] = 1);
    let found = scan(&disk, LogMark::default()).unwrap();
    assert_eq!(found.padding.len(), 1);
    assert_eq!(replay(&found).unwrap().len(), 2);
}

#[test]
fn a_read_only_scan_changes_nothing() {
    let (bench, _, _, _) = three_records();
    let disk = bench.disk.after_crash(true);
    *disk.changes_left.lock().unwrap() = Some(0);
    let (environment, _) = fake::environment(&disk, 9, false);
    let found = Scan::run(&environment, &directory(), LogMark::default(), DamagePolicy::Strict, true).unwrap();
    assert_eq!(replay(&found).unwrap().len(), 3);
}

#[test]
fn a_segment_of_any_bytes_never_panics() {
    let (bench, _, _, _) = three_records();
    let good = bench.disk.read(&first_slot());
    assert_eq!(fuzz_segment(&good), 3);
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..1 + next() % 4 {
            let at = HEADER_BYTES as usize + next() % 800;
            bytes[at] = next() as u8;
        }
        bytes.truncate(if next() % 3 == 0 { next() % bytes.len() } else { bytes.len() });
        assert!(fuzz_segment(&bytes) <= 3);
    }
}

/// Rounds of writing, syncing, letting go and cutting the power, on one disk.
fn survives_power_cuts(seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut disk = Arc::new(Disk::default());
    let (mut start, mut kept, mut recovered) = (LogMark::default(), Vec::<(u64, Vec<u8>)>::new(), None);
    for round in 0..12u64 {
        let chance = next(5);
        *disk.changes_left.lock().unwrap() = (next(3) == 0).then(|| next(200));
        let mut written = kept.clone();
        let mut durable = kept.last().map_or(start.seq.0, |(seq, _)| *seq);
        if let Ok(bench) = Bench::try_begin(&disk, seed * 100 + round, recovered.take()) {
            for _ in 0..next(40) {
                let bytes = if next(6) == 0 { next(150_000) } else { next(6000) };
                let record = record(next(1 << 40), bytes as usize);
                let Ok(reservation) = bench.log.reserve(&record) else { break };
                let seq = reservation.first_seq().0;
                written.push((seq, record.body().to_vec()));
                let end = reservation.end();
                let is_copied = bench.log.copy_in(&reservation, &record, true).is_ok();
                if !is_copied || bench.log.publish(reservation).is_err() {
                    break;
                }
                if next(4) == 0 && bench.log.sync(end).is_ok() {
                    durable = seq;
                }
                if next(9) == 0 && durable == seq {
                    start = bench.log.published();
                    bench.log.let_go(start);
                }
                (0..next(4)).for_each(|_| bench.scheduler.poll());
            }
        }
        disk = disk.after_power_cut(&mut || next(5) < chance);
        let found = scan(&disk, start).unwrap_or_else(|error| panic!("seed {seed} round {round}: {error}"));
        kept = replay(&found).unwrap();
        let all: Vec<_> = written.into_iter().filter(|(seq, _)| *seq > start.seq.0).collect();
        assert!(kept.len() <= all.len() && kept == all[..kept.len()], "seed {seed} round {round}");
        let last = kept.len() as u64 + start.seq.0;
        assert!(last >= durable, "seed {seed} round {round}: synced records are lost");
        recovered = Some(found);
    }
}

#[test]
fn synced_records_survive_power_cuts_that_keep_any_sectors() {
    (0..40).for_each(survives_power_cuts);
}
