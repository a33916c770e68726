//! The bytes that each crash keeps and loses.

use super::super::{FaultPlan, OperationKinds};
use super::*;
use std::collections::BTreeSet;

#[test]
fn what_was_synced_with_its_name_survives_every_crash() {
    for seed in 0..20 {
        for strictness in Strictness::ALL {
            let disk = disk(seed);
            let file = synced(&disk, "a", &[7; 10_000]);
            file.write_all_at(20_000, b"more").unwrap();
            file.set_bytes(10_000).unwrap();
            let after = disk.crash(strictness);
            assert_eq!(after.read_file(&at("a")).unwrap(), [7; 10_000], "{strictness:?}");
        }
    }
}

#[test]
fn a_power_cut_loses_all_that_was_not_synced_when_told_so() {
    let disk = disk(1);
    let file = synced(&disk, "a", b"old bytes");
    file.write_all_at(0, b"new").unwrap();
    file.write_all_at(5000, b"longer").unwrap();
    disk.create(&at("b")).unwrap().sync().unwrap();
    disk.remove(&at("a")).unwrap();
    let after = disk.crash(Strictness::LoseUnsynced);
    assert_eq!(everything(&after), [(at("a"), Some(b"old bytes".to_vec()))]);
}

#[test]
fn a_synced_file_without_a_synced_name_can_vanish() {
    for strictness in POWER_CUTS {
        let found: BTreeSet<bool> = (0..60)
            .map(|seed| {
                let disk = disk(seed);
                let file = disk.create(&at("a")).unwrap();
                file.write_all_at(0, b"synced").unwrap();
                file.sync().unwrap();
                let bytes = disk.crash(strictness).read_file(&at("a"));
                assert!(bytes.as_ref().is_none_or(|bytes| bytes == b"synced"), "{strictness:?}");
                bytes.is_some()
            })
            .collect();
        assert!(found.contains(&false), "{strictness:?} never loses the name");
        assert_eq!(found.contains(&true), strictness != Strictness::LoseUnsynced, "{strictness:?}");
    }
}

#[test]
fn dirty_pages_survive_each_on_its_own() {
    for strictness in [Strictness::RandomPages, Strictness::Ext4Ordered] {
        let mut mixed = 0;
        for seed in 0..40 {
            let disk = disk(seed);
            let file = synced(&disk, "a", &[1; 4 * 4096]);
            file.write_all_at(0, &[2; 4 * 4096]).unwrap();
            let after = disk.crash(strictness).read_file(&at("a")).unwrap();
            for page in after.chunks(4096) {
                assert!(page.iter().all(|byte| *byte == page[0]), "{strictness:?} tore a page");
            }
            mixed += u32::from(after.contains(&1) && after.contains(&2));
        }
        assert!(mixed > 5, "{strictness:?}: only {mixed} of 40 are mixed");
    }
}

#[test]
fn torn_pages_are_torn_between_sectors_only() {
    let mut torn = 0;
    for seed in 0..40 {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[1; 4096]);
        file.write_all_at(0, &[2; 4096]).unwrap();
        let after = disk.crash(Strictness::TornSectors).read_file(&at("a")).unwrap();
        for sector in after.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]));
        }
        torn += u32::from(after.contains(&1) && after.contains(&2));
    }
    assert!(torn > 5, "only {torn} of 40 are torn");
}

#[test]
fn a_length_can_survive_without_the_data() {
    for strictness in [Strictness::RandomPages, Strictness::TornSectors, Strictness::Ext4Ordered] {
        let found = (0..60).any(|seed| {
            let disk = disk(seed);
            let file = synced(&disk, "a", b"");
            file.write_all_at(0, &[3; 8192]).unwrap();
            disk.crash(strictness).read_file(&at("a")).unwrap() == [0; 8192]
        });
        assert!(found, "{strictness:?} never leaves a file of zeros");
    }
}

#[test]
fn ext4_keeps_names_and_lengths_up_to_a_moment() {
    let mut moments = BTreeSet::new();
    for seed in 0..60 {
        let disk = disk(seed);
        let files: Vec<_> = (0..5).map(|i| disk.create(&at(&i.to_string())).unwrap()).collect();
        files[0].write_all_at(0, &[1; 100]).unwrap();
        disk.rename(&at("4"), &at("5")).unwrap();
        let after = disk.crash(Strictness::Ext4Ordered);
        let names = names(&after);
        let moment = match names.join("").as_str() {
            "01235" => 7,
            "01234" if after.file_bytes(&at("0")).unwrap() == Some(0) => 5,
            "01234" => 6,
            prefix if "0123".starts_with(prefix) => prefix.len(),
            other => panic!("{other} was never there"),
        };
        if moment < 6 && moment > 0 {
            assert_eq!(after.file_bytes(&at("0")).unwrap(), Some(0));
        }
        moments.insert(moment);
    }
    assert_eq!(moments, (0..=7).collect());
}

#[test]
fn a_rename_survives_whole_or_not_at_all() {
    for strictness in POWER_CUTS {
        let mut renamed = 0;
        for seed in 0..40 {
            let disk = disk(seed);
            synced(&disk, "new", b"new");
            synced(&disk, "current", b"old");
            disk.rename(&at("new"), &at("current")).unwrap();
            disk.create(&at("other")).unwrap();
            let after = disk.crash(strictness);
            let current = after.read_file(&at("current")).unwrap();
            let new = after.read_file(&at("new"));
            assert!(
                (current == b"old" && new.as_deref() == Some(b"new")) || (current == b"new" && new.is_none()),
                "{strictness:?}: {current:?} {new:?}"
            );
            renamed += u32::from(new.is_none());
        }
        assert_eq!(renamed > 0, strictness != Strictness::LoseUnsynced);
        assert!(renamed < 40);
    }
}

#[test]
fn a_rename_of_an_unsynced_name_never_loses_both() {
    for seed in 0..100 {
        let disk = disk(seed);
        let file = synced(&disk, "current", b"1");
        for i in 2..6u8 {
            let next = disk.create(&at("next")).unwrap();
            next.write_all_at(0, &[b'0' + i]).unwrap();
            next.sync().unwrap();
            disk.rename(&at("next"), &at("current")).unwrap();
        }
        drop(file);
        let after = disk.crash(POWER_CUTS[seed as usize % 4]);
        let current = after.read_file(&at("current")).unwrap();
        assert!([b"1", b"2", b"3", b"4", b"5"].iter().any(|whole| current == *whole), "{current:?}");
    }
}

#[test]
fn a_chain_of_renames_is_cut_between_two_of_them() {
    for strictness in POWER_CUTS {
        let mut states = BTreeSet::new();
        for seed in 0..80 {
            let disk = disk(seed);
            synced(&disk, "a", b"new");
            synced(&disk, "b", b"old");
            disk.rename(&at("a"), &at("b")).unwrap();
            disk.rename(&at("b"), &at("c")).unwrap();
            let after = disk.crash(strictness);
            let state: Vec<_> =
                ["a", "b", "c"].iter().map(|name| after.read_file(&at(name)).map_or(0, |b| b[0])).collect();
            assert!(
                [[b'n', b'o', 0], [0, b'n', 0], [0, 0, b'n']].iter().any(|whole| state == *whole),
                "{strictness:?}: {state:?}"
            );
            states.insert(state);
        }
        assert_eq!(states.len(), if strictness == Strictness::LoseUnsynced { 1 } else { 3 }, "{strictness:?}");
    }
}

#[test]
fn syncing_one_directory_of_a_rename_brings_along_what_it_builds_on() {
    let disk = disk(1);
    disk.create_directory(&at("sub")).unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    synced(&disk, "b", b"old");
    synced(&disk, "a", b"new");
    disk.rename(&at("a"), &at("b")).unwrap();
    disk.rename(&at("b"), &at("sub/c")).unwrap();
    disk.sync_directory(&at("sub")).unwrap();
    let after = disk.crash(Strictness::LoseUnsynced);
    assert_eq!(everything(&after), [(at("sub/c"), Some(b"new".to_vec()))]);
}

#[test]
fn bytes_beyond_the_length_that_survived_are_gone() {
    let disk = disk(1);
    let file = synced(&disk, "a", &[1; 100]);
    file.write_all_at(100, &[2; 3996]).unwrap();
    while disk.background_writeback() {
        let after = disk.snapshot().crash(Strictness::LoseUnsynced);
        let bytes = after.file_bytes(&at("a")).unwrap().unwrap();
        open(&after, "a", OpenMode::ReadWrite).set_bytes(4096).unwrap();
        let found = after.read_file(&at("a")).unwrap();
        assert!(found[bytes as usize..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_cut_that_is_lost_brings_back_the_old_bytes() {
    for strictness in POWER_CUTS {
        for seed in 0..30 {
            let disk = disk(seed);
            synced(&disk, "a", &[1; 3 * 4096]).set_bytes(0).unwrap();
            let found = disk.crash(strictness).read_file(&at("a")).unwrap();
            assert!(found.is_empty() || found == [1; 3 * 4096], "{strictness:?}");
        }
    }
}

#[test]
fn a_synced_directory_keeps_its_names_and_only_its() {
    for strictness in POWER_CUTS {
        let disk = disk(3);
        disk.create_directory(&at("sub")).unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        disk.create(&at("sub/x")).unwrap();
        disk.create(&at("y")).unwrap();
        disk.sync_directory(&at("sub")).unwrap();
        let after = disk.crash(strictness);
        assert!(after.file_bytes(&at("sub/x")).unwrap().is_some(), "{strictness:?}");
        if strictness == Strictness::LoseUnsynced {
            assert!(after.file_bytes(&at("y")).unwrap().is_none());
        }
    }
}

#[test]
fn an_unsynced_directory_takes_its_files_along() {
    let disk = disk(3);
    disk.create_directory(&at("sub")).unwrap();
    disk.create(&at("sub/x")).unwrap().sync().unwrap();
    disk.sync_directory(&at("sub")).unwrap();
    assert_eq!(names(&disk.crash(Strictness::LoseUnsynced)), Vec::<String>::new());
}

#[test]
fn the_death_of_the_process_keeps_the_cache_and_a_later_power_cut_loses_it() {
    let disk = disk(1);
    let file = synced(&disk, "a", b"old");
    file.write_all_at(0, b"new").unwrap();
    disk.create(&at("b")).unwrap();
    let lock = disk.lock(&at("b"), false).unwrap();
    let after = disk.crash(Strictness::ProcessDeath);
    assert_eq!(after.read_file(&at("a")).unwrap(), b"new");
    assert_eq!(names(&after), ["a", "b"]);
    assert!(after.lock(&at("b"), false).is_ok(), "locks die with the process");
    drop(lock);
    let later = after.crash(Strictness::LoseUnsynced);
    assert_eq!(everything(&later), [(at("a"), Some(b"old".to_vec()))]);
}

#[test]
fn a_sync_after_the_death_of_the_process_saves_the_cache() {
    let disk = disk(1);
    let file = synced(&disk, "a", b"old");
    file.write_all_at(0, b"new and longer").unwrap();
    let after = disk.crash(Strictness::ProcessDeath);
    open(&after, "a", OpenMode::Read).sync().unwrap();
    assert_eq!(after.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap(), b"new and longer");
}

#[test]
fn a_dead_disk_refuses_and_keeps_its_bytes() {
    let disk = disk(1);
    let file = synced(&disk, "a", b"old");
    let after = disk.crash(Strictness::LoseUnsynced);
    assert!(disk.is_dead() && !after.is_dead());
    assert!(is_power_cut(file.write_all_at(0, b"new")));
    assert!(is_power_cut(file.sync()) && is_power_cut(file.read_at(0, &mut [0])) && is_power_cut(file.bytes()));
    assert!(is_power_cut(disk.remove(&at("a"))) && is_power_cut(disk.list(Path::new("/"))));
    assert!(!disk.background_writeback());
    assert_eq!(after.read_file(&at("a")).unwrap(), b"old");
    assert_eq!(disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap(), b"old", "asked again");
}

#[test]
fn background_writeback_makes_everything_durable_in_the_end() {
    let disk = disk(5);
    let file = disk.create(&at("a")).unwrap();
    file.write_all_at(0, &[1; 50_000]).unwrap();
    file.set_bytes(30_000).unwrap();
    file.sync().unwrap();
    file.set_bytes(10_000).unwrap();
    file.write_all_at(25_000, &[2; 9]).unwrap();
    drop(disk.create(&at("b")).unwrap());
    disk.rename(&at("b"), &at("c")).unwrap();
    let live = everything(&disk);
    let steps = (0..10_000).take_while(|_| disk.background_writeback()).count();
    assert!((1..10_000).contains(&steps));
    assert_eq!(everything(&disk.crash(Strictness::LoseUnsynced)), live);
}

#[test]
fn background_writeback_tears_pages() {
    let torn = (0..20).any(|seed| {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[1; 4096]);
        file.write_all_at(0, &[2; 4096]).unwrap();
        assert!(disk.background_writeback());
        let after = disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap();
        after.contains(&1) && after.contains(&2)
    });
    assert!(torn);
}

#[test]
fn a_range_sync_keeps_its_pages_and_often_no_others() {
    let mut others_lost = 0;
    for seed in 0..64 {
        let disk = disk(seed);
        let mapping = synced(&disk, "a", &[1; 3 * 4096]).map(3 * 4096).unwrap().unwrap();
        mapping.write(100, &[2; 3 * 4096 - 200]);
        mapping.sync_range(4096, 4097).unwrap();
        let after = disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap();
        assert_eq!(after[4096..8192], [2; 4096]);
        others_lost += u32::from(after[..4096] == [1; 4096] && after[8192..] == [1; 4096]);
    }
    assert!((40..64).contains(&others_lost), "{others_lost} of 64");
}

#[test]
fn a_failed_range_sync_leaves_phantoms_in_the_range_and_is_told_to_each_description_once() {
    let mut lost = 0;
    for seed in 0..16 {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[1; 8192]);
        let other = open(&disk, "a", OpenMode::ReadWrite).map(8192).unwrap().unwrap();
        let mapping = file.map(8192).unwrap().unwrap();
        mapping.write(0, &[2; 8192]);
        disk.set_faults(Some(FaultPlan::once(1).only(OperationKinds::SYNCS)));
        assert!(mapping.sync_range(0, 4096).is_err());
        assert!(file.sync().is_ok(), "handle and mapping share one report");
        assert!(other.sync_range(0, 8192).is_err());
        assert!(other.sync_range(0, 8192).is_ok());
        let after = disk.crash(Strictness::LoseUnsynced).read_file(&at("a")).unwrap();
        lost += u32::from(after[..4096] == [1; 4096]);
        assert_eq!(after[4096..], [2; 4096], "a page outside of the range is no phantom");
    }
    assert!((1..16).contains(&lost), "{lost} of 16");
}

#[test]
fn populated_pages_are_dirty_and_stores_on_a_dead_disk_change_nothing() {
    let disk = disk(5);
    let mapping = synced(&disk, "a", &[1; 4096]).map(4096).unwrap().unwrap();
    assert!(!disk.background_writeback());
    mapping.populate(0, 4096).unwrap();
    assert!(disk.background_writeback());
    let operations = disk.operations();
    mapping.write(0, &[2; 8]);
    assert_eq!(disk.operations(), operations, "a store is nothing that could fail");
    let after = disk.crash(Strictness::ProcessDeath);
    mapping.write(0, &[3; 8]);
    assert!(is_power_cut(mapping.sync_range(0, 8)));
    assert_eq!(disk.read_file(&at("a")).unwrap()[..9], [2, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert_eq!(after.read_file(&at("a")).unwrap()[..8], [2; 8]);
}

#[cfg(feature = "simulation")]
#[test]
fn persistent_memory_is_torn_between_words_and_a_disk_between_sectors() {
    // Whether some sector has old and new words, for a file in persistent memory and one beside it.
    let mut torn = [false; 2];
    for seed in 0..60 {
        let disk = disk(seed);
        disk.put_in_persistent_memory(Some("fast"));
        disk.create_directory(&at("fast")).unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        for name in ["fast/a", "b"] {
            synced(&disk, name, &[1; 8192]).write_all_at(0, &[2; 8192]).unwrap();
        }
        disk.sync_directory(&at("fast")).unwrap();
        for strictness in [Strictness::RandomPages, Strictness::TornSectors, Strictness::Ext4Ordered] {
            let after = disk.crash(strictness);
            for (name, torn) in ["fast/a", "b"].iter().zip(&mut torn) {
                let bytes = after.read_file(&at(name)).unwrap();
                for word in bytes.chunks(8) {
                    assert!(word == [1; 8] || word == [2; 8], "a word is written whole: {word:?}");
                }
                *torn |= bytes.chunks(512).any(|sector| sector.contains(&1) && sector.contains(&2));
            }
        }
        let lost = disk.crash(Strictness::LoseUnsynced).read_file(&at("fast/a")).unwrap();
        assert_eq!(lost, [1; 8192]);
    }
    assert_eq!(torn, [true, false]);
}
