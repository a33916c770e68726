//! The table of directories against a map.

use crate::directory::p_hash::{PHash, STRIPES};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// As large as what a keyspace keeps of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    pack: NonZeroU16,
    rest: [[u8; 4]; 2],
}

fn known(number: u32) -> Known {
    Known { pack: NonZeroU16::MIN, rest: [number.to_le_bytes(); 2] }
}

fn get(table: &PHash<Known>, directory: u64) -> Option<Known> {
    table.read(directory, |known, ()| known.copied())
}

fn update(table: &PHash<Known>, directory: u64, value: Option<Known>) -> Option<Known> {
    let mut before = None;
    table.update_all(&[(directory, value)], |value, known, ()| before = std::mem::replace(known, *value));
    before
}

fn all(table: &PHash<Known>) -> BTreeMap<u64, Known> {
    let mut found = BTreeMap::new();
    (0..STRIPES).for_each(|stripe| {
        table.update_stripe(stripe, |directory, value, ()| {
            found.insert(directory, value.unwrap());
        });
    });
    found
}

#[test]
fn it_is_a_map() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..50 {
        let (table, mut model) = (PHash::new(random.u64(..)), BTreeMap::new());
        for _ in 0..random.usize(..2000) {
            // Directories that meet in few stripes.
            let directory = random.u64(..400) << 40;
            let value = random.bool().then(|| known(random.u32(..1000)));
            let before = update(&table, directory, value);
            let expected = match value {
                Some(value) => model.insert(directory, value),
                None => model.remove(&directory),
            };
            assert_eq!(before, expected);
            assert_eq!(get(&table, directory), value);
        }
        assert_eq!(table.len(), model.len());
        assert_eq!(all(&table), model);
        let keep_even = |directory: u64, value: &mut Option<Known>, (): &mut ()| {
            *value = value.filter(|_| directory >> 40 & 1 == 0)
        };
        (0..STRIPES).for_each(|stripe| table.update_stripe(stripe, keep_even));
        model.retain(|directory, _| directory >> 40 & 1 == 0);
        assert_eq!(all(&table), model);
    }
}

#[test]
fn a_directory_takes_at_most_23_bytes_however_many_there_are() {
    let table = PHash::new(0x5eed);
    let mut worst: f64 = 0.0;
    for directory in 0..1_000_000_u64 {
        update(&table, directory, Some(known(directory as u32)));
        if directory >= 100_000 && directory % 10_000 == 0 {
            worst = worst.max(table.bytes(|()| 0) as f64 / table.len() as f64);
        }
    }
    assert!((20.0..24.0).contains(&worst), "{worst:.1} bytes a directory");
    assert!((0..1_000_000).step_by(997).all(|directory| get(&table, directory) == Some(known(directory as u32))));
    assert_eq!(get(&table, 1_000_000), None);
}

#[test]
fn emptied_directories_give_their_memory_back() {
    let table = PHash::new(1);
    let empty = table.bytes(|()| 0);
    let put = |value: Option<Known>| {
        (0..50_000_u64).for_each(|directory| {
            update(&table, directory << 32, value);
        });
    };
    put(Some(known(7)));
    assert!(table.bytes(|()| 0) > empty + 50_000 * 18);
    put(None);
    assert_eq!((table.len(), table.bytes(|()| 0)), (0, empty));
}

#[test]
fn directories_change_from_many_threads() {
    let table = PHash::new(3);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let table = &table;
            scope.spawn(move || {
                for directory in 0..5_000_u64 {
                    table.update_all(&[(directory, ())], |(), value, ()| {
                        let count = value.map_or(0, |value: Known| u32::from_le_bytes(value.rest[0]));
                        *value = Some(known(count + 1));
                    });
                    if thread == 0 {
                        get(table, directory ^ 1);
                    }
                }
            });
        }
    });
    assert!((0..5_000).all(|directory| get(&table, directory) == Some(known(4))));
}

#[test]
fn directories_in_the_order_of_their_stripes_are_changed_one_stripe_at_a_time() {
    let mut random = fastrand::Rng::with_seed(9);
    for directories in [0, 1, 7, 20_000] {
        let table = PHash::new(random.u64(..));
        let given: Vec<_> = (0..directories).map(|number| (random.u64(..5_000), known(number))).collect();
        let mut sorted = given.clone();
        let ordered = table.by_stripe(&given);
        // Of a directory that is given several times, the last one stays.
        table.update_all(&ordered, |value, known, ()| *known = Some(*value));
        let model: BTreeMap<_, _> = given.iter().copied().collect();
        assert_eq!(all(&table), model);
        // `all` goes from stripe to stripe.
        let mut stripes = Vec::new();
        (0..STRIPES)
            .for_each(|stripe| table.update_stripe(stripe, |directory, _, ()| stripes.push((directory, stripe))));
        let stripe_of: BTreeMap<_, _> = stripes.into_iter().collect();
        sorted.sort_by_key(|(directory, _)| stripe_of[directory]);
        assert_eq!(ordered, sorted);
    }
}
