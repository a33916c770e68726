//! [`in_processes`]: runs a test in parts, each in a process of its own.

use std::process::{Child, Command, Stdio};

/// The variable with the number of a process and the number of processes: `0/2`.
const PART: &str = "THALWEG_TEST_PART";

/// Runs `part` in as many processes as there are processors. `part` gets the number of its process, from 0, and the
/// number of processes.
///
/// A planted bug is global to a process, so only several processes can try several bugs at the same time. The caller is
/// the test named `test`, the only one of its binary; each process runs this binary again.
///
/// # Panics
/// If a process fails; the message has the process's output.
pub fn in_processes(test: &str, part: impl FnOnce(usize, usize)) {
    if let Ok(given) = std::env::var(PART) {
        let parsed =
            given.split_once('/').and_then(|(number, parts)| Some((number.parse().ok()?, parts.parse().ok()?)));
        let Some((number, parts)) = parsed else { panic!("{PART} is {given}") };
        return part(number, parts);
    }
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let started: Vec<Child> = (0..parts).map(|number| start(test, number, parts)).collect();
    // The output of the processes is shown only if one fails, because each reports a test result of its own.
    let failed = |error| panic!("a part of the test: {error}");
    let ended: Vec<_> = started.into_iter().map(|process| process.wait_with_output().unwrap_or_else(failed)).collect();
    for process in ended {
        let said = [process.stdout, process.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        // False if no test has the name `test`.
        let has_run = said[0].contains("1 passed");
        assert!(process.status.success() && has_run, "{}\n{}", said[0], said[1]);
    }
}

fn start(test: &str, number: usize, parts: usize) -> Child {
    let started = std::env::current_exe().and_then(|executable| {
        Command::new(executable)
            .env(PART, format!("{number}/{parts}"))
            .args(["--exact", test, "--nocapture"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    started.unwrap_or_else(|error| panic!("cannot start a part of the test: {error}"))
}
