//! The fast tier in a directory, on real files: what it holds is read as if it were in the levels, stays there when the
//! database is closed or killed, and goes when the tier is no longer asked for. A tier that is missing, of another
//! database, damaged or elsewhere is refused by name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tiered;

use fastrand::Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{Builder, Database, FastTier, FastTierStatistics, Readable};
use tiered::{Model, TIER_BYTES, builder, copied, verify, write};

/// A database and its fast tier, side by side.
struct Place {
    _directory: TempDir,
    root: PathBuf,
    tier: PathBuf,
}

impl Place {
    fn new() -> Self {
        // The directory for temporary files may be in memory, which cannot be a tier in a directory.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (root, tier) = (directory.path().join("database"), directory.path().join("tier"));
        Place { _directory: directory, root, tier }
    }

    fn tiered(&self) -> Builder {
        builder(&self.root).fast_tier(FastTier::Directory(self.tier.clone()), TIER_BYTES)
    }

    /// Both as they are now, elsewhere.
    fn copy(&self) -> Self {
        let copy = Place::new();
        copied(&self.root, &copy.root);
        copied(&self.tier, &copy.tier);
        copy
    }

    fn fast_tables(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(&self.tier).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "fast")).collect()
    }
}

fn tier(database: &Database) -> FastTierStatistics {
    database.statistics().fast_tier.unwrap()
}

/// A closed database with a good part of its entries in the tier, and these.
fn filled(seed: u64) -> (Place, Model) {
    let place = Place::new();
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(seed));
    write(&keyspace, &mut model, &mut random, 10_000);
    database.flush().unwrap();
    assert!(tier(&database).bytes > TIER_BYTES / 8, "{:?}", tier(&database));
    drop(keyspace);
    database.close().unwrap();
    (place, model)
}

fn refused(builder: Builder, reasons: &[&str]) {
    let error = builder.open().unwrap_err().to_string();
    for reason in reasons {
        assert!(error.contains(reason), "{error}: {reason} is missing");
    }
}

fn path_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn it_reads_as_a_map_through_compactions_splits_and_evictions_and_stays_when_the_database_is_closed() {
    let place = Place::new();
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(1));
    for round in 0..20 {
        write(&keyspace, &mut model, &mut random, 2_000);
        if round % 5 == 4 {
            verify(&keyspace, &model);
        }
    }
    let (snapshot, then) = (database.snapshot(), model.clone());
    write(&keyspace, &mut model, &mut random, 20_000);
    let seen = snapshot.keyspace(&keyspace);
    let found: Model = seen.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(found == then, "a snapshot reads what there was");
    drop((seen, snapshot));
    verify(&keyspace, &model);
    let statistics = database.statistics();
    let before = statistics.fast_tier.clone().unwrap();
    assert!(before.minor_compactions > 20 && before.evictions > 3 && before.internal_compactions > 0, "{before:?}");
    assert!(statistics.splits > 0 && before.bytes <= TIER_BYTES, "{before:?}");
    database.settle().unwrap();
    assert!(database.statistics().log_backlog_bytes <= 512 << 10, "the tier pins no log");
    drop(keyspace);
    database.close().unwrap();
    let report = Database::check(&place.root, &mut |fault| panic!("{fault}")).unwrap();
    assert!(report.tables as usize > place.fast_tables().len());
    let database = place.tiered().open().unwrap();
    assert!(tier(&database).bytes > TIER_BYTES / 8, "level 0 is as warm as before");
    verify(&database.keyspace("data").unwrap(), &model);
}

#[test]
fn after_a_kill_both_directories_together_have_everything() {
    let place = Place::new();
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(2));
    write(&keyspace, &mut model, &mut random, 30_000);
    // The two are not copied at one moment, so nothing may go on in between.
    database.wait_for_compactions().unwrap();
    database.settle().unwrap();
    let copy = place.copy();
    let reopened = copy.tiered().open().unwrap();
    verify(&reopened.keyspace("data").unwrap(), &model);
    drop(reopened);
    // The copy knows by now where its tier is.
    let read = Database::builder(&copy.root).open_read_only().unwrap();
    assert_eq!(read.existing_keyspace("data").unwrap().unwrap().iter().count(), model.len());
}

#[test]
fn opened_without_it_the_database_empties_it_and_needs_it_no_more() {
    let (place, model) = filled(3);
    assert!(!place.fast_tables().is_empty());
    for medium in [None, Some(FastTier::Memory)] {
        let copy = place.copy();
        drop(copy.tiered().open().unwrap());
        let open = || match medium.clone() {
            None => builder(&copy.root),
            Some(medium) => builder(&copy.root).fast_tier(medium, TIER_BYTES),
        };
        let database = open().open().unwrap();
        verify(&database.keyspace("data").unwrap(), &model);
        database.wait_for_compactions().unwrap();
        database.settle().unwrap();
        verify(&database.keyspace("data").unwrap(), &model);
        assert_eq!(tier(&database).bytes, 0);
        drop(database);
        drop(open().open().unwrap());
        assert!(!copy.tier.join("OWNER").exists() && !copy.root.join("FAST").exists());
        fs::remove_dir_all(&copy.tier).unwrap();
        verify(&builder(&copy.root).open().unwrap().keyspace("data").unwrap(), &model);
    }
}

#[test]
fn a_checkpoint_has_a_tier_of_its_own() {
    let (place, model) = filled(4);
    let database = place.tiered().open().unwrap();
    let target = place.root.parent().unwrap().join("checkpoint");
    database.checkpoint(&target).unwrap();
    drop(database);
    fs::remove_dir_all(&place.root).unwrap();
    fs::remove_dir_all(&place.tier).unwrap();
    // It may be moved: its tier lies within.
    let moved = place.root.parent().unwrap().join("moved");
    fs::rename(&target, &moved).unwrap();
    let copy = builder(&moved).open().unwrap();
    verify(&copy.keyspace("data").unwrap(), &model);
    copy.wait_for_compactions().unwrap();
    copy.settle().unwrap();
    verify(&copy.keyspace("data").unwrap(), &model);
}

#[test]
fn a_compaction_of_a_range_and_a_drop_leave_nothing_in_it() {
    let (place, model) = filled(5);
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    keyspace.compact_range(..).unwrap();
    assert_eq!(tier(&database).bytes, 0);
    verify(&keyspace, &model);
    write(&keyspace, &mut Model::new(), &mut Rng::with_seed(6), 3_000);
    database.flush().unwrap();
    assert!(tier(&database).bytes > 0);
    database.drop_keyspace("data").unwrap();
    drop(keyspace);
    // The background gives its space back.
    let start = Instant::now();
    while tier(&database).bytes > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", tier(&database));
        thread::sleep(Duration::from_millis(1));
    }
    database.settle().unwrap();
    drop(database);
    assert_eq!(place.fast_tables(), Vec::<PathBuf>::new());
}

#[test]
fn a_tier_that_is_missing_cut_damaged_or_that_of_another_database_is_refused_by_name() {
    let (place, _) = filled(7);
    let (other, _) = filled(8);
    let tables = place.fast_tables();
    let table = path_of(&tables[0]);

    let copy = place.copy();
    drop(copy.tiered().open().unwrap());
    fs::remove_dir_all(&copy.tier).unwrap();
    refused(builder(&copy.root), &[path_of(&copy.tier), "no such file"]);
    refused(copy.tiered(), &[path_of(&copy.tier), "no such file"]);
    copied(&other.tier, &copy.tier);
    refused(builder(&copy.root), &[path_of(&copy.tier), "fast tier"]);

    let elsewhere = place.root.parent().unwrap().join("elsewhere");
    let at = |path: &Path| builder(&place.root).fast_tier(FastTier::Directory(path.to_path_buf()), TIER_BYTES);
    refused(at(&elsewhere), &[path_of(&elsewhere), path_of(&place.tier)]);
    refused(at(&other.tier), &[path_of(&other.tier)]);
    let new = Place::new();
    let foreign = builder(&new.root).fast_tier(FastTier::Directory(other.tier.clone()), TIER_BYTES);
    refused(foreign, &["another database", path_of(&other.root)]);
    let memory = Path::new("/dev/shm/thalweg-tier");
    refused(builder(&new.root).fast_tier(FastTier::Directory(memory.into()), TIER_BYTES), &["/dev/shm", "memory"]);
    refused(builder(&new.root).fast_tier(FastTier::Directory(new.tier.clone()), 1 << 60), &["file system has"]);

    let bytes = fs::read(table).unwrap();
    let mut damaged = bytes.clone();
    damaged[20] ^= 1;
    fs::write(table, damaged).unwrap();
    refused(place.tiered(), &[table]);
    fs::write(table, &bytes[..bytes.len() - 1]).unwrap();
    refused(place.tiered(), &[table, "bytes"]);
    fs::remove_file(table).unwrap();
    refused(place.tiered(), &[table, "no such file"]);
    fs::write(table, bytes).unwrap();
    drop(place.tiered().open().unwrap());
}

#[test]
fn a_tier_among_the_files_of_the_database_is_refused_and_leaves_a_directory_that_can_be_used() {
    for (within, reason) in
        [("", "the directory of the database itself"), ("tables", "other files"), ("log/a", "other")]
    {
        let place = Place::new();
        let tiered = builder(&place.root).fast_tier(FastTier::Directory(place.root.join(within)), TIER_BYTES);
        refused(tiered, &[reason, "cannot be the fast tier"]);
        builder(&place.root).open().unwrap().close().unwrap();
        assert!(!place.root.join("OWNER").exists() && !place.root.join("FAST").exists());
    }
}

#[test]
fn a_copy_of_the_root_alone_leaves_the_tier_of_the_original_alone() {
    let (place, model) = filled(9);
    let copy = Place::new();
    copied(&place.root, &copy.root);
    refused(builder(&copy.root), &[path_of(&place.tier), path_of(&place.root), "by name"]);
    let database = place.tiered().open().unwrap();
    // A caller who names the directory may take it over, but not while the original has it open.
    let taken = || builder(&copy.root).fast_tier(FastTier::Directory(place.tier.clone()), TIER_BYTES);
    refused(taken(), &[path_of(&place.tier)]);
    drop(database);
    fs::remove_dir_all(&copy.root).unwrap();
    copied(&place.root, &copy.root);
    let database = taken().open().unwrap();
    verify(&database.keyspace("data").unwrap(), &model);
    drop(database);
    refused(builder(&place.root), &[path_of(&place.tier), path_of(&copy.root)]);
}

#[test]
fn a_copy_of_the_root_from_before_the_tier_was_filled_leaves_it_alone_too() {
    let place = Place::new();
    drop(place.tiered().open().unwrap());
    let copies = [Place::new(), Place::new()];
    copies.iter().for_each(|copy| copied(&place.root, &copy.root));
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(12));
    write(&keyspace, &mut model, &mut random, 5_000);
    drop(keyspace);
    database.close().unwrap();
    let tables = place.fast_tables();
    assert!(!tables.is_empty());
    drop(builder(&copies[0].root).open().unwrap());
    drop(copies[1].tiered().open().unwrap());
    assert_eq!(place.fast_tables().len(), tables.len());
    verify(&place.tiered().open().unwrap().keyspace("data").unwrap(), &model);
}

#[test]
fn an_older_copy_of_a_table_is_refused_by_name() {
    let (place, _) = filled(10);
    let older = place.copy();
    let database = place.tiered().open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let mut random = Rng::with_seed(11);
    while place.fast_tables().iter().any(|path| older.tier.join(path.file_name().unwrap()).exists()) {
        write(&keyspace, &mut Model::new(), &mut random, 3_000);
        database.flush().unwrap();
        database.settle().unwrap();
    }
    drop(keyspace);
    database.close().unwrap();
    // A table of the older tier, under the name of a newer one of the same length.
    let newer = &place.fast_tables()[0];
    let mut bytes = fs::read(older.fast_tables().first().unwrap()).unwrap();
    bytes.resize(fs::metadata(newer).unwrap().len() as usize, 0);
    fs::write(newer, bytes).unwrap();
    refused(place.tiered(), &[path_of(newer)]);
}

#[test]
fn a_dump_has_each_entry_of_a_fast_table_and_ends_where_it_is_damaged() {
    let (place, _) = filled(11);
    let dumped = |path: &Path| {
        let mut lines = Vec::new();
        let result = thalweg::dump(path, &mut |line| {
            lines.push(line.to_string());
            Ok(())
        });
        (lines, result)
    };
    let tables = place.fast_tables();
    assert!(!tables.is_empty());
    for path in &tables {
        let (lines, result) = dumped(path);
        result.unwrap();
        let counted = lines.iter().find(|line| line.contains("tombstones")).unwrap().split(' ').next().unwrap();
        let entries = lines.iter().filter(|line| line.starts_with("  \"")).count();
        assert_eq!(entries.to_string(), counted, "{}", path.display());
        assert!(lines[0].starts_with("fast table "), "{}", lines[0]);
    }
    let path = tables.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
    let (lines, result) = dumped(path);
    assert!(lines.len() > 10, "what is before the damage is printed");
    let error = result.unwrap_err().to_string();
    assert!(error.contains(".fast") && error.contains("checksum"), "{error}");
}

#[test]
fn replaced_tables_are_given_back_before_the_interval_is_over_where_they_are_many() {
    let place = Place::new();
    let hour = Duration::from_secs(3600);
    let database = place.tiered().settle_interval(hour).log_bytes_max(64 << 20).open().unwrap();
    let keyspace = database.keyspace("data").unwrap();
    let (mut model, mut random) = (Model::new(), Rng::with_seed(13));
    for _ in 0..8 {
        write(&keyspace, &mut model, &mut random, 5_000);
        database.wait_for_compactions().unwrap();
    }
    let written = database.statistics().fast_tier.unwrap().file_written_bytes;
    assert!(written > 6 * TIER_BYTES, "{written} bytes replaced each other");
    // A round is under way, or what it gave back is being removed.
    let bytes =
        || -> u64 { place.fast_tables().iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum() };
    let waited = Instant::now();
    while bytes() > 2 * TIER_BYTES {
        assert!(waited.elapsed().as_secs() < 60, "{} bytes are still there", bytes());
        thread::sleep(Duration::from_millis(10));
    }
    verify(&keyspace, &model);
}
