//! Creating, abandoning and removing tables, and errors while writing them.

use super::bench::{Bench, add, options};
use super::disk::Disk;
use super::entries::{Entry, Random, put};
use crate::error::ErrorKind;
use crate::format::{SeqNo, TableId, key};
use crate::storage::OpenMode;
use crate::table::format::block::TRAILER_BYTES;
use crate::table::read::file::TableFile;
use crate::table::{Compression, TableOptions, TableWrites, check, dump, verify_file};
use std::sync::atomic::Ordering;

fn bench() -> Bench {
    Bench::new(options(4096, Compression::None, 10), 1 << 20)
}

#[test]
fn ids_are_given_out_once_whatever_happens_to_the_file() {
    let bench = bench();
    bench.write_with(async |writers| {
        let writer = writers.create(0).await.unwrap();
        assert_eq!(writer.id(), TableId(7));
        writer.abandon().await;
    });
    assert!(bench.disk.names().is_empty());
    bench.disk.put(&bench.store.path(TableId(8)), b"an orphan");
    let meta = bench.write(&[put(b"k", 1, b"v")]);
    assert_eq!((meta.id, bench.store.next_id()), (TableId(9), TableId(10)));
    assert_eq!(bench.disk.contents(&bench.store.path(TableId(8))), b"an orphan");
}

#[test]
fn a_full_disk_while_finishing_leaves_no_file() {
    let bench = bench();
    bench.disk.room.store(10, Ordering::Relaxed);
    let error = bench.write_with(async |writers| {
        let mut writer = writers.create(0).await.unwrap();
        add(&mut writer, b"", &put(b"k", 1, b"v")).await.unwrap();
        writer.finish().await.unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(bench.disk.names().is_empty());
}

#[test]
fn a_full_disk_while_adding_is_an_error_and_the_file_can_be_abandoned() {
    let bench = bench();
    bench.disk.room.store(300 << 10, Ordering::Relaxed);
    bench.write_with(async |writers| {
        let mut writer = writers.create(0).await.unwrap();
        let (mut n, mut before) = (0u32, Vec::new());
        let error = loop {
            n += 1;
            let entry = put(&n.to_be_bytes(), 1, &[0; 1000]);
            if let Err(error) = add(&mut writer, &before, &entry).await {
                break error;
            }
            before = entry.key;
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        writer.abandon().await;
    });
    assert!(bench.disk.names().is_empty());
}

#[test]
fn a_file_is_cut_to_its_length_only_where_space_was_reserved() {
    for (writes, keeps_space, cuts) in [
        (TableWrites::PageCache, true, 0),
        (TableWrites::PageCache, false, 1),
        (TableWrites::Direct, true, 1),
        (TableWrites::Direct, false, 1),
    ] {
        let disk = Disk::new(true);
        disk.keeps_space.store(keeps_space, Ordering::Relaxed);
        let bench = Bench::on(disk, TableOptions { writes, ..options(4096, Compression::None, 10) }, 1 << 20);
        let meta = bench.write(&Random(3).entries(2000));
        let bytes = bench.disk.contents(&bench.store.path(meta.id)).len() as u64;
        assert_eq!((bytes, bench.disk.cuts.load(Ordering::Relaxed)), (meta.bytes, cuts), "{writes:?}, {keeps_space}");
    }
}

#[test]
#[should_panic(expected = "not in order")]
fn an_entry_twice_is_refused() {
    bench().write(&[put(b"k", 1, b"v"), put(b"k", 1, b"v")]);
}

#[test]
fn bytes_grow_with_every_entry_and_stay_below_the_finished_file() {
    let bench = bench();
    let entries = Random(3).entries(2000);
    let (meta, largest) = bench.write_with(async |writers| {
        let mut writer = writers.create(0).await.unwrap();
        let mut largest = 0;
        let mut before = &[][..];
        for entry in &entries {
            add(&mut writer, before, entry).await.unwrap();
            before = &entry.key;
            assert!(writer.bytes() > largest);
            largest = writer.bytes();
        }
        (writer.finish().await.unwrap(), largest)
    });
    assert!(largest < meta.bytes && meta.bytes < largest + (64 << 10));
    assert_eq!(meta.bytes, bench.disk.contents(&bench.store.path(meta.id)).len() as u64);
}

#[test]
fn a_block_touches_two_pages_at_most_and_is_not_small() {
    for value_bytes in [100, 1024, 1500, 2500, 3500] {
        let bench = bench();
        let entries: Vec<Entry> = (0..2000u32).map(|n| put(&n.to_be_bytes(), 1, &vec![1; value_bytes])).collect();
        let meta = bench.write(&entries);
        let file = bench.environment.storage.open(&bench.store.path(meta.id), OpenMode::Read).unwrap().unwrap();
        let index = TableFile::open(file, true).unwrap().index;
        let mut end = 0;
        for at in 0..index.blocks() {
            let block = index.handle(at).unwrap();
            assert_eq!(block.offset, end, "{value_bytes}");
            end = block.offset + block.bytes + TRAILER_BYTES as u64;
            let pages = end.div_ceil(4096) - block.offset / 4096;
            let is_last = at + 1 == index.blocks();
            assert!(pages <= 2 && (block.bytes >= 2048 || is_last), "{value_bytes}: {block:?}, {pages} pages");
        }
        assert!(index.blocks() > 10);
    }
}

/// However entries lie over pages: while a block is open nothing is written, so one must end now and then by itself.
#[test]
fn what_a_writer_gathers_is_written_soon() {
    for value_bytes in (0..5000).step_by(53).chain([1007, 4040, 4060, 4080]) {
        bench().write_with(async |writers| {
            let mut writer = writers.create(0).await.unwrap();
            let (mut before, mut written) = (Vec::new(), 0);
            for n in 0..2000u64 {
                let entry = put(&n.to_be_bytes(), 1, &vec![1; value_bytes]);
                let shared = key::shared_bytes(&before, &entry.key);
                if writer.add(&entry.key, shared, SeqNo(1), entry.kind, &entry.value) {
                    writer.write().await.unwrap();
                    written = writer.bytes();
                }
                let gathered = writer.bytes() - written;
                assert!(gathered <= 48 << 10, "{gathered} bytes gathered, with values of {value_bytes}");
                before = entry.key;
            }
            writer.finish().await.unwrap();
        });
    }
}

#[test]
fn removing_twice_is_no_error() {
    let bench = bench();
    let meta = bench.write(&[put(b"k", 1, b"v")]);
    bench.store.remove(meta.id).unwrap();
    assert!(bench.disk.names().is_empty());
    bench.store.remove(meta.id).unwrap();
}

#[test]
fn a_missing_table_is_corruption_for_reads_and_false_for_verification() {
    let bench = bench();
    let meta = bench.write(&[put(b"k", 1, b"v")]);
    bench.store.remove(meta.id).unwrap();
    let path = bench.store.path(meta.id);
    let error = bench.store.open(meta.clone()).get(b"k", SeqNo::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "db/tables/0000000007.table is damaged at offset 0: expected a table of {} bytes, found no such file",
            meta.bytes
        )
    );
    assert!(!verify_file(&bench.environment, &path, &meta).unwrap());
    assert_eq!(check(&bench.environment, &path, &meta).unwrap_err().kind(), ErrorKind::Corruption);
    let dumped = dump(&*bench.environment.storage, &path, &mut |_| Ok(()));
    assert!(dumped.is_err());
}

#[test]
fn the_file_of_another_table_is_refused() {
    let bench = bench();
    let first = bench.write(&[put(b"k", 1, b"v")]);
    let second = bench.write(&[put(b"k", 1, b"w")]);
    let bytes = bench.disk.contents(&bench.store.path(first.id));
    bench.disk.put(&bench.store.path(second.id), &bytes);
    let error = bench.store.open(second.clone()).get(b"k", SeqNo::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(!verify_file(&bench.environment, &bench.store.path(second.id), &second).unwrap());
}
