//! Long histories: they are repeatable, and the counts of the disk stay right.

use super::*;

/// A busy history that ends in a crash.
fn history(seed: u64, strictness: Strictness) -> SimulatedDisk {
    let disk = disk(seed);
    disk.set_short_reads(300);
    let files: Vec<_> = (0..6).map(|i| disk.create(&at(&i.to_string())).unwrap()).collect();
    for step in 0..200u64 {
        let file = &files[step as usize % 6];
        file.write_all_at(step * 331 % 30_000, &[step as u8; 700]).unwrap();
        match step % 17 {
            3 => file.sync().unwrap(),
            5 => file.set_bytes(step * 97 % 20_000).unwrap(),
            8 => disk.sync_directory(Path::new(DIRECTORY)).unwrap(),
            11 => drop(disk.rename(&at(&(step % 6).to_string()), &at(&(step % 5).to_string()))),
            13 => drop(disk.hard_link(&at(&(step % 5).to_string()), &at(&(step % 6).to_string()))),
            _ => drop(disk.background_writeback()),
        }
    }
    disk.crash(strictness)
}

#[test]
fn the_same_seed_and_calls_give_the_same_image() {
    for strictness in Strictness::ALL {
        assert_eq!(everything(&history(9, strictness)), everything(&history(9, strictness)));
    }
    let random = |seed| everything(&history(seed, Strictness::TornSectors));
    assert_ne!(random(9), random(10));
}

#[test]
fn after_any_history_the_medium_catches_up_with_the_cache() {
    for seed in 0..30 {
        let disk = history(seed, Strictness::ProcessDeath);
        let live = everything(&disk);
        while disk.background_writeback() {}
        assert_eq!(everything(&disk.snapshot().crash(Strictness::LoseUnsynced)), live);
        assert_eq!(everything(&disk.crash(Strictness::RandomPages)), live);
    }
}

#[test]
fn every_crash_leaves_a_settled_disk() {
    for seed in 0..30 {
        for strictness in POWER_CUTS {
            let disk = history(seed, strictness);
            let found = everything(&disk);
            assert!(!disk.background_writeback(), "nothing is dirty after a power cut");
            assert_eq!(everything(&disk.crash(Strictness::LoseUnsynced)), found, "{strictness:?}");
        }
    }
}

#[test]
fn a_snapshot_does_not_change_what_happens_next() {
    let end = |snapshots: bool| {
        let disk = disk(4);
        let file = synced(&disk, "a", &[1; 40_000]);
        for step in 0..20 {
            file.write_all_at(step * 1999, &[step as u8; 999]).unwrap();
            if snapshots {
                let copy = disk.snapshot();
                copy.write_file(&at("a"), b"other");
            }
            disk.background_writeback();
        }
        everything(&disk.crash(Strictness::TornSectors))
    };
    assert_eq!(end(true), end(false));
}

#[test]
fn space_is_counted_right_through_a_busy_history() {
    for seed in 0..10 {
        for strictness in Strictness::ALL {
            let disk = history(seed, strictness);
            for (path, _) in disk.files() {
                disk.remove(&path).unwrap();
            }
            assert_eq!(disk.used_bytes(), 0, "{strictness:?}");
            disk.sync_directory(Path::new(DIRECTORY)).unwrap();
            assert_eq!(disk.disk().image.files.len(), 0, "no file is remembered for nothing");
        }
    }
}
