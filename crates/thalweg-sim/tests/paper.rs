//! The paper's rule loses data under the model of ext4 (NOB-A1). The simulator must find that; so when it finds nothing
//! for the other back-ends, that counts.

use thalweg::DurabilityBackend;

#[test]
fn a_commit_of_the_journal_does_not_prove_that_the_data_arrived() {
    thalweg_sim::use_backend(DurabilityBackend::Paper);
    // Manifests lose what they had too, so the first violation need not be of a table.
    let violations: Vec<String> = (0..200).filter_map(|seed| thalweg_sim::run_seed(seed, false).err()).collect();
    assert!(!violations.is_empty(), "200 seeds without a loss: the simulator cannot see what the paper overlooked");
    assert!(violations.iter().any(|violation| violation.contains(".table")), "tables are lost: {violations:#?}");
}
