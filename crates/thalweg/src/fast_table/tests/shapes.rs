//! Tables of extreme shape: the largest keys and values, versions over many groups, keys that tie in every prefix.

use super::entries::{Entry, Medium, all_options, put, tombstone, write};
use super::model::{assert_reads, probes};
use crate::format::SeqNo;

fn assert_all(entries: &[Entry], seed: u64) {
    let probes = probes(entries, &mut fastrand::Rng::with_seed(seed));
    for options in all_options() {
        let (bytes, _) = write(entries, options);
        for medium in Medium::ALL {
            assert_reads(&medium.open(bytes.clone()).unwrap(), entries, &probes);
        }
    }
}

#[test]
fn a_table_of_one_entry_with_an_empty_key_reads() {
    for entry in [tombstone(b"", 1), put(b"", 1, b""), put(b"", SeqNo::MAX.0 - 1, b"v")] {
        assert_all(&[entry], 1);
    }
}

#[test]
fn versions_of_one_key_over_many_groups_are_all_found() {
    let mut entries = vec![put(b"a", 1, b"first")];
    entries.extend((1..=300).rev().map(|seq| put(b"key", seq * 2, format!("value {seq}").as_bytes())));
    entries.push(put(b"z", 1, b"last"));
    assert_all(&entries, 2);
    assert_all(&entries[1..301], 3);
}

#[test]
fn keys_that_differ_only_in_zeros_or_behind_every_prefix_are_told_apart() {
    let mut entries: Vec<Entry> = (0..60).map(|zeros| put(&vec![0; zeros], 5, &[zeros as u8])).collect();
    entries.extend((0..60).map(|zeros| put(&[b"k".to_vec(), vec![0; zeros]].concat(), 5, b"")));
    let long = [b'x'; 100];
    entries.extend((0..60).map(|last| put(&[&long[..], &[last]].concat(), 5, b"")));
    assert_all(&entries, 4);
}

#[test]
fn the_largest_keys_and_values_are_accepted() {
    let long = vec![b'k'; 64 << 10];
    let mut entries = vec![put(b"a", 1, b"small")];
    for at in 0..20_u8 {
        let mut key = long.clone();
        key[(64 << 10) - 1] = at;
        entries.push(put(&key, 2, &[at; 300]));
    }
    entries.push(put(b"z", 3, b"small"));
    assert_all(&entries, 5);
    let large = [put(b"a", 1, b"small"), put(b"b", 2, &vec![b'v'; 64 << 20]), put(b"z", 3, b"small")];
    for options in all_options() {
        let (bytes, _) = write(&large, options);
        // A simulated disk is slow with 64 MiB of pages, so only one shape lies on it.
        let is_default = options.group_entries == 16 && options.filter_bits_per_key > 0;
        for medium in [Some(Medium::InPlace), is_default.then_some(Medium::Mapped)].into_iter().flatten() {
            let table = medium.open(bytes.clone()).unwrap();
            assert_eq!(table.get(b"b", SeqNo::MAX).unwrap().unwrap().value.len(), 64 << 20);
            assert_eq!(table.get(b"z", SeqNo::MAX).unwrap().unwrap().value, "small");
        }
    }
}
