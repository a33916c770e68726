//! Reads of random tables of every layout return what a sorted vector has.

use super::entries::{Entry, Medium, all_options, here, put, random_entries, random_key, tombstone, write};
use crate::fast_table::FastTable;
use crate::format::{Cursor, EntryKind, SeqNo, Version};
use crate::table::KeyRange;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks that every way of reading `table` agrees with `entries`.
pub(super) fn assert_reads(table: &Arc<FastTable>, entries: &[Entry], probes: &[(Vec<u8>, u64)]) {
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    for entry in entries {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    for entry in entries.iter().rev() {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    table.verify_all().unwrap();
    for (key, seq) in probes {
        let at = entries.partition_point(|entry| (&entry.key, entry.seq) < (key, Reverse(*seq)));
        cursor.seek(key, SeqNo(*seq)).unwrap();
        assert_eq!(here(&cursor).as_ref(), entries.get(at), "seek {key:?} {seq}");
        if cursor.valid() {
            cursor.prev().unwrap();
            assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &entries[at]), "prev of {key:?} {seq}");
        }
        cursor.seek_before(key, SeqNo(*seq)).unwrap();
        assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &entries[at]), "before {key:?} {seq}");
        if cursor.valid() {
            cursor.next().unwrap();
            assert_eq!(here(&cursor).as_ref(), entries.get(at), "next of {key:?} {seq}");
        }
        let expected = entries.get(at).filter(|entry| entry.key == *key).map(version);
        assert_eq!(table.get(key, SeqNo(*seq)).unwrap(), expected, "get {key:?} {seq}");
    }
    for pair in probes.windows(2).step_by(probes.len() / 24 + 1) {
        let [(a, _), (b, _)] = pair else { continue };
        let (from, to) = (Some(Box::from(a.min(b).as_slice())), Some(Box::from(a.max(b).as_slice())));
        assert_scan(table, entries, KeyRange { from: from.clone(), to: to.clone() });
        assert_scan(table, entries, KeyRange { from: None, to: from });
        assert_scan(table, entries, KeyRange { from: to, to: None });
    }
    assert_scan(table, entries, KeyRange::default());
}

fn assert_scan(table: &Arc<FastTable>, entries: &[Entry], range: KeyRange) {
    let inside = |entry: &&Entry| !range.is_after(&entry.key) && !range.is_before(&entry.key);
    let mut scan = table.scan(&Arc::new(range.clone()));
    for entry in entries.iter().filter(inside) {
        assert!(scan.advance_in_chunk().unwrap() || scan.enter_next_chunk().unwrap(), "{range:?}");
        let found = (scan.key(), scan.seq().0, scan.kind(), scan.value());
        assert_eq!(found, (&*entry.key, entry.seq.0, entry.kind(), entry.value()), "{range:?}");
    }
    assert!(!scan.advance_in_chunk().unwrap() && !scan.enter_next_chunk().unwrap(), "{range:?}");
}

fn version(entry: &Entry) -> Version {
    Version { seq: SeqNo(entry.seq.0), kind: entry.kind(), value: entry.value().into() }
}

/// Returns every entry, its neighbours in sequence numbers and among keys, and random and extreme keys.
pub(super) fn probes(entries: &[Entry], random: &mut fastrand::Rng) -> Vec<(Vec<u8>, u64)> {
    let mut probes = Vec::new();
    for Entry { key, seq: Reverse(seq), .. } in entries {
        probes.extend([seq - 1, *seq, seq + 1, SeqNo::MAX.0].map(|seq| (key.clone(), seq)));
        let longer = [key.as_slice(), &[0]].concat();
        probes.extend([longer, key[..key.len() / 2].to_vec()].map(|key| (key, SeqNo::MAX.0)));
    }
    probes.extend((0..200).map(|_| (random_key(random), random.u64(..1200))));
    for key in [&b""[..], &[0], &[0xff; 40], b"river/bed/deep/and/long/enough/to/tie/in/any/pref"] {
        probes.extend([0, 500, SeqNo::MAX.0].map(|seq| (key.to_vec(), seq)));
    }
    probes
}

#[test]
fn random_tables_of_every_layout_read_as_a_sorted_vector_does() {
    let mut random = fastrand::Rng::with_seed(42);
    for round in 0..12 {
        let count = [1, 2, 8, 9, 17, 600][round % 6];
        let entries = random_entries(&mut random, count);
        for options in all_options() {
            let (bytes, meta) = write(&entries, options);
            let probes = probes(&entries, &mut random);
            for medium in Medium::ALL {
                let table = medium.open(bytes.clone()).unwrap();
                assert_eq!(*table.meta(), meta.table, "what the writer says and what the table says");
                assert_reads(&table, &entries, &probes);
            }
        }
    }
}

#[test]
fn tables_large_enough_for_many_spaces_read_as_a_sorted_vector_does() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut entries = BTreeSet::new();
    for _ in 0..9000 {
        let (table, column) = (random.u8(..9), random.u8(..3));
        let start = format!("t{table}/an index of a table/{column}/").into_bytes();
        let key = [start, random.u64(..1 << 20).to_string().into_bytes(), vec![0; random.usize(..3)]].concat();
        entries.insert(put(&key, random.u64(1..4), &[random.u8(..); 5]));
    }
    let mut entries: Vec<Entry> = entries.into_iter().collect();
    entries.dedup_by(|a, b| a.key == b.key && a.seq == b.seq);
    let mut probes = probes(&entries, &mut random);
    random.shuffle(&mut probes);
    probes.truncate(20_000);
    for options in all_options() {
        let (bytes, _) = write(&entries, options);
        for medium in [Medium::InPlace, Medium::Mapped] {
            assert_reads(&medium.open(bytes.clone()).unwrap(), &entries, &probes);
        }
    }
}

#[test]
fn counts_samples_and_the_estimate_of_distinct_keys_are_those_of_the_entries() {
    let mut random = fastrand::Rng::with_seed(3);
    let entries: Vec<Entry> = (0..20_000_u64)
        .flat_map(|at| {
            let key = at.to_be_bytes();
            [tombstone(&key, 2 * at + 2), put(&key, 2 * at + 1, b"v")]
        })
        .collect();
    for options in all_options() {
        let (bytes, meta) = write(&entries, options);
        assert_eq!((meta.table.entries, meta.table.tombstones, meta.table.keys), (40_000, 20_000, 20_000));
        assert_eq!((meta.table.seq_min, meta.table.seq_max), (SeqNo(1), SeqNo(40_000)));
        assert_eq!((&*meta.table.key_min, &*meta.table.key_max), (&[0; 8][..], &19_999_u64.to_be_bytes()[..]));
        for medium in Medium::ALL {
            let table = medium.open(bytes.clone()).unwrap();
            let estimate = table.distinct().estimate();
            assert!((19_000.0..21_000.0).contains(&estimate), "{estimate}");
            let samples = table.samples(10).unwrap();
            assert!((9..=11).contains(&samples.len()), "{} samples", samples.len());
            assert!(samples.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[1].1 > 0));
            let at = random.u64(..20_000).to_be_bytes();
            assert_eq!(table.get(&at, SeqNo::MAX).unwrap().unwrap().kind, EntryKind::Remove);
        }
    }
}
