//! A failure of a sample of the operations of the disk.

#[test]
fn a_failure_of_any_operation_is_told_and_survived() {
    match thalweg_sim::run_faults(0, true) {
        Ok(report) => assert!(report.operations > 20 && report.opens >= 4 * report.operations, "{report:?}"),
        Err(violation) => panic!("{violation}"),
    }
}
