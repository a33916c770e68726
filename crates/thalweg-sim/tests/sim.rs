//! Random lives: a bounded number of seeds.

#[test]
fn a_thousand_seeds_have_no_violation() {
    if let Err((seed, violation)) = thalweg_sim::run_seeds(0, 1000, false, |_| {}) {
        panic!("{}", thalweg_sim::report(seed, &violation));
    }
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for seed in 2000..2030 {
        let first = thalweg_sim::run_seed(seed, false);
        assert_eq!(thalweg_sim::run_seed(seed, false), first, "seed {seed}");
    }
}
