//! Fast tables in files: written, opened, refused, cut, verified; on a simulated disk and on Linux.

use super::entries::{Entry, GENERATION, ID, Medium, all_options, put, random_entries, write};
use super::model::{assert_reads, probes};
use crate::clock::{SystemClock, SystemEntropy};
use crate::error::{Error, ErrorKind, Result};
use crate::fast_table::header::HEADER_BYTES;
use crate::fast_table::{FastTable, FastTableFiles, FastTableWriter, verify_fast_durably, verify_fast_file};
use crate::format::{Cursor, EntryKind, SeqNo, TableId};
use crate::metrics::Metrics;
use crate::runtime::threads::ThreadScheduler;
use crate::runtime::{Environment, Lane};
use crate::storage::simulated::{FaultPlan, OperationKinds, SimulatedDisk, Strictness};
use crate::storage::{LinuxStorage, OpenMode, Storage};
use crate::table::TableMeta;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const TIER: &str = "/tier";

/// The files of one directory, and a worker that writes them.
struct World {
    environment: Environment,
    metrics: Arc<Metrics>,
    files: Arc<FastTableFiles>,
}

impl World {
    fn new(storage: Arc<dyn Storage>, directory: &Path) -> World {
        storage.create_directory(directory).unwrap();
        let clock = Arc::new(SystemClock::default());
        let scheduler = Arc::new(ThreadScheduler::new(Arc::clone(&clock) as _, 1).unwrap());
        let environment = Environment { storage, clock, entropy: Arc::new(SystemEntropy), scheduler };
        let metrics = Arc::<Metrics>::default();
        let files = FastTableFiles::new(environment.clone(), directory.to_path_buf(), Arc::clone(&metrics));
        World { environment, metrics, files }
    }

    fn simulated(medium: Medium) -> (World, SimulatedDisk) {
        let disk = medium.disk();
        (World::new(Arc::new(disk.clone()), Path::new(TIER)), disk)
    }

    fn write(&self, id: TableId, bytes: &[u8]) -> Result<()> {
        let (files, bytes) = (Arc::clone(&self.files), bytes.to_vec());
        let (sender, receiver) = channel();
        let work = async move { sender.send(files.write(id, &bytes).await).unwrap() };
        self.environment.scheduler.spawn(Lane::Compaction, Box::pin(work));
        receiver.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Writes the file of table [`ID`] anew.
    fn replace(&self, bytes: &[u8]) {
        self.files.remove(ID).unwrap();
        self.write(ID, bytes).unwrap();
    }

    fn cut(&self, bytes: u64) {
        self.files.open_file(ID, OpenMode::ReadWrite).unwrap().set_bytes(bytes).unwrap();
    }

    /// Returns place, expectation and finding of the corruption for which the table is refused.
    fn refused(&self, meta: &TableMeta) -> String {
        match self.files.open(meta) {
            Err(Error::Corruption(damage)) => {
                assert_eq!(damage.path, self.files.path(meta.id));
                format!("{} {} {}", damage.offset, damage.expected, damage.found)
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was accepted"),
        }
    }

    fn verifies(&self, meta: &TableMeta) -> bool {
        let path = self.files.path(meta.id);
        let found = verify_fast_file(&self.environment, &path, meta).unwrap();
        assert_eq!(verify_fast_durably(&self.environment, &path, meta).unwrap(), found);
        found
    }
}

/// Calls `test` with a disk that maps files, one that does not, and a directory of this machine.
fn in_each_world(name: &str, test: impl Fn(&World)) {
    for medium in Medium::PAGED {
        test(&World::simulated(medium).0);
    }
    let directory = TestDirectory::new(name);
    test(&World::new(Arc::new(LinuxStorage), &directory.0));
}

/// A directory that one test has alone; its drop removes it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        TestDirectory(std::env::temp_dir().join(format!("thalweg-fast-files-{}-{name}", std::process::id())))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Entries whose table has some pages.
fn some() -> Vec<Entry> {
    (0..64_u8).map(|n| put(&[n], 1, &[n + 1; 200])).collect()
}

/// The table of [`some`] in another generation.
fn of_generation(generation: u64) -> Vec<u8> {
    let mut writer = FastTableWriter::new(ID, generation, all_options()[0]);
    for Entry { key, value, .. } in &some() {
        writer.add(key, 0, SeqNo(1), EntryKind::Put, value.as_deref().unwrap());
    }
    writer.finish(Vec::with_capacity).0
}

/// Reads in every way. An answer must be right, or an error that names the file. Returns how many reads were errors.
fn count_errors(table: &Arc<FastTable>, entries: &[Entry], path: &Path) -> usize {
    let mut errors = 0;
    let mut count = |error: Error| match error {
        Error::Corruption(damage) => {
            assert_eq!(damage.path, path);
            errors += 1;
        }
        other => panic!("{other}"),
    };
    for Entry { key, value, .. } in entries {
        match table.get(key, SeqNo::MAX) {
            Ok(found) => assert_eq!(found.map(|found| found.value.to_vec()), *value),
            Err(error) => count(error),
        }
    }
    let forward = || -> Result<()> {
        let mut cursor = table.cursor();
        cursor.seek_to_first()?;
        for entry in entries {
            assert_eq!((cursor.key(), &*cursor.value()), (&*entry.key, entry.value()));
            cursor.next()?;
        }
        Ok(())
    };
    forward().unwrap_or_else(&mut count);
    table.verify_all().unwrap_or_else(&mut count);
    errors
}

#[test]
fn a_table_that_was_written_to_a_file_reads_as_a_sorted_vector_does() {
    in_each_world("reads", |world| {
        let mut random = fastrand::Rng::with_seed(11);
        // More than one piece.
        let large: Vec<Entry> = (0..2500_u32).map(|n| put(&n.to_be_bytes(), 1, &[n as u8; 600])).collect();
        for (entries, options) in [random_entries(&mut random, 600), large]
            .iter()
            .flat_map(|entries| all_options().into_iter().map(move |options| (entries, options)))
        {
            let (bytes, meta) = write(entries, options);
            let before = world.metrics.fast_file_written_bytes.get();
            world.replace(&bytes);
            assert_eq!(world.metrics.fast_file_written_bytes.get() - before, bytes.len() as u64);
            let table = world.files.open(&meta.table).unwrap();
            assert_eq!((table.meta(), table.generation()), (&meta.table, GENERATION));
            let mut probes = probes(entries, &mut random);
            random.shuffle(&mut probes);
            probes.truncate(500);
            assert_reads(&table, entries, &probes);
            assert!(world.verifies(&meta.table));
        }
    });
}

#[test]
fn groups_are_copied_out_of_the_mapping_if_there_is_one() {
    let by_position = |world: &World| {
        let (bytes, meta) = write(&some(), all_options()[0]);
        world.replace(&bytes);
        let table = world.files.open(&meta.table).unwrap();
        assert_eq!(count_errors(&table, &some(), &world.files.path(ID)), 0);
        world.metrics.fast_groups_by_position.get()
    };
    assert_eq!(by_position(&World::simulated(Medium::Mapped).0), 0);
    assert!(by_position(&World::simulated(Medium::ByPosition).0) > 64);
    let directory = TestDirectory::new("mapped");
    assert_eq!(by_position(&World::new(Arc::new(LinuxStorage), &directory.0)), 0);
}

#[test]
fn a_file_is_written_once_and_kept_open_until_it_is_forgotten() {
    in_each_world("once", |world| {
        let files = &world.files;
        let (bytes, meta) = write(&some(), all_options()[0]);
        assert!(files.open_file(ID, OpenMode::Read).is_none());
        world.write(ID, &bytes).unwrap();
        assert_eq!(files.path(ID), files.directory().join("0000000007.fast"));
        assert_eq!((files.unsynced(ID).is_some(), files.unsynced_files()), (true, 1));
        let error = world.write(ID, b"another").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        files.unsynced(ID).unwrap().sync().unwrap();
        files.forget_unsynced(ID);
        assert_eq!((files.unsynced(ID).is_some(), files.unsynced_files()), (false, 0));
        let table = files.open(&meta.table).unwrap();
        files.remove(ID).unwrap();
        files.remove(ID).unwrap();
        assert!(files.open_file(ID, OpenMode::Read).is_none());
        assert_eq!(count_errors(&table, &some(), &files.path(ID)), 0, "an open table keeps its bytes");
        world.write(ID, &bytes).unwrap();
        files.remove(ID).unwrap();
        assert_eq!(files.unsynced_files(), 0);
    });
}

#[test]
fn with_few_descriptors_a_write_syncs_its_file_itself() {
    let disk = Medium::Mapped.disk();
    disk.tell_open_files_max(Some(6));
    let world = World::new(Arc::new(disk.clone()), Path::new(TIER));
    let (bytes, meta) = write(&some(), all_options()[0]);
    world.write(TableId(6), &bytes).unwrap();
    world.write(ID, &bytes).unwrap();
    assert_eq!((world.files.unsynced(TableId(6)).is_some(), world.files.unsynced(ID).is_some()), (true, false));
    disk.sync_directory(Path::new("/")).unwrap();
    disk.sync_directory(Path::new(TIER)).unwrap();
    let after = World::new(Arc::new(disk.crash(Strictness::LoseUnsynced)), Path::new(TIER));
    assert!(after.verifies(&meta.table));
}

#[test]
fn a_write_that_fails_leaves_no_file() {
    let (bytes, _) =
        write(&(0..2500_u32).map(|n| put(&n.to_be_bytes(), 1, &[7; 600])).collect::<Vec<_>>(), all_options()[0]);
    for nth in 1.. {
        let (world, disk) = World::simulated(Medium::Mapped);
        disk.set_faults(Some(FaultPlan::once(nth)));
        let written = world.write(ID, &bytes);
        disk.set_faults(None);
        if written.is_ok() {
            assert!(nth > 5, "creation, reservation, two pieces and their write-back");
            break;
        }
        assert_eq!(disk.files(), [], "operation {nth}");
        assert_eq!(world.files.unsynced_files(), 0);
    }
    let (world, disk) = World::simulated(Medium::Mapped);
    disk.set_capacity(Some(1 << 20));
    assert_eq!(world.write(ID, &bytes).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(disk.files(), []);
}

#[test]
fn what_the_manifest_does_not_mean_is_refused_with_file_and_place() {
    in_each_world("refused", |world| {
        let (bytes, meta) = write(&some(), all_options()[0]);
        let (meta, len) = (meta.table, bytes.len());
        assert_eq!(world.refused(&meta), format!("0 a table of {len} bytes no such file"));
        assert!(!world.verifies(&meta));
        world.write(ID, &bytes).unwrap();
        for other in [0, 100, HEADER_BYTES, len - 1, len + 1] {
            world.cut(other as u64);
            let at = other.min(len);
            assert_eq!(world.refused(&meta), format!("{at} a table of {len} bytes {other} bytes"));
            assert!(!world.verifies(&meta));
        }
        let older = of_generation(GENERATION - 1);
        assert_eq!((older.len(), of_generation(GENERATION) == bytes), (len, true));
        world.replace(&older);
        assert!(world.refused(&meta).starts_with(&format!("0 a header of hash {:#018x} hash 0x", meta.checksum)));
        assert!(!world.verifies(&meta));
        let torn = [&bytes[..HEADER_BYTES], &older[HEADER_BYTES..]].concat();
        world.replace(&torn);
        assert!(world.refused(&meta).starts_with("128 checksum "));
        assert!(!world.verifies(&meta));
        world.write(TableId(8), &bytes).unwrap();
        let other = TableMeta { id: TableId(8), ..meta.clone() };
        assert_eq!(world.refused(&other), "16 table 8 table 7");
        world.replace(&bytes);
        assert!(world.files.open(&meta).is_ok() && world.verifies(&meta));
    });
}

#[test]
fn a_file_that_is_cut_while_its_table_is_open_gives_errors_and_no_signal() {
    in_each_world("cut", |world| {
        let (bytes, meta) = write(&some(), all_options()[0]);
        let path = world.files.path(ID);
        world.replace(&bytes);
        let entries_at = world.files.open(&meta.table).unwrap().entries_at();
        for len in [0, 100, HEADER_BYTES, entries_at, entries_at + 10, bytes.len() - 5000, bytes.len() - 100] {
            world.replace(&bytes);
            let table = world.files.open(&meta.table).unwrap();
            assert_eq!(count_errors(&table, &some(), &path), 0);
            world.cut(len as u64);
            let errors = count_errors(&table, &some(), &path);
            let gone = if len <= entries_at { 64 } else { 8 };
            assert!(errors >= gone + 2, "{errors} errors in a file of {len} bytes");
            drop(table);
            // Each is an open of its own mapping.
            world.replace(&bytes);
            assert_eq!(count_errors(&world.files.open(&meta.table).unwrap(), &some(), &path), 0);
        }
    });
}

#[test]
fn every_flipped_byte_of_a_file_fails_its_verification() {
    let (world, disk) = World::simulated(Medium::Mapped);
    let (bytes, meta) = write(&some(), all_options()[0]);
    let (path, meta) = (world.files.path(ID), meta.table);
    world.replace(&bytes);
    world.files.unsynced(ID).unwrap().sync().unwrap();
    for at in 0..bytes.len() as u64 {
        assert!(disk.flip(&path, at, 1 << (at % 8)));
        assert!(!verify_fast_file(&world.environment, &path, &meta).unwrap(), "byte {at}");
        assert!(disk.flip(&path, at, 1 << (at % 8)));
    }
    assert!(world.verifies(&meta));
    disk.set_faults(Some(FaultPlan::from_then_on(1).only(OperationKinds::READS)));
    assert!(!world.verifies(&meta), "a device that cannot read it");
}

#[test]
fn bytes_that_a_failed_sync_left_in_the_page_cache_are_written_again() {
    let (world, disk) = World::simulated(Medium::Mapped);
    let (bytes, meta) = write(&some(), all_options()[0]);
    let (path, meta) = (world.files.path(ID), meta.table);
    world.write(ID, &bytes).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk.sync_directory(Path::new(TIER)).unwrap();
    disk.set_faults(Some(FaultPlan::once(1).only(OperationKinds::SYNCS)));
    world.files.unsynced(ID).unwrap().sync().unwrap_err();
    disk.set_faults(None);
    assert!(!verify_fast_file(&world.environment, &path, &meta).unwrap(), "the medium lacks them");
    disk.refuse_medium_reads(true);
    assert!(verify_fast_file(&world.environment, &path, &meta).unwrap());
    assert!(verify_fast_durably(&world.environment, &path, &meta).unwrap());
    let after = disk.crash(Strictness::LoseUnsynced);
    after.refuse_medium_reads(false);
    let after = World::new(Arc::new(after), Path::new(TIER));
    assert!(after.verifies(&meta));
}
