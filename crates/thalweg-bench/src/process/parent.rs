//! The parent's side: starts a worker, hands it the task, and passes on its events.
//!
//! The parent waits for the worker, or kills it if the parent gives up. It removes the memory group only afterwards.

use super::{Event, Host, Task};
use crate::error::{Error, Result};
use crate::machine::Group;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How often `stop` is called.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// In the parent: starts a worker, and passes its events to `event` until the worker ends. Kills the worker once `stop`
/// is true, which another thread checks several times a second.
///
/// # Errors
/// The worker could not be started, failed, was killed, or died.
pub fn start(host: &Host, task: &Task, stop: &(dyn Fn() -> bool + Sync), event: &mut dyn FnMut(Event)) -> Result<()> {
    let executable = std::env::current_exe().map_err(|error| Error::io("find this executable", error))?;
    let mut command = Command::new(executable);
    command.args(host.worker);
    follow(&mut command, task, stop, event)
}

/// Starts `command` as the worker for `task`, and follows it to its end.
fn follow(
    command: &mut Command,
    task: &Task,
    stop: &(dyn Fn() -> bool + Sync),
    event: &mut dyn FnMut(Event),
) -> Result<()> {
    // Declared before the worker, and so dropped after it.
    let group = task.parameters.memory_limit.map(Group::new).transpose()?;
    let mut worker = Worker::spawn(command, &task.engine)?;
    if let Some(group) = &group {
        group.add(worker.child.id())?;
    }
    let output = worker.hand(task)?;
    let handle = worker.handle()?;
    let told = std::thread::scope(|scope| {
        let watch = Arc::new(AtomicBool::new(true));
        let watching = Arc::clone(&watch);
        let thread = scope.spawn(move || kill_when(stop, &watching, &handle));
        let _watched = Watched { watch, thread: thread.thread().clone() };
        read(output, &task.engine, event)
    })?;
    let status = worker.child.wait().map_err(|error| Error::io(format!("wait for {}", task.engine), error))?;
    match told {
        Some(result) => result,
        None => Err(Error::Said(died(&task.engine, status, group.is_some()))),
    }
}

/// Passes on the events of the worker until its output ends. Returns the result that the worker reported, if it did.
fn read(output: ChildStdout, engine: &str, event: &mut dyn FnMut(Event)) -> Result<Option<Result<()>>> {
    let mut told = None;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| Error::io(format!("read from the worker for {engine}"), error))?;
        let next = match serde_json::from_slice(&line) {
            Ok(next) => next,
            // If a library prints, the measurement must not be lost.
            Err(_) => Event::Note(format!("{engine} printed: {}", String::from_utf8_lossy(&line))),
        };
        match &next {
            Event::Done => told = Some(Ok(())),
            Event::Failed(why) => told = Some(Err(Error::Said(format!("the worker for {engine} failed: {why}")))),
            _ => {}
        }
        event(next);
    }
    Ok(told)
}

/// A worker that another thread watches, until this value is dropped.
struct Watched {
    watch: Arc<AtomicBool>,
    thread: Thread,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.store(false, Ordering::Release);
        self.thread.unpark();
    }
}

/// Kills the worker once `stop` returns true, as long as `watch` is set.
fn kill_when(stop: &dyn Fn() -> bool, watch: &AtomicBool, worker: &OwnedFd) {
    while watch.load(Ordering::Acquire) {
        if stop() {
            // This fails only if the worker has ended.
            let _ = pidfd_send_signal(worker, Signal::KILL);
            return;
        }
        std::thread::park_timeout(STOP_INTERVAL);
    }
}

/// The error of a worker that ended without a last event.
fn died(engine: &str, status: ExitStatus, limited: bool) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) if limited => {
            format!("the worker for {engine} was killed by signal 9; with --memory-limit that is often the limit")
        }
        (Some(9), _) => {
            format!("the worker for {engine} was killed by signal 9; that is often the kernel, out of memory")
        }
        (Some(signal), _) => format!("the worker for {engine} was killed by signal {signal}"),
        (None, code) => format!("the worker for {engine} ended with code {} before it was done", code.unwrap_or(-1)),
    }
}

/// A started worker. It is killed on drop if it still runs.
struct Worker<'a> {
    child: Child,
    engine: &'a str,
}

impl<'a> Worker<'a> {
    fn spawn(command: &mut Command, engine: &'a str) -> Result<Worker<'a>> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let child = started.map_err(|error| Error::io(format!("start the worker for {engine}"), error))?;
        Ok(Worker { child, engine })
    }

    /// Returns a handle of the worker, which no later process with the same number can take over.
    fn handle(&self) -> Result<OwnedFd> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .map_err(|error| Error::io(format!("watch the worker for {}", self.engine), error.into()))
    }

    /// Writes the task to the worker, and returns the worker's output.
    fn hand(&mut self, task: &Task) -> Result<ChildStdout> {
        let refused = |error| Error::io(format!("hand the worker for {} its task", self.engine), error);
        let (Some(mut input), Some(output)) = (self.child.stdin.take(), self.child.stdout.take()) else {
            return Err(refused(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut line = serde_json::to_vec(task).map_err(|error| refused(error.into()))?;
        line.push(b'\n');
        match input.write_all(&line) {
            // The worker has ended already; its exit status says more.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(output),
            Err(error) => Err(refused(error)),
            Ok(()) => Ok(output),
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // Both calls fail harmlessly if the worker was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;
    use std::path::PathBuf;

    fn task() -> Task {
        Task { engine: "shell".into(), round: 1, directory: PathBuf::from("there"), parameters: Parameters::default() }
    }

    /// The events and the error of a shell script as worker.
    fn with(script: &str) -> (Vec<String>, std::result::Result<(), String>) {
        let mut events = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let result = follow(&mut command, &task(), &|| false, &mut |event| events.push(format!("{event:?}")));
        (events, result.map_err(|error| error.to_string()))
    }

    #[test]
    fn the_task_is_one_line_and_events_are_given_in_order() {
        let (events, result) = with(
            "read -r line; case $line in *'\"engine\":\"shell\"'*) echo '{\"note\":\"read\"}';; esac; echo '\"done\"'",
        );
        assert_eq!(events, ["Note(\"read\")", "Done"]);
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn a_failure_that_was_told_is_the_error() {
        let (events, result) = with("read -r line; echo '{\"failed\":\"no room\"}'; exit 1");
        assert_eq!(events, ["Failed(\"no room\")"]);
        assert_eq!(result, Err("the worker for shell failed: no room".into()));
    }

    #[test]
    fn a_worker_that_dies_is_reported_by_its_signal() {
        let (events, result) = with("read -r line; kill -9 $$");
        assert!(events.is_empty());
        let expected = "the worker for shell was killed by signal 9; that is often the kernel, out of memory";
        assert_eq!(result, Err(expected.into()));
        let limited = died("shell", ExitStatus::from_raw(9), true);
        assert!(limited.ends_with("with --memory-limit that is often the limit"), "{limited}");
    }

    #[test]
    fn a_worker_that_ends_without_a_word_is_reported_by_its_code() {
        assert_eq!(with("exit 3").1, Err("the worker for shell ended with code 3 before it was done".into()));
    }

    #[test]
    fn what_a_library_prints_is_a_note() {
        let (events, result) = with("read -r line; echo hello; echo '\"done\"'");
        assert_eq!(events, ["Note(\"shell printed: hello\")", "Done"]);
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn a_program_that_is_not_there_is_named_by_its_engine() {
        let error =
            follow(&mut Command::new("no-such-program"), &task(), &|| false, &mut |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("cannot start the worker for shell"), "{error}");
    }

    #[test]
    fn a_worker_is_killed_when_it_is_to_stop_and_says_nothing() {
        let mut command = Command::new("sleep");
        let result = follow(command.arg("60"), &task(), &|| true, &mut |_| {});
        assert!(result.unwrap_err().to_string().contains("was killed by signal 9"));
    }

    #[test]
    fn a_parent_that_gives_up_kills_its_worker() {
        let mut command = Command::new("sleep");
        let worker = Worker::spawn(command.arg("60"), "shell").unwrap();
        let directory = PathBuf::from(format!("/proc/{}", worker.child.id()));
        assert!(directory.exists());
        drop(worker);
        assert!(!directory.exists());
    }
}
