//! F-hashes, the f-cache and the scratch file together.

use crate::directory::paper::descriptor::Descriptor;
use crate::directory::paper::f_hashes::{FHashOptions, FHashes};
use crate::directory::paper::page::Entry;
use crate::format::NameHash;
use crate::storage::Storage;
use crate::storage::simulated::{FaultPlan, OperationKinds, SimulatedDisk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/db";

fn f_hashes(disk: &SimulatedDisk, f_cache_bytes: usize) -> FHashes {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    storage.create_directory(Path::new(ROOT)).unwrap();
    FHashes::new(&FHashOptions::new(&storage, PathBuf::from(ROOT), f_cache_bytes))
}

fn descriptor(pack: u32, number: u32) -> Descriptor {
    Descriptor::new(pack, number, 0).unwrap()
}

type Model = BTreeMap<(u64, u64), Vec<Descriptor>>;

fn check(f_hashes: &FHashes, model: &Model) {
    for ((directory, hash), expected) in model {
        let mut found = f_hashes.find(*directory, NameHash(*hash), |found| found).unwrap();
        found.sort_unstable();
        let mut expected = expected.clone();
        expected.sort_unstable();
        assert_eq!(found, expected, "hash {hash:#x} of directory {directory}");
    }
}

/// Packs of random entries come, and sets of packs are replaced by one.
fn run(f_cache_bytes: usize, seed: u64) -> FHashes {
    let mut random = fastrand::Rng::with_seed(seed);
    let f_hashes = f_hashes(&SimulatedDisk::new(1), f_cache_bytes);
    let mut model = Model::new();
    for pack in 0..40 {
        let mut by_directory = BTreeMap::<u64, Vec<Entry>>::new();
        for number in 0..600 {
            // Directory 3 is large; the others are in several shards.
            let directory = if random.u32(..3) == 0 { 3 } else { random.u64(..60) * 100 };
            let hash = random.u64(..4000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let descriptor = descriptor(pack, number);
            by_directory.entry(directory).or_default().push(Entry { hash: NameHash(hash), descriptor });
            model.entry((directory, hash)).or_default().push(descriptor);
        }
        by_directory.iter().for_each(|(directory, entries)| f_hashes.change(*directory, &[], entries));
        if pack % 8 == 7 {
            // One descriptor of each hash stays, in a new pack; some hashes go.
            let gone: Vec<u32> = (pack - 7..pack).collect();
            for directory in model.keys().map(|(directory, _)| *directory).collect::<std::collections::BTreeSet<_>>() {
                let mut kept = Vec::new();
                for ((_, hash), descriptors) in model.range_mut((directory, 0)..=(directory, u64::MAX)) {
                    let before = descriptors.len();
                    descriptors.retain(|descriptor| !gone.contains(&descriptor.pack()));
                    if descriptors.len() < before && random.u32(..5) > 0 {
                        let descriptor = descriptor(100 + pack, random.u32(..1000));
                        descriptors.push(descriptor);
                        kept.push(Entry { hash: NameHash(*hash), descriptor });
                    }
                }
                f_hashes.change(directory, &gone, &kept);
            }
        }
        check(&f_hashes, &model);
    }
    let all: Vec<u32> = (0..200).collect();
    (0..60).map(|number| number * 100).chain([3]).for_each(|directory| f_hashes.change(directory, &all, &[]));
    model.values_mut().for_each(Vec::clear);
    check(&f_hashes, &model);
    f_hashes
}

#[test]
fn f_hashes_are_a_map_whatever_the_f_cache_holds() {
    for (seed, f_cache_bytes) in [0, 64, 5000, 100_000, usize::MAX].into_iter().enumerate() {
        let f_hashes = run(f_cache_bytes, seed as u64);
        let end = f_hashes.statistics();
        assert_eq!((end.f_hashes, end.lost, end.cached_bytes, end.scratch_bytes), (0, 0, 0, 0), "all is free again");
        assert_eq!(end.writes > 0, f_cache_bytes < 1 << 20);
        assert_eq!(end.reads > 0, f_cache_bytes < 1 << 20);
        if f_cache_bytes == 100_000 {
            assert!(end.hits > 0 && end.prefetched > 0, "{end:?}");
        }
    }
}

#[test]
fn small_f_hashes_of_adjacent_directories_share_a_page_and_are_read_together() {
    // 8 entries take 256 or 512 bytes.
    let entries = |directory: u64| -> Vec<Entry> {
        let hash = |number: u64| NameHash((directory * 8 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..8).map(|number| Entry { hash: hash(number), descriptor: descriptor(1, number as u32) }).collect()
    };
    let kept = f_hashes(&SimulatedDisk::new(1), 16 << 10);
    (0..200).for_each(|directory| kept.change(directory, &[], &entries(directory)));
    let before = kept.statistics();
    assert!(before.writes > 0 && before.writes < 40, "several go to one page: {before:?}");
    let first = entries(0)[0];
    assert_eq!(kept.find(0, first.hash, |found| found).unwrap(), [first.descriptor]);
    let after = kept.statistics();
    assert_eq!(after.reads, before.reads + 1);
    assert!(after.prefetched > before.prefetched + 3, "{after:?}");
    let (neighbour, hits) = (entries(1)[0], after.hits);
    kept.find(1, neighbour.hash, |_| ()).unwrap();
    assert_eq!(kept.statistics().hits, hits + 1, "the neighbour came along");
}

#[test]
fn of_a_large_f_hash_one_page_is_read() {
    let f_hashes = f_hashes(&SimulatedDisk::new(1), 0);
    let mut random = fastrand::Rng::with_seed(1);
    let entries: Vec<Entry> =
        (0..5000).map(|number| Entry { hash: NameHash(random.u64(..)), descriptor: descriptor(1, number) }).collect();
    f_hashes.change(9, &[], &entries);
    let before = f_hashes.statistics().reads;
    for entry in entries.iter().step_by(50) {
        assert_eq!(f_hashes.find(9, entry.hash, |found| found).unwrap(), [entry.descriptor]);
    }
    assert_eq!(f_hashes.statistics().reads - before, 100);
}

#[test]
fn an_f_hash_that_cannot_be_written_or_read_is_lost_and_others_are_not() {
    let entry = Entry { hash: NameHash(5), descriptor: descriptor(1, 1) };
    for kind in [OperationKinds::WRITES, OperationKinds::READS] {
        let disk = SimulatedDisk::new(1);
        let f_hashes = f_hashes(&disk, 0);
        f_hashes.change(1, &[], &[entry]);
        assert!(f_hashes.find(1, entry.hash, |_| ()).is_some());
        disk.set_faults(Some(FaultPlan::once(0).only(kind)));
        f_hashes.change(2, &[], &[entry]);
        let found = [1, 2].map(|directory| f_hashes.find(directory, entry.hash, |found| found));
        assert_eq!(found.iter().flatten().count(), 1, "{found:?} after a fault of {kind:?}");
        assert_eq!(f_hashes.statistics().lost, 1);
        f_hashes.change(2, &[], &[entry]);
        f_hashes.change(1, &[], &[entry]);
        assert_eq!(f_hashes.statistics().lost, 1, "it stays lost");
    }
}
