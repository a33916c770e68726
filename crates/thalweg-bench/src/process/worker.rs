//! The worker's side: reads a task from standard input, and writes events to standard output.
//!
//! The process ends when its standard output is closed, and when its parent ends.

use super::{Event, Host, Task, execute};
use crate::engine::engine_of;
use crate::error::{Error, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;

/// The exit code of a worker whose output is closed.
const UNHEARD: i32 = 4;

/// In the worker: reads the task from standard input, executes it, and writes events to standard output.
///
/// # Errors
/// The reason of the failure, which has also been written as [`Event::Failed`].
pub fn work(host: &Host) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Error::io("ask to end with the parent", error.into()))?;
    // A parent that ended before this line sends no signal: then the first event finds no reader.
    let mut events = take_output()?;
    let mut tell = |event: Event| {
        if write(&mut events, &event).is_err() {
            std::process::exit(UNHEARD);
        }
    };
    let result = carry_out(host, &mut std::io::stdin().lock(), &mut tell);
    tell(match &result {
        Ok(()) => Event::Done,
        Err(error) => Event::Failed(error.to_string()),
    });
    result
}

/// Reserves standard output for events: an engine's library prints to standard error from here on.
fn take_output() -> Result<File> {
    let taken = std::io::stdout().as_fd().try_clone_to_owned().and_then(|events| {
        rustix::stdio::dup2_stdout(std::io::stderr())?;
        Ok(File::from(events))
    });
    taken.map_err(|error| Error::io("keep standard output for events", error))
}

fn carry_out(host: &Host, input: &mut dyn BufRead, tell: &mut (dyn FnMut(Event) + Send)) -> Result<()> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| Error::io("read the task", error))?;
    let task: Task = serde_json::from_str(&line)
        .map_err(|error| Error::Usage(format!("a worker is started by `{}`, not by hand: {error}", host.command)))?;
    let engine = engine_of(&task.engine);
    let Some(factory) = host.factories.iter().find(|factory| factory.name() == engine) else {
        let names: Vec<&str> = host.factories.iter().map(|factory| factory.name()).collect();
        return Err(Error::Usage(format!("there is no engine `{engine}` here; there are {}", names.join(", "))));
    };
    execute(&task, *factory, tell)
}

/// One line of JSON.
fn write(output: &mut dyn Write, event: &Event) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Null;
    use crate::parameters::Parameters;
    use crate::process::tests::fake;

    const HOST: Host = Host { command: "bench", worker: &["worker"], factories: &[&Null], engines: &["null"] };

    fn refusal(input: &str) -> String {
        carry_out(&HOST, &mut input.as_bytes(), &mut |_| {}).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_task_is_refused() {
        assert!(refusal("").starts_with("a worker is started by `bench`, not by hand"));
        assert!(refusal("{\"engine\":1}\n").starts_with("a worker is started by `bench`, not by hand"));
    }

    #[test]
    fn an_engine_that_is_not_here_is_told_with_those_that_are() {
        let directory = std::path::PathBuf::from("there");
        let task = Task { engine: "other:table=2M".into(), round: 1, directory, parameters: Parameters::default() };
        let input = serde_json::to_string(&task).unwrap();
        assert_eq!(refusal(&input), "there is no engine `other` here; there are null");
    }

    #[test]
    fn every_event_is_a_line_that_reads_back_as_it_was() {
        for event in fake::events() {
            let mut line = Vec::new();
            write(&mut line, &event).unwrap();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let back: Event = serde_json::from_slice(&line).unwrap();
            assert_eq!(format!("{back:?}"), format!("{event:?}"));
        }
    }
}
