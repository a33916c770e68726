//! Carries out a task: the steps of its plan, one after the other, each told as it goes.
//!
//! A step that writes is drained afterwards, so that its full cost is known and the next begins with a settled tree.
//! Every run has a seed of its own, made of the task's: the same task has the same seeds.

use super::database::Database;
use super::outcome::Outcome;
use super::peaks::Peaks;
use super::{Event, Task};
use crate::driver::{self, Measured, Phase, Progress};
use crate::engine::Factory;
use crate::error::{Error, Result};
use crate::machine::{self, FOREIGN_PERCENT_MAX, Probe, Sampler};
use crate::plan::{self, Limit, Pace, Plan, Step};
use crate::report::{Sample, Sustained, Usage};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Progress is told no more often than this.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(80);

/// Opens the task's engine with `factory` and goes through the steps of its plan; `event` is told what happens, in
/// order, from any thread.
///
/// # Errors
/// `Usage` for parameters that make no sense; else what kept a step from being run. [`Event::Done`] and
/// [`Event::Failed`] are the caller's to tell.
pub fn execute(task: &Task, factory: &dyn Factory, event: &mut (dyn FnMut(Event) + Send)) -> Result<()> {
    let plan = Plan::new(&task.parameters)?;
    Execution::new(task, factory, event).run(&plan)
}

/// Who listens, and when he was last told how far it is.
struct Listener<'a> {
    event: &'a mut (dyn FnMut(Event) + Send),
    last: Option<Instant>,
}

/// Tells events, one at a time.
struct Teller<'a>(Mutex<Listener<'a>>);

impl<'a> Teller<'a> {
    fn tell(&self, event: Event) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (listener.event)(event);
    }

    fn progress(&self, progress: Progress) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
            listener.last = Some(Instant::now());
            (listener.event)(Event::Progress(progress));
        }
    }
}

/// A task in execution.
struct Execution<'a> {
    task: &'a Task,
    database: Database<'a>,
    teller: Teller<'a>,
    /// How much others took of the processors' time, in percent: what the usage says, but in a test.
    foreign_percent: &'a dyn Fn(&Usage) -> f64,
    /// That the engine is open was told.
    told_opened: bool,
    /// The rate that the last search found.
    sustained: Option<f64>,
    /// Notes that were told already.
    noted: Vec<String>,
}

/// A step and its place in the plan.
#[derive(Clone, Copy)]
struct Place<'a> {
    step: &'a Step,
    number: usize,
    count: usize,
}

/// One run of a step, before it is drained.
struct Ran {
    measured: Measured,
    probe: Probe,
    usage: Usage,
    peaks: Peaks,
    samples: Vec<Sample>,
}

impl<'a> Execution<'a> {
    fn new(task: &'a Task, factory: &'a dyn Factory, event: &'a mut (dyn FnMut(Event) + Send)) -> Execution<'a> {
        Execution {
            task,
            database: Database::new(task, factory),
            teller: Teller(Mutex::new(Listener { event, last: None })),
            foreign_percent: &|usage| usage.cpu.foreign_percent,
            told_opened: false,
            sustained: None,
            noted: Vec::new(),
        }
    }

    fn run(&mut self, plan: &Plan) -> Result<()> {
        let mut warmth = None;
        for (index, step) in plan.steps.iter().enumerate() {
            let place = Place { step, number: index + 1, count: plan.steps.len() };
            if index == 0 && self.task.parameters.warm {
                self.announce(place, "warming");
                let file = self.task.directory.join("warm");
                warmth = Some(machine::warm(&file, self.task.parameters.memory_limit)?);
            }
            match step.pace {
                Pace::Search { .. } => self.search(place)?,
                Pace::OfSustained { percent, arrival } => {
                    let Some(sustained) = self.sustained else {
                        return Err(Error::Said(format!("{} % of what? No search found a rate", percent)));
                    };
                    let rate = sustained * percent / 100.0;
                    self.measure(place, Pace::Open { rate, arrival, percent: Some(percent) })?;
                }
                pace @ (Pace::Closed | Pace::Open { .. }) => self.measure(place, pace)?,
            }
        }
        // The group stays full up to here.
        drop(warmth);
        self.database.close()
    }

    /// Runs a step, and again while others disturb it, and tells each run.
    fn measure(&mut self, place: Place<'_>, pace: Pace) -> Result<()> {
        let step = place.step;
        let mut doing = if plan::is_load(step.workload) { "loading".to_owned() } else { "running".to_owned() };
        self.ramp(place, pace)?;
        for attempt in 1..=self.task.parameters.attempts {
            self.announce(place, &doing);
            let Ran { measured, probe, usage, peaks, samples } =
                self.once(place, pace, step.limit, u64::from(attempt))?;
            let (mut drained, mut drain_seconds) = (None, None);
            if measured.written_bytes > 0 || step.preparation {
                self.announce(place, "draining");
                let start = Instant::now();
                let engine = self.database.opened()?.engine.as_ref();
                let settled = peaks.during(engine, || self.database.drain())?;
                drain_seconds = settled.then(|| start.elapsed().as_secs_f64());
                let usage = Usage { peaks: peaks.so_far(), ..probe.usage(engine)? };
                if let Some(note) = machine::strangers_note(&usage) {
                    self.note(note);
                }
                drained = Some(usage);
            }
            let space_by_kind = self.database.space_by_kind()?;
            let replaced_bytes = self.database.opened()?.engine.replaced_bytes();
            let foreign_percent = (self.foreign_percent)(&usage);
            let noisy = foreign_percent > FOREIGN_PERCENT_MAX;
            let outcome = Outcome {
                step,
                pace,
                attempt,
                measured,
                usage,
                drained,
                drain_seconds,
                space_by_kind,
                replaced_bytes,
                samples,
                noisy,
            };
            let run = outcome.into_run(self.task);
            let again = noisy && pace != Pace::Closed;
            doing = format!("again: {foreign_percent:.0} % foreign CPU");
            self.teller.tell(Event::Run(Box::new(run)));
            if !again {
                break;
            }
        }
        Ok(())
    }

    /// Searches for the rate that the engine sustains, and tells it. Each probe begins with a settled tree, and that of
    /// a load with an empty one.
    fn search(&mut self, place: Place<'_>) -> Result<()> {
        self.announce(place, "searching");
        let step = place.step;
        let Pace::Search { arrival, probe_seconds } = step.pace else { return Ok(()) };
        let mut probe: u64 = 0;
        let found = driver::search(arrival, probe_seconds, |pace: Pace, limit: Limit| {
            probe += 1;
            let ran = self.once(place, pace, limit, probe)?;
            if ran.measured.written_bytes > 0 {
                self.database.drain()?;
            }
            Ok(ran.measured)
        })?;
        self.sustained = Some(found.rate);
        self.teller.tell(Event::Sustained(Sustained {
            engine: self.task.engine.clone(),
            round: self.task.round,
            workload: step.workload.name.to_owned(),
            rate: found.rate,
            probes: found.probes,
        }));
        Ok(())
    }

    /// Runs a step's workload for a moment without measuring it, so that what is measured does not begin cold.
    fn ramp(&mut self, place: Place<'_>, pace: Pace) -> Result<()> {
        let parameters = &self.task.parameters;
        if place.step.fresh || !parameters.warm || parameters.ramp_seconds == 0.0 {
            return Ok(());
        }
        self.announce(place, "warming");
        let opened = self.database.opened()?;
        let workload = (place.step.workload.make)(parameters, &opened.dataset)?;
        driver::run(&Phase {
            engine: opened.engine.as_ref(),
            workload: workload.as_ref(),
            threads: parameters.threads as usize,
            pace,
            limit: Limit { operations: None, seconds: Some(parameters.ramp_seconds) },
            seed: self.seed(place.number as u64, 0),
            progress: &|_| {},
        })?;
        Ok(())
    }

    /// Runs a step's workload once, on an empty database where it is fresh.
    fn once(&mut self, place: Place<'_>, pace: Pace, limit: Limit, attempt: u64) -> Result<Ran> {
        let step = place.step;
        if step.fresh {
            let description = self.database.renew(step)?;
            if !self.told_opened {
                self.told_opened = true;
                self.teller.tell(Event::Opened(description));
            }
        }
        let seed = self.seed(place.number as u64, attempt);
        let opened = self.database.opened()?;
        let engine = opened.engine.as_ref();
        let parameters = &self.task.parameters;
        let workload = (step.workload.make)(parameters, &opened.dataset)?;
        // What was written before is not this run's.
        self.database.quiet()?;
        let sampler = Sampler::new(self.database.directory(), parameters.memory_limit.is_some());
        let (probe, peaks) = (Probe::start(self.database.directory(), engine)?, Peaks::default());
        let measured = driver::run(&Phase {
            engine,
            workload: workload.as_ref(),
            threads: parameters.threads as usize,
            pace,
            limit,
            seed,
            progress: &|progress| {
                peaks.look(engine);
                sampler.look(progress.seconds);
                self.teller.progress(progress);
            },
        })?;
        let usage = Usage { peaks: peaks.so_far(), ..probe.usage(engine)? };
        if let Some(note) = probe.note() {
            self.note(note.to_owned());
        }
        Ok(Ran { measured, probe, usage, peaks, samples: sampler.end() })
    }

    /// The seed of an attempt at a step: the round's, spread by the golden ratio so that no two draw the same numbers.
    /// It does not depend on how many attempts another step took, so that all engines draw the same.
    fn seed(&self, step: u64, attempt: u64) -> u64 {
        let spread = (step << 32 | attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.task.parameters.seed.wrapping_add(u64::from(self.task.round)).wrapping_add(spread)
    }

    fn announce(&self, place: Place<'_>, doing: &str) {
        self.teller.tell(Event::Step {
            number: place.number,
            count: place.count,
            workload: place.step.workload.name.to_owned(),
            pace: place.step.pace,
            doing: doing.to_owned(),
        });
    }

    /// Tells the user something, once.
    fn note(&mut self, note: String) {
        if !self.noted.contains(&note) {
            self.teller.tell(Event::Note(note.clone()));
            self.noted.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Null;
    use crate::engine::model::Model;
    use crate::parameters::Parameters;
    use crate::process::fake::{CATALOGUE, Shelf};
    use crate::report::Run;
    use crate::workload;
    use std::cell::RefCell;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

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

    /// What was told, each event in a word or two, and the runs; others take so many percent of the processors.
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
}
