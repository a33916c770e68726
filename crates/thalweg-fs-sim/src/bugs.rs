//! Planted bugs: histories and lives run with each bug until one of them differs from the model. A check that never
//! fails proves nothing, and neither does a check that fails without the bug.
//!
//! `plant` is global to the process, so nothing else may run in the process meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use thalweg_fs::{Bug, plant};

/// How a bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// `histories` or `memory`.
    pub check: &'static str,
    /// The seed.
    pub seed: u64,
    /// The first line of the difference.
    pub violation: String,
}

/// Runs histories, and lives of `seeds` seeds, with a bug. `None` if nothing caught it.
pub fn catch_bug(bug: Bug, seeds: u64) -> Option<Catch> {
    // A history is as long as a hundred lives.
    let histories = (1..=seeds / 100).map(|seed| ("histories", seed));
    let lives = (1..=seeds).map(|seed| ("memory", seed));
    for (check, seed) in histories.chain(lives) {
        plant(bug);
        let violation = run(check, seed);
        plant(Bug::None);
        if let Some(violation) = violation {
            let violation = violation.lines().next().unwrap_or_default().to_owned();
            return run(check, seed).is_none().then_some(Catch { check, seed, violation });
        }
    }
    None
}

fn run(check: &'static str, seed: u64) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| match check {
        "histories" => crate::run_history(seed, 1_000, 100, None),
        _ => crate::run_memory(seed, false),
    }));
    outcome.unwrap_or_else(|_| Err("a panic".into())).err()
}
