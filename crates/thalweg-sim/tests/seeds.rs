//! Seeds that found a bug, and the bug.

const SEEDS: [(u64, &str); 11] = [
    (123, "a write-back failed behind everyone's back, and the next open was the first to hear of it"),
    (167, "a write-back failed behind everyone's back, and the next open was the first to hear of it"),
    (5590, "a table whose sync had failed was verified in the page cache, which still had it, and settled"),
    (
        11159,
        "a table in use whose write-back had failed was read past the page cache, which was no damage without a cause",
    ),
    (
        12558,
        "a table in use whose write-back had failed was read past the page cache, which was no damage without a cause",
    ),
    (240_933, "pages that the device had been given were lost to a write-back, and its next flush did not fail"),
    (2_022_637, "a sync left the device's cache full, because the kernel had committed the file's length before"),
    (2_032_192, "a sync left the device's cache full, because the kernel had committed the file's length before"),
    (
        2399,
        "a reserve whose blocks a power cut had taken kept its length, and an open on the full disk got nothing of it",
    ),
    (20479, "the interval's sync counted a record from when it was seen, not from when it may have been published"),
    (90_013_024, "without rings a sync of four small segments took longer than one sync was said to take"),
];

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, found) in SEEDS {
        if let Err(violation) = thalweg_sim::run_seed_as_it_was(seed, false) {
            panic!("once: {found}; now (with --as-it-was): {}", thalweg_sim::report(seed, &violation));
        }
    }
}

/// Those of a fast tier, with everything that seeds draw now but the memory of memtables.
const OF_THE_TIER: [(u64, &str); 4] = [
    (283, "a clear had let the log of the tier go, and writers waited for an eviction of nothing"),
    (103_915, "a late writer sealed a memtable of a cleared keyspace, whose bytes in the tier counted again for ever"),
    (501_681, "what a replay had put into the tier was evicted before the manifest knew its keyspace"),
    (54, "a table that overlapped no other was added to the sorted ones while these were evicted"),
];

#[test]
fn what_was_found_of_the_fast_tier_stays_mended() {
    for (seed, found) in OF_THE_TIER {
        if let Err(violation) = thalweg_sim::run_seed_with_defaults(seed, false) {
            panic!("once: {found}; now (with defaults): {}", thalweg_sim::report(seed, &violation));
        }
    }
}

/// Those of replays that flush, of what is coming into the tier, and of one that is left, with all that seeds draw now.
const OF_REPLAYS: [(u64, &str); 4] = [
    (141_000_483, "a late writer sealed a memtable of a dropped keyspace, which was to come into the tier for ever"),
    (514, "a memtable of a directory keyspace was to go into the tier of the ordered ones"),
    (30_014_894, "an open whose power was cut as it flushed said that the database was closed, not why"),
    (
        176_005_449,
        "a crash brought back a table of a tier that was left, but not the owner: no tier could be there again",
    ),
];

#[test]
fn what_was_found_since_replays_flush_stays_mended() {
    for (seed, found) in OF_REPLAYS {
        if let Err(violation) = thalweg_sim::run_seed(seed, false) {
            panic!("once: {found}; now: {}", thalweg_sim::report(seed, &violation));
        }
    }
}
