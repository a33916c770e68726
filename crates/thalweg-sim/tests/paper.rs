//! The paper's rule loses data under the model of ext4 (NOB-A1). The simulator must find that; so when it finds nothing
//! for the other back-ends, that counts.

use thalweg::DurabilityBackend;

#[test]
fn a_commit_of_the_journal_does_not_prove_that_the_data_arrived() {
    thalweg_sim::use_backend(DurabilityBackend::Paper);
    let found = thalweg_sim::run_seeds(0, 200, false, |_| {});
    let (_, violation) =
        found.expect_err("200 seeds without a loss: the simulator cannot see what the paper overlooked");
    assert!(violation.contains(".table"), "a table is what is lost: {violation}");
}
