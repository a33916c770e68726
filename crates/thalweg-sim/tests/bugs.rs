//! Every planted bug is caught. Planting is global to a process, so this is the only test of its binary.

/// Seeds until a bug must be caught.
const SEEDS: u64 = 4000;

#[test]
fn every_planted_bug_is_caught() {
    let catches: Vec<_> =
        thalweg_sim::BUGS.iter().map(|(name, bug)| (*name, thalweg_sim::catch_bug(*bug, SEEDS))).collect();
    assert!(catches.iter().all(|(_, catch)| catch.is_some()), "\n{}", thalweg_sim::bug_table(&catches));
}
