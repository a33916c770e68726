//! `every-io`: fixed workloads, in which the power is cut at every single operation of the disk, in every strictness,
//! and then again at every operation of the recovery that follows.

use crate::plan::Plan;
use crate::session::{Farewell, Session};
use crate::violation::{catch, label};
use thalweg::simulation::simulated::Strictness;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryIoReport {
    /// Operations of the workloads, with a power cut at each.
    pub operations: u64,
    /// Recoveries that were checked.
    pub recoveries: u64,
    /// Of these, recoveries after a crash during a recovery.
    pub second_recoveries: u64,
}

/// Cuts the power at every operation of the workloads of `seed`, and after each at every operation of the recovery.
/// With `quick` the workloads are shorter, and each recovery has one crash.
pub fn run(seed: u64, quick: bool) -> Result<EveryIoReport, String> {
    let mut report = EveryIoReport::default();
    for (name, plan) in Plan::workloads(if quick { 60 } else { 120 }) {
        for at in 1.. {
            let place = format!("power cut at operation {at} of the workload {name} {seed}");
            label(place.clone());
            let outcome = catch(|| crash_at(&plan, seed, at, quick, &mut report));
            if !outcome.map_err(|violation| format!("{place}: {violation}"))? {
                break;
            }
        }
    }
    Ok(report)
}

/// Whether the workload reached that operation.
fn crash_at(plan: &Plan, seed: u64, at: u64, quick: bool, report: &mut EveryIoReport) -> bool {
    let mut session = Session::new(plan.clone(), seed, false);
    session.disk().crash_at(at);
    session.begin_phase(None);
    if let Some(opened) = session.open() {
        session.run_clients(&opened);
        session.farewell(opened, Farewell::Close);
    }
    if !session.disk().is_dead() {
        return false;
    }
    report.operations += 1;
    for (number, strictness) in Strictness::ALL.into_iter().enumerate() {
        let mut after = session.fork(session.disk(), seed ^ at ^ (number as u64) << 40);
        after.crash(strictness);
        crash_in_recovery(&after, at + number as u64, quick, report);
        recover(after, report);
    }
    session.finish();
    true
}

fn recover(mut session: Session, report: &mut EveryIoReport) {
    session.begin_phase(None);
    let Some(opened) = session.open() else { panic!("the open after a crash failed") };
    session.farewell(opened, Farewell::Drop);
    session.finish();
    report.recoveries += 1;
}

/// Cuts the power at every operation of the recovery of `crashed`; with `quick`, at one that depends on `salt`.
fn crash_in_recovery(crashed: &Session, salt: u64, quick: bool, report: &mut EveryIoReport) {
    let quick_at = 1 + salt * 13 % 60;
    for at in if quick { quick_at..=quick_at } else { 1..=u64::MAX } {
        let mut again = crashed.fork(crashed.disk().snapshot(), salt ^ at << 20);
        again.disk().crash_at(at);
        again.begin_phase(None);
        if let Some(opened) = again.open() {
            again.farewell(opened, Farewell::Drop);
        }
        if !again.stage.is_dead() {
            again.finish();
            return;
        }
        again.crash(Strictness::ALL[((salt + at) % 5) as usize]);
        recover(again, report);
        report.second_recoveries += 1;
    }
}
