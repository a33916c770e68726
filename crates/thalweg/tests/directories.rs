//! Directory keyspaces against a model: every entry, every listing, through flushes, merges, snapshots and reopens.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use thalweg::{Builder, Database, DirectoryEntry, DirectoryKeyspace, ErrorKind};

type Model = BTreeMap<(u64, Vec<u8>), Vec<u8>>;

fn open(path: &std::path::Path) -> Database {
    builder(path).open().unwrap()
}

fn builder(path: &std::path::Path) -> Builder {
    Database::builder(path)
        .memtable_bytes(64 << 10)
        .level0_trigger(1)
        .level1_bytes(16 << 10)
        .table_bytes(32 << 10)
        .block_cache_bytes(64 << 10)
}

/// A value that tells what it is, now and then a long one.
fn value(random: &mut fastrand::Rng, label: &str) -> Vec<u8> {
    let bytes = match random.u32(..100) {
        0..60 => random.usize(..40),
        60..95 => random.usize(40..400),
        95..99 => random.usize(2000..9000),
        _ => random.usize(60_000..150_000),
    };
    let mut value = label.as_bytes().to_vec();
    value.resize(value.len() + bytes, label.len() as u8);
    value
}

fn check(files: &DirectoryKeyspace, model: &Model, directories: u64) {
    for directory in 0..directories {
        let mut expected: Vec<(&Vec<u8>, &Vec<u8>)> =
            model.range((directory, Vec::new())..(directory + 1, Vec::new())).map(|((_, n), v)| (n, v)).collect();
        let mut cursors = Vec::new();
        let mut listed: Vec<(Vec<u8>, Vec<u8>)> = files
            .list(directory)
            .map(|entry| {
                let entry = entry.unwrap();
                cursors.push(entry.cursor());
                (entry.name().to_vec(), entry.value().unwrap().to_vec())
            })
            .collect();
        assert!(cursors.is_sorted(), "cursors ascend");
        listed.sort();
        expected.sort();
        assert_eq!(listed.len(), expected.len(), "entries of directory {directory}");
        assert!(listed.iter().zip(&expected).all(|((n, v), (en, ev))| n == *en && v == *ev), "of {directory}");
        assert_eq!(pages(files, directory), listed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        assert_eq!(files.is_empty(directory).unwrap(), expected.is_empty());
        let entries: Vec<(u64, &Vec<u8>)> = expected.iter().map(|(name, _)| (directory, *name)).step_by(9).collect();
        let found = files.multi_get(&entries).unwrap();
        assert!(found.iter().zip(expected.iter().step_by(9)).all(|(got, (_, v))| got.as_deref() == Some(&v[..])));
        for (name, value) in expected.iter().take(20) {
            assert_eq!(files.get(directory, name).unwrap().as_deref(), Some(&value[..]));
        }
        assert!(files.get(directory, "never there").unwrap().is_none());
    }
}

/// The entries after a cursor: `least`, and others with the cursor of the last one.
fn page(files: &DirectoryKeyspace, directory: u64, cursor: u64, least: usize) -> Vec<DirectoryEntry> {
    let mut page: Vec<DirectoryEntry> = Vec::new();
    for entry in files.list_from(directory, cursor).map(Result::unwrap) {
        if page.len() >= least && page.last().unwrap().cursor() != entry.cursor() {
            break;
        }
        page.push(entry);
    }
    page
}

/// The names of a directory, sorted, read in pages.
fn pages(files: &DirectoryKeyspace, directory: u64) -> Vec<Vec<u8>> {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        let page = page(files, directory, cursor, 50);
        let Some(last) = page.last() else { break };
        assert!(page.iter().all(|entry| entry.cursor() > cursor), "a page begins after its cursor");
        cursor = last.cursor();
        names.extend(page.iter().map(|entry| entry.name().to_vec()));
    }
    names.sort();
    names
}

#[test]
fn a_directory_keyspace_is_a_map_of_directories_through_everything() {
    run_against_a_model(builder);
}

/// Names with equal hashes are everywhere: in one block, in two blocks, in several packs.
#[cfg(feature = "simulation")]
#[test]
fn a_directory_keyspace_is_a_map_even_if_hashes_have_four_bits() {
    run_against_a_model(|path| builder(path).name_hash_bits(4, 0));
}

fn run_against_a_model(builder: impl Fn(&std::path::Path) -> Builder) {
    let open = |path: &std::path::Path| builder(path).open().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut model = Model::new();
    let directories = 40;
    for life in 0..4 {
        let db = open(dir.path());
        let files = db.directory_keyspace("files").unwrap();
        let inodes = db.keyspace("inodes").unwrap();
        check(&files, &model, directories);
        for round in 0..6 {
            for number in 0..1500 {
                // A few directories have most of the entries.
                let directory = if random.bool() { random.u64(..3) } else { random.u64(..directories) };
                let name = format!("entry {}", random.u32(..if directory < 3 { 3000 } else { 60 })).into_bytes();
                if random.u32(..4) == 0 {
                    files.remove(directory, &name).unwrap();
                    model.remove(&(directory, name));
                } else {
                    let value = value(&mut random, &format!("{life}.{round}.{number} "));
                    files.insert(directory, &name, &value).unwrap();
                    model.insert((directory, name), value);
                }
            }
            let mut batch = db.batch();
            batch.insert_entry(&files, 5, "batched", format!("{life}.{round}")).unwrap();
            batch.remove_entry(&files, 6, "entry 1").unwrap();
            batch.insert(&inodes, "5", format!("{life}.{round}")).unwrap();
            batch.commit().unwrap();
            model.insert((5, b"batched".to_vec()), format!("{life}.{round}").into_bytes());
            model.remove(&(6, b"entry 1".to_vec()));
            let (snapshot, before) = (db.snapshot(), model.clone());
            files.insert(7, "after the snapshot", "").unwrap();
            model.insert((7, b"after the snapshot".to_vec()), Vec::new());
            match round % 3 {
                0 => db.flush().unwrap(),
                1 => {
                    db.flush().unwrap();
                    db.wait_for_compactions().unwrap();
                }
                _ if life == 2 => {
                    files.clear().unwrap();
                    files.insert(1, "after the clear", "").unwrap();
                    model = Model::from([((1, b"after the clear".to_vec()), Vec::new())]);
                }
                _ => {}
            }
            check(&files, &model, directories);
            let then = snapshot.directory_keyspace(&files).unwrap();
            for ((directory, name), value) in before.iter().step_by(37) {
                assert_eq!(then.get(*directory, name).unwrap().as_deref(), Some(&value[..]));
            }
            let of_first = then.list(0).map(|entry| entry.unwrap());
            let of_first: Model = of_first.map(|e| ((0, e.name().to_vec()), e.value().unwrap().to_vec())).collect();
            let expected = before.range((0, Vec::new())..(1, Vec::new())).map(|(k, v)| (k.clone(), v.clone()));
            assert!(of_first == expected.collect::<Model>(), "directory 0 of the snapshot");
            assert_eq!(then.list(7).count(), before.range((7, Vec::new())..(8, Vec::new())).count());
        }
        if life % 2 == 0 {
            db.close().unwrap();
        }
    }
    let db = open(dir.path());
    db.tidy().unwrap();
    let files = db.directory_keyspace("files").unwrap();
    check(&files, &model, directories);
    drop(files);
    db.close().unwrap();
    let mut faults = Vec::new();
    Database::builder(dir.path()).check(&mut |fault| faults.push(fault.to_string())).unwrap();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn a_listing_that_is_resumed_gives_every_lasting_name_once() {
    resume_a_listing(builder);
}

/// About twenty names have the same cursor.
#[cfg(feature = "simulation")]
#[test]
fn a_listing_that_is_resumed_where_cursors_are_equal_gives_every_lasting_name_once() {
    resume_a_listing(|path| builder(path).name_hash_bits(8, 0));
}

fn resume_a_listing(builder: impl Fn(&std::path::Path) -> Builder) {
    let open = |path: &std::path::Path| builder(path).open().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut db = open(dir.path());
    let mut files = db.directory_keyspace("files").unwrap();
    for number in 0..5000 {
        files.insert(1, format!("lasting {number}"), "value").unwrap();
    }
    let (mut seen, mut cursor, mut step) = (Vec::new(), 0, 0);
    loop {
        let page = page(&files, 1, cursor, 300);
        let Some(last) = page.last() else { break };
        cursor = last.cursor();
        seen.extend(page.iter().map(|entry| String::from_utf8(entry.name().to_vec()).unwrap()));
        for number in 0..300 {
            files.insert(1, format!("other {step} {number}"), "meanwhile").unwrap();
            files.remove(1, format!("other {} {number}", step / 2)).unwrap();
        }
        match step % 4 {
            0 => db.flush().unwrap(),
            1 => db.tidy().unwrap(),
            2 => {
                drop(files);
                db.close().unwrap();
                db = open(dir.path());
                files = db.directory_keyspace("files").unwrap();
            }
            _ => {}
        }
        step += 1;
    }
    let mut lasting: Vec<_> = seen.iter().filter(|name| name.starts_with("lasting")).collect();
    assert_eq!(lasting.len(), 5000);
    lasting.sort();
    lasting.dedup();
    assert_eq!(lasting.len(), 5000);
    assert!(step > 15);
}

/// A part of a listing then ends between hashes with equal fences: in front of a block, or within one.
#[cfg(feature = "simulation")]
#[test]
fn a_listing_in_parts_has_names_whose_hashes_differ_in_their_lowest_bits_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = builder(dir.path()).name_hash_bits(1, 20).open().unwrap();
    let files = db.directory_keyspace("files").unwrap();
    // In four packs and a memtable.
    for number in 0..2000 {
        files.insert(1, format!("{number}"), "value").unwrap();
        if number % 400 == 399 && number < 1600 {
            db.flush().unwrap();
        }
    }
    for wanted in [1, 7, 60, 300] {
        let listing = files.list(1).in_parts_of(wanted);
        let names: std::collections::BTreeSet<_> = listing.map(|entry| entry.unwrap().name().to_vec()).collect();
        assert_eq!(names.len(), 2000, "parts of {wanted}");
    }
    resume_a_listing(|path| builder(path).name_hash_bits(3, 25));
}

#[test]
fn a_listing_has_the_version_of_its_moment_among_many_of_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    let mut snapshots = Vec::new();
    for version in 0..3000 {
        files.insert(1, ".", format!("{version}")).unwrap();
        files.insert(1, format!("file {version}"), "").unwrap();
        if version % 1000 == 500 {
            snapshots.push((version, db.snapshot()));
        }
    }
    files.remove(1, ".").unwrap();
    let value = |listing: thalweg::Listing| {
        let mut found = listing.map(|entry| entry.unwrap()).filter(|entry| entry.name() == b".");
        found.next().map(|entry| String::from_utf8(entry.value().unwrap().to_vec()).unwrap())
    };
    for wanted in [1, 100, 2048] {
        assert_eq!(value(files.list(1).in_parts_of(wanted)), None);
        assert_eq!(files.list(1).in_parts_of(wanted).count(), 3000);
        for (version, snapshot) in &snapshots {
            let then = snapshot.directory_keyspace(&files).unwrap();
            assert_eq!(value(then.list(1).in_parts_of(wanted)), Some(version.to_string()));
            assert_eq!(then.list(1).in_parts_of(wanted).count(), version + 2);
        }
    }
}

#[test]
fn wrong_input_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    let kind = |result: thalweg::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(files.insert(1, "", "")), ErrorKind::InvalidInput);
    assert_eq!(kind(files.insert(1, vec![0; 1025], "")), ErrorKind::InvalidInput);
    files.insert(u64::MAX, vec![0xff; 1024], "the longest name").unwrap();
    assert_eq!(files.get(u64::MAX, vec![0xff; 1024]).unwrap().as_deref(), Some(&b"the longest name"[..]));
    assert_eq!(db.keyspace("files").unwrap_err().kind(), ErrorKind::InvalidInput);
    db.keyspace("ordered").unwrap();
    assert_eq!(db.directory_keyspace("ordered").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(files.list(77).next().is_none() && files.is_empty(77).unwrap());
    // A cursor of nothing is one between entries.
    assert!(files.list_from(u64::MAX, u64::MAX).next().is_none());
    assert_eq!(files.list_from(u64::MAX, 2).count(), 1);
    db.drop_keyspace("files").unwrap();
    assert_eq!(files.get(1, "a").unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(files.list(1).next().unwrap().unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(kind(files.insert(1, "a", "")), ErrorKind::NoKeyspace);
}

#[test]
fn a_clear_empties_directories_and_a_snapshot_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    for number in 0..2000 {
        files.insert(number % 7, format!("{number}"), "value").unwrap();
    }
    db.flush().unwrap();
    files.insert(3, "unflushed", "value").unwrap();
    let snapshot = db.snapshot().directory_keyspace(&files).unwrap();
    files.clear().unwrap();
    files.insert(3, "new", "value").unwrap();
    assert_eq!((files.list(3).count(), files.list(4).count()), (1, 0));
    assert_eq!(snapshot.list(3).count(), 287);
    assert!(snapshot.get(3, "unflushed").unwrap().is_some());
    drop(snapshot);
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    assert_eq!((files.list(3).count(), files.list(4).count()), (1, 0));
}

fn spans(db: &Database) -> (u64, u64) {
    let statistics = db.statistics();
    let files = statistics.keyspaces.iter().find(|keyspace| keyspace.name == "files").unwrap();
    let index = files.directories.as_ref().unwrap();
    (index.directories, index.spans)
}

#[test]
fn a_quiet_database_merges_scattered_directories_and_leaves_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let files = db.directory_keyspace("files").unwrap();
    // Each flush has directories of its own.
    for flush in 0..5 {
        for number in 0..2000 {
            files.insert(flush * 100 + number % 100, format!("{number}"), "value").unwrap();
        }
        db.flush().unwrap();
    }
    db.tidy().unwrap();
    assert_eq!(spans(&db), (500, 500));
    let bytes = db.statistics().compaction_written_bytes;
    assert_eq!(bytes, 0, "nothing was to be merged");
    // Each flush has entries of all directories.
    for flush in 0..5 {
        for directory in 0..500 {
            files.insert(directory, format!("later {flush}"), "value").unwrap();
        }
        db.flush().unwrap();
    }
    assert_eq!(spans(&db), (500, 3000));
    db.tidy().unwrap();
    assert_eq!(spans(&db), (500, 500));
    assert!((0..500).all(|directory| files.list(directory).count() == 25));
    // What was removed is gone from the index, too.
    for directory in 0..400 {
        for entry in files.list(directory).map(Result::unwrap) {
            files.remove(directory, entry.name()).unwrap();
        }
    }
    db.tidy().unwrap();
    assert_eq!(spans(&db), (100, 100));
}

#[test]
fn a_tidied_database_has_no_space_for_what_was_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let files = db.directory_keyspace("files").unwrap();
    for round in 0..3 {
        for number in 0..20_000_u64 {
            files.insert(number / 20, format!("{}", number % 20), [round; 60]).unwrap();
        }
        db.tidy().unwrap();
        assert_eq!(spans(&db), (1000, 1000), "one pack with each directory");
        let levels: Vec<_> = db.statistics().keyspaces.into_iter().flat_map(|keyspace| keyspace.levels).collect();
        let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
        assert!(bytes < 20_000 * 110, "{bytes} bytes of tables for {} of entries", 20_000 * 70);
    }
    // A tenth may stay.
    files.insert(0, "0", "new").unwrap();
    let written = db.statistics().compaction_written_bytes;
    db.tidy().unwrap();
    assert_eq!(db.statistics().compaction_written_bytes, written, "one entry is not worth a merge");
}

/// Packs of one large directory have ranges of its hashes that do not overlap: no block of them is read twice, but
/// where a part of the listing ends.
#[test]
fn a_listing_reads_each_block_about_once_however_many_packs_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let db = builder(dir.path()).block_cache_bytes(0).open().unwrap();
    let files = db.directory_keyspace("files").unwrap();
    for number in 0..30_000_u64 {
        files.insert(7, number.to_be_bytes(), [1; 100]).unwrap();
    }
    files.compact().unwrap();
    let blocks_read = || db.statistics().cache_hits + db.statistics().cache_misses;
    let before = blocks_read();
    assert_eq!(files.list(7).map(Result::unwrap).count(), 30_000);
    let (read, keyspaces) = (blocks_read() - before, db.statistics().keyspaces);
    let (packs, bytes) =
        keyspaces[0].levels.iter().fold((0, 0), |sum, level| (sum.0 + level.tables, sum.1 + level.bytes));
    assert!(packs > 50, "{packs} packs");
    let blocks = bytes / 4096;
    assert!((blocks * 9 / 10..blocks * 3 / 2).contains(&read), "{read} blocks read of {blocks} in {packs} packs");
}

/// Tombstones are few bytes, but what they remove is not.
#[test]
fn a_tidied_database_has_no_space_for_what_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (files, rows) = (db.directory_keyspace("files").unwrap(), db.keyspace("rows").unwrap());
    for number in 0..10_000_u64 {
        files.insert(number / 2500, number.to_be_bytes(), [7; 600]).unwrap();
        rows.insert(number.to_be_bytes(), [7; 600]).unwrap();
    }
    db.tidy().unwrap();
    for removed in [2500, 5000, 10_000] {
        for number in 0..removed {
            files.remove(number / 2500, number.to_be_bytes()).unwrap();
            rows.remove(number.to_be_bytes()).unwrap();
        }
        db.tidy().unwrap();
        for keyspace in db.statistics().keyspaces {
            let (entries, tombstones) =
                keyspace.levels.iter().fold((0, 0), |sum, level| (sum.0 + level.entries, sum.1 + level.tombstones));
            assert_eq!((entries, tombstones), (10_000 - removed, 0), "{} after {removed}", keyspace.name);
        }
    }
}

/// Each batch adds a name, removes the one of a thousand batches before, and counts itself in an ordered keyspace.
#[test]
fn a_checkpoint_taken_while_merges_run_is_complete() {
    const KEPT: u64 = 1000;
    let dir = tempfile::tempdir().unwrap();
    let db = builder(&dir.path().join("db")).directory_level0_trigger(2).open().unwrap();
    let (files, batches) = (db.directory_keyspace("files").unwrap(), db.keyspace("batches").unwrap());
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = || {
        for number in (0..).take_while(|_| !stop.load(Relaxed)) {
            let mut batch = db.batch();
            batch.insert_entry(&files, number % 50, format!("{number}"), [7; 100]).unwrap();
            if let Some(old) = number.checked_sub(KEPT) {
                batch.remove_entry(&files, old % 50, format!("{old}")).unwrap();
            }
            batch.insert(&batches, "count", number.to_be_bytes()).unwrap();
            batch.commit().unwrap();
            written.store(number + 1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        for number in 1..=6 {
            while written.load(Relaxed) < number * 4000 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let (before, merged) = (written.load(Relaxed), db.statistics().compaction_written_bytes);
            assert!(merged > 0, "merges run");
            let path = dir.path().join(format!("copy {number}"));
            db.checkpoint(&path).unwrap();
            let after = written.load(Relaxed) + 1;
            let mut faults = Vec::new();
            Database::check(&path, &mut |fault| faults.push(fault.to_string())).unwrap();
            assert_eq!(faults, Vec::<String>::new());
            let copy = Database::open(&path).unwrap();
            let count = copy.keyspace("batches").unwrap().get("count").unwrap().unwrap();
            let count = u64::from_be_bytes(count[..].try_into().unwrap()) + 1;
            assert!((before..=after).contains(&count), "{before} {count} {after}");
            let copied = copy.directory_keyspace("files").unwrap();
            let listed = (0..50).flat_map(|directory| copied.list(directory)).map(Result::unwrap);
            let mut numbers: Vec<u64> =
                listed.map(|entry| std::str::from_utf8(entry.name()).unwrap().parse().unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (count.saturating_sub(KEPT)..count).collect::<Vec<_>>());
        }
        stop.store(true, Relaxed);
    });
}
