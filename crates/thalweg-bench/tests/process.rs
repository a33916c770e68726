//! Workers as real processes: this program is the parent, and, started with the word `worker`, the worker.
//!
//! It has no test harness, for a harness would write to the worker's standard output too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "without a harness, the test tells itself how it went")]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use thalweg_bench::engine::{Null, Thalweg};
use thalweg_bench::process::{self, Event, Host, Task};
use thalweg_bench::report::Run;
use thalweg_bench::{Parameters, TableIo};

const HOST: Host = Host { command: "bench", worker: &["worker"], factories: &[&Null, &Thalweg], engines: &["thalweg"] };

type Test = fn(&Path);

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("worker") => return process::work(&HOST).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Some("parent") => {
            run_for_long(Path::new(&words.next().unwrap()));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let tests: [(&str, Test); 5] = [
        ("a_task_is_done_in_a_process_of_its_own", a_task_is_done_in_a_process_of_its_own),
        ("what_fails_in_a_worker_fails_in_its_parent", what_fails_in_a_worker_fails_in_its_parent),
        (
            "a_limited_worker_works_or_the_refusal_says_what_to_do",
            a_limited_worker_works_or_the_refusal_says_what_to_do,
        ),
        ("a_worker_ends_with_its_parent", a_worker_ends_with_its_parent),
        ("what_the_engine_counts_is_what_goes_to_storage", what_the_engine_counts_is_what_goes_to_storage),
    ];
    for (name, test) in tests {
        let directory = std::env::temp_dir().join(format!("thalweg-bench-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        test(&directory);
        fs::remove_dir_all(&directory).unwrap();
        println!("test {name} ... ok");
    }
    println!("test result: ok. {} passed; 0 failed", tests.len());
    ExitCode::SUCCESS
}

fn task(engine: &str, directory: &Path) -> Task {
    let parameters = Parameters {
        workloads: vec!["metadata-put".into(), "metadata-get".into()],
        records: Some(2000),
        operations: Some(500),
        warm: false,
        ..Parameters::default()
    };
    Task { engine: engine.into(), round: 1, directory: directory.into(), parameters }
}

/// The events' kinds in order, each once, and the runs.
fn start(task: &Task) -> (Vec<&'static str>, Vec<Run>, thalweg_bench::Result<()>) {
    let (mut kinds, mut runs) = (Vec::new(), Vec::new());
    let result = process::start(&HOST, task, &|| false, &mut |event| {
        kinds.push(match &event {
            Event::Opened(_) => "opened",
            Event::Step { .. } => "step",
            Event::Run(_) => "run",
            Event::Failed(_) => "failed",
            Event::Done => "done",
            _ => return,
        });
        if let Event::Run(run) = event {
            runs.push(*run);
        }
    });
    kinds.dedup();
    (kinds, runs, result)
}

fn a_task_is_done_in_a_process_of_its_own(directory: &Path) {
    let (kinds, runs, result) = start(&task("thalweg", directory));
    result.unwrap();
    assert_eq!(kinds, ["step", "opened", "step", "run", "step", "run", "done"]);
    let [put, get] = &runs[..] else { panic!("{} runs", runs.len()) };
    assert_eq!((put.operations, get.operations, get.missing), (2000, 500, 0));
    assert!(put.space_bytes > 0 && put.usage.memory.rss_bytes > 0, "{put:?}");
    // Each of 2000 entries has a key of 16 bytes and a value of 128.
    assert_eq!(put.user_written_bytes, 2000 * 144);
    let drained = put.drained.as_ref().unwrap();
    assert!(drained.counters.written_bytes["flush"] > 2000 * 100, "{drained:?}");
}

/// Log segments that are made ready ahead of the writers: two spares, and what is left of the one in use. The kernel
/// counts their pages as written when they are populated, and they may never be.
const POPULATED_BYTES_MAX: f64 = 3.0 * (16 << 20) as f64;

/// The engine's counters and the kernel's count of the process's writes, without pages populated ahead, agree within
/// 5 %. A visible device, to which others may write too, has at least as many.
fn what_the_engine_counts_is_what_goes_to_storage(directory: &Path) {
    let mut task = task("thalweg", directory);
    (task.parameters.workloads, task.parameters.records) = (vec!["fillrandom".into()], Some(200_000));
    (task.parameters.operations, task.parameters.value_bytes) = (None, Some(200));
    task.parameters.settings.memtable_bytes = Some(4 << 20);
    // Else the engine counts tables that are replaced before they go to the device.
    task.parameters.settings.table_io = Some(TableIo::Cached);
    let (_, runs, result) = start(&task);
    result.unwrap();
    let drained = runs[0].drained.as_ref().unwrap();
    let counted = drained.counters.written_bytes.values().sum::<u64>() as f64;
    assert!(counted > 2.0 * runs[0].user_written_bytes as f64, "log and tables: {drained:?}");
    let process = drained.io.process.written_bytes as f64;
    if process == 0.0 {
        println!("the file system of {} has no storage: nothing to compare with", directory.display());
        return;
    }
    let expected = 0.95 * counted..1.05 * counted + POPULATED_BYTES_MAX;
    assert!(expected.contains(&process), "the process wrote {process}, the engine counted {counted}");
    if let Some(device) = drained.io.device {
        let device = device.written_bytes as f64;
        assert!(device > 0.95 * counted, "the device took {device}, the engine counted {counted}");
    }
}

fn what_fails_in_a_worker_fails_in_its_parent(directory: &Path) {
    let (kinds, _, result) = start(&task("nothing", directory));
    assert_eq!(kinds, ["failed"]);
    let error = result.unwrap_err().to_string();
    assert_eq!(error, "the worker for nothing failed: there is no engine `nothing` here; there are null, thalweg");
}

fn a_limited_worker_works_or_the_refusal_says_what_to_do(directory: &Path) {
    let mut task = task("thalweg", directory);
    (task.parameters.memory_limit, task.parameters.warm) = (Some(256 << 20), true);
    match start(&task) {
        (_, runs, Ok(())) => {
            assert_eq!(runs.len(), 2);
            assert!(!directory.join("warm").exists(), "what warmed is still there");
        }
        (_, _, Err(error)) => assert!(error.to_string().starts_with("--memory-limit needs"), "{error}"),
    }
}

/// The program `parent`: says so as soon as its worker runs.
fn run_for_long(directory: &Path) {
    let mut task = task("null", directory);
    (task.parameters.operations, task.parameters.seconds) = (None, Some(60.0));
    let mut told = false;
    let result = process::start(&HOST, &task, &|| false, &mut |event| {
        if matches!(&event, Event::Step { number: 2, .. }) && !std::mem::replace(&mut told, true) {
            let mut output = std::io::stdout();
            output.write_all(b"!").and_then(|()| output.flush()).unwrap();
        }
    });
    result.unwrap();
}

fn a_worker_ends_with_its_parent(directory: &Path) {
    let program: PathBuf = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.arg("parent").arg(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let mut said = [0];
    parent.stdout.take().unwrap().read_exact(&mut said).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    let killed = Instant::now();
    // The worker has its parent's standard error: it is closed when both have ended.
    let mut rest = String::new();
    parent.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(killed.elapsed() < Duration::from_secs(30), "the worker ran on");
}
