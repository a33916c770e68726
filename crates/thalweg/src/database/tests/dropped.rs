//! Tests of the report of what `PointInTime` has dropped: it is told by some open, whatever cuts off the first one.

use crate::clock::{SystemClock, SystemEntropy};
use crate::database::open;
use crate::database::options::Options;
use crate::error::{ErrorKind, Result};
use crate::log::DamagePolicy::{self, PointInTime, Strict};
use crate::runtime::Environment;
use crate::runtime::threads::{Crew, ThreadScheduler};
use crate::storage::Storage;
use crate::storage::simulated::{SimulatedDisk, Strictness};
use crate::{Database, Durability};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/db";
const REPORT: &str = "/db/lost/dropped";

fn with_environment<T>(disk: &SimulatedDisk, run: impl FnOnce(Environment) -> Result<T>) -> Result<T> {
    let clock = Arc::new(SystemClock::default());
    let scheduler = Arc::new(ThreadScheduler::with_crew(clock.clone(), Crew { io_uring: false, ..Crew::of(1) })?);
    let environment =
        Environment { storage: Arc::new(disk.clone()), clock, entropy: Arc::new(SystemEntropy), scheduler };
    let scheduler = Arc::clone(&environment.scheduler);
    run(environment).inspect_err(|_| scheduler.shutdown())
}

fn options(damage_policy: DamagePolicy) -> Options {
    Options { damage_policy, memtable_bytes: Some(64 << 10), ..Options::default() }
}

fn open(disk: &SimulatedDisk, policy: DamagePolicy) -> Result<Database> {
    with_environment(disk, |environment| open::open(environment, Path::new(ROOT), options(policy)))
        .map(Database::from_engine)
}

/// The report of an open. The database is closed again.
fn told(disk: &SimulatedDisk, policy: DamagePolicy) -> Result<Vec<String>> {
    let db = open(disk, policy)?;
    let told = db.dropped_by_recovery().to_vec();
    db.close()?;
    Ok(told)
}

fn told_to_a_reader(disk: &SimulatedDisk) -> Vec<String> {
    let open = |environment| open::open_read_only(environment, Path::new(ROOT), options(Strict));
    let db = Database::from_engine(with_environment(disk, open).unwrap());
    db.dropped_by_recovery().to_vec()
}

/// A database whose log is damaged in the middle of ten synced writes.
fn damaged() -> SimulatedDisk {
    let disk = SimulatedDisk::new(7);
    let db = open(&disk, Strict).unwrap();
    let letters = db.keyspace("letters").unwrap();
    (0..10).for_each(|number| letters.insert_with(format!("letter {number}"), "dear", Durability::Sync).unwrap());
    drop(letters);
    db.close().unwrap();
    for (path, _) in disk.files().into_iter().filter(|(path, _)| path.starts_with("/db/log")) {
        let bytes = disk.read_file(&path).unwrap();
        if let Some(at) = bytes.windows(8).position(|bytes| bytes == b"letter 5") {
            assert!(disk.flip(&path, at as u64, 1));
        }
    }
    assert_eq!(open(&disk, Strict).unwrap_err().kind(), ErrorKind::Corruption);
    disk
}

/// The damaged database as its first open leaves it if that is cut off before its last step.
fn untold() -> SimulatedDisk {
    let damaged = damaged();
    for operation in 1.. {
        let disk = damaged.snapshot();
        disk.crash_at(disk.operations() + operation);
        assert!(open(&disk, PointInTime).is_err(), "no cut leaves a report");
        let left = disk.crash(Strictness::LoseUnsynced);
        let has_report = left.file_bytes(Path::new(REPORT)).unwrap().is_some();
        if has_report && open(&left.snapshot(), Strict).is_ok() {
            return left;
        }
    }
    unreachable!("every open ends")
}

#[test]
fn an_open_that_is_cut_off_anywhere_leaves_it_to_the_next_one_to_tell() {
    let damaged = damaged();
    let (mut by_strict, mut again) = (0, 0);
    for operation in 1.. {
        let disk = damaged.snapshot();
        disk.crash_at(disk.operations() + operation);
        let opened = open(&disk, PointInTime);
        let is_told = opened.as_ref().is_ok_and(|db| !db.dropped_by_recovery().is_empty());
        assert_eq!(opened.is_ok(), is_told, "cut at operation {operation}");
        let was_cut = disk.is_dead();
        drop(opened);
        if is_told {
            assert!(by_strict > 0 && again > 0, "{by_strict} {again}");
            if !was_cut {
                return;
            }
            continue;
        }
        for strictness in Strictness::ALL {
            let left = disk.crash(strictness);
            match told(&left, Strict) {
                Ok(told) => {
                    assert!(!told.is_empty(), "cut at operation {operation}, {strictness:?}");
                    by_strict += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{operation} {strictness:?}: {error}");
                    assert!(!told(&left, PointInTime).unwrap().is_empty(), "{operation} {strictness:?}");
                    again += 1;
                }
            }
            assert_eq!(told(&left, Strict).unwrap(), [""; 0], "told once");
        }
    }
}

#[test]
fn a_reader_is_told_and_leaves_the_report() {
    let disk = untold();
    let text = told_to_a_reader(&disk);
    assert!(!text.is_empty());
    assert_eq!(told_to_a_reader(&disk), text);
    assert_eq!(told(&disk, Strict).unwrap(), text);
    assert!(disk.file_bytes(Path::new(REPORT)).unwrap().is_none());
    assert_eq!(told_to_a_reader(&disk), [""; 0]);
}

#[test]
fn a_damaged_report_is_told_and_put_aside() {
    let disk = untold();
    let report = Path::new(REPORT);
    let bytes = disk.read_file(report).unwrap();
    let damages = (0..bytes.len() as u64).step_by(7);
    for (at, is_cut) in damages.clone().map(|at| (at, true)).chain(damages.map(|at| (at, false))) {
        let disk = disk.snapshot();
        assert!(if is_cut { disk.truncate(report, at) } else { disk.flip(report, at, 0x21) });
        let left = disk.read_file(report).unwrap();
        let told_first = told(&disk, Strict).unwrap();
        assert_eq!(told_first.len(), 1);
        assert!(told_first[0].contains("report is damaged") && told_first[0].contains(REPORT), "{told_first:?}");
        assert_eq!(disk.read_file(&PathBuf::from("/db/lost/dropped.damaged")).unwrap(), left);
        assert_eq!(told(&disk, Strict).unwrap(), [""; 0]);
    }
}

#[test]
fn nothing_is_told_if_the_damage_was_mended_before_anything_was_dropped() {
    let damaged = damaged();
    let is_log = |path: &Path| path.starts_with("/db/log");
    for operation in 1.. {
        let disk = damaged.snapshot();
        let current = disk.read_file(Path::new("/db/CURRENT"));
        disk.crash_at(disk.operations() + operation);
        assert!(open(&disk, PointInTime).is_err(), "no cut leaves a report before the manifest");
        let left = disk.crash(Strictness::LoseUnsynced);
        let has_report = left.file_bytes(Path::new(REPORT)).unwrap().is_some();
        if !has_report || left.read_file(Path::new("/db/CURRENT")) != current {
            continue;
        }
        for (path, _) in left.files().into_iter().filter(|(path, _)| is_log(path)) {
            let mut bytes = left.read_file(&path).unwrap();
            if let Some(at) = bytes.windows(7).position(|bytes| bytes == b"etter 5") {
                bytes[at - 1] = b'l';
                assert!(left.write_file(&path, &bytes));
            }
        }
        assert_eq!(told_to_a_reader(&left), [""; 0]);
        assert_eq!(told(&left, Strict).unwrap(), [""; 0]);
        assert_eq!(told(&left, Strict).unwrap(), [""; 0], "nor once another manifest is in force");
        return;
    }
}
