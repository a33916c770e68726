//! `damage`: a small database, cleanly closed, in which every byte of every file rots in turn and every file is cut at
//! every length. Each time every read is right or an error that names the file, nothing panics, and `check` finds it.
//!
//! What nobody relies on may rot unseen: `LOCK` and `RESERVE` hold nothing, and a log segment has bytes beyond its end.
//! Then every read must be right.

use crate::oracle::{Spot, Survival, describe, describe_spot};
use crate::plan::Plan;
use crate::session::{Farewell, ROOT, Session};
use crate::stage::{Stage, read_all, root};
use crate::violation::{catch, label};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::{Error, ErrorKind};

/// How much was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct DamageReport {
    /// Files of the database.
    pub files: u64,
    /// Bytes that rotted, and lengths that files were cut to.
    pub faults: u64,
    /// Those that the open refused.
    pub refused: u64,
    /// Those that changed nothing that is read, and that `check` had no reason to find.
    pub harmless: u64,
}

/// A database as it was before it was damaged.
struct Sound {
    disk: SimulatedDisk,
    all: BTreeMap<Spot, Arc<[u8]>>,
    plan: Plan,
    oracle: crate::oracle::Oracle,
}

/// One damage to one file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip { offset: u64, mask: u8 },
    Cut { bytes: u64 },
}

/// Damages every place of every file; `quick`: one in so many.
pub fn run(seed: u64, quick: bool) -> Result<DamageReport, String> {
    let sound = catch(|| sound_database(seed))?;
    let mut report = DamageReport::default();
    for (path, bytes) in sound.disk.files() {
        report.files += 1;
        let stride = stride(&path, quick);
        let mut place = seed % stride;
        while place < bytes {
            let mask = 1_u8 << (place / stride % 8);
            for damage in [Damage::Flip { offset: place, mask }, Damage::Cut { bytes: place }] {
                // Cutting is slow to be news: once in a few flips.
                if matches!(damage, Damage::Cut { .. }) && quick && !(place / stride).is_multiple_of(4) {
                    continue;
                }
                label(format!("{damage:?} in {}", path.display()));
                let outcome = catch(|| try_damage(&sound, &path, damage, &mut report));
                outcome
                    .map_err(|violation| format!("{damage:?} in {} of {bytes} bytes: {violation}", path.display()))?;
            }
            place += stride;
        }
    }
    Ok(report)
}

/// A log segment is large and mostly empty after a clean close.
fn stride(path: &Path, quick: bool) -> u64 {
    match (is_in(path, "log"), quick) {
        (true, true) => 613,
        (true, false) => 3,
        (false, true) => 11,
        (false, false) => 1,
    }
}

fn is_in(path: &Path, directory: &str) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|name| name == directory)
}

fn sound_database(seed: u64) -> Sound {
    let mut session = Session::new(Plan::fixed(80), seed, false);
    session.begin_phase(None);
    let Some(opened) = session.open() else { panic!("the first open failed without trouble") };
    session.run_clients(&opened);
    session.farewell(opened, Farewell::Close);
    let disk = session.disk().snapshot();
    // One more open tells what is there; the disk to damage is the one before it.
    let db = crate::stage::Held::new(must(session.stage.builder(Path::new(ROOT)).open_read_only()));
    let (names, all) = must(read_all(&db));
    drop(db.release());
    let outcome = session.stage.oracle.borrow_mut().check_recovered(&names, all.clone(), Survival::Acknowledged);
    session.stage.must(outcome);
    let (plan, oracle) = (session.stage.plan.clone(), session.stage.oracle.borrow().clone());
    session.finish();
    Sound { disk, all, plan, oracle }
}

fn must<T>(outcome: thalweg::Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("a sound database failed: {error}"))
}

fn try_damage(sound: &Sound, path: &Path, damage: Damage, report: &mut DamageReport) {
    let disk = sound.disk.snapshot();
    let is_done = match damage {
        Damage::Flip { offset, mask } => disk.flip(path, offset, mask),
        Damage::Cut { bytes } => disk.truncate(path, bytes),
    };
    assert!(is_done, "the disk has no such place");
    report.faults += 1;
    let world = crate::world::World::new(1, false);
    let stage = Stage::new(sound.plan.clone(), world, disk.snapshot(), sound.oracle.clone());
    stage.world.begin_phase(None);
    let found_by_check = check_finds(&stage, path);
    // The open may change the disk, so the check came first.
    let read_wrong = match stage.builder(Path::new(ROOT)).open() {
        Err(error) => {
            names_file(&error, path);
            report.refused += 1;
            true
        }
        Ok(db) => {
            let db = crate::stage::Held::new(db);
            let outcome = read_all(&db);
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
    assert!(may_rot_unseen(path), "the check found nothing");
    report.harmless += 1;
}

fn may_rot_unseen(path: &Path) -> bool {
    is_in(path, "log") || path.file_name().is_some_and(|name| name == "LOCK" || name == "RESERVE")
}

fn check_finds(stage: &Stage, path: &Path) -> bool {
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

/// Damage is corruption, and names the damaged file. `CURRENT` only names the manifest: there that one may be missed.
fn names_file(error: &Error, path: &Path) {
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
