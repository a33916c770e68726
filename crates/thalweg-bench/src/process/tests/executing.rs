//! Tests of [`execute`] with tasks, on an engine and a catalogue made for tests.

use super::fake::{CATALOGUE, Shelf};
use crate::engine::tests::model::Model;
use crate::engine::{Factory, Null};
use crate::error::Result;
use crate::parameters::Parameters;
use crate::plan::{Pace, Plan};
use crate::process::execute::{Execution, execute};
use crate::process::{Event, Task};
use crate::report::{Run, Usage};
use crate::workload;
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A task in a directory of its own, which goes with the value.
struct Place(Task);

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0.directory).unwrap();
    }
}

fn place(workloads: &[&str], change: impl FnOnce(&mut Parameters)) -> Place {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("thalweg-bench-execute-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory: PathBuf = std::env::temp_dir().join(name);
    fs::create_dir(&directory).unwrap();
    let workloads = workloads.iter().map(|name| (*name).to_owned()).collect();
    // No step takes longer than its operations.
    let (records, seconds) = (Some(500), Some(0.0));
    let mut parameters = Parameters { workloads, records, seconds, warm: false, ..Parameters::default() };
    change(&mut parameters);
    Place(Task { engine: "shelf".into(), round: 1, directory, parameters })
}

/// Returns the reported events, a word or two each, and the runs. Other processes take the given share of the
/// processors.
fn told(place: &Place, factory: &dyn Factory, foreign: &[f64]) -> (Vec<String>, Vec<Run>, Result<()>) {
    let (mut words, mut runs) = (Vec::new(), Vec::new());
    let mut event = |event: Event| match event {
        Event::Opened(description) => words.push(format!("opened {}", description.name)),
        Event::Step { number, count, workload, doing, .. } => {
            words.push(format!("{number}/{count} {workload} {doing}"));
        }
        Event::Run(run) => {
            let preparation = if run.preparation { " (preparation)" } else { "" };
            words.push(format!("run {} {}{preparation}", run.workload, run.attempt));
            runs.push(*run);
        }
        Event::Sustained(_) => words.push("sustained".into()),
        Event::Progress(_) | Event::Note(_) | Event::Failed(_) | Event::Done => {}
    };
    let foreign = RefCell::new(foreign.iter().copied());
    let foreign_percent = |_: &Usage| foreign.borrow_mut().next().unwrap_or(0.0);
    let mut execution = Execution::new(&place.0, factory, &mut event);
    execution.foreign_percent = &foreign_percent;
    let plan = Plan::of(&place.0.parameters, CATALOGUE).unwrap();
    let result = execution.run(&plan);
    drop(execution);
    (words, runs, result)
}

#[test]
fn steps_run_in_order_and_writes_are_drained() {
    let place = place(&["fake-read", "fake-write"], |_| {});
    let (words, runs, result) = told(&place, &Shelf::default(), &[]);
    result.unwrap();
    assert_eq!(
        words,
        [
            "1/3 fake-fill loading",
            "opened shelf",
            "1/3 fake-fill draining",
            "run fake-fill 1 (preparation)",
            "2/3 fake-read running",
            "run fake-read 1",
            "3/3 fake-write running",
            "3/3 fake-write draining",
            "run fake-write 1",
        ]
    );
    let [fill, read, write] = &runs[..] else { panic!("{} runs", runs.len()) };
    assert_eq!((fill.operations, fill.user_written_bytes, fill.records), (500, 500 * 108, 500));
    assert_eq!((read.operations, read.missing), (5000, 0));
    assert!(read.drained.is_none() && read.drain_seconds.is_none());
    assert_eq!(write.operations, 500);
    assert!(write.drain_seconds.is_some());
}

#[test]
fn a_step_that_is_no_load_runs_before_it_is_measured() {
    let place = place(&["fake-fill", "fake-read"], |parameters| {
        (parameters.warm, parameters.ramp_seconds, parameters.operations) = (true, 0.05, Some(100));
    });
    let shelf = Shelf::default();
    let (words, runs, result) = told(&place, &shelf, &[]);
    result.unwrap();
    let warmed = ["1/2 fake-fill warming", "2/2 fake-read warming"];
    assert_eq!(words.iter().filter(|word| word.ends_with("warming")).collect::<Vec<_>>(), warmed.each_ref());
    assert_eq!(runs[1].operations, 100, "what runs before is not counted");
}

#[test]
fn what_runs_before_a_measurement_is_drained_before_it() {
    let place = place(&["fake-fill", "fake-write", "fake-read"], |parameters| {
        (parameters.warm, parameters.ramp_seconds, parameters.operations) = (true, 0.05, Some(100));
    });
    let shelf = Shelf::default();
    let (_, runs, result) = told(&place, &shelf, &[]);
    result.unwrap();
    assert_eq!(shelf.settled.load(Ordering::Relaxed), 3, "after the load, before the writes and after them");
    assert_eq!(runs[1].drained.as_ref().unwrap().counters.written_bytes["log"], 1_000_000 + 100 * 100);
}

#[test]
fn what_an_engine_does_while_it_is_left_alone_counts() {
    let place = place(&["fake-fill", "fake-read", "fake-write"], |parameters| parameters.rest_seconds = 0.05);
    let shelf = Shelf::default();
    let begun = Instant::now();
    let (words, _, result) = told(&place, &shelf, &[]);
    result.unwrap();
    let rested = ["1/3 fake-fill resting", "3/3 fake-write resting"];
    assert_eq!(words.iter().filter(|word| word.ends_with("resting")).collect::<Vec<_>>(), rested.each_ref());
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert_eq!(shelf.settled.load(Ordering::Relaxed), 4, "each step that writes is drained before and after its rest");
}

#[test]
fn what_needs_a_load_does_not_run_on_a_part_of_it() {
    let place = place(&["fake-fill", "fake-read"], |parameters| {
        (parameters.rates, parameters.attempts) = (vec![1000.0], 1);
    });
    let (_, runs, result) = told(&place, &Shelf { slow: true, ..Shelf::default() }, &[]);
    let said = result.unwrap_err().to_string();
    assert!(said.contains("the load before fake-read gave"), "{said}");
    assert_eq!(runs.iter().map(|run| run.workload.as_str()).collect::<Vec<_>>(), ["fake-fill"]);
}

#[test]
fn what_was_drained_covers_the_run_and_the_rest() {
    let place = place(&["fake-fill"], |_| {});
    let (_, runs, _) = told(&place, &Shelf::default(), &[]);
    let written = |usage: &Usage| usage.counters.written_bytes["log"];
    assert_eq!(written(&runs[0].usage), 500 * 100);
    assert_eq!(written(runs[0].drained.as_ref().unwrap()), 1_000_000 + 500 * 100);
}

#[test]
fn an_engine_that_cannot_settle_has_no_time_of_draining() {
    let place = place(&["fake-fill"], |_| {});
    let (_, runs, _) = told(&place, &Shelf { restless: true, ..Shelf::default() }, &[]);
    assert!(runs[0].drained.is_some() && runs[0].drain_seconds.is_none());
}

#[test]
fn the_space_is_that_of_the_database() {
    let place = place(&["fake-fill"], |_| {});
    let (_, runs, _) = told(&place, &Shelf::default(), &[]);
    // Its log has 50 000 bytes; a directory takes a few pages at most.
    assert!((50_000..150_000).contains(&runs[0].space_bytes), "{}", runs[0].space_bytes);
}

#[test]
fn a_load_begins_with_an_empty_database_cut_into_partitions() {
    let place = place(&["fake-fill", "fake-fill"], |parameters| parameters.settings.partitions = Some(4));
    let shelf = Shelf::default();
    let (_, runs, result) = told(&place, &shelf, &[]);
    result.unwrap();
    assert_eq!(shelf.opened.load(Ordering::Relaxed), 2);
    assert_eq!(shelf.partitions.load(Ordering::Relaxed), 4);
    assert_eq!(runs[1].operations, 500);
}

fn at_a_rate(parameters: &mut Parameters) {
    parameters.rates = vec![20_000.0];
    parameters.operations = Some(100);
}

#[test]
fn a_disturbed_open_loop_is_repeated_until_it_is_quiet() {
    let place = place(&["fake-read"], at_a_rate);
    let (words, runs, result) = told(&place, &Shelf::default(), &[0.0, 7.4, 4.9, 9.0]);
    result.unwrap();
    assert_eq!(
        words[4..],
        ["2/2 fake-read running", "run fake-read 1", "2/2 fake-read again: 7 % foreign CPU", "run fake-read 2",]
    );
    assert_eq!(runs.iter().map(|run| run.noisy).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_loop_that_stays_disturbed_is_run_as_often_as_attempts_say() {
    let place = place(&["fake-read"], at_a_rate);
    let (_, runs, _) = told(&place, &Shelf::default(), &[50.0; 10]);
    let attempts: Vec<_> = runs.iter().map(|run| (run.workload.as_str(), run.attempt, run.noisy)).collect();
    // The preparation is a closed loop: marked, but not repeated.
    let read = "fake-read";
    assert_eq!(attempts, [("fake-fill", 1, true), (read, 1, true), (read, 2, true), (read, 3, true)]);
}

#[test]
fn a_search_tells_the_rate_and_percentages_are_of_it() {
    let place = place(&["fake-read"], |parameters| {
        (parameters.find_max, parameters.probe_seconds) = (true, 0.05);
        (parameters.percentages, parameters.operations) = (vec![10.0], Some(50));
    });
    let (words, runs, result) = told(&place, &Shelf::default(), &[]);
    result.unwrap();
    assert_eq!(words[4..6], ["2/3 fake-read searching", "sustained"]);
    let Pace::Open { rate, percent, .. } = runs[1].pace else { panic!("{:?}", runs[1].pace) };
    assert!(rate > 0.0);
    assert_eq!(percent, Some(10.0));
}

#[test]
fn what_an_engine_refuses_ends_the_task() {
    let place = place(&["fake-fill"], |_| {});
    let shelf = Shelf::default();
    shelf.broken.store(true, Ordering::Relaxed);
    let (words, runs, result) = told(&place, &shelf, &[]);
    assert_eq!(result.unwrap_err().to_string(), "shelf cannot put: it is broken");
    assert_eq!(words, ["1/1 fake-fill loading", "opened shelf"]);
    assert!(runs.is_empty());
}

#[test]
fn every_workload_runs_on_a_map_in_memory() {
    let names: Vec<&str> = workload::all().map(|definition| definition.name).collect();
    let place = place(&names, |parameters| {
        (parameters.records, parameters.operations) = (Some(200), Some(40));
    });
    let mut runs = Vec::new();
    let mut event = |event: Event| {
        if let Event::Run(run) = event {
            runs.push(*run);
        }
    };
    execute(&place.0, &Model::default(), &mut event).unwrap();
    let asked: Vec<&str> = runs.iter().filter(|run| !run.preparation).map(|run| run.workload.as_str()).collect();
    assert_eq!(asked, names);
    for run in &runs {
        assert!(run.operations > 0, "{} did nothing", run.workload);
    }
}

#[test]
fn each_run_has_its_own_seed_and_the_same_task_the_same() {
    let place = place(&["fake-fill"], |_| {});
    let seeds = || {
        let mut event = |_| {};
        let execution = Execution::new(&place.0, &Null, &mut event);
        [(1, 1), (1, 2), (2, 1)].map(|(step, attempt)| execution.seed(step, attempt))
    };
    assert_eq!(seeds(), seeds());
    assert!(seeds()[0] != seeds()[1] && seeds()[1] != seeds()[2] && seeds()[0] != seeds()[2]);
}
