//! Lives with crashes. Many more: `thalweg-fs-sim memory --seeds 100000`, `thalweg-fs-sim engine --seeds 10000`.

#[test]
fn lives_in_memory_leave_a_prefix() {
    for seed in 1..=10_000 {
        if let Err(violation) = thalweg_fs_sim::run_memory(seed, false) {
            panic!("{violation}");
        }
    }
}

#[test]
fn lives_on_the_engine_leave_a_prefix() {
    for seed in 1..=300 {
        if let Err(violation) = thalweg_fs_sim::run_engine(seed, false) {
            panic!("{violation}");
        }
    }
}

/// Seeds that found a bug, and the bug.
const MEMORY: [(u64, &str); 8] = [
    (6, "a sync did not cover what a killed process had written to an object"),
    (98, "a close forgot that unknown objects were to be looked for"),
    (241, "a file that was only made longer lost its size in a promotion"),
    (7874, "a promotion onto a stale file was not synced"),
    (10794, "the name of an object that a killed process created was not durable when its sync returned"),
    (14406, "an unknown object came back with its old bytes after its removal"),
    (2_003_141, "the model kept a file open whose close had failed"),
    (6_065_513, "a sync of all inherited objects failed, the next one succeeded, and a close promised what was lost"),
];

/// As [`MEMORY`], on the engine.
const ENGINE: [(u64, &str); 5] = [
    (1625, "rows ended with a CRC that the log's own is blind for, and a torn record with an old body passed"),
    (500_530, "the file of a promotion that failed came back after a close, and no mount looked for it"),
    (503_120, "the model asked for the bytes of a file that had replaced another and was emptied since"),
    (6_104_215, "the model asked for old bytes of an object where a kill had taken batches, but none of its bytes"),
    (6_108_188, "the model asked for what a sync had lost that failed before a kill, and was told then"),
];

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, found) in MEMORY {
        if let Err(violation) = thalweg_fs_sim::run_memory(seed, false) {
            panic!("once: {found}; now: {violation}");
        }
    }
    for (seed, found) in ENGINE {
        if let Err(violation) = thalweg_fs_sim::run_engine(seed, false) {
            panic!("once: {found}; now: {violation}");
        }
    }
}
