//! Every planted bug is caught. The bugs are dealt out to processes, and this is the only test of its binary.

/// Seeds until a bug must be caught.
const SEEDS: u64 = 60_000;

#[test]
fn every_planted_bug_is_caught() {
    thalweg_sim::in_processes("every_planted_bug_is_caught", |number, parts| {
        let bugs: Vec<_> = thalweg_fs::Bug::ALL.into_iter().skip(number).step_by(parts).collect();
        let is_missed = |bug: &thalweg_fs::Bug| match thalweg_fs_sim::catch_bug(*bug, SEEDS) {
            Some(catch) => {
                println!("{bug:?}: {} seed {}: {}", catch.check, catch.seed, catch.violation);
                false
            }
            None => true,
        };
        let missed: Vec<_> = bugs.iter().filter(|bug| is_missed(bug)).collect();
        assert!(!bugs.is_empty() && missed.is_empty(), "nothing caught {missed:?}");
    });
}
