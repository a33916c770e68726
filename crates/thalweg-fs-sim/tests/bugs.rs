//! Every planted bug is caught. Planting is global to a process, so this is the only test of its binary.

/// Seeds until a bug must be caught.
const SEEDS: u64 = 60_000;

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in thalweg_fs::Bug::ALL {
        match thalweg_fs_sim::catch_bug(bug, SEEDS) {
            Some(catch) => println!("{bug:?}: {} seed {}: {}", catch.check, catch.seed, catch.violation),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "nothing caught {missed:?}");
}
