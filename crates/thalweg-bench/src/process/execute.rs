//! Executes a task: the steps of its plan, one after the other, each reported as events.
//!
//! A step that writes is drained afterwards, so that its full cost is known and the next step begins with a settled
//! tree. Each run has a seed of its own, derived from the task's: the same task has the same seeds.

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

/// The least time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(80);

/// Opens the task's engine with `factory` and runs the steps of its plan. Calls `event` with each event, in order, from
/// any thread.
///
/// # Errors
/// `Usage` for parameters that make no sense; otherwise the reason why a step could not be run. The caller reports
/// [`Event::Done`] and [`Event::Failed`].
pub fn execute(task: &Task, factory: &dyn Factory, event: &mut (dyn FnMut(Event) + Send)) -> Result<()> {
    let plan = Plan::new(&task.parameters)?;
    Execution::new(task, factory, event).run(&plan)
}

/// The receiver of events, and the time of its last progress report.
struct Listener<'a> {
    event: &'a mut (dyn FnMut(Event) + Send),
    last: Option<Instant>,
}

/// Reports events, one at a time.
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
pub(super) struct Execution<'a> {
    task: &'a Task,
    database: Database<'a>,
    teller: Teller<'a>,
    /// The foreign CPU of a usage, in percent; tests replace it.
    pub(super) foreign_percent: &'a dyn Fn(&Usage) -> f64,
    /// Whether [`Event::Opened`] has been reported.
    told_opened: bool,
    /// The rate that the last search found.
    sustained: Option<f64>,
    /// The notes that have been reported.
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
    pub(super) fn new(
        task: &'a Task,
        factory: &'a dyn Factory,
        event: &'a mut (dyn FnMut(Event) + Send),
    ) -> Execution<'a> {
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

    pub(super) fn run(&mut self, plan: &Plan) -> Result<()> {
        let mut warmth = None;
        let mut abandoned = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            if abandoned > 0 && !step.fresh {
                return Err(Error::Said(format!(
                    "the load before {} gave {abandoned} operations up, so its data is not there",
                    step.workload.name
                )));
            }
            let place = Place { step, number: index + 1, count: plan.steps.len() };
            if index == 0 && self.task.parameters.warm {
                self.announce(place, "warming");
                let file = self.task.directory.join("warm");
                warmth = Some(machine::warm(&file, self.task.parameters.memory_limit)?);
            }
            let mut given_up = 0;
            match step.pace {
                Pace::Search { .. } => self.search(place)?,
                Pace::OfSustained { percent, arrival } => {
                    let Some(sustained) = self.sustained else {
                        return Err(Error::Said(format!("{} % of what? No search found a rate", percent)));
                    };
                    let rate = sustained * percent / 100.0;
                    given_up = self.measure(place, Pace::Open { rate, arrival, percent: Some(percent) })?;
                }
                pace @ (Pace::Closed | Pace::Open { .. }) => given_up = self.measure(place, pace)?,
            }
            if step.fresh {
                abandoned = given_up;
            }
        }
        // The file of the warmth keeps the memory group full up to here.
        drop(warmth);
        self.database.close()
    }

    /// Runs a step, repeats it while other processes disturb it, and reports each run. Returns the number of operations
    /// that the last run gave up.
    fn measure(&mut self, place: Place<'_>, pace: Pace) -> Result<u64> {
        let step = place.step;
        let mut doing = if plan::is_load(step.workload) { "loading".to_owned() } else { "running".to_owned() };
        self.ramp(place, pace)?;
        let mut abandoned = 0;
        for attempt in 1..=self.task.parameters.attempts {
            self.announce(place, &doing);
            let Ran { measured, probe, usage, peaks, samples } =
                self.once(place, pace, step.limit, u64::from(attempt))?;
            abandoned = measured.abandoned;
            let (mut drained, mut drain_seconds) = (None, None);
            if measured.written_bytes > 0 || step.preparation {
                self.announce(place, "draining");
                let start = Instant::now();
                let engine = self.database.opened()?.engine.as_ref();
                let settled = peaks.during(engine, || self.database.drain())?;
                drain_seconds = settled.then(|| start.elapsed().as_secs_f64());
                let rest_seconds = self.task.parameters.rest_seconds;
                if rest_seconds > 0.0 {
                    self.announce(place, "resting");
                    peaks.during(engine, || self.database.rest(rest_seconds))?;
                }
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
        Ok(abandoned)
    }

    /// Searches for the rate that the engine sustains, and reports it. Each probe of a load begins with an empty tree.
    /// Each other probe begins with the tree as the closed loop and the earlier probes have left it. In a settled tree
    /// the engine could defer compactions for a while, up to its limit, and would meanwhile accept more than it can
    /// sustain.
    fn search(&mut self, place: Place<'_>) -> Result<()> {
        self.announce(place, "searching");
        let step = place.step;
        let Pace::Search { arrival, probe_seconds } = step.pace else { return Ok(()) };
        self.ramp(place, Pace::Closed)?;
        let (mut probe, mut has_written): (u64, bool) = (0, false);
        let found = driver::search(arrival, probe_seconds, |pace: Pace, limit: Limit| {
            for attempt in 1.. {
                probe += 1;
                let ran = self.once(place, pace, limit, probe)?;
                has_written |= ran.measured.written_bytes > 0;
                let foreign_percent = (self.foreign_percent)(&ran.usage);
                let noisy = foreign_percent > FOREIGN_PERCENT_MAX;
                if !noisy {
                    return Ok(ran.measured);
                }
                if attempt >= self.task.parameters.attempts {
                    let name = step.workload.name;
                    self.note(format!("the search of {name} was disturbed: {foreign_percent:.0} % foreign CPU"));
                    return Ok(ran.measured);
                }
            }
            unreachable!("the last attempt returns")
        })?;
        if has_written {
            self.database.drain()?;
        }
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

    /// Runs a step's workload for a moment without measuring it, so that the measurement does not begin cold.
    fn ramp(&mut self, place: Place<'_>, pace: Pace) -> Result<()> {
        let parameters = &self.task.parameters;
        // The ramp would use up data that a bounded workload needs for the measurement: `deleterandom` would remove it.
        let is_without = place.step.fresh || place.step.workload.defaults.bounded;
        if is_without || !parameters.warm || parameters.ramp_seconds == 0.0 {
            return Ok(());
        }
        self.announce(place, "warming");
        let opened = self.database.opened()?;
        let workload = (place.step.workload.make)(parameters, &opened.dataset)?;
        let ran = driver::run(&Phase {
            engine: opened.engine.as_ref(),
            workload: workload.as_ref(),
            threads: parameters.threads as usize,
            pace,
            limit: Limit { operations: None, seconds: Some(parameters.ramp_seconds) },
            seed: self.seed(place.number as u64, 0),
            progress: &|_| {},
        })?;
        if ran.written_bytes > 0 {
            // Otherwise the measurement would count the flush of the ramp's memtables.
            self.database.drain()?;
        }
        Ok(())
    }

    /// Runs a step's workload once, on an empty database if the step is fresh.
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
        // Waits until earlier writes have reached the device, so that they do not count to this run.
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

    /// Computes the seed of an attempt at a step: the round's seed, spread by the golden ratio so that no two attempts
    /// draw the same numbers. It does not depend on the attempts of other steps, so all engines draw the same numbers.
    pub(super) fn seed(&self, step: u64, attempt: u64) -> u64 {
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

    /// Reports a note, unless it has been reported.
    fn note(&mut self, note: String) {
        if !self.noted.contains(&note) {
            self.teller.tell(Event::Note(note.clone()));
            self.noted.push(note);
        }
    }
}
