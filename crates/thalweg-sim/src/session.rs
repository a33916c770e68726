//! [`Session`]: one database over several lives: open and check, clients, the end of a life, and the next disk.
//!
//! The checks use it: random lives (`sim.rs`), a crash at every operation (`every_io.rs`), a fault at every operation
//! (`faults.rs`), damage to every byte (`damage/`).

use crate::clients::Client;
use crate::keys::{self, FILES, STABLE};
use crate::loss::{self, LossBound};
use crate::oracle::{Oracle, Survival};
use crate::plan::Plan;
use crate::rng::Rng;
use crate::stage::{Found, Held, ROOT, Stage, read_all};
use crate::workload::{ClientRun, Files, Temporary};
use crate::world::{Hook, World};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::simulation::Storage;
use thalweg::simulation::simulated::{SimulatedDisk, Strictness};
use thalweg::{Database, Durability, ErrorKind, Keyspace};

/// The smallest reserve of a database.
const RESERVE_BYTES: u64 = 256 << 10;

/// One database over several lives.
pub struct Session {
    /// The state that the clients share.
    pub stage: Rc<Stage>,
    rng: Rng,
    /// The writes that the next open must find.
    survival: Survival,
    /// The last time at which the disk had power.
    last_alive_ns: Arc<AtomicU64>,
    /// The most segments of the log that were not durable at a time, in this life.
    segments_unsynced_max: Arc<AtomicU64>,
    /// Whether a write-back failed, perhaps without a report: the kernel reports it to the next sync, even in a later
    /// life.
    pub owes_error: bool,
    /// Whether the disk is full when this life ends, and still when the next open begins.
    pub stays_full: bool,
    /// Whether the reserve keeps its size into the next life: a power cut loses its pages, which are never synced.
    keeps_pages: bool,
}

/// An open database and its stable keyspaces.
pub struct Opened {
    pub(crate) db: Held<Database>,
    stable: Held<Vec<(Arc<str>, Keyspace)>>,
    files: Held<Files>,
}

/// How the life of an open database ends, if nothing cuts it short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Calls `close`.
    Close,
    /// Drops the last handle.
    Drop,
}

impl Session {
    /// A session on an empty disk.
    pub fn new(plan: Plan, seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let world = World::new(rng.next_u64(), trace);
        let disk = SimulatedDisk::new(rng.next_u64());
        if plan.sync_ns_max() > 0 {
            world.time_syncs(rng.aside(1), plan.sync_ns_max(), plan.has_rings);
        }
        let stage = Rc::new(Stage::new(plan, world, disk, Oracle::default()));
        Session {
            stage,
            rng,
            survival: Survival::Acknowledged,
            owes_error: false,
            stays_full: false,
            keeps_pages: true,
            last_alive_ns: Arc::default(),
            segments_unsynced_max: Arc::default(),
        }
    }

    /// Returns a session with the same history on another disk, in its own world: one of several outcomes of a crash.
    pub fn fork(&self, disk: SimulatedDisk, seed: u64) -> Self {
        let world = World::new(seed, false);
        let stage = Stage::new(self.stage.plan.clone(), world, disk, self.stage.oracle.borrow().clone());
        stage.go_on_after(&self.stage);
        Session {
            stage: Rc::new(stage),
            rng: Rng::new(seed),
            survival: self.survival,
            owes_error: false,
            stays_full: false,
            keeps_pages: false,
            last_alive_ns: Arc::default(),
            segments_unsynced_max: Arc::default(),
        }
    }

    /// The current disk.
    pub fn disk(&self) -> SimulatedDisk {
        self.stage.disk.borrow().clone()
    }

    /// Starts a phase in which the kernel writes back in the background, and `also` runs between steps.
    pub fn begin_phase(&mut self, mut also: Option<Hook>) {
        let disk = self.disk();
        let one_in = self.stage.plan.writeback_one_in;
        let mut rng = self.rng.fork();
        let world = Arc::clone(&self.stage.world);
        let last_alive_ns = Arc::clone(&self.last_alive_ns);
        self.stage.world.begin_phase(Some(Box::new(move |step| {
            if !disk.is_dead() {
                last_alive_ns.store(world.now_ns(), Ordering::Relaxed);
            }
            if rng.one_in(one_in) {
                let commits = disk.journal_commits(Path::new(ROOT));
                disk.background_writeback();
                if disk.journal_commits(Path::new(ROOT)) != commits {
                    world.say(|| "disk: the kernel commits the journal".into());
                }
            }
            if let Some(also) = &mut also {
                also(step);
            }
        })));
    }

    /// Opens the database, checks its content, and creates missing keyspaces. `None` if a power cut or a fault ended
    /// the open.
    pub fn open(&mut self) -> Option<Opened> {
        self.stage.poisoned.set(false);
        let read = self.stage.plan.reads_first.then(|| self.read_first()).flatten();
        if self.stage.plan.tier.moves && self.rng.aside(45).one_in(3) {
            self.stage.move_tier();
        }
        self.stage.world.say(|| "opens".into());
        let db = match self.open_database() {
            Ok(db) => Held::new(db),
            Err(error) => {
                self.stage.expect_trouble("open", &error);
                self.expect_no_tasks("a failed open");
                return None;
            }
        };
        // Not inside the `match`, which would keep the handle alive.
        let found = read_all(&Database::clone(&db).into());
        let (names, found) = match found {
            Ok(all) => all,
            Err(error) => {
                self.stage.expect_trouble("reading what was recovered", &error);
                self.end(db, Farewell::Drop);
                return None;
            }
        };
        if let Some(read) = read {
            assert!(
                read == (names.clone(), found.clone()),
                "an open finds something else than one for reading before it"
            );
        }
        let flushes = db.statistics().replay_flushes;
        let (keyspaces, keys) = (names.len(), found.len());
        self.stage.world.say(|| format!("opened, {flushes} flushes of its replay, {keyspaces} keyspaces, {keys} keys"));
        self.stage.world.note(found.len() as u64);
        let outcome = self.stage.oracle.borrow_mut().check_recovered(&names, found, self.survival);
        self.stage.must(outcome);
        // The content found by a recovery is durable when the recovery returns (docs/durability.md).
        self.survival = Survival::Acknowledged;
        self.stage.acknowledged.borrow_mut().clear();
        match self.create_stable(&db).and_then(|stable| Some((stable, self.create_files(&db)?))) {
            Some((stable, files)) => Some(Opened { db, stable: Held::new(stable), files: Held::new(files) }),
            None => {
                self.end(db, Farewell::Drop);
                None
            }
        }
    }

    /// Opens the database for reading only. `None` if there is no database, or if a power cut or a fault ended the
    /// open. Also `None` after a failed sync: this open reads the cache, which then has more than the medium.
    fn read_first(&self) -> Option<(Vec<String>, Found)> {
        let disk = self.disk();
        if disk.files().iter().any(|(path, _)| disk.has_phantoms(path)) {
            return None;
        }
        self.stage.world.say(|| "opens for reading".into());
        let db = match self.stage.builder(Path::new(ROOT)).open_read_only() {
            Ok(db) => Held::new(db),
            Err(error) if error.kind() == ErrorKind::NoDatabase => return None,
            Err(error) => {
                self.stage.expect_trouble("open for reading", &error);
                return None;
            }
        };
        let found = read_all(&db);
        found.inspect_err(|error| self.stage.expect_trouble("reading without writing", error)).ok()
    }

    /// Opens the database, and checks that the open needs no space besides the reserve.
    fn open_database(&mut self) -> thalweg::Result<Database> {
        let disk = self.disk();
        let is_full = std::mem::take(&mut self.stays_full);
        let reserve = Path::new(ROOT).join("RESERVE");
        let is_whole = |(path, bytes): &(std::path::PathBuf, u64)| *path == reserve && *bytes >= RESERVE_BYTES;
        let has_reserve = self.keeps_pages && disk.files().iter().any(is_whole);
        let opened = self.stage.builder(Path::new(ROOT)).open();
        if is_full {
            disk.set_capacity(None);
        }
        if let Err(error) = &opened
            && error.kind() == ErrorKind::NoSpace
        {
            let is_to_blame = is_full && has_reserve && !self.stage.is_dead() && !self.stage.faults.get();
            assert!(!is_to_blame, "an open on a full disk does not get by with the reserve: {error}");
        }
        opened
    }

    fn create_stable(&self, db: &Database) -> Option<Vec<(Arc<str>, Keyspace)>> {
        let mut all = Vec::new();
        for stable in STABLE {
            let name: Arc<str> = Arc::from(stable.name);
            let is_there = self.stage.oracle.borrow().is_keyspace_present(&name);
            let outcome = if is_there {
                db.existing_keyspace(&name).map(|found| found.unwrap_or_else(|| panic!("keyspace {name} is not there")))
            } else {
                self.stage.oracle.borrow_mut().keyspace_begins(&name);
                db.create_keyspace(&name, stable.splits)
            };
            match outcome {
                Ok(keyspace) => {
                    self.stage.oracle.borrow_mut().keyspace_created(&name);
                    all.push((name, keyspace));
                }
                Err(error) => {
                    self.stage.expect_trouble("create_keyspace", &error);
                    return None;
                }
            }
        }
        Some(all)
    }

    /// The directory keyspace, if the plan has one. `None`: it could not be created.
    fn create_files(&self, db: &Database) -> Option<Files> {
        let name: Arc<str> = Arc::from(FILES);
        let is_there = self.stage.oracle.borrow().is_keyspace_present(&name);
        if self.stage.plan.files_percent == 0 {
            return Some(None);
        }
        let outcome = if is_there {
            let found = db.existing_directory_keyspace(&name);
            found.map(|found| found.unwrap_or_else(|| panic!("keyspace {name} is not there")))
        } else {
            self.stage.oracle.borrow_mut().keyspace_begins(&name);
            db.directory_keyspace(&name)
        };
        match outcome {
            Ok(files) => {
                self.stage.oracle.borrow_mut().keyspace_created(&name);
                Some(Some((name, files)))
            }
            Err(error) => {
                self.stage.expect_trouble("create a directory keyspace", &error);
                None
            }
        }
    }

    /// Runs the plan's clients until all have ended, except parked ones.
    pub fn run_clients(&mut self, opened: &Opened) {
        let temporary = Temporary::default();
        let clients = (0..self.stage.plan.clients)
            .map(|number| {
                let keyspaces = (&opened.stable[..], &*opened.files);
                let run = ClientRun::new(&self.stage, &opened.db, keyspaces, &temporary, number, self.rng.fork());
                Box::new(move || run.run()) as Client
            })
            .collect();
        if loss::bound_ns(&self.stage.plan, 1).is_some() {
            self.segments_unsynced_max.store(0, Ordering::Relaxed);
            let segments_max = Arc::clone(&self.segments_unsynced_max);
            let mut bound = LossBound::new(self.stage.plan.clone(), opened.db.log_progress(), segments_max);
            self.stage.world.watch(Some(Box::new(move |now_ns| bound.look(now_ns))));
        }
        self.stage.world.run_clients(clients);
        self.stage.world.watch(None);
        self.stage.life.set(self.stage.life.get() + 1);
    }

    /// Writes one batch of a few changes in one stable keyspace, while no client runs.
    pub fn write(&mut self, opened: &Opened, keyspace: usize, durability: Durability) {
        let (name, keyspace) = &opened.stable[keyspace];
        let (write, client) = (self.stage.next_write(), self.stage.plan.clients);
        let mut batch = opened.db.batch();
        let mut changes = Vec::new();
        for index in 0..3 {
            let key = keys::key(&keys::own_scope(index % 2), self.rng.below(self.stage.plan.keys));
            let value = self.stage.value(&mut self.rng, client, write, index as u32);
            let added = match &value {
                Some(value) => batch.insert(keyspace, &key, value),
                None => batch.remove(keyspace, &key),
            };
            added.unwrap_or_else(|error| panic!("a batch was refused without trouble: {error}"));
            changes.push(((Arc::clone(name), key), value));
        }
        let label = format!("write {write}, {durability:?}");
        let id = self.stage.oracle.borrow_mut().begin(label, changes);
        let seq =
            batch.commit_seq(durability).unwrap_or_else(|error| panic!("a write failed without trouble: {error}"));
        let outcome = self.stage.oracle.borrow_mut().acknowledge(id, Some(seq), durability == Durability::Sync);
        self.stage.must(outcome);
    }

    /// Writes an entry of the directory keyspace whose value is in an extent, while no client runs.
    pub fn write_extent(&mut self, opened: &Opened) {
        let Some((name, files)) = &*opened.files else { return };
        let (write, key) = (self.stage.next_write(), keys::key(keys::SHARED, 0));
        let value: Arc<[u8]> = (0..2100_u32).map(|at| (at % 251) as u8 ^ write as u8).collect();
        let changes = [((Arc::clone(name), key.clone()), Some(Arc::clone(&value)))];
        let id = self.stage.oracle.borrow_mut().begin(format!("write {write} of an extent"), changes);
        let mut batch = opened.db.batch();
        let added = batch.insert_entry(files, keys::directory_of(&key), &key, &value);
        let outcome = added.and_then(|()| batch.commit_seq(Durability::Buffered));
        let seq = outcome.unwrap_or_else(|error| panic!("a write failed without trouble: {error}"));
        let outcome = self.stage.oracle.borrow_mut().acknowledge(id, Some(seq), false);
        self.stage.must(outcome);
    }

    /// Flushes and compacts everything, and lets the background finish.
    pub fn settle(&mut self, opened: &Opened) {
        let outcome = opened.db.flush().and_then(|()| opened.db.wait_for_compactions());
        outcome.unwrap_or_else(|error| panic!("a flush failed without trouble: {error}"));
        self.rest();
    }

    /// Waits for a second of virtual time.
    pub fn rest(&mut self) {
        self.stage.world.sleep(1_000_000_000);
    }

    /// Checks every key of the open database. Between operations only a maybe may leave a key uncertain.
    pub fn check_live(&self, opened: &Opened) {
        let tick = self.stage.tick();
        let snapshot = opened.db.snapshot();
        let view = |(name, keyspace): &(Arc<str>, Keyspace)| (Arc::clone(name), snapshot.keyspace(keyspace));
        let keyspaces: Vec<_> = opened.stable.iter().map(view).collect();
        if self.stage.check_view(&keyspaces, tick, tick + 1)
            && let Some((name, files)) = &*opened.files
        {
            let outcome = snapshot.directory_keyspace(files);
            let files = outcome.unwrap_or_else(|error| panic!("a snapshot refused its own keyspace: {error}"));
            self.stage.check_files(name, &files, tick, tick + 1);
        }
    }

    /// Checks that writes are accepted again soon after a shortage of space or descriptors.
    pub fn check_room_again(&self, opened: &Opened) {
        let (name, keyspace) = &opened.stable[0];
        for attempt in 0.. {
            let spot = (Arc::clone(name), b"room".to_vec());
            let write = self.stage.next_write();
            let value: Arc<[u8]> = Arc::from(format!("there was room again: {write:08}").as_bytes());
            let id = self
                .stage
                .oracle
                .borrow_mut()
                .begin("the write after a full disk".into(), [(spot, Some(Arc::clone(&value)))]);
            let mut batch = opened.db.batch();
            let outcome = batch.insert(keyspace, b"room", &value).and_then(|()| batch.commit_seq(Durability::Sync));
            match outcome {
                Ok(seq) => {
                    let outcome = self.stage.oracle.borrow_mut().acknowledge(id, Some(seq), true);
                    return self.stage.must(outcome);
                }
                Err(error) => {
                    self.stage.expect_trouble("a write after the disk has room again", &error);
                    assert!(
                        attempt < 100 || self.stage.is_dead() || self.stage.faults.get(),
                        "the disk has room again, and writes still fail: {error}"
                    );
                    match error.kind() {
                        ErrorKind::NoSpace => self.stage.oracle.borrow_mut().refuse(id),
                        _ => self.stage.oracle.borrow_mut().fail(id),
                    }
                    if self.stage.is_dead() || self.stage.faults.get() || self.stage.poisoned.get() {
                        return;
                    }
                    self.stage.world.sleep(50_000_000);
                }
            }
        }
    }

    /// Ends this life. After a clean end the next open must find everything.
    pub fn farewell(&mut self, opened: Opened, how: Farewell) {
        let Opened { db, stable, files } = opened;
        drop(stable.release());
        drop(files.release());
        self.end(db, how);
    }

    fn end(&mut self, db: Held<Database>, how: Farewell) {
        // A parked client has a handle too: without a close the database would stay open.
        let how = if self.stage.world.has_clients(true) { Farewell::Close } else { how };
        self.stage.world.say(|| format!("{how:?}"));
        let db = db.release();
        match how {
            Farewell::Drop => drop(db),
            Farewell::Close => {
                if let Err(error) = db.close() {
                    self.stage.expect_trouble("close", &error);
                }
            }
        }
        self.expect_no_tasks("the close");
        self.stage.judge_answers();
    }

    fn expect_no_tasks(&self, after: &str) {
        let left = self.stage.world.tasks();
        let of = self.stage.world.databases();
        assert!(left == 0, "{left} background coroutines of databases {of:?} are left after {after}");
    }

    /// Ends the life by the death of the process or a power cut. The next open finds what this leaves on the disk.
    pub fn crash(&mut self, strictness: Strictness) {
        self.stage.world.say(|| format!("crash: {strictness:?}"));
        let was_in_faults = self.stage.faults.get();
        if strictness != Strictness::ProcessDeath && !was_in_faults && !self.stage.poisoned.get() {
            self.promise_what_is_old();
        }
        // Writes that were not promised by then may be lost, whatever later opens find.
        self.stage.acknowledged.borrow_mut().clear();
        let next = self.disk().crash(strictness);
        *self.stage.disk.borrow_mut() = next;
        self.keeps_pages = strictness == Strictness::ProcessDeath;
        // After a failed sync even the death of the process may lose acknowledged writes.
        if strictness != Strictness::ProcessDeath || was_in_faults {
            self.survival = Survival::Promised;
        }
        self.calm();
    }

    /// Notes as promised the writes that the bound on the loss made durable before the power was cut.
    fn promise_what_is_old(&mut self) {
        let segments = self.segments_unsynced_max.load(Ordering::Relaxed);
        let Some(bound_ns) = loss::bound_ns(&self.stage.plan, segments) else { return };
        let last_alive_ns = self.last_alive_ns.load(Ordering::Relaxed);
        let acknowledged = self.stage.acknowledged.borrow();
        let old = acknowledged.iter().rfind(|(since_ns, _)| since_ns + bound_ns <= last_alive_ns);
        if let Some((_, position)) = old {
            self.stage.oracle.borrow_mut().promised(*position);
        }
    }

    /// Ends the faults, and ends the shortage of space unless the disk stays full.
    pub fn calm(&mut self) {
        if self.stage.faults.get() {
            self.survival = Survival::Promised;
            self.stage.acknowledged.borrow_mut().clear();
        }
        let disk = self.disk();
        disk.set_faults(None);
        disk.set_capacity(self.stays_full.then(|| disk.used_bytes()));
        disk.crash_at(u64::MAX);
        self.stage.faults.set(false);
        disk.limit_open_files(None);
        self.stage.full.set(self.stays_full);
        self.stage.few_descriptors.set(false);
    }

    /// Drops the rest of the world, and returns the digest of the history.
    pub fn finish(self) -> u64 {
        self.stage.world.gather_clients();
        self.stage.world.clear();
        self.stage.world.digest()
    }
}

#[cfg(test)]
#[path = "tests/session.rs"]
mod tests;
