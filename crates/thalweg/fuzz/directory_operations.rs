//! Runs operations on a directory keyspace against a `BTreeMap`. Any bytes are operations: one byte says which, the
//! next ones its directory, name and value. Hashes of names have four bits, and memtables, packs and blocks are tiny.
//!
//! The fuzz target `directory_operations` and `tests/fuzz_corpus.rs` use it.

use std::collections::BTreeMap;
use std::path::Path;
use thalweg::{Database, DirectoryEntry, DirectoryKeyspace, DirectorySnapshot, Listing};

type Map = BTreeMap<(u64, Vec<u8>), Vec<u8>>;

/// Operations of one run at most: each may flush.
const OPERATIONS_MAX: usize = 400;

struct Open {
    db: Database,
    files: DirectoryKeyspace,
}

impl Open {
    fn new(path: &Path) -> Open {
        let db = Database::builder(path)
            .name_hash_bits(4, 0)
            .pack_block_bytes(100)
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10)
            .memtable_bytes(4 << 10)
            .table_bytes(2 << 10)
            .directory_level0_trigger(2)
            .level1_bytes(4 << 10)
            .growth_factor(2)
            .log_sync_interval(None)
            .open()
            .expect("the database opens");
        let files = db.directory_keyspace("files").expect("the keyspace opens");
        Open { db, files }
    }
}

/// The bytes that are left.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A directory and a name from a small space, so that operations meet.
    fn place(&mut self) -> Option<(u64, Vec<u8>)> {
        let (directory, name) = (self.byte()?, self.byte()?);
        let directory = [0, 0, 1, u64::MAX][usize::from(directory % 4)];
        let name = if name >= 240 { vec![name; 300] } else { vec![b'a' + name % 48] };
        Some((directory, name))
    }

    /// Now and then a value that is in an extent.
    fn value(&mut self) -> Option<Vec<u8>> {
        let byte = self.byte()?;
        Some(vec![byte; if byte >= 250 { 3000 } else { usize::from(byte) }])
    }
}

/// Runs the operations that `bytes` say in a new database at `path`. Panics if an answer is wrong.
pub fn run(path: &Path, bytes: &[u8]) {
    let mut source = Source(bytes);
    let mut open = Open::new(path);
    let mut model = Map::new();
    let mut snapshot: Option<(DirectorySnapshot, Map)> = None;
    for _ in 0..OPERATIONS_MAX {
        match source.byte().map(|byte| byte % 32) {
            None => break,
            Some(31) => {
                snapshot = None;
                drop(open.files);
                open.db.close().expect("the database closes");
                open = Open::new(path);
            }
            Some(operation) => {
                if apply(operation, &mut source, &open, &mut model, &mut snapshot).is_none() {
                    break;
                }
            }
        }
    }
    for directory in [0, 1, u64::MAX] {
        compare(open.files.list(directory), directory, &model);
    }
    drop(snapshot);
    drop(open.files);
    open.db.close().expect("the database closes");
    let mut faults = Vec::new();
    Database::check(path, &mut |fault| faults.push(fault.to_string())).expect("the check runs");
    assert_eq!(faults, Vec::<String>::new());
}

/// `None`: the bytes have come to their end.
fn apply(
    operation: u8,
    source: &mut Source<'_>,
    Open { db, files }: &Open,
    model: &mut Map,
    snapshot: &mut Option<(DirectorySnapshot, Map)>,
) -> Option<()> {
    match operation {
        0..12 => {
            let ((directory, name), value) = (source.place()?, source.value()?);
            files.insert(directory, &name, &value).expect("no write fails");
            model.insert((directory, name), value);
        }
        12..16 => {
            let (directory, name) = source.place()?;
            files.remove(directory, &name).expect("no write fails");
            model.remove(&(directory, name));
        }
        16..18 => {
            let mut batch = db.batch();
            for _ in 0..source.byte()? % 8 {
                let ((directory, name), value) = (source.place()?, source.value()?);
                if value.is_empty() {
                    batch.remove_entry(files, directory, &name).expect("no write fails");
                    model.remove(&(directory, name));
                } else {
                    batch.insert_entry(files, directory, &name, &value).expect("no write fails");
                    model.insert((directory, name), value);
                }
            }
            batch.commit().expect("no write fails");
        }
        18..22 => {
            let place = source.place()?;
            let found = files.get(place.0, &place.1).expect("no read fails");
            assert_eq!(found.as_deref(), model.get(&place).map(Vec::as_slice), "{place:?}");
        }
        22..24 => {
            let (directory, _) = source.place()?;
            match snapshot {
                Some((snapshot, then)) => compare(snapshot.list(directory), directory, then),
                None => compare(files.list(directory), directory, model),
            }
        }
        24 => in_pages(files, source.place()?.0, usize::from(source.byte()? % 8), model),
        25 => {
            let taken = db.snapshot().directory_keyspace(files).expect("a snapshot has it");
            *snapshot = Some((taken, model.clone()));
        }
        26 => *snapshot = None,
        27 => {
            files.clear().expect("no write fails");
            model.clear();
        }
        28 => db.flush().expect("a flush works"),
        29 => db.wait_for_compactions().expect("compactions work"),
        _ => db.tidy().expect("compactions work"),
    }
    Some(())
}

fn entries_of(directory: u64, model: &Map) -> Map {
    model.iter().filter(|((of, _), _)| *of == directory).map(|(place, value)| (place.clone(), value.clone())).collect()
}

fn compare(listing: Listing, directory: u64, model: &Map) {
    let mut listed = Map::new();
    for entry in listing.map(|entry| entry.expect("no read fails")) {
        let value = entry.value().expect("no read fails").to_vec();
        assert!(listed.insert((directory, entry.name().to_vec()), value).is_none(), "a name is listed twice");
    }
    assert_eq!(listed, entries_of(directory, model));
}

/// Lists in pages of at least `least` entries, each of which ends where the cursor changes.
fn in_pages(files: &DirectoryKeyspace, directory: u64, least: usize, model: &Map) {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        let mut page: Vec<DirectoryEntry> = Vec::new();
        for entry in files.list_from(directory, cursor).map(|entry| entry.expect("no read fails")) {
            if page.len() >= least && page.last().is_some_and(|last| last.cursor() != entry.cursor()) {
                break;
            }
            page.push(entry);
        }
        let Some(last) = page.last() else { break };
        assert!(page.iter().all(|entry| entry.cursor() > cursor), "a page begins after its cursor");
        cursor = last.cursor();
        names.extend(page.iter().map(|entry| (directory, entry.name().to_vec())));
    }
    names.sort();
    assert_eq!(names, entries_of(directory, model).into_keys().collect::<Vec<_>>());
}
