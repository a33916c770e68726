//! A power cut at a sample of the operations of the disk, and at a sample of those of each recovery.

#[test]
fn a_power_cut_at_any_operation_keeps_every_promise() {
    match thalweg_sim::run_every_io(0, true) {
        Ok(report) => assert!(report.operations > 20 && report.second_recoveries > 20, "{report:?}"),
        Err(violation) => panic!("{violation}"),
    }
}
