//! The second half of `damage`: the log of a database that was not closed. The last write was not promised, and its
//! record says that everything before it was durable. So after any damage an open either is refused and names the file,
//! or finds everything that was promised. With `PointInTime` it finds a prefix of the writes, reports the dropped ones,
//! and keeps a copy of their bytes.

use super::fault::{Damage, DamageReport, Used, check_finds, damages, names_file, open, places, stage_on, used_log};
use crate::oracle::{Oracle, Survival};
use crate::plan::Plan;
use crate::session::{Farewell, Session};
use crate::stage::{Held, ROOT, Stage, read_all};
use crate::violation::{catch, label};
use std::path::Path;
use thalweg::simulation::simulated::{SimulatedDisk, Strictness};
use thalweg::{DamagePolicy, Database, Durability};

/// A database whose process died.
struct Dead {
    disk: SimulatedDisk,
    used: Used,
    plan: Plan,
    oracle: Oracle,
}

/// Damages every used offset of the log; with `quick`, a sample.
pub fn run(seed: u64, quick: bool, report: &mut DamageReport) -> Result<(), String> {
    let dead = catch(|| dead_database(seed))?;
    for (path, bytes) in dead.disk.files().into_iter().filter(|(path, _)| path.starts_with("/db/log")) {
        for place in places(&dead.used, &path, bytes, seed, quick) {
            for damage in damages(place, quick) {
                label(format!("{damage:?} in {}", path.display()));
                report.unclean_faults += 1;
                let outcome = catch(|| {
                    try_strict(&dead, &path, damage, report);
                    try_point_in_time(&dead, &path, damage, report);
                });
                outcome.map_err(|violation| {
                    format!("{damage:?} in {} of {bytes} bytes, not closed: {violation}", path.display())
                })?;
            }
        }
    }
    Ok(())
}

fn dead_database(seed: u64) -> Dead {
    let mut session = Session::new(Plan::small(), seed, false);
    session.begin_phase(None);
    let opened = open(&mut session);
    session.run_clients(&opened);
    // Recovery loses nothing that is in tables, so damage to the log can only lose the writes after this.
    session.settle(&opened);
    for number in 0..12 {
        let durability = if number % 4 == 0 { Durability::Sync } else { Durability::Buffered };
        session.write(&opened, 1 + number % 2, durability);
    }
    session.write(&opened, 0, Durability::Sync);
    session.write(&opened, 0, Durability::Buffered);
    let disk = session.disk().snapshot().crash(Strictness::ProcessDeath);
    let (plan, oracle) = (session.stage.plan.clone(), session.stage.oracle.borrow().clone());
    session.farewell(opened, Farewell::Drop);
    session.finish();
    let stage = stage_on(&disk, &plan, &oracle);
    let used = used_log(&stage);
    stage.world.clear();
    Dead { disk, used, plan, oracle }
}

fn damaged(dead: &Dead, path: &Path, damage: Damage) -> Stage {
    let stage = stage_on(&dead.disk, &dead.plan, &dead.oracle);
    damage.strike(&stage.disk.borrow(), path);
    stage
}

fn try_strict(dead: &Dead, path: &Path, damage: Damage, report: &mut DamageReport) {
    let stage = damaged(dead, path, damage);
    let found_by_check = check_finds(&stage, path);
    match stage.builder(Path::new(ROOT)).open() {
        Err(error) => {
            names_file(&error, path);
            assert!(found_by_check, "the open is refused, and the check found nothing: {error}");
            report.unclean_refused += 1;
        }
        Ok(db) => {
            let db = Held::new(db);
            let outcome = read_all(&Database::clone(&db).into());
            drop(db.release());
            let (names, all) = outcome.unwrap_or_else(|error| panic!("the log is damaged, and reads fail: {error}"));
            let outcome = stage.oracle.borrow_mut().check_recovered(&names, all, Survival::Promised);
            stage.must(outcome);
        }
    }
    stage.world.clear();
}

fn try_point_in_time(dead: &Dead, path: &Path, damage: Damage, report: &mut DamageReport) {
    let stage = damaged(dead, path, damage);
    let file = stage.disk.borrow().read_file(path).unwrap_or_default();
    let db = match stage.builder(Path::new(ROOT)).damage_policy(DamagePolicy::PointInTime).open() {
        Ok(db) => Held::new(db),
        Err(error) => {
            names_file(&error, path);
            report.hopeless += 1;
            return stage.world.clear();
        }
    };
    let outcome = read_all(&Database::clone(&db).into());
    let dropped = db.dropped_by_recovery().to_vec();
    drop(db.release());
    let (names, all) = outcome.unwrap_or_else(|error| panic!("the log is damaged, and reads fail: {error}"));
    let keeps_promises = dead.oracle.clone().check_recovered(&names, all.clone(), Survival::Promised).is_ok();
    let outcome = stage.oracle.borrow_mut().check_recovered(&names, all.clone(), Survival::Prefix);
    stage.must(outcome);
    if !keeps_promises {
        assert!(!dropped.is_empty(), "what was promised is gone, and nothing was said");
        report.rolled_back += 1;
    }
    if !dropped.is_empty() {
        // An empty file needs no copy.
        let files = stage.disk.borrow().files();
        let mut copies = files.iter().filter(|(path, _)| path.starts_with("/db/lost"));
        let is_copy = |path: &Path| stage.disk.borrow().read_file(path).is_some_and(|copy| copy == file);
        assert!(file.is_empty() || copies.any(|(path, _)| is_copy(path)), "no copy of what was dropped: {dropped:?}");
    }
    // A repaired database stays repaired.
    let db = stage.builder(Path::new(ROOT)).open().unwrap_or_else(|error| panic!("a mended database failed: {error}"));
    let db = Held::new(db);
    let again = read_all(&Database::clone(&db).into());
    drop(db.release());
    assert!(again.is_ok_and(|(_, again)| again == all), "a mended database is another after the next open");
    stage.world.clear();
}
