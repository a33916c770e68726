//! `sim`: random lives. One seed gives a plan and several rounds of open, clients, and an end: a clean close, a crash
//! at any moment (also during the recovery that follows, and during the close), faults, a full disk.

use crate::plan::Plan;
use crate::rng::Rng;
use crate::session::{Farewell, Opened, Session};
use crate::violation::{catch, label};
use crate::world::Hook;
use std::path::PathBuf;
use thalweg::simulation::simulated::{FaultPlan, OperationKinds, SimulatedDisk, Strictness};

/// Runs one seed. Returns the digest of its history, or a violation.
pub fn run_seed(seed: u64, trace: bool) -> Result<u64, String> {
    label(report(seed, "no progress"));
    catch(|| lives(seed, trace, |plan| plan))
}

/// Like [`run_seed`], with [`Plan::as_it_was`], for the first seeds in `tests/seeds.rs`.
pub fn run_seed_as_it_was(seed: u64, trace: bool) -> Result<u64, String> {
    label(report(seed, "no progress"));
    catch(|| lives(seed, trace, Plan::as_it_was))
}

/// Like [`run_seed`], with [`Plan::with_defaults`], for further seeds in `tests/seeds.rs`.
pub fn run_seed_with_defaults(seed: u64, trace: bool) -> Result<u64, String> {
    label(report(seed, "no progress"));
    catch(|| lives(seed, trace, Plan::with_defaults))
}

/// The line that reports a violation.
pub fn report(seed: u64, violation: &str) -> String {
    format!(
        "seed {seed}: {violation} — replay: cargo run -p thalweg-sim --release -- sim --from {seed} --seeds 1 --trace"
    )
}

/// The failure of a life.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// The power is cut at an operation of the disk.
    CrashAtOperation(u64),
    /// The power is cut between two steps.
    CrashAtStep(u64),
    /// An operation fails, and perhaps all later ones.
    Fault {
        nth: u64,
        for_ever: bool,
    },
    /// One sync fails.
    SyncFails {
        nth: u64,
    },
    /// A background write-back of the kernel fails for some pages of a file.
    WritebackFails {
        at_step: u64,
        file: u64,
    },
    /// A write-back fails when it is begun; only the caller gets the error.
    BegunWritebackFails {
        nth: u64,
    },
    /// The kernel loses pages of a table in a background write-back, and does not report it.
    WritebackLost {
        at_step: u64,
        file: u64,
    },
    /// For some steps only a few more files can be opened.
    FewDescriptors {
        from_step: u64,
        steps: u64,
        slack: usize,
    },
    /// The disk is full for some steps, or until the next life has begun.
    Full {
        from_step: u64,
        steps: u64,
        slack_bytes: u64,
        stays: bool,
    },
}

fn some_trouble(rng: &mut Rng) -> Trouble {
    let mut aside = rng.aside(21);
    if aside.one_in(6) {
        return match aside.below(4) {
            0 => Trouble::BegunWritebackFails { nth: 1 + aside.any_size(7) },
            1 => Trouble::WritebackLost { at_step: aside.any_size(12), file: aside.next_u64() },
            _ => Trouble::FewDescriptors {
                from_step: aside.any_size(11),
                steps: aside.between(1, 3_000),
                slack: aside.below(3) as usize,
            },
        };
    }
    match rng.below(20) {
        0..4 => Trouble::None,
        4..7 => Trouble::CrashAtOperation(1 + rng.any_size(12)),
        7..11 => Trouble::CrashAtOperation(1 + rng.below(1000)),
        11..14 => Trouble::CrashAtStep(rng.any_size(13)),
        14..17 => Trouble::Fault { nth: 1 + rng.any_size(11), for_ever: rng.one_in(2) },
        17 => Trouble::WritebackFails { at_step: rng.any_size(12), file: rng.next_u64() },
        _ => Trouble::Full {
            from_step: rng.any_size(11),
            steps: rng.between(1, 3_000),
            slack_bytes: rng.any_size(20),
            stays: rng.one_in(2),
        },
    }
}

fn lives(seed: u64, trace: bool, planned: impl FnOnce(Plan) -> Plan) -> u64 {
    let mut rng = Rng::new(seed);
    let plan = planned(Plan::random(&mut rng));
    let mut session = Session::new(plan, rng.next_u64(), trace);
    session.stage.world.say(|| format!("{:?}", session.stage.plan));
    for round in 0..rng.between(2, 4) {
        let opened = open(&mut session, &mut rng, round > 0);
        one_life(&mut session, &mut rng, opened);
    }
    let opened = open(&mut session, &mut rng, false);
    session.check_live(&opened);
    session.farewell(opened, Farewell::Close);
    session.finish()
}

/// Opens the database, with crashes and faults in between. A crash may still be due when this returns.
fn open(session: &mut Session, rng: &mut Rng, with_crashes: bool) -> Opened {
    for attempt in 0_u64.. {
        session.begin_phase(None);
        let disk = session.disk();
        // The kernel reports the failed write-back once, but another fault may end an open before the report.
        session.owes_error &= attempt < 5;
        if session.owes_error {
            session.stage.faults.set(true);
        }
        if with_crashes && attempt < 3 && rng.one_in(3) {
            disk.crash_at(disk.operations() + 1 + rng.any_size(8));
        } else if with_crashes && attempt < 3 && rng.one_in(8) {
            session.stage.faults.set(true);
            disk.set_faults(Some(FaultPlan::once(1 + rng.any_size(8))));
        }
        if let Some(opened) = session.open() {
            session.owes_error = false;
            return opened;
        }
        end(session, rng);
    }
    unreachable!("the loop ends by returning")
}

/// Continues after the end of an open or a life, which a power cut may have ended.
fn end(session: &mut Session, rng: &mut Rng) {
    if session.stage.is_dead() || rng.one_in(3) {
        session.crash(*rng.choose(&Strictness::ALL));
    } else {
        session.calm();
    }
}

fn one_life(session: &mut Session, rng: &mut Rng, opened: Opened) {
    let mut trouble = some_trouble(rng);
    let mut parking = rng.aside(1);
    if session.stage.plan.clients > 1 && parking.one_in(2) {
        if parking.percent(70) {
            trouble = Trouble::SyncFails { nth: 1 + parking.any_size(6) };
        }
        let one_in = *parking.choose(&[3, 10, 40]);
        session.stage.world.park_clients(Some((parking.fork(), one_in)));
    }
    session.stage.world.say(|| format!("this life's trouble: {trouble:?}"));
    let disk = session.disk();
    let hook = begin_trouble(session, &disk, trouble);
    session.begin_phase(hook);
    session.run_clients(&opened);
    session.stage.world.park_clients(None);
    if let Trouble::Full { stays: true, .. } = trouble {
        session.stays_full = true;
    } else if let Trouble::Full { .. } | Trouble::FewDescriptors { .. } = trouble {
        disk.set_capacity(None);
        disk.limit_open_files(None);
        session.begin_phase(None);
        session.check_room_again(&opened);
    }
    session.check_live(&opened);
    let how = if rng.one_in(2) { Farewell::Close } else { Farewell::Drop };
    if rng.one_in(3) {
        // Without a close: the process dies or the power is cut while the database is open.
        let _ = disk.crash(Strictness::LoseUnsynced);
    }
    session.farewell(opened, how);
    end(session, rng);
}

/// Starts a trouble. Returns the hook for its later effects.
fn begin_trouble(session: &mut Session, disk: &SimulatedDisk, trouble: Trouble) -> Option<Hook> {
    let mut hook: Option<Hook> = None;
    match trouble {
        Trouble::None => {}
        Trouble::CrashAtOperation(after) => disk.crash_at(disk.operations() + after),
        Trouble::CrashAtStep(after) => hook = Some(cut_power_at(disk.clone(), session.stage.world.steps() + after)),
        Trouble::Fault { nth, for_ever } => {
            session.stage.faults.set(true);
            disk.set_faults(Some(if for_ever { FaultPlan::from_then_on(nth) } else { FaultPlan::once(nth) }));
        }
        Trouble::SyncFails { nth } => {
            session.stage.faults.set(true);
            disk.set_faults(Some(FaultPlan::once(nth).only(OperationKinds::SYNCS)));
        }
        Trouble::WritebackFails { at_step, file } => {
            session.stage.faults.set(true);
            session.owes_error = true;
            hook = Some(fail_writeback(disk.clone(), session.stage.world.steps() + at_step, file));
        }
        Trouble::BegunWritebackFails { nth } => {
            session.stage.faults.set(true);
            disk.set_faults(Some(FaultPlan::once(nth).only(OperationKinds::WRITE_BACKS)));
        }
        // Only on a file system with one journal does the engine rely on the kernel's own write-back. So only there it
        // must notice the loss.
        Trouble::WritebackLost { .. } if !session.stage.plan.share_journal => {}
        Trouble::WritebackLost { at_step, file } => {
            session.stage.faults.set(true);
            hook = Some(lose_writeback(disk.clone(), session.stage.world.steps() + at_step, file));
        }
        Trouble::FewDescriptors { from_step, steps, slack } => {
            session.stage.few_descriptors.set(true);
            let from = session.stage.world.steps() + from_step;
            hook = Some(take_descriptors(disk.clone(), from, from + steps, slack));
        }
        Trouble::Full { from_step, steps, slack_bytes, stays } => {
            session.stage.full.set(true);
            let from = session.stage.world.steps() + from_step;
            let to = if stays { u64::MAX } else { from + steps };
            hook = Some(fill(disk.clone(), from, to, slack_bytes));
        }
    }
    hook
}

fn cut_power_at(disk: SimulatedDisk, at: u64) -> Hook {
    Box::new(move |step| {
        if step >= at && !disk.is_dead() {
            // The image of that moment is taken later.
            let _ = disk.crash(Strictness::LoseUnsynced);
        }
    })
}

fn fail_writeback(disk: SimulatedDisk, at: u64, file: u64) -> Hook {
    let mut done = false;
    Box::new(move |step| {
        if step >= at && !std::mem::replace(&mut done, step >= at) {
            let files = disk.files();
            if let Some((path, _)) = files.get(file as usize % files.len().max(1)) {
                disk.fail_writeback(path);
            }
        }
    })
}

/// Returns a hook that makes the kernel lose pages of a table, once this table has unwritten pages.
fn lose_writeback(disk: SimulatedDisk, at: u64, file: u64) -> Hook {
    let mut done = false;
    Box::new(move |step| {
        if step < at || done {
            return;
        }
        let files = disk.files();
        let of_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "table");
        let tables: Vec<_> = files.into_iter().map(|(path, _)| path).filter(of_table).collect();
        if let Some(path) = tables.get(file as usize % tables.len().max(1)) {
            disk.lose_writeback(path);
            done = disk.has_phantoms(path);
        }
    })
}

fn take_descriptors(disk: SimulatedDisk, from: u64, to: u64, slack: usize) -> Hook {
    let (mut taken, mut given) = (false, false);
    Box::new(move |step| {
        if step >= from && !taken {
            taken = true;
            disk.limit_open_files(Some(disk.open_files() + slack));
        }
        if step >= to && !given {
            given = true;
            disk.limit_open_files(None);
        }
    })
}

fn fill(disk: SimulatedDisk, from: u64, to: u64, slack_bytes: u64) -> Hook {
    let (mut filled, mut freed) = (false, false);
    Box::new(move |step| {
        if step >= from && !filled {
            filled = true;
            disk.set_capacity(Some(disk.used_bytes() + slack_bytes));
        }
        if step >= to && !freed {
            freed = true;
            disk.set_capacity(None);
        }
    })
}
