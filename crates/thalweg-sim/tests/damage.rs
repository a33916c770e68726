//! Damage to a sample of the bytes of every file, and of the log of a database that was not closed.

#[test]
fn damage_anywhere_is_told_or_harmless() {
    match thalweg_sim::run_damage(0, true) {
        Ok(report) => {
            assert!(report.files > 3 && report.faults > 1000 && report.harmless < report.faults / 2, "{report:?}");
            assert!(report.unclean_refused > 0 && report.rolled_back > 0, "{report:?}");
        }
        Err(violation) => panic!("{violation}"),
    }
}
