//! [`Stage`]: the state that the clients of one simulation share: world, disk, oracle, and the errors to expect.
//!
//! Every violation is a panic here; `violation.rs` turns it into a line of the report.

use crate::answers::Answers;
use crate::keys;
use crate::oracle::{Oracle, Position};
use crate::plan::Plan;
use crate::rng::Rng;
use crate::scheduler::environment;
use crate::spot::{Spot, TOKEN_BYTES, Value};
use crate::tier_plan::FAST_TIER;
use crate::traced::traced;
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg::simulation::simulated::{SimulatedDisk, Strictness};
use thalweg::{Builder, DirectorySnapshot, Error, ErrorKind, Listing, ReadOnlyDatabase, Readable};

/// Where the database lives on the simulated disk.
pub const ROOT: &str = "/db";

/// The directory of the fast tier in files of the database in `root`: the path in the last line of `FAST`, relative to
/// the root, or the default.
fn tier_of(disk: &SimulatedDisk, root: &Path) -> PathBuf {
    let named = disk.read_file(&root.join("FAST")).and_then(|bytes| String::from_utf8(bytes).ok());
    root.join(named.as_deref().and_then(|text| text.lines().last()).unwrap_or(FAST_TIER))
}

/// In a plan with phases of removals, nearly all writes of every second phase of this many writes are removals.
const WANE_WRITES: u32 = 20;

/// The shared state of one simulation.
pub struct Stage {
    /// The world in which everything runs.
    pub world: Arc<World>,
    /// The choices of the seed.
    pub plan: Plan,
    /// The current disk; a crash replaces it.
    pub disk: RefCell<SimulatedDisk>,
    /// The content that the database may have.
    pub oracle: RefCell<Oracle>,
    /// Whether operations of the disk fail on purpose.
    pub faults: Cell<bool>,
    /// Whether the disk is full on purpose, or was since the open.
    pub full: Cell<bool>,
    /// Whether descriptors are short on purpose, or were since the open.
    pub few_descriptors: Cell<bool>,
    /// Whether a write was refused since the open because the database is poisoned.
    pub poisoned: Cell<bool>,
    /// The number of rounds of clients that have ended. A client parked across the end of its round makes no more
    /// operations.
    pub life: Cell<u64>,
    /// The positions acknowledged in this life, with their times.
    pub acknowledged: RefCell<Vec<(u64, Position)>>,
    /// The callbacks of tickets in this life.
    pub answers: Answers,
    next_write: Cell<u32>,
    next_instance: Cell<u64>,
    /// The number for the next directory to which the fast tier is moved.
    tier_number: Cell<u64>,
    /// The directory to which the fast tier was moved, until a builder has used it.
    moved_tier: Cell<Option<PathBuf>>,
}

impl Stage {
    /// A stage with an empty disk.
    pub fn new(plan: Plan, world: Arc<World>, disk: SimulatedDisk, oracle: Oracle) -> Self {
        disk.refuse_medium_reads(plan.refuse_medium_reads);
        disk.refuse_hard_links(plan.refuse_hard_links);
        disk.refuse_mappings(plan.refuse_mappings);
        disk.tell_open_files_max(plan.open_files_told);
        disk.mount_below(usize::from(plan.is_mounted));
        disk.share_journal(plan.share_journal);
        disk.put_in_persistent_memory(plan.tier.in_persistent_memory.then_some(FAST_TIER));
        disk.hide_free_bytes(plan.hide_free_bytes);
        disk.set_file_room(plan.file_room_bytes);
        disk.set_short_reads(plan.short_reads_per_mille);
        Stage {
            world,
            plan,
            disk: RefCell::new(disk),
            oracle: RefCell::new(oracle),
            faults: Cell::new(false),
            full: Cell::new(false),
            few_descriptors: Cell::new(false),
            poisoned: Cell::new(false),
            life: Cell::new(0),
            acknowledged: RefCell::default(),
            answers: Answers::default(),
            next_write: Cell::new(0),
            next_instance: Cell::new(0),
            tier_number: Cell::new(1),
            moved_tier: Cell::new(None),
        }
    }

    /// A number that no write had before.
    pub fn next_write(&self) -> u32 {
        self.next_write.replace(self.next_write.get() + 1)
    }

    /// Continues the numbers of another stage: of writes, and of directories of the fast tier.
    pub fn go_on_after(&self, other: &Stage) {
        self.next_write.set(other.next_write.get());
        self.tier_number.set(other.tier_number.get());
    }

    /// The next tick of the oracle.
    pub fn tick(&self) -> u64 {
        self.oracle.borrow_mut().tick()
    }

    /// A builder for a database at `path` on the current disk.
    pub fn builder(&self, path: &Path) -> Builder {
        self.builder_on(self.disk.borrow().clone(), path)
    }

    /// As [`Stage::builder`], on the disk that a power cut would leave now if it lost all unsynced changes.
    pub fn builder_after_a_power_cut(&self, path: &Path) -> Builder {
        let left = self.disk.borrow().snapshot().crash(Strictness::LoseUnsynced);
        self.builder_on(left, path)
    }

    fn builder_on(&self, disk: SimulatedDisk, path: &Path) -> Builder {
        let instance = self.next_instance.replace(self.next_instance.get() + 1);
        let tier = match self.moved_tier.take().filter(|_| path == Path::new(ROOT)) {
            Some(moved) => moved,
            None => tier_of(&disk, path),
        };
        let storage = traced(disk, &self.world);
        let builder = self.plan.of_open(instance).builder(path, &tier);
        builder.environment(environment(&self.world, storage, instance))
    }

    /// Copies the files of the fast tier to another directory, like a user who moves it. The next builder uses this
    /// directory.
    pub fn move_tier(&self) {
        let disk = self.disk.borrow();
        let from = tier_of(&disk, Path::new(ROOT));
        let number = self.tier_number.replace(self.tier_number.get() + 1);
        let to = Path::new(ROOT).join(format!("{FAST_TIER}{number}"));
        let files = disk.files().into_iter().filter_map(|(path, _)| {
            let name = path.strip_prefix(&from).ok()?.to_path_buf();
            Some((name, disk.read_file(&path)?))
        });
        let files: Vec<_> = files.collect();
        if disk.is_dead() || files.is_empty() {
            return;
        }
        self.world.say(|| format!("the fast tier is copied to {}", to.display()));
        for (name, bytes) in files {
            assert!(disk.write_file(&to.join(name), &bytes), "there is no such directory yet");
        }
        self.moved_tier.set(Some(to));
    }

    /// Whether the power was cut.
    pub fn is_dead(&self) -> bool {
        self.disk.borrow().is_dead()
    }

    /// Judges the callbacks of tickets after the database was closed: `Ok` was a promise.
    pub fn judge_answers(&self) {
        for (position, outcome) in self.answers.take() {
            match outcome {
                Ok(()) => self.oracle.borrow_mut().promised(position),
                Err(error) => self.expect_trouble("a ticket", &error),
            }
        }
    }

    /// Panics unless the current failures may cause this error.
    pub fn expect_trouble(&self, what: &str, error: &Error) {
        self.world.say(|| format!("{what} failed: {error}"));
        let kind = root(error).kind();
        let is_poisoned = error.kind() == ErrorKind::Poisoned;
        let broken = self.is_dead() || self.faults.get();
        let expected = match kind {
            // A shortage of descriptors refuses the call, and does not poison.
            ErrorKind::Io => broken || (self.few_descriptors.get() && is_shortage(root(error)) && !is_poisoned),
            // A full disk refuses the call, and does not poison (docs/space.md).
            ErrorKind::NoSpace => self.full.get() && (broken || !is_poisoned),
            ErrorKind::Corruption => self.faults.get() && self.is_phantom(root(error)),
            _ => false,
        };
        assert!(expected, "{what} failed without a cause: {error} ({})", self.troubles());
        if is_poisoned {
            self.poisoned.set(true);
        }
    }

    /// Like [`Stage::expect_trouble`], for a call on one keyspace, which other clients may drop meanwhile.
    pub fn expect_trouble_in(&self, keyspace: &Arc<str>, what: &str, error: &Error) {
        if error.kind() == ErrorKind::NoKeyspace && !self.oracle.borrow().is_keyspace_present(keyspace) {
            return self.world.say(|| format!("{what} came too late: {error}"));
        }
        self.expect_trouble(what, error);
    }

    /// Whether the damage is in a file whose write-back failed: a direct read then gives the older bytes of the medium.
    /// A table that is not settled may be such a file; its predecessors also have its content.
    fn is_phantom(&self, error: &Error) -> bool {
        matches!(error, Error::Corruption(damage) if self.disk.borrow().has_phantoms(&damage.path))
    }

    fn troubles(&self) -> String {
        format!("power cut: {}, faults: {}, disk full: {}", self.is_dead(), self.faults.get(), self.full.get())
    }

    /// Panics when a check of the oracle failed.
    pub fn must<T>(&self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Checks all keys of some keyspaces in one view that was taken between two ticks. `false` if a failure ended the
    /// check.
    pub fn check_view(&self, keyspaces: &[(Arc<str>, impl Readable)], began: u64, ended: u64) -> bool {
        for (name, keyspace) in keyspaces {
            let keys = self.oracle.borrow().keys_of(name);
            for key in keys {
                match keyspace.get(&key) {
                    Ok(found) => {
                        let spot = (Arc::clone(name), key);
                        let outcome = self.oracle.borrow().check_read(&spot, found.as_deref(), began, ended);
                        self.must(outcome);
                    }
                    Err(error) => {
                        self.expect_trouble_in(name, "get", &error);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Like [`Stage::check_view`], for the directory keyspace: entries one by one, and listings.
    pub fn check_files(&self, name: &Arc<str>, files: &DirectorySnapshot, began: u64, ended: u64) {
        let mut listed = BTreeMap::new();
        for directory in 0..keys::DIRECTORIES {
            if let Err(error) = list(files.list(directory), directory, &mut listed) {
                return self.expect_trouble_in(name, "list", &error);
            }
        }
        let keys = self.oracle.borrow().keys_of(name);
        assert!(listed.keys().all(|key| keys.contains(key)), "a listing has a name that was never written");
        for key in keys {
            let spot = (Arc::clone(name), key);
            let outcome = self.oracle.borrow().check_read(&spot, listed.get(&spot.1).map(|it| &**it), began, ended);
            self.must(outcome);
            match files.get(keys::directory_of(&spot.1), &spot.1) {
                Ok(found) => {
                    let outcome = self.oracle.borrow().check_read(&spot, found.as_deref(), began, ended);
                    self.must(outcome);
                }
                Err(error) => return self.expect_trouble_in(name, "get of an entry", &error),
            }
        }
    }

    /// A change of a key. Its value is unique if it is long enough.
    pub fn value(&self, rng: &mut Rng, client: usize, write: u32, index: u32) -> Value {
        let is_waning = self.plan.wanes && write / WANE_WRITES % 2 == 1;
        if rng.percent(if is_waning { 92 } else { 22 }) {
            return None;
        }
        let bytes = match rng.below(100) {
            0..4 => 0,
            4..8 => rng.between(1, 11),
            8..10 if self.plan.huge_values => u64::from(self.plan.log_segment_bytes()) + rng.below(5_000),
            8..20 => self.plan.value_bytes * 4,
            _ => rng.between(12, self.plan.value_bytes.max(13)),
        };
        let mut value = Vec::with_capacity(bytes as usize + 12);
        for number in [client as u32, write, index] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        // Half random bytes, half repetition, so that values can be compressed.
        while value.len() < bytes as usize {
            value.extend_from_slice(&rng.next_u64().to_le_bytes());
            value.extend_from_slice(b"thalweg!");
        }
        value.truncate(bytes as usize);
        // Values end with their own checksum, as pages of databases do. It must not blind the checksum of a log record.
        if let Some((page, end)) = value.split_last_chunk_mut::<4>().filter(|(page, _)| page.len() >= TOKEN_BYTES) {
            *end = crc_fast::crc32_iscsi(page).to_le_bytes();
        }
        Some(Arc::from(value))
    }
}

/// Whether the error is a shortage of descriptors.
fn is_shortage(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(24))
}

/// The innermost cause of an error.
pub fn root(error: &Error) -> &Error {
    match error {
        Error::Poisoned { cause } => root(cause),
        error => error,
    }
}

/// A handle that is leaked during a panic: its destructor would wait for a world that no longer runs.
pub struct Held<T>(Option<T>);

impl<T> Held<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Held(Some(value))
    }

    /// Returns the value.
    pub fn release(mut self) -> T {
        self.0.take().unwrap_or_else(|| unreachable!("it is only taken here and in drop"))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("it is only taken by value"))
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// The content of a database.
pub type Found = std::collections::BTreeMap<Spot, Arc<[u8]>>;

/// Adds the entries of a listing. Asserts that each is in `directory` and is listed once.
pub fn list(listing: Listing, directory: u64, listed: &mut BTreeMap<Vec<u8>, Arc<[u8]>>) -> thalweg::Result<()> {
    let mut before = 0;
    for entry in listing {
        let entry = entry?;
        let (key, value) = (entry.name().to_vec(), entry.value()?);
        assert_eq!(keys::directory_of(&key), directory, "an entry of another directory is listed");
        assert!(before <= entry.cursor(), "cursors do not ascend");
        before = entry.cursor();
        assert!(listed.insert(key, Arc::from(&value[..])).is_none(), "a name is listed twice");
    }
    Ok(())
}

/// Reads the names and entries of all keyspaces, forwards and backwards, and asserts that both agree. An error is the
/// database's.
pub fn read_all(db: &ReadOnlyDatabase) -> thalweg::Result<(Vec<String>, Found)> {
    let names = db.keyspaces();
    let mut all = Found::new();
    for name in &names {
        if name == keys::FILES {
            let files = db.existing_directory_keyspace(name)?;
            let files = files.unwrap_or_else(|| panic!("keyspace {name} is listed but not there"));
            let mut listed = BTreeMap::new();
            for directory in 0..keys::DIRECTORIES {
                list(files.list(directory), directory, &mut listed)?;
            }
            for (key, value) in &listed {
                let got = files.get(keys::directory_of(key), key)?;
                assert_eq!(got.as_deref(), Some(&**value), "an entry of {name} differs between get and list");
            }
            let entries: Vec<(u64, &Vec<u8>)> = listed.keys().map(|key| (keys::directory_of(key), key)).collect();
            for (found, listed) in files.multi_get(&entries)?.into_iter().zip(listed.values()) {
                assert_eq!(found.as_deref(), Some(&**listed), "multi_get differs from a listing");
            }
            all.extend(listed.into_iter().map(|(key, value)| ((Arc::from(name.as_str()), key), value)));
            continue;
        }
        let Some(keyspace) = db.existing_keyspace(name)? else { panic!("keyspace {name} is listed but not there") };
        let name: Arc<str> = Arc::from(name.as_str());
        let mut backwards: Vec<Vec<u8>> = Vec::new();
        for entry in keyspace.iter().rev() {
            backwards.push(entry?.0.to_vec());
        }
        let mut forwards: Vec<Vec<u8>> = Vec::new();
        for entry in keyspace.iter() {
            let (key, value) = entry?;
            forwards.push(key.to_vec());
            all.insert((Arc::clone(&name), key.to_vec()), Arc::from(&value[..]));
        }
        backwards.reverse();
        assert!(forwards.is_sorted_by(|a, b| a < b), "iteration of {name} is not in ascending order: {forwards:?}");
        assert_eq!(forwards, backwards, "iteration of {name} differs between forwards and backwards");
    }
    Ok((names, all))
}
