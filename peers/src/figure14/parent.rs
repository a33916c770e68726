//! [`measure`]: starts a process for each workload, engine and round, one at a time.

use super::arguments::Figure14;
use super::task::{Parameters, Report, Run, Task, Workload};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use thalweg_bench::machine::{Group, describe};
use thalweg_bench::{Error, Result, Settings};

/// Runs what the command line says. Each engine has its turn in each round.
pub fn measure(arguments: &Figure14) -> Result<Report> {
    let directory = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    // No peer syncs its log by the clock, so no engine does here.
    let settings = Settings {
        tuning: arguments.tuning,
        cache_bytes: arguments.cache,
        log_sync_interval_ms: Some(0),
        ..Settings::default()
    };
    let parameters = Parameters {
        scale: arguments.scale,
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        ramp_seconds: arguments.ramp,
        memory_limit: arguments.memory_limit,
        settings,
        seed: arguments.seed,
    };
    let mut runs = Vec::new();
    for round in 0..arguments.rounds {
        for workload in Workload::ALL.into_iter().filter(|each| arguments.only.is_none_or(|only| only == *each)) {
            for store in &arguments.stores {
                let place = TempDir::with_prefix_in("thalweg-figure14-", &directory)
                    .map_err(|error| Error::of_path(format!("make a folder in {}", directory.display()), error))?;
                let folder = place.path().to_owned();
                let task = Task { store: store.clone(), folder, workload, parameters: parameters.clone() };
                let run = Run { round, ..run(&task)? };
                report_progress(&run);
                runs.push(run);
            }
        }
    }
    let commit = option_env!("THALWEG_COMMIT").map(str::to_owned);
    Ok(Report { commit, machine: describe(&directory), parameters, runs })
}

/// Says what a run measured, for whoever waits.
fn report_progress(run: &Run) {
    let Run { store, workload, round, phases, .. } = run;
    let told = phases.iter().map(|phase| {
        let (name, usage) = (&phase.name, &phase.usage);
        format!("{name} {} in {:.1} s, {:.0} % foreign", phase.operations, usage.seconds, usage.cpu.foreign_percent)
    });
    let told: Vec<String> = told.collect();
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "round {round} {workload:?} {store}: {}", told.join("; "));
}

/// A process. Dropped, it is killed if it still runs.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(task: &Task) -> Result<Run> {
    let refused = |what: &str, error| Error::io(format!("{what} the worker for {}", task.store), error);
    // Declared before the worker, and so dropped after it.
    let group = task.parameters.memory_limit.map(Group::new).transpose()?;
    let executable = std::env::current_exe().map_err(|error| Error::io("find this executable", error))?;
    let mut command = Command::new(executable);
    command.args(["figure14", "--worker"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = Worker(command.spawn().map_err(|error| refused("start", error))?);
    if let Some(group) = &group {
        group.add(worker.0.id())?;
    }
    // It begins when it has read its task, and so in the group.
    if let Some(mut input) = worker.0.stdin.take() {
        let task = serde_json::to_vec(task).map_err(|error| refused("hand its task to", error.into()))?;
        input.write_all(&task).map_err(|error| refused("hand its task to", error))?;
    }
    let mut output = Vec::new();
    if let Some(mut stream) = worker.0.stdout.take() {
        stream.read_to_end(&mut output).map_err(|error| refused("read from", error))?;
    }
    let status = worker.0.wait().map_err(|error| refused("wait for", error))?;
    if !status.success() {
        return Err(Error::Said(format!("the worker for {} failed: {status}", task.store)));
    }
    serde_json::from_slice(&output)
        .map_err(|error| Error::Said(format!("the worker for {} told something else: {error}", task.store)))
}
