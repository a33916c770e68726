//! A read of a damaged table returns the right answer or corruption that names the place, and every damage is found.

use super::entries::{Entry, GENERATION, ID, Medium, PATH, all_options, open, open_file, put, tombstone, write};
use crate::error::{Error, ErrorKind, Result};
use crate::fast_table::header::HEADER_BYTES;
use crate::fast_table::{Extent, FastTable, FastTableWriter, fuzz_fast_table};
use crate::format::checksum::crc32c;
use crate::format::{Cursor, EntryKind, SeqNo, TableId};
use std::path::Path;
use std::sync::Arc;

fn small() -> Vec<Entry> {
    let of = |n: u64| {
        let key = format!("river/bed/{n:02}").into_bytes();
        [tombstone(&key, 100 + n), put(&key, n + 1, &[n as u8; 30])]
    };
    (0..12).flat_map(of).collect()
}

/// Reads everything in every way. Each answer must be right, or an error that names the table. Returns whether all were
/// right.
fn reads_are_right_or_corruption(medium: Medium, bytes: Vec<u8>, entries: &[Entry]) -> bool {
    match medium.open(bytes) {
        Ok(table) => are_right_or_corruption(&table, entries),
        Err(error) => names_the_table(&error),
    }
}

fn are_right_or_corruption(table: &Arc<FastTable>, entries: &[Entry]) -> bool {
    let mut all_right = true;
    for entry in entries {
        match table.get(&entry.key, SeqNo(entry.seq.0)) {
            Ok(found) => assert_eq!(found.map(|it| it.value), Some(entry.value().into()), "{entry:?}"),
            Err(error) => all_right &= names_the_table(&error),
        }
    }
    let forward = || -> Result<()> {
        let mut cursor = table.cursor();
        cursor.seek_to_first()?;
        for entry in entries {
            assert_eq!((cursor.key(), cursor.seq().0, &*cursor.value()), (&*entry.key, entry.seq.0, entry.value()));
            cursor.next()?;
        }
        assert!(!cursor.valid());
        Ok(())
    };
    for result in [forward(), table.verify_all()] {
        all_right &= result.map_or_else(|error| names_the_table(&error), |()| true);
    }
    all_right
}

/// Returns `false`, for an error that is corruption of the table.
fn names_the_table(error: &Error) -> bool {
    match error {
        Error::Corruption(damage) => assert_eq!(damage.path, Path::new(PATH)),
        other => panic!("{other}"),
    }
    false
}

#[test]
fn every_flipped_bit_is_found() {
    for options in all_options() {
        let entries = small();
        let (good, _) = write(&entries, options);
        // The registers are many and alike: of their bytes a few.
        let registers = open(good.clone()).unwrap().entries_at() - 4000;
        for medium in Medium::ALL {
            assert!(reads_are_right_or_corruption(medium, good.clone(), &entries));
            for at in (0..registers).chain(registers + 4000..good.len()) {
                let bits = if medium == Medium::InPlace { 0..8 } else { at as u32 % 8..at as u32 % 8 + 1 };
                for bit in bits {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    let right = reads_are_right_or_corruption(medium, bad, &entries);
                    assert!(!right, "byte {at} is under no checksum");
                }
            }
        }
    }
}

#[test]
fn damage_behind_an_open_paged_table_is_found_at_each_read_or_harmless() {
    let (entries, path) = (small(), Path::new(PATH));
    for options in all_options().into_iter().filter(|options| options.filter_bits_per_key > 0) {
        for medium in Medium::PAGED {
            let (good, _) = write(&entries, options);
            let disk = medium.disk();
            assert!(disk.write_file(path, &good));
            let table = open_file(&disk).unwrap();
            for at in 0..good.len() {
                assert!(are_right_or_corruption(&table, &entries), "before byte {at} is damaged");
                assert!(disk.flip(path, at as u64, 1 << (at % 8)));
                let in_memory = at < table.entries_at();
                assert_eq!(are_right_or_corruption(&table, &entries), in_memory, "byte {at}");
                let opened = open_file(&disk).map_err(|error| names_the_table(&error));
                assert!(opened.is_ok_and(|table| !are_right_or_corruption(&table, &entries)) != in_memory, "byte {at}");
                assert!(disk.flip(path, at as u64, 1 << (at % 8)));
            }
        }
    }
}

#[test]
fn damage_in_one_group_spares_the_others() {
    let entries: Vec<Entry> = (0..64_u8).map(|n| put(&[n], 1, &[n; 9])).collect();
    for options in all_options() {
        let (mut bytes, _) = write(&entries, options);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        for medium in Medium::ALL {
            let table = medium.open(bytes.clone()).unwrap();
            assert_eq!(table.get(&[0], SeqNo::MAX).unwrap().unwrap().value, [0; 9]);
            for _ in 0..2 {
                let error = table.get(&[63], SeqNo::MAX).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "damage is found at each read, not only at the first");
            }
            assert!(table.verify_all().is_err());
        }
    }
}

#[test]
fn a_table_cut_at_any_length_is_refused_and_what_follows_it_is_no_part_of_it() {
    for options in all_options() {
        let entries = small();
        let (good, meta) = write(&entries, options);
        let mut longer = good.clone();
        longer.extend_from_slice(&[0xff; 100]);
        for medium in Medium::ALL {
            for len in 0..good.len() {
                names_the_table(&medium.open(good[..len].to_vec()).err().unwrap());
            }
            assert_eq!(*medium.open(longer.clone()).unwrap().meta(), meta.table);
            assert!(reads_are_right_or_corruption(medium, longer.clone(), &entries));
        }
    }
}

#[test]
fn another_table_and_another_generation_are_refused_by_name() {
    let (bytes, _) = write(&small(), all_options()[0]);
    let refused = |id: TableId, generation: u64| match FastTable::open(
        Extent::new(Arc::new(bytes.clone()), Arc::from(Path::new("arena")), 1000),
        id,
        generation,
    ) {
        Err(Error::Corruption(damage)) => format!("{} {} {}", damage.offset, damage.expected, damage.found),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("table {id} of generation {generation} was accepted"),
    };
    assert_eq!(refused(TableId(8), GENERATION), "1016 table 8 table 7");
    assert_eq!(refused(ID, 5), "1024 generation 0x0000000000000005 generation 0x1122334455667788");
}

#[test]
fn the_rest_of_an_older_try_at_the_same_table_behind_a_new_header_is_refused() {
    let entries: Vec<Entry> = (0..64_u8).map(|n| put(&[n], 1, &[n; 5])).collect();
    for options in all_options() {
        let (new, _) = write(&entries, options);
        let mut writer = FastTableWriter::new(ID, GENERATION - 1, options);
        for Entry { key, value, .. } in &entries {
            writer.add(key, 0, SeqNo(1), EntryKind::Put, value.as_deref().unwrap());
        }
        let (old, _) = writer.finish(Vec::with_capacity);
        let torn = [&new[..HEADER_BYTES], &old[HEADER_BYTES..]].concat();
        assert_eq!(torn.len(), new.len());
        names_the_table(&open(torn).err().unwrap());
    }
}

#[test]
fn a_newer_format_is_refused_as_such_if_its_checksum_is_right() {
    let (mut bytes, _) = write(&small(), all_options()[0]);
    bytes[8] = 2;
    assert_eq!(open(bytes.clone()).err().unwrap().kind(), ErrorKind::Corruption);
    let sum = crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(open(bytes).err().unwrap().kind(), ErrorKind::NewerVersion);
}

#[test]
fn random_changes_behind_checksums_make_no_reader_panic() {
    let mut random = fastrand::Rng::with_seed(9);
    for options in all_options() {
        let (good, _) = write(&small(), options);
        let entries_at = open(good.clone()).unwrap().entries_at();
        for round in 0..4000 {
            let mut bad = good.clone();
            for _ in 0..random.usize(1..5) {
                // Most bytes are registers; damage is to meet what is decoded.
                let at = match round % 3 {
                    0 => random.usize(12..HEADER_BYTES + 200),
                    1 => random.usize(entries_at..good.len()),
                    _ => random.usize(..good.len()),
                };
                bad[at] = [0, 1, 0x7f, 0x80, 0xff, random.u8(..)][random.usize(..6)];
            }
            fuzz_fast_table(&bad);
        }
    }
}
