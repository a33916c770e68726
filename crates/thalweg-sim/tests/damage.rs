//! Rot in a sample of the bytes of every file.

#[test]
fn damage_anywhere_is_told_or_harmless() {
    match thalweg_sim::run_damage(0, true) {
        Ok(report) => assert!(report.files > 3 && report.faults > 100 && report.harmless < report.faults, "{report:?}"),
        Err(violation) => panic!("{violation}"),
    }
}
