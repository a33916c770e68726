//! Every planted bug is caught. The bugs are dealt out to processes, and this is the only test of its binary.

/// Seeds until a bug must be caught.
const SEEDS: u64 = 4000;

#[test]
fn every_planted_bug_is_caught() {
    thalweg_sim::in_processes("every_planted_bug_is_caught", |number, parts| {
        let bugs = thalweg_sim::BUGS.iter().skip(number).step_by(parts);
        let catches: Vec<_> = bugs.map(|(name, bug)| (*name, thalweg_sim::catch_bug(*bug, SEEDS))).collect();
        let are_caught = !catches.is_empty() && catches.iter().all(|(_, catch)| catch.is_some());
        assert!(are_caught, "\n{}", thalweg_sim::bug_table(&catches));
    });
}
