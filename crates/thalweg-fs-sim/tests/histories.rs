//! Histories without crashes, against the model. 10⁷ operations: `thalweg-fs-sim histories --seeds 5000`.

#[test]
fn histories_in_memory_are_what_posix_says() {
    for seed in 1..=100 {
        if let Err(difference) = thalweg_fs_sim::run_history(seed, 2_000, 200, None) {
            panic!("{difference}");
        }
    }
}

#[test]
fn histories_on_the_engine_are_what_posix_says() {
    for seed in 1..=6 {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let volume = folder.path().join("volume");
        if let Err(difference) = thalweg_fs_sim::run_history(seed, 1_000, 250, Some(volume)) {
            panic!("{difference}");
        }
    }
}
