//! Reads through mappings of tables: what they find, what they cost, and what becomes of a file that is not what it
//! was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use thalweg::{Builder, Compression, Database, ErrorKind, Keyspace, Slice, TableReads, TableWrites};

const RECORDS: u32 = 4000;

fn builder(directory: &TempDir) -> Builder {
    Database::builder(directory.path())
        .memtable_bytes(64 << 20)
        .block_cache_bytes(64 << 10)
        .compression(Compression::None)
        .table_writes(TableWrites::PageCache)
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 500 + number as usize % 700]
}

/// A database with one table that was written through the page cache by this process, and settled.
fn filled(builder: Builder) -> (Database, Keyspace) {
    let database = builder.open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    for number in 0..RECORDS {
        keyspace.insert(number.to_be_bytes(), value(number)).unwrap();
    }
    database.flush().unwrap();
    assert!(keyspace.get(0_u32.to_be_bytes()).unwrap().is_some());
    assert_eq!(database.statistics().mapped_reads, 0, "it is not settled yet");
    database.settle().unwrap();
    (database, keyspace)
}

fn table(directory: &TempDir) -> PathBuf {
    let mut tables = fs::read_dir(directory.path().join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.next().unwrap();
    assert!(tables.next().is_none());
    table
}

#[test]
fn gets_and_ranges_read_the_mapping_and_what_they_gave_stays_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = filled(builder(&directory));
    let mut kept: Vec<(u32, Slice)> = Vec::new();
    for number in (0..RECORDS).rev() {
        kept.push((number, keyspace.get(number.to_be_bytes()).unwrap().unwrap()));
    }
    for (number, entry) in (0..).zip(keyspace.iter()) {
        kept.push((number, entry.unwrap().1));
    }
    let keys: Vec<_> = (0..RECORDS).map(u32::to_be_bytes).collect();
    let values = keyspace.multi_get(&keys).unwrap();
    kept.extend((0..).zip(values.into_iter().map(Option::unwrap)));
    let statistics = database.statistics();
    assert!(statistics.mapped_reads > u64::from(RECORDS), "{statistics:?}");
    assert!(statistics.mapped_reads <= statistics.cache_misses);
    assert_eq!(kept.len(), 3 * RECORDS as usize);
    for (number, found) in &kept {
        assert_eq!(*found, value(*number));
    }
    // Also when the table is gone, and everything that was mapped with it.
    drop(keyspace);
    database.close().unwrap();
    assert!(kept.iter().all(|(number, found)| *found == value(*number)));
}

#[test]
fn who_wants_copies_has_no_mapping() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = filled(builder(&directory).table_reads(TableReads::Copied));
    for number in 0..RECORDS {
        assert_eq!(keyspace.get(number.to_be_bytes()).unwrap().unwrap(), value(number));
    }
    assert_eq!(database.statistics().mapped_reads, 0);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(&*table(&directory).to_string_lossy()));
}

/// Cuts the table while it is mapped; gives what a read of `number` says then.
fn cut(read: impl Fn(&Keyspace, u32) -> Option<thalweg::Error>) {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = filled(builder(&directory));
    assert_eq!(keyspace.get(0_u32.to_be_bytes()).unwrap().unwrap(), value(0));
    assert!(database.statistics().mapped_reads > 0);
    let table = table(&directory);
    let bytes = fs::metadata(&table).unwrap().len();
    fs::OpenOptions::new().write(true).open(&table).unwrap().set_len(bytes / 4).unwrap();
    let error = read(&keyspace, RECORDS - 10).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let said = error.to_string();
    assert!(said.contains(&*table.to_string_lossy()) && said.contains("the end of the file"), "{said}");
    assert!(said.chars().any(|c| c.is_ascii_digit()), "{said}");
    assert_eq!(keyspace.get(1_u32.to_be_bytes()).unwrap().unwrap(), value(1), "what is left can be read");
}

#[test]
fn a_table_that_is_cut_short_while_it_is_mapped_is_an_error_that_names_it() {
    cut(|keyspace, number| keyspace.get(number.to_be_bytes()).err());
    cut(|keyspace, number| {
        let mut range = keyspace.range(number.to_be_bytes()..);
        range.find_map(Result::err)
    });
    cut(|keyspace, number| keyspace.multi_get(&[number.to_be_bytes()]).err());
}

#[test]
fn a_byte_that_changes_in_a_mapped_table_is_caught_at_each_read() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = filled(builder(&directory));
    // The block is good when it is first read.
    assert_eq!(keyspace.get(0_u32.to_be_bytes()).unwrap().unwrap(), value(0));
    let file = fs::OpenOptions::new().read(true).write(true).open(table(&directory)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x55], 300).unwrap();
    for _ in 0..3 {
        let error = keyspace.get(0_u32.to_be_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("checksum"), "{error}");
    }
    assert!(keyspace.iter().next().unwrap().is_err());
    assert!(database.statistics().mapped_reads > 3);
}
