//! A power cut at every operation of the disk, and at one operation of each recovery that follows.

#[test]
fn a_power_cut_at_any_operation_keeps_every_promise() {
    match thalweg_sim::run_every_io(0, true) {
        Ok(report) => assert!(report.operations > 200 && report.second_recoveries > 1000, "{report:?}"),
        Err(violation) => panic!("{violation}"),
    }
}
