//! Files of a newer version are refused as such by everything that reads them, and nothing is changed: the rows of the
//! table in `docs/format/README.md`. What older versions wrote is in `golden_format.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use thalweg::{DamagePolicy, Database, Error, ErrorKind, Readable};
use xxhash_rust::xxh3::xxh3_64;

type Files = BTreeMap<PathBuf, Vec<u8>>;

const POLICIES: [DamagePolicy; 2] = [DamagePolicy::Strict, DamagePolicy::PointInTime];

/// A closed database with a table and records in the log.
fn database() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path()).log_segment_bytes(64 << 10).open().unwrap();
    let keyspace = database.keyspace("k").unwrap();
    keyspace.insert("flushed", "1").unwrap();
    database.flush().unwrap();
    keyspace.insert("logged", "2").unwrap();
    database.close().unwrap();
    directory
}

fn files(directory: &Path) -> Files {
    let mut found = Files::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn file(directory: &TempDir, below: &str, is_it: impl Fn(&str) -> bool) -> PathBuf {
    let names = std::fs::read_dir(directory.path().join(below)).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = names.filter(|path| is_it(path.file_name().unwrap().to_str().unwrap())).collect();
    names.sort();
    names.into_iter().next().unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Where version and checksum stand in the last or first bytes of a kind of file, whatever its version is.
struct Envelope {
    version_at: usize,
    checksum_at: usize,
    bytes: usize,
}

const CURRENT: Envelope = Envelope { version_at: 8, checksum_at: 36, bytes: 40 };
const MANIFEST: Envelope = Envelope { version_at: 8, checksum_at: 28, bytes: 32 };
const LOG: Envelope = Envelope { version_at: 8, checksum_at: 60, bytes: 64 };
const FOOTER: Envelope = Envelope { version_at: 60, checksum_at: 56, bytes: 72 };

impl Envelope {
    /// Makes the file one of the next version; `is_sound`: with its checksum right.
    fn age(&self, path: &Path, is_sound: bool) {
        let mut bytes = std::fs::read(path).unwrap();
        let start = if path.extension().is_some_and(|name| name == "table") { bytes.len() - self.bytes } else { 0 };
        let part = &mut bytes[start..start + self.bytes];
        put(part, self.version_at, u32_at(part, self.version_at) + 1);
        if is_sound {
            let checksum = crc32c::crc32c(&part[..self.checksum_at]);
            put(part, self.checksum_at, crc32c::crc32c_append(checksum, &part[self.checksum_at + 4..]));
        }
        std::fs::write(path, bytes).unwrap();
    }
}

fn check(directory: &TempDir) -> Result<u64, Error> {
    Database::check(directory.path(), &mut |_| ()).map(|report| report.faults)
}

fn expect_newer<T>(what: &str, path: &Path, result: Result<T, Error>) {
    let error = result.err().unwrap_or_else(|| panic!("{what} takes a newer {}", path.display()));
    assert_eq!(error.kind(), ErrorKind::NewerVersion, "{what}: {error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{what}: {error}");
}

/// No way to open it, no check and no policy takes the file, and not a byte is changed.
fn refused_by_all(directory: &TempDir, path: &Path) {
    let before = files(directory.path());
    for policy in POLICIES {
        let builder = Database::builder(directory.path()).damage_policy(policy);
        expect_newer("an open", path, builder.clone().open());
        expect_newer("a read-only open", path, builder.open_read_only());
    }
    expect_newer("a check", path, check(directory));
    assert!(files(directory.path()) == before, "something was changed");
}

fn dump(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    thalweg::dump(path, &mut |line| {
        text += &format!("{line}\n");
        Ok(())
    })
    .map(|()| text)
}

#[test]
fn a_newer_current_is_refused_by_all_also_if_it_is_longer() {
    let directory = database();
    let path = directory.path().join("CURRENT");
    CURRENT.age(&path, true);
    refused_by_all(&directory, &path);
    expect_newer("a dump", &path, dump(&path));
    let longer = [std::fs::read(&path).unwrap(), vec![7; 24]].concat();
    std::fs::write(&path, longer).unwrap();
    refused_by_all(&directory, &path);
}

#[test]
fn a_newer_manifest_is_refused_by_all() {
    let directory = database();
    let path = file(&directory, "", |name| name.starts_with("manifest-"));
    MANIFEST.age(&path, true);
    refused_by_all(&directory, &path);
    expect_newer("a dump", &path, dump(&path));
}

/// Appends a record to the manifest.
fn append(path: &Path, record: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() as u64;
    let mut framed = (record.len() as u16).to_le_bytes().to_vec();
    framed.push(1);
    framed.extend_from_slice(record);
    let covered = [&bytes[20..28], &at.to_le_bytes(), &framed].concat();
    bytes.extend_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
    bytes.extend_from_slice(&framed);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_manifest_record_of_an_unknown_kind_is_refused_by_all() {
    // The kind after the last one, and an edit with a change of the kind after the last one.
    let synced = [0; 8];
    let edit_with_change = [&[5u8][..], &synced, &[200, 1, 0, 0, 1, 13, 0]].concat();
    for record in [[&[12u8][..], &synced, b"?"].concat(), edit_with_change] {
        let directory = database();
        let path = file(&directory, "", |name| name.starts_with("manifest-"));
        append(&path, &record);
        refused_by_all(&directory, &path);
        assert!(dump(&path).unwrap().contains("of a newer version"));
    }
}

#[test]
fn a_newer_log_segment_is_refused_by_all_whether_or_not_it_is_of_the_log() {
    let directory = database();
    let count = std::fs::read_dir(directory.path().join("log")).unwrap().count();
    for number in 0..count {
        let directory = database();
        let mut paths: Vec<_> = files(&directory.path().join("log")).into_keys().collect();
        paths.sort();
        let path = &paths[number];
        if std::fs::read(path).unwrap().iter().take(64).all(|byte| *byte == 0) {
            continue;
        }
        LOG.age(path, true);
        refused_by_all(&directory, path);
        expect_newer("a dump", path, dump(path));
    }
}

#[test]
fn a_log_record_with_an_operation_of_an_unknown_kind_is_refused_by_all() {
    let directory = database();
    // The first segment begins with the record that created the keyspace, unless an edit lets it go.
    let path = file(&directory, "log", |_| true);
    let mut bytes = std::fs::read(&path).unwrap();
    let (mut at, mut last) = (64, 64);
    while bytes[at + 6] == 1 {
        (last, at) = (at, at + 8 + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]])));
    }
    // Kind 5 is reserved for removals of ranges.
    bytes[last + 36] = 5;
    let body_checksum = xxh3_64(&bytes[last + 36..at]) as u32;
    put(&mut bytes, last + 32, body_checksum);
    let place = [&bytes[16..24], &bytes[12..16], &(last as u32).to_le_bytes()].concat();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &bytes[last + 4..last + 36]);
    put(&mut bytes, last, crc);
    std::fs::write(&path, bytes).unwrap();
    refused_by_all(&directory, &path);
    assert!(dump(&path).unwrap().contains("an operation of a newer version"));
}

fn expect_newer_reads(path: &Path, keyspace: &impl Readable) {
    expect_newer("a get", path, keyspace.get("flushed"));
    expect_newer("a range", path, keyspace.iter().collect::<Result<Vec<_>, _>>());
    assert_eq!(keyspace.get("logged").unwrap().as_deref(), Some(b"2".as_slice()));
}

#[test]
fn a_newer_table_is_refused_where_it_is_read_and_stays() {
    let directory = database();
    let path = file(&directory, "tables", |_| true);
    FOOTER.age(&path, true);
    let aged = std::fs::read(&path).unwrap();
    expect_newer("a check", &path, check(&directory));
    expect_newer("a dump", &path, dump(&path));
    for policy in POLICIES {
        let builder = || Database::builder(directory.path()).damage_policy(policy);
        expect_newer_reads(&path, &builder().open_read_only().unwrap().keyspace("k").unwrap());
        expect_newer_reads(&path, &builder().open().unwrap().existing_keyspace("k").unwrap().unwrap());
        assert!(std::fs::read(&path).unwrap() == aged, "the table was changed");
    }
}

#[test]
fn a_newer_version_under_a_wrong_checksum_is_damage() {
    let directory = database();
    let manifest = file(&directory, "", |name| name.starts_with("manifest-"));
    let table = file(&directory, "tables", |_| true);
    let current = directory.path().join("CURRENT");
    for (envelope, path) in [(CURRENT, current), (MANIFEST, manifest), (FOOTER, table)] {
        let sound = std::fs::read(&path).unwrap();
        envelope.age(&path, false);
        assert_eq!(check(&directory).ok(), Some(1), "{}", path.display());
        std::fs::write(&path, sound).unwrap();
    }
    for path in files(&directory.path().join("log")).into_keys() {
        let sound = std::fs::read(&path).unwrap();
        LOG.age(&path, false);
        // One that is not of the log may rot.
        assert!(check(&directory).is_ok(), "{}", path.display());
        std::fs::write(&path, sound).unwrap();
    }
}

#[test]
fn files_without_a_version_may_hold_anything() {
    let directory = database();
    for name in ["LOCK", "RESERVE"] {
        std::fs::write(directory.path().join(name), b"of a version that is still to come").unwrap();
    }
    assert_eq!(check(&directory).ok(), Some(0));
    let database = Database::open(directory.path()).unwrap();
    assert!(database.keyspace("k").unwrap().get("flushed").unwrap().is_some());
}

/// Versions of CURRENT, of the manifests and of the log's newest segment.
fn versions(directory: &Path) -> [u32; 3] {
    let files = files(directory);
    let of = |is_it: &dyn Fn(&str) -> bool| {
        let of_file = |(path, bytes): (&PathBuf, &Vec<u8>)| {
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
            (is_it(name) && bytes.iter().take(8).any(|byte| *byte != 0)).then(|| u32_at(bytes, 8))
        };
        files.iter().filter_map(of_file).max().unwrap()
    };
    [of(&|name| name == "CURRENT"), of(&|name| name.starts_with("manifest-")), of(&|name| name.starts_with("log/"))]
}

#[test]
fn an_open_for_writing_brings_an_older_database_to_the_newest_version() {
    let new = database();
    let old = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-1-closed");
    for (path, bytes) in files(&golden) {
        let to = old.path().join(path.strip_prefix(&golden).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    assert!(Database::builder(old.path()).open_read_only().is_ok());
    assert_eq!(versions(old.path()), versions(&golden), "a reader changes nothing");
    Database::open(old.path()).unwrap().close().unwrap();
    assert_eq!(versions(old.path()), versions(new.path()));
}
