//! Every planted bug is caught. Planting is global to a process: the bugs are dealt out to as many processes as there
//! are processors, and this is the only test of its binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

/// Seeds until a bug must be caught.
const SEEDS: u64 = 60_000;

/// The part of the bugs that a process of this test has, of how many: `0/2`.
const PART: &str = "THALWEG_BUGS_PART";

#[test]
fn every_planted_bug_is_caught() {
    if let Ok(part) = std::env::var(PART) {
        let (number, parts) = part.split_once('/').unwrap();
        return catch(number.parse().unwrap(), parts.parse().unwrap());
    }
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |number: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PART, format!("{number}/{parts}")).args(["--exact", "every_planted_bug_is_caught", "--nocapture"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..parts).map(start).collect();
    // What they print is shown only if one fails: each tells a result of its own, which is none of this run.
    let ended: Vec<_> = started.into_iter().map(|process| process.wait_with_output().unwrap()).collect();
    if let Some(process) = ended.iter().find(|process| !process.status.success()) {
        let said = [&process.stdout, &process.stderr].map(|text| String::from_utf8_lossy(text));
        panic!("{}\n{}", said[0], said[1]);
    }
}

fn catch(number: usize, parts: usize) {
    let bugs: Vec<_> = thalweg_fs::Bug::ALL.into_iter().skip(number).step_by(parts).collect();
    let mut missed = Vec::new();
    for bug in &bugs {
        match thalweg_fs_sim::catch_bug(*bug, SEEDS) {
            Some(catch) => println!("{bug:?}: {} seed {}: {}", catch.check, catch.seed, catch.violation),
            None => missed.push(bug),
        }
    }
    assert!(!bugs.is_empty() && missed.is_empty(), "nothing caught {missed:?}");
}
