//! Tests of the log over a disk in memory: what comes back after crashes, damage, failures and full disks.

mod callbacks;
mod damage;
mod fake;
mod forgetting;
mod populating;
mod recycling;
mod sizes;
mod syncing;
mod waiting;
mod writing;

use super::header::HEADER_BYTES;
use super::scan::LogEnd;
use super::{DamagePolicy, Log, LogOptions, Operation, Record, RecordBuilder, Scan};
use crate::error::Result;
use crate::format::{KeyspaceId, LogMark, LogPosition, SeqNo};
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health, Scheduler, Space};
use fake::{Disk, Polling};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEGMENT_BYTES: u32 = 64 << 10;

fn directory() -> PathBuf {
    PathBuf::from("db/log")
}

/// Without an interval sync.
fn options(environment: &Environment, segment_bytes: u32) -> LogOptions {
    let space = Space::new(Arc::clone(&environment.storage), Path::new("db"), 1 << 20, 1 << 20);
    LogOptions { segment_bytes, sync_interval: None, space }
}

/// A log that runs over a disk.
struct Bench {
    disk: Arc<Disk>,
    environment: Environment,
    scheduler: Arc<Polling>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
}

impl Bench {
    fn try_begin(disk: &Arc<Disk>, seed: u64, recovered: Option<Scan>) -> Result<Bench> {
        Self::begin_in(disk, fake::environment(disk, seed, false), recovered)
    }
    fn begin_in(
        disk: &Arc<Disk>,
        (environment, scheduler): (Environment, Arc<Polling>),
        recovered: Option<Scan>,
    ) -> Result<Bench> {
        let options = options(&environment, SEGMENT_BYTES);
        Self::begin_with(disk, (environment, scheduler), options, recovered)
    }
    fn begin_with(
        disk: &Arc<Disk>,
        (environment, scheduler): (Environment, Arc<Polling>),
        options: LogOptions,
        recovered: Option<Scan>,
    ) -> Result<Bench> {
        let health = Arc::new(Health::default());
        let metrics = Arc::new(Metrics::default());
        let parts = (environment.clone(), Arc::clone(&health), Arc::clone(&metrics));
        let log = Log::begin(parts.0, parts.1, parts.2, directory(), options, recovered)?;
        log.tasks().into_iter().for_each(|(lane, task)| scheduler.spawn(lane, task));
        Ok(Bench { disk: Arc::clone(disk), environment, scheduler, health, metrics, log })
    }
    /// Whose threads wait as they do in production.
    fn blocking() -> Bench {
        let disk = Arc::default();
        Self::begin_in(&disk, fake::environment(&disk, 1, true), None).unwrap()
    }
    fn new() -> Bench {
        Self::try_begin(&Arc::default(), 1, None).unwrap()
    }
    fn write(&self, record: &Record) -> Result<LogPosition> {
        self.write_as(record, false)
    }
    fn write_as(&self, record: &Record, is_synced: bool) -> Result<LogPosition> {
        let reservation = self.log.reserve(record)?;
        let end = reservation.end();
        self.log.copy_in(&reservation, record, is_synced)?;
        self.log.publish(reservation)?;
        Ok(end)
    }
    fn write_synced(&self, record: &Record) {
        let end = self.write_as(record, true).unwrap();
        self.log.sync(end).unwrap();
    }
}

/// A record that puts one value of `bytes` bytes that follow from `seed`.
fn record(seed: u64, bytes: usize) -> Record {
    let mut builder = RecordBuilder::new();
    let value: Vec<u8> = (0..bytes as u64).map(|i| (seed.wrapping_mul(31) + i * 7 + (i >> 8)) as u8).collect();
    builder.push(&Operation::Put { keyspace: KeyspaceId(seed), key: &seed.to_le_bytes(), value: &value });
    builder.finish()
}

fn scan(disk: &Arc<Disk>, start: LogMark) -> Result<Scan> {
    let (environment, _) = fake::environment(disk, 99, false);
    Scan::run(&environment, &directory(), start, DamagePolicy::Strict, false)
}

/// The records that a reopen replays: first sequence number and body of each.
fn replay(scan: &Scan) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut records = Vec::new();
    scan.reader().replay(&mut |_, seq, record| {
        records.push((seq.0, record.body().to_vec()));
        Ok(())
    })?;
    Ok(records)
}

fn replayed(disk: &Arc<Disk>) -> Vec<(u64, Vec<u8>)> {
    replay(&scan(disk, LogMark::default()).unwrap()).unwrap()
}

/// Bodies with their sequence numbers, as replay should give them.
fn expected(records: &[Record]) -> Vec<(u64, Vec<u8>)> {
    (1..).zip(records).map(|(seq, record)| (seq, record.body().to_vec())).collect()
}

#[test]
fn records_of_every_size_come_back_over_blocks_and_segments() {
    let bench = Bench::new();
    let sizes = [0, 1, 31, 32_000, 5, 33_000, 100, 70_000, 300_000, 40, 65_000, 12, 32_600, 32_650, 32_668];
    let records: Vec<_> = (0..).zip(sizes).map(|(seed, bytes)| record(seed, bytes)).collect();
    for record in &records {
        bench.write(record).unwrap();
    }
    bench.log.sync(bench.log.published().position).unwrap();
    let disk = bench.disk.after_crash(false);
    let scan = scan(&disk, LogMark::default()).unwrap();
    assert_eq!((scan.end, scan.ending), (bench.log.published(), LogEnd::Clean));
    assert_eq!(scan.records, records.len() as u64);
    assert!(scan.padding.is_empty());
    assert_eq!(replay(&scan).unwrap(), expected(&records));
}

#[test]
fn every_boundary_near_the_end_of_a_block_and_a_segment_round_trips() {
    for short in 0..130 {
        let bench = Bench::new();
        let records =
            [record(1, 32_704 - 64 - short), record(2, 10), record(3, 32_650 - short), record(4, 40), record(5, 7)];
        for record in &records {
            bench.write(record).unwrap();
        }
        let disk = bench.disk.after_crash(true);
        assert_eq!(replayed(&disk), expected(&records), "{short} bytes short");
    }
}

#[test]
fn a_scan_from_a_mark_gives_the_records_after_it() {
    let bench = Bench::new();
    let records: Vec<_> = (0..60).map(|seed| record(seed, 5000)).collect();
    let mut marks = Vec::new();
    for record in &records {
        marks.push(bench.log.published());
        bench.write(record).unwrap();
    }
    let disk = bench.disk.after_crash(true);
    for (skipped, mark) in marks.into_iter().enumerate() {
        let scan = scan(&disk, mark).unwrap();
        assert_eq!(replay(&scan).unwrap(), expected(&records).split_off(skipped));
    }
}

#[test]
fn only_synced_records_survive_a_power_cut() {
    let bench = Bench::new();
    let records = [record(1, 100), record(2, 100)];
    bench.write_synced(&records[0]);
    bench.write(&records[1]).unwrap();
    assert_eq!(replayed(&bench.disk.after_crash(true)), expected(&records));
    assert_eq!(replayed(&bench.disk.after_crash(false)), expected(&records[..1]));
}

#[test]
fn a_clean_close_names_the_manifest_and_the_next_begin_overwrites_it() {
    let bench = Bench::new();
    bench.write(&record(1, 100)).unwrap();
    bench.health.close();
    bench.log.close(7, 1234).unwrap();
    assert!(bench.log.reserve(&record(2, 1)).is_err());
    bench.scheduler.settle();
    assert!(bench.scheduler.tasks.lock().unwrap().is_empty(), "the coroutines end");
    let disk = bench.disk.after_crash(false);
    let found = scan(&disk, LogMark::default()).unwrap();
    assert_eq!((found.closed, found.ending, found.end.seq), (Some((7, 1234)), LogEnd::Closed, SeqNo(1)));
    let again = Bench::try_begin(&disk, 2, Some(found)).unwrap();
    again.write_synced(&record(2, 50));
    let found = scan(&disk.after_crash(false), LogMark::default()).unwrap();
    assert_eq!((found.closed, found.end.seq), (None, SeqNo(2)));
}

#[test]
fn an_empty_log_that_never_got_a_segment_begins_again() {
    let disk = Arc::new(Disk::default());
    let found = scan(&disk, LogMark::default()).unwrap();
    assert_eq!((found.ending, found.end), (LogEnd::Missing, LogMark::default()));
    let bench = Bench::try_begin(&disk, 2, Some(found)).unwrap();
    bench.write_synced(&record(1, 1));
    assert_eq!(replayed(&disk.after_crash(false)), expected(&[record(1, 1)]));
}

#[test]
fn records_without_a_manifest_are_not_thrown_away() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 1));
    let disk = bench.disk.after_crash(false);
    assert!(Bench::try_begin(&disk, 2, None).is_err());
    assert_eq!(replayed(&disk), expected(&[record(1, 1)]));
}

#[test]
fn the_first_begin_may_be_cut_at_every_change() {
    for changes in 0.. {
        let disk = Arc::new(Disk::default());
        *disk.changes_left.lock().unwrap() = Some(changes);
        let begun = Bench::try_begin(&disk, 1, None);
        for keeps_unsynced in [false, true] {
            let disk = disk.after_crash(keeps_unsynced);
            let found = scan(&disk, LogMark::default()).unwrap();
            let bench = Bench::try_begin(&disk, 2, Some(found)).unwrap();
            bench.write_synced(&record(1, 1));
            assert_eq!(replayed(&disk.after_crash(false)), expected(&[record(1, 1)]));
        }
        if begun.is_ok() {
            assert!(changes > 4);
            return;
        }
    }
}

#[test]
fn what_a_refused_direct_read_left_to_the_cache_is_written_again() {
    let bench = Bench::new();
    bench.write_synced(&record(1, 100));
    let end = bench.write(&record(2, 100)).unwrap();
    // A failed sync left the pages clean: a sync does nothing for them.
    let disk = bench.disk.after_crash(true);
    disk.refuses_direct_reads.store(true, std::sync::atomic::Ordering::SeqCst);
    let before = disk.paths().len();
    let found = scan(&disk, LogMark::default()).unwrap();
    assert_eq!(found.end.position, end);
    assert_eq!(disk.paths().len(), before);
    assert_eq!(replayed(&disk.after_crash(false)).len(), 2);
}

#[test]
fn a_dump_tells_header_records_and_operations() {
    let bench = Bench::new();
    let mut builder = RecordBuilder::new();
    builder.push(&Operation::CreateKeyspace {
        keyspace: KeyspaceId(3),
        name: "orders",
        splits: vec![b"m"],
        kind: Default::default(),
    });
    builder.push(&Operation::Put { keyspace: KeyspaceId(3), key: b"k\x00", value: &[b'v'; 40] });
    bench.write_synced(&builder.finish());
    let text = dump(&bench, &directory().join("00000000.log"));
    let expected = [
        "log segment 1 of 65536 bytes, generation 12345678, prepared after settled edit 0",
        "    offset what begins there; below a record its operations, each with its sequence number",
        "        64 whole record: sequence number 1, operations 2, body 58 bytes; log durable before 1:64",
        "           1 create keyspace 3 \"orders\" split \"m\"",
        "           2 put in keyspace 3: \"k\\x00\" = \"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\"… (40 bytes)",
    ];
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines[1..], expected[1..]);
    assert!(lines[0].starts_with("log segment 1 of 65536 bytes, generation "));
}

fn dump(bench: &Bench, path: &Path) -> String {
    let mut text = String::new();
    super::dump(&*bench.environment.storage, path, &mut |line| {
        text.push_str(&format!("{line}\n"));
        Ok(())
    })
    .unwrap();
    text
}
