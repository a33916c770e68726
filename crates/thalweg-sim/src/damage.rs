//! `damage`: a small database, cleanly closed, in which every byte of every file is damaged in turn and every file is
//! cut at every length. Each time every read must be right or an error that names the file, nothing may panic, and
//! `check` must find the damage. Then the same for the log of a database that was not closed (`unclean.rs`).
//!
//! Damage to bytes that are not used may go unnoticed, but then every read must be right. `LOCK` and `RESERVE` have no
//! content, and an open does not read `STATUS`. Of the log only the bytes that recovery reads count, and the engine
//! reports which bytes those are.

use crate::oracle::{Oracle, Survival};
use crate::plan::Plan;
use crate::session::{Farewell, Opened, ROOT, Session};
use crate::spot::{Spot, describe, describe_spot};
use crate::stage::{Held, Stage, read_all, root};
use crate::unclean;
use crate::violation::{catch, label};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::{Database, Durability, Error, ErrorKind};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DamageReport {
    /// The number of files of the database.
    pub files: u64,
    /// Bytes of its log that recovery reads.
    pub log_bytes: u64,
    /// Damages tried: bytes changed, and lengths that files were cut to.
    pub faults: u64,
    /// Damages for which the open was refused.
    pub refused: u64,
    /// Damages to bytes that are not read, which `check` need not find.
    pub harmless: u64,
    /// Damages tried and opens refused, for the log of a database that was not closed.
    pub unclean_faults: u64,
    /// See `unclean_faults`.
    pub unclean_refused: u64,
    /// Damages after which `PointInTime` opened, and reported that promised writes were dropped.
    pub rolled_back: u64,
    /// Damages after which `PointInTime` was refused too.
    pub hopeless: u64,
}

/// The ranges of bytes that count, by file of the log.
pub type Used = BTreeMap<PathBuf, Vec<Range<u64>>>;

/// A database as it was before it was damaged.
struct Sound {
    disk: SimulatedDisk,
    used: Used,
    all: BTreeMap<Spot, Arc<[u8]>>,
    plan: Plan,
    oracle: Oracle,
}

/// A damage to one file.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// Flips bits of one byte.
    Flip {
        /// The offset of the byte.
        offset: u64,
        /// The bits to flip.
        mask: u8,
    },
    /// Cuts the file.
    Cut {
        /// The bytes that are left.
        bytes: u64,
    },
}

impl Damage {
    /// Damages the file.
    pub fn strike(self, disk: &SimulatedDisk, path: &Path) {
        let is_done = match self {
            Damage::Flip { offset, mask } => disk.flip(path, offset, mask),
            Damage::Cut { bytes } => disk.truncate(path, bytes),
        };
        assert!(is_done, "the disk has no such place");
    }
}

/// Damages every offset of every file; with `quick`, a sample.
pub fn run(seed: u64, quick: bool) -> Result<DamageReport, String> {
    let sound = catch(|| sound_database(seed))?;
    let log_bytes = sound.used.values().flatten().map(|range| range.end - range.start).sum();
    let mut report = DamageReport { log_bytes, ..DamageReport::default() };
    for (path, bytes) in sound.disk.files() {
        report.files += 1;
        for place in places(&sound.used, &path, bytes, seed, quick) {
            for damage in damages(place, quick) {
                label(format!("{damage:?} in {}", path.display()));
                let outcome = catch(|| try_damage(&sound, &path, damage, &mut report));
                outcome
                    .map_err(|violation| format!("{damage:?} in {} of {bytes} bytes: {violation}", path.display()))?;
            }
        }
    }
    unclean::run(seed, quick, &mut report)?;
    Ok(report)
}

/// The damages to try at an offset: flips a bit that depends on the offset, and cuts the file there.
pub fn damages(place: u64, quick: bool) -> Vec<Damage> {
    let mask = 1_u8 << (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61);
    let mut damages = vec![Damage::Flip { offset: place, mask }];
    // A cut finds little that a flip does not: one cut for several flips.
    if !quick || place.is_multiple_of(4) {
        damages.push(Damage::Cut { bytes: place });
    }
    damages
}

/// The offsets of a file that count (with `quick`, a sample), and some of those that do not.
pub fn places(used: &Used, path: &Path, bytes: u64, seed: u64, quick: bool) -> Vec<u64> {
    let counting = if quick { 3 } else { 1 };
    let idle = if quick { 1511 } else { 151 };
    let ends = used.get(path).into_iter().flatten().flat_map(|range| [range.start, range.end - 1, range.end]);
    let every = |step: u64| (seed % step..bytes).step_by(step as usize);
    let mut places: Vec<u64> = if is_in(path, "log") {
        every(counting).filter(|place| is_used(used, path, *place)).chain(every(idle)).collect()
    } else if is_idle(path) {
        every(idle).collect()
    } else {
        every(counting).collect()
    };
    places.extend(ends.filter(|place| *place < bytes));
    places.sort_unstable();
    places.dedup();
    places
}

fn is_in(path: &Path, directory: &str) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|name| name == directory)
}

fn is_idle(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "LOCK" || name == "RESERVE" || name == "STATUS")
}

fn is_used(used: &Used, path: &Path, place: u64) -> bool {
    used.get(path).is_some_and(|ranges| ranges.iter().any(|range| range.contains(&place)))
}

/// The bytes that count in the log of the database on a disk.
pub fn used_log(stage: &Stage) -> Used {
    let mut used = Used::new();
    for (path, range) in must(stage.builder(Path::new(ROOT)).used_log_ranges()) {
        used.entry(path).or_default().push(range);
    }
    used
}

/// Makes a database over two lives: the log of one is sealed, the log of the other closed. Recovery reads both.
fn sound_database(seed: u64) -> Sound {
    let mut session = Session::new(Plan::small(), seed, false);
    session.begin_phase(None);
    let opened = open(&mut session);
    session.run_clients(&opened);
    session.settle(&opened);
    (0..6).for_each(|number| session.write(&opened, number % 3, Durability::Buffered));
    session.farewell(opened, Farewell::Close);
    let opened = open(&mut session);
    // Enough to flush one keyspace, while the others still need the log before it.
    (0..12).for_each(|_| session.write(&opened, 0, Durability::Buffered));
    session.rest();
    (0..3).for_each(|number| session.write(&opened, number, Durability::Buffered));
    assert_shape(&opened);
    session.farewell(opened, Farewell::Close);
    let disk = session.disk().snapshot();
    let used = used_log(&session.stage);
    assert!(used.len() >= 2, "the log has a sealed segment and a closed one: {used:?}");
    // One more open reads the content; the disk to damage is the one before that open.
    let db = Held::new(must(session.stage.builder(Path::new(ROOT)).open_read_only()));
    let (names, all) = must(read_all(&db));
    drop(db.release());
    let outcome = session.stage.oracle.borrow_mut().check_recovered(&names, all.clone(), Survival::Acknowledged);
    session.stage.must(outcome);
    let (plan, oracle) = (session.stage.plan.clone(), session.stage.oracle.borrow().clone());
    session.finish();
    Sound { disk, used, all, plan, oracle }
}

/// The open of a life without failures.
pub fn open(session: &mut Session) -> Opened {
    session.open().unwrap_or_else(|| panic!("an open failed without trouble"))
}

/// Checks that the database has some of everything.
fn assert_shape(opened: &Opened) {
    let statistics = opened.db.statistics();
    let split = statistics.keyspaces.iter().filter(|keyspace| keyspace.partitions > 1).count();
    let levels = |keyspace: &thalweg::KeyspaceStatistics| {
        keyspace.levels.iter().map(|level| (level.tables > 0, level.tombstones > 0)).collect::<Vec<_>>()
    };
    let levels: Vec<Vec<(bool, bool)>> = statistics.keyspaces.iter().map(levels).collect();
    let deep = levels.iter().any(|levels| levels.iter().filter(|(tables, _)| *tables).count() >= 2);
    let tombstones = levels.iter().flatten().any(|(_, tombstones)| *tombstones);
    assert!(statistics.flushes > 0, "the manifest has edits");
    assert!(split >= 2 && deep && tombstones, "partitions, levels and tombstones: {}", opened.db.draw_levels());
}

fn must<T>(outcome: thalweg::Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("a sound database failed: {error}"))
}

/// The stage of one damaged copy of a disk.
pub fn stage_on(disk: &SimulatedDisk, plan: &Plan, oracle: &Oracle) -> Stage {
    let world = crate::world::World::new(1, false);
    let stage = Stage::new(plan.clone(), world, disk.snapshot(), oracle.clone());
    stage.world.begin_phase(None);
    stage
}

fn try_damage(sound: &Sound, path: &Path, damage: Damage, report: &mut DamageReport) {
    let stage = stage_on(&sound.disk, &sound.plan, &sound.oracle);
    damage.strike(&stage.disk.borrow(), path);
    report.faults += 1;
    let found_by_check = check_finds(&stage, path);
    // The open may change the disk, so the check runs before it.
    let read_wrong = match stage.builder(Path::new(ROOT)).open() {
        Err(error) => {
            names_file(&error, path);
            report.refused += 1;
            true
        }
        Ok(db) => {
            let db = Held::new(db);
            let outcome = read_all(&Database::clone(&db).into());
            drop(db.release());
            match outcome {
                Err(error) => {
                    names_file(&error, path);
                    true
                }
                Ok((_, all)) => {
                    compare(&sound.all, &all);
                    false
                }
            }
        }
    };
    stage.world.clear();
    if found_by_check {
        return;
    }
    assert!(!read_wrong, "reads fail, and the check found nothing");
    assert!(may_pass_unseen(&sound.used, path, damage), "the check found nothing");
    report.harmless += 1;
}

/// Whether the cut bytes are not used. A segment of the log is as long as its header says.
fn may_pass_unseen(used: &Used, path: &Path, damage: Damage) -> bool {
    let is_idle_log = match damage {
        Damage::Flip { offset, .. } => !is_used(used, path, offset),
        Damage::Cut { .. } => !used.contains_key(path),
    };
    is_idle(path) || is_in(path, "log") && is_idle_log
}

/// Whether `check` reports damage to the file.
pub fn check_finds(stage: &Stage, path: &Path) -> bool {
    let mut faults = Vec::new();
    let outcome = stage.builder(Path::new(ROOT)).check(&mut |error| faults.push(error));
    faults.iter().for_each(|error| names_file(error, path));
    match outcome {
        Ok(report) => assert_eq!(report.faults, faults.len() as u64, "the check counts what it tells"),
        Err(error) => {
            names_file(&error, path);
            return true;
        }
    }
    !faults.is_empty()
}

/// Whether an error is the right one: corruption that names the damaged file. `CURRENT` only names the manifest, so
/// damage to it may be reported as a missing manifest.
pub fn names_file(error: &Error, path: &Path) {
    let is_pointer = path.file_name().is_some_and(|name| name == "CURRENT");
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_corruption = root(error).kind() == ErrorKind::Corruption;
    assert!(is_pointer || is_corruption, "an error that is not corruption: {error}");
    assert!(is_pointer || error.to_string().contains(&name), "the error does not name the file: {error}");
}

fn compare(sound: &BTreeMap<Spot, Arc<[u8]>>, found: &BTreeMap<Spot, Arc<[u8]>>) {
    for spot in sound.keys().chain(found.keys()) {
        let (expected, found) = (sound.get(spot).map(|value| &value[..]), found.get(spot).map(|value| &value[..]));
        assert!(
            expected == found,
            "a damaged database gave a wrong answer: {} is {}, not {}",
            describe_spot(spot),
            describe(found),
            describe(expected)
        );
    }
}
