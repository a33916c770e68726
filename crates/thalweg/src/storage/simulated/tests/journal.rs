//! Files that share one journal, on a device with a cache of its own.

use super::super::{FaultPlan, OperationKinds};
use super::*;

/// A file of ones whose pages were rewritten to twos and written to the device's cache, and another file to sync.
fn written_out(seed: u64) -> (SimulatedDisk, Arc<dyn File>, Arc<dyn File>) {
    let disk = disk(seed);
    disk.disk().properties.shares_journal = true;
    let (file, other) = (synced(&disk, "a", &[1; 8192]), synced(&disk, "b", &[1; 100]));
    file.write_all_at(0, &[2; 8192]).unwrap();
    file.write_out().unwrap();
    (disk, file, other)
}

fn left(disk: &SimulatedDisk) -> Vec<u8> {
    disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap()
}

#[test]
fn what_the_device_was_given_is_lost_until_some_sync_empties_its_cache() {
    let (disk, _file, _other) = written_out(1);
    assert_eq!(left(&disk), [1; 8192]);
}

#[test]
fn any_sync_empties_the_devices_cache_whether_or_not_it_commits_anything() {
    for grows in [false, true] {
        let (disk, _file, other) = written_out(1);
        other.write_all_at(if grows { 100 } else { 0 }, &[2]).unwrap();
        other.sync().unwrap();
        assert_eq!(left(&disk), [2; 8192], "grows: {grows}");
    }
}

#[test]
fn a_failed_write_back_loses_nothing_that_the_device_was_given() {
    for seed in 0..20 {
        let (disk, _file, other) = written_out(seed);
        assert!(disk.fail_writeback(&at("a")));
        other.write_all_at(100, &[2]).unwrap();
        other.sync().unwrap();
        assert_eq!(left(&disk), [2; 8192]);
    }
}

#[test]
fn a_failed_sync_may_lose_what_the_device_was_given_and_says_so() {
    let mut lost = 0;
    for seed in 0..20 {
        let (disk, file, other) = written_out(seed);
        disk.set_faults(Some(FaultPlan::once(1).only(OperationKinds::SYNCS)));
        assert!(file.sync().is_err());
        other.write_all_at(100, &[2]).unwrap();
        other.sync().unwrap();
        lost += usize::from(left(&disk) != [2; 8192]);
    }
    assert!(lost > 5, "{lost} of 20");
}
