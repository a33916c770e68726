//! Failed syncs and their phantoms, full disks, faults by count, damage.

use super::super::{FaultPlan, OperationKinds};
use super::*;
use crate::error::ErrorKind;
use std::collections::BTreeSet;

/// A disk with a file in which a failed sync left a phantom, and two handles of it: first the one whose sync failed.
fn with_phantom() -> (SimulatedDisk, Arc<dyn File>, Arc<dyn File>) {
    for seed in 0.. {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[1; 4096]);
        let other = open(&disk, "a", OpenMode::ReadWrite);
        file.write_all_at(0, &[2; 4096]).unwrap();
        disk.set_faults(Some(FaultPlan::once(1).only(OperationKinds::SYNCS)));
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
        if medium(&disk, "a") == [1; 4096] {
            return (disk, file, other);
        }
        assert_eq!(medium(&disk, "a"), [2; 4096]);
    }
    unreachable!("a coin that never falls");
}

#[test]
fn a_phantom_is_seen_in_the_cache_and_lost_by_a_power_cut_although_a_later_sync_succeeds() {
    let (disk, file, _) = with_phantom();
    file.sync().unwrap();
    assert_eq!(disk.read_file(&at("a")).unwrap(), [2; 4096]);
    let after = disk.crash(Strictness::ProcessDeath);
    open(&after, "a", OpenMode::ReadWrite).sync().unwrap();
    assert_eq!(after.read_file(&at("a")).unwrap(), [2; 4096]);
    assert_eq!(medium(&after, "a"), [1; 4096]);
    for strictness in POWER_CUTS {
        assert_eq!(after.snapshot().crash(strictness).read_file(&at("a")).unwrap(), [1; 4096]);
    }
}

#[test]
fn writing_a_phantom_again_heals_it() {
    let (disk, file, _) = with_phantom();
    file.write_all_at(17, &[2]).unwrap();
    file.sync().unwrap();
    assert_eq!(medium(&disk, "a"), [2; 4096]);
    assert_eq!(disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap(), [2; 4096]);
}

#[test]
fn each_open_handle_hears_of_a_failed_sync_once() {
    let (disk, file, other) = with_phantom();
    let later = open(&disk, "a", OpenMode::ReadWrite);
    let same = Arc::clone(&other);
    file.sync().unwrap();
    assert_eq!(other.sync().unwrap_err().kind(), ErrorKind::Io);
    same.sync().unwrap();
    later.sync().unwrap();
}

#[test]
fn a_failure_that_nobody_heard_of_is_told_to_the_next_who_opens() {
    let disk = disk(2);
    drop(synced(&disk, "a", b"x"));
    assert!(disk.fail_writeback(&at("a")));
    let after = disk.crash(Strictness::ProcessDeath);
    let file = open(&after, "a", OpenMode::Read);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    open(&after, "a", OpenMode::Read).sync().unwrap();
}

#[test]
fn reads_of_the_medium_can_be_refused() {
    let disk = disk(2);
    drop(synced(&disk, "a", b"x"));
    disk.refuse_medium_reads(true);
    assert!(disk.open(&at("a"), OpenMode::ReadMedium).unwrap().is_none());
    assert!(disk.open(&at("a"), OpenMode::Read).unwrap().is_some());
}

#[test]
fn hard_links_can_be_refused() {
    let disk = disk(2);
    drop(synced(&disk, "a", b"x"));
    disk.refuse_hard_links(true);
    assert!(!disk.hard_link(&at("a"), &at("b")).unwrap());
    assert_eq!(names(&disk), ["a"]);
}

#[test]
fn a_failed_directory_sync_makes_no_name_durable() {
    let disk = disk(2);
    let file = disk.create(&at("a")).unwrap();
    disk.set_faults(Some(FaultPlan::once(2).only(OperationKinds::SYNCS | OperationKinds::METADATA)));
    file.sync().unwrap();
    assert_eq!(disk.sync_directory(Path::new(DIRECTORY)).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(names(&disk.snapshot().crash(Strictness::LoseUnsynced)), Vec::<String>::new());
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let disk = disk(2);
    let file = synced(&disk, "a", &[1; 8192]);
    assert_eq!(disk.used_bytes(), 8192);
    disk.set_capacity(Some(3 * 4096));
    file.write_all_at(0, &[2; 8192]).unwrap();
    assert_eq!(file.write_all_at(8192, &[2; 3 * 4096]).unwrap_err().kind(), ErrorKind::NoSpace);
    assert!(disk.used_bytes() <= 3 * 4096);
    file.set_bytes(8192).unwrap();
    file.write_all_at(8192, &[2; 4096]).unwrap();
    assert_eq!(disk.create(&at("b")).err().unwrap().kind(), ErrorKind::NoSpace);
    assert_eq!(file.set_bytes(99_999).unwrap_err().kind(), ErrorKind::NoSpace);
    file.write_all_at(0, &[3; 3 * 4096]).unwrap();
    disk.set_capacity(None);
    file.write_all_at(8192, &[2; 8192]).unwrap();
    disk.create(&at("b")).unwrap();
}

#[test]
fn space_comes_back_when_name_and_handle_are_gone() {
    let disk = disk(2);
    let file = synced(&disk, "a", &[1; 8192]);
    disk.remove(&at("a")).unwrap();
    assert_eq!(disk.used_bytes(), 8192);
    drop(file);
    assert_eq!(disk.used_bytes(), 0);
    let after = disk.crash(Strictness::LoseUnsynced);
    assert_eq!(after.read_file(&at("a")).unwrap(), [1; 8192], "the removal was not synced");
    assert_eq!(after.used_bytes(), 8192);
}

#[test]
fn faults_strike_the_kinds_and_the_count_that_were_asked_for() {
    let disk = disk(2);
    let file = synced(&disk, "a", b"abc");
    disk.set_faults(Some(FaultPlan::once(2).only(OperationKinds::READS)));
    file.read_at(0, &mut [0; 3]).unwrap();
    file.write_all_at(0, b"x").unwrap();
    assert_eq!(file.read_at(0, &mut [0; 3]).unwrap_err().kind(), ErrorKind::Io);
    file.read_at(0, &mut [0; 3]).unwrap();
    disk.set_faults(Some(FaultPlan::from_then_on(2).only(OperationKinds::WRITES | OperationKinds::NAMES)));
    file.write_all_at(0, b"x").unwrap();
    assert!(disk.create(&at("b")).is_err() && file.write_all_at(0, b"x").is_err() && file.set_bytes(0).is_err());
    file.sync().unwrap();
    assert_eq!(names(&disk), ["a"]);
    disk.set_faults(None);
    disk.create(&at("b")).unwrap();
}

#[test]
fn a_failing_write_may_have_written_a_part() {
    let lengths: BTreeSet<u64> = (0..30)
        .map(|seed| {
            let disk = disk(seed);
            let file = disk.create(&at("a")).unwrap();
            disk.set_faults(Some(FaultPlan::once(1)));
            assert!(file.write_all_at(0, &[1; 100]).is_err());
            file.bytes().unwrap()
        })
        .collect();
    assert!(lengths.contains(&0) && lengths.contains(&100) && lengths.len() > 5);
}

#[test]
fn the_power_can_go_at_every_operation() {
    let run = |disk: &SimulatedDisk| -> Result<()> {
        let file = disk.create(&at("new"))?;
        file.write_all_at(0, &[1; 5000])?;
        file.sync()?;
        disk.rename(&at("new"), &at("current"))?;
        disk.sync_directory(Path::new(DIRECTORY))
    };
    let whole = disk(0);
    let start = whole.operations();
    run(&whole).unwrap();
    let end = whole.operations();
    assert_eq!(end - start, 5);
    for seed in 0..20 {
        for operation in start + 1..=end {
            for strictness in Strictness::ALL {
                let disk = disk(seed);
                disk.crash_at(operation);
                assert!(is_power_cut(run(&disk)));
                assert!(disk.is_dead());
                assert_eq!(disk.operations(), operation);
                // The name was made after the sync, so it never leads to a part of the bytes.
                let found = disk.crash(strictness).read_file(&at("current"));
                assert!(found.is_none_or(|bytes| bytes == [1; 5000]), "{strictness:?} at {operation}");
            }
        }
    }
}

#[test]
fn reads_can_be_short() {
    let disk = disk(2);
    let file = synced(&disk, "a", &[5; 100]);
    disk.set_short_reads(500);
    let lengths: BTreeSet<usize> = (0..50).map(|_| file.read_at(0, &mut [0; 100]).unwrap()).collect();
    assert!(lengths.contains(&100) && lengths.len() > 5 && !lengths.contains(&0));
    file.read_exact_at(0, &mut [0; 100]).unwrap();
}

#[test]
fn damage_is_in_the_cache_and_on_the_medium() {
    let disk = disk(2);
    drop(synced(&disk, "a", &[1; 5000]));
    let copy = disk.snapshot();
    assert!(copy.flip(&at("a"), 4999, 0x80) && !copy.flip(&at("a"), 5000, 1) && !copy.flip(&at("b"), 0, 1));
    assert_eq!(copy.read_file(&at("a")).unwrap()[4998..], [1, 0x81]);
    assert_eq!(medium(&copy, "a")[4998..], [1, 0x81]);
    assert!(copy.truncate(&at("a"), 4998));
    assert_eq!(copy.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap(), [1; 4998]);
    assert_eq!(disk.read_file(&at("a")).unwrap(), [1; 5000], "the copy is independent");
}

#[test]
fn a_file_put_from_outside_is_durable() {
    let disk = SimulatedDisk::new(1);
    assert!(disk.write_file(Path::new("x/y/z"), b"first"));
    assert!(disk.write_file(Path::new("/x/y/z"), b"second"));
    assert!(!disk.write_file(Path::new("x/y"), b""), "a directory is in the way");
    let after = disk.crash(Strictness::LoseUnsynced);
    assert_eq!(after.files(), [(Path::new("/x/y/z").to_path_buf(), 6)]);
    assert_eq!(after.read_file(Path::new("x/y/z")).unwrap(), b"second");
}

#[test]
fn a_write_back_that_fails_when_it_is_begun_is_told_once_and_no_sync_knows_of_it() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(Path::new("/d")).unwrap();
        let path = Path::new("/d/a");
        let file = disk.create(path).unwrap();
        file.write_all_at(0, &[7; 40_960]).unwrap();
        disk.sync_directory(Path::new("/d")).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        disk.set_faults(Some(FaultPlan::once(1).only(OperationKinds::WRITE_BACKS)));
        assert!(file.begin_write_back(0, 40_960).is_err());
        file.begin_write_back(0, 40_960).unwrap();
        file.write_out().unwrap();
        assert_eq!(file.is_written_whole(), Some(false), "but the map of blocks tells");
        file.sync().unwrap();
        let after = disk.crash(Strictness::LoseUnsynced);
        assert_ne!(after.read_file(path).unwrap(), [7; 40_960]);
    }
}
