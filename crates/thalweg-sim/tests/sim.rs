//! Random lives: a bounded number of seeds.

/// Runs seeds, dealt out to as many threads as there are processors.
fn assert_no_violation(seeds: u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                for seed in (number..seeds).step_by(threads as usize) {
                    if let Err(violation) = thalweg_sim::run_seed(seed, false) {
                        panic!("{}", thalweg_sim::report(seed, &violation));
                    }
                }
            });
        }
    });
}

#[test]
fn a_thousand_seeds_have_no_violation() {
    assert_no_violation(1000);
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for seed in 2000..2030 {
        let first = thalweg_sim::run_seed(seed, false);
        assert_eq!(thalweg_sim::run_seed(seed, false), first, "seed {seed}");
    }
}
