//! The writer is killed with SIGKILL and the checker finds nothing wrong; and the checker can fail: with a promise
//! beyond what was written, with a damaged table, without a table, with the seed of another workload.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use thalweg_powercut::random::Random;

#[test]
fn a_killed_writer_leaves_what_the_checker_accepts() {
    let directory = Directory::new("killed");
    let mut random = Random::of(11, 0);
    let mut promised = 0;
    for life in 0..6 {
        promised = killed_after(&directory.0, 11, Duration::from_millis(random.below(500))).max(promised);
        // The writer itself goes on after what it finds, in every second life.
        if life % 2 == 1 {
            let checked = check(&directory.0, 11, promised);
            assert!(checked.status.success(), "life {life}, promised {promised}: {checked:?}");
        }
    }
    assert!(promised > 300, "only {promised} writes were promised: the writer had no time");
}

#[test]
fn a_killed_writer_with_a_fast_tier_leaves_what_the_checker_accepts() {
    // Not in the temporary directory, which may be memory: no fast tier can be there.
    let directory = Directory::within(Path::new(env!("CARGO_TARGET_TMPDIR")), "killed-tier");
    let (database, tier) = (directory.0.join("database"), directory.0.join("tier"));
    let mut random = Random::of(12, 0);
    let mut promised = 0;
    for life in 0..4 {
        let mut command = writer(&database, 12);
        command.arg("--fast-tier").arg(&tier);
        promised = killed_in(&mut command, Duration::from_millis(100 + random.below(500))).max(promised);
        let mut command = checker(&database, 12, promised);
        let checked = command.arg("--fast-tier").arg(&tier).output().unwrap();
        assert!(checked.status.success(), "life {life}, promised {promised}: {checked:?}");
    }
    assert!(promised > 300, "only {promised} writes were promised: the writer had no time");
    let fast = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().extension() == Some("fast".as_ref());
    assert!(std::fs::read_dir(&tier).unwrap().any(fast), "something is in the fast tier");
}

#[test]
fn a_promise_beyond_what_was_written_is_a_violation() {
    let directory = written("beyond", 2000);
    let checked = check(&directory.0, 5, 2400);
    assert_violation(&checked, "a promise is lost: write 2400 was durable");
    assert!(check(&directory.0, 5, 2000).status.success());
}

#[test]
fn the_database_of_another_seed_is_a_violation() {
    let directory = written("other-seed", 500);
    assert_violation(&check(&directory.0, 6, 0), "a value that nobody wrote");
}

#[test]
fn a_damaged_table_is_a_violation() {
    let directory = written("damaged", 4000);
    let table = a_table(&directory.0);
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&table, bytes).unwrap();
    assert_violation(&check(&directory.0, 5, 0), "the check found 1 faults");
}

#[test]
fn a_missing_table_is_a_violation() {
    let directory = written("missing", 4000);
    std::fs::remove_file(a_table(&directory.0)).unwrap();
    assert_violation(&check(&directory.0, 5, 0), "the check found");
}

#[test]
fn no_database_is_a_violation_only_of_a_promise() {
    let directory = Directory::new("none");
    assert_violation(&check(&directory.0, 5, 1), "there is no database");
    assert!(check(&directory.0, 5, 0).status.success());
}

#[test]
fn an_unknown_backend_is_refused_with_the_names() {
    let checked = Command::new(env!("CARGO_BIN_EXE_powercut-checker"))
        .args(["somewhere", "--seed", "1", "--promised", "0", "--backend", "wishes"])
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&checked.stderr).contains("sync-each-file"), "{checked:?}");
}

fn assert_violation(checked: &Output, fault: &str) {
    let told = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(1), "{told}");
    let head = told.starts_with("violation: seed ") && told.contains(", moment test, promised ");
    assert!(head && told.contains(fault), "{told}");
}

fn check(database: &Path, seed: u64, promised: u64) -> Output {
    checker(database, seed, promised).output().unwrap()
}

fn checker(database: &Path, seed: u64, promised: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_powercut-checker"));
    let promised = promised.to_string();
    command.arg(database).args(["--seed", &seed.to_string(), "--promised", &promised, "--moment", "test"]);
    command
}

fn writer(database: &Path, seed: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_powercut-writer"));
    command.arg(database).args(["--seed", &seed.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Kills a writer; gives the last promise that it made (0: none).
fn killed_after(database: &Path, seed: u64, delay: Duration) -> u64 {
    killed_in(&mut writer(database, seed), delay)
}

fn killed_in(command: &mut Command, delay: Duration) -> u64 {
    let mut writer = command.spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).last());
    std::thread::sleep(delay);
    writer.kill().unwrap();
    let status = writer.wait().unwrap();
    assert_eq!(status.code(), None, "the writer ended on its own: {status}");
    // A pipe takes a line whole or not at all.
    reader.join().unwrap().map_or(0, |line| line.strip_prefix("promised ").unwrap().parse().unwrap())
}

/// A closed database of seed 5 with the writes up to `last`.
fn written(name: &str, last: u64) -> Directory {
    let directory = Directory::new(name);
    let ended = writer(&directory.0, 5).args(["--rate", "0", "--last", &last.to_string()]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stdout).ends_with(&format!("promised {last}\n")), "{ended:?}");
    directory
}

fn a_table(database: &Path) -> PathBuf {
    let mut tables: Vec<PathBuf> =
        std::fs::read_dir(database.join("tables")).unwrap().map(|entry| entry.unwrap().path()).collect();
    tables.sort();
    tables.remove(0)
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        Directory::within(&std::env::temp_dir(), name)
    }

    fn within(parent: &Path, name: &str) -> Self {
        let path = parent.join(format!("thalweg-powercut-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
