//! The first half of `damage`: a database that was closed, over two lives; then one with a fast tier in files.

use super::fault::{
    Damage, DamageReport, Used, check_finds, damages, is_idle, is_in, is_used, must, names_file, open, places,
    stage_on, used_log,
};
use crate::keys::FILES;
use crate::oracle::{Oracle, Survival};
use crate::plan::Plan;
use crate::session::{Farewell, Opened, Session};
use crate::spot::{Spot, describe, describe_spot};
use crate::stage::{Held, ROOT, read_all};
use crate::violation::{catch, label};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use thalweg::simulation::simulated::SimulatedDisk;
use thalweg::{Database, Durability};

/// A database as it was before it was damaged.
struct Sound {
    disk: SimulatedDisk,
    used: Used,
    all: BTreeMap<Spot, Arc<[u8]>>,
    plan: Plan,
    oracle: Oracle,
}

/// Damages every offset of every file of a database that was closed; with `quick`, a sample.
pub fn run(seed: u64, quick: bool, report: &mut DamageReport) -> Result<(), String> {
    for plan in [Plan::small(), Plan::small_tier()] {
        run_plan(plan, seed, quick, report)?;
    }
    Ok(())
}

fn run_plan(plan: Plan, seed: u64, quick: bool, report: &mut DamageReport) -> Result<(), String> {
    let sound = catch(|| sound_database(plan, seed))?;
    report.log_bytes = sound.used.values().flatten().map(|range| range.end - range.start).sum();
    for (path, bytes) in sound.disk.files() {
        report.files += 1;
        for place in places(&sound.used, &path, bytes, seed, quick) {
            for damage in damages(place, quick) {
                label(format!("{damage:?} in {}", path.display()));
                let outcome = catch(|| try_damage(&sound, &path, damage, report));
                outcome
                    .map_err(|violation| format!("{damage:?} in {} of {bytes} bytes: {violation}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Makes a database over two lives: the log of one is sealed, the log of the other closed. Recovery reads both.
fn sound_database(plan: Plan, seed: u64) -> Sound {
    let mut session = Session::new(plan, seed, false);
    session.begin_phase(None);
    let opened = open(&mut session);
    session.run_clients(&opened);
    session.write_extent(&opened);
    session.settle(&opened);
    (0..6).for_each(|number| session.write(&opened, number % 3, Durability::Buffered));
    session.farewell(opened, Farewell::Close);
    let opened = open(&mut session);
    // Enough writes to flush one keyspace, while the others still need the older log.
    (0..12).for_each(|_| session.write(&opened, 0, Durability::Buffered));
    session.rest();
    (0..3).for_each(|number| session.write(&opened, number, Durability::Buffered));
    match &opened.db.statistics().fast_tier {
        None => assert_shape(&opened),
        Some(tier) => assert!(tier.bytes > 0, "something is in the tier"),
    }
    session.farewell(opened, Farewell::Close);
    let disk = session.disk().snapshot();
    let used = used_log(&session.stage);
    assert!(used.len() >= 2, "the log has a sealed segment and a closed one: {used:?}");
    // A further open reads the content. The disk to damage is that from before this open.
    let db = Held::new(must(session.stage.builder(Path::new(ROOT)).open_read_only()));
    let (names, all) = must(read_all(&db));
    drop(db.release());
    let outcome = session.stage.oracle.borrow_mut().check_recovered(&names, all.clone(), Survival::Acknowledged);
    session.stage.must(outcome);
    let (plan, oracle) = (session.stage.plan.clone(), session.stage.oracle.borrow().clone());
    session.finish();
    Sound { disk, used, all, plan, oracle }
}

/// Checks that the database has a part of every kind.
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
    let Some(files) = statistics.keyspaces.iter().find(|keyspace| keyspace.name == FILES) else {
        panic!("there is no directory keyspace")
    };
    let packs = files.levels.iter().filter(|level| level.tables > 0).count();
    let index = files.directories.clone().unwrap_or_default();
    assert!(packs >= 2 && index.spans > index.directories, "packs in several levels: {}", opened.db.draw_levels());
    assert!(split >= 2 && deep && tombstones, "partitions, levels and tombstones: {}", opened.db.draw_levels());
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

/// Whether `check` may miss the damage, because it hits only unused bytes. A cut of a used log segment does not count:
/// its header says how long the segment is.
fn may_pass_unseen(used: &Used, path: &Path, damage: Damage) -> bool {
    let is_idle_log = match damage {
        Damage::Flip { offset, .. } => !is_used(used, path, offset),
        Damage::Cut { .. } => !used.contains_key(path),
    };
    is_idle(path) || is_in(path, "log") && is_idle_log
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
