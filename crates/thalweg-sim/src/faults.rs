//! `faults`: fixed workloads, in which every single operation of the disk fails, once or from then on. Nothing may
//! panic or hang, every caller with a promise must get the error, and the next open must be consistent.

use crate::plan::Plan;
use crate::session::{Farewell, Session};
use crate::violation::{catch, label};
use thalweg::simulation::simulated::{FaultPlan, Strictness};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultsReport {
    /// Operations that were made to fail.
    pub operations: u64,
    /// Opens that were checked afterwards.
    pub opens: u64,
}

/// Fails every operation of the workloads of `seed`; with `quick`, every fifth.
pub fn run(seed: u64, quick: bool) -> Result<FaultsReport, String> {
    let mut report = FaultsReport::default();
    let stride = if quick { 5 } else { 1 };
    for (name, plan) in Plan::workloads(if quick { 60 } else { 120 }) {
        for nth in (1 + seed % stride..).step_by(stride as usize) {
            let mut struck = false;
            for for_ever in [false, true] {
                let how = if for_ever { "all operations fail from" } else { "a fault at" };
                let place = format!("{how} operation {nth} of the workload {name} {seed}");
                label(place.clone());
                let outcome = catch(|| fail_at(&plan, seed, nth, for_ever, &mut report));
                struck |= outcome.map_err(|violation| format!("{place}: {violation}"))?;
            }
            if !struck {
                break;
            }
        }
    }
    Ok(report)
}

/// Whether the workload reached that operation.
fn fail_at(plan: &Plan, seed: u64, nth: u64, for_ever: bool, report: &mut FaultsReport) -> bool {
    let mut session = Session::new(plan.clone(), seed, false);
    session.disk().set_faults(Some(if for_ever { FaultPlan::from_then_on(nth) } else { FaultPlan::once(nth) }));
    session.stage.faults.set(true);
    session.begin_phase(None);
    if let Some(opened) = session.open() {
        session.run_clients(&opened);
        session.check_live(&opened);
        session.farewell(opened, Farewell::Close);
    }
    let struck = session.disk().operations() >= nth;
    report.operations += u64::from(struck);
    for (number, strictness) in [Strictness::ProcessDeath, Strictness::LoseUnsynced].into_iter().enumerate() {
        let mut after = session.fork(session.disk().snapshot(), seed ^ nth ^ (number as u64) << 40);
        // The fork has no faults, but the earlier faults still limit which writes must have survived.
        after.stage.faults.set(true);
        after.crash(strictness);
        after.begin_phase(None);
        let Some(opened) = after.open() else { panic!("the open after the faults ended failed") };
        after.check_live(&opened);
        after.farewell(opened, Farewell::Close);
        // A power cut must not lose what the recovery found, including pages whose sync failed.
        after.crash(Strictness::LoseUnsynced);
        after.begin_phase(None);
        let Some(opened) = after.open() else { panic!("the second open after the faults ended failed") };
        after.farewell(opened, Farewell::Drop);
        after.finish();
        report.opens += 2;
    }
    session.finish();
    struck
}
