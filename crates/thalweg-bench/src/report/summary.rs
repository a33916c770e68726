//! [`Summary`]: the runs of a report by step and engine; medians over rounds, and ratios of paired rounds.
//!
//! Rounds are paired because the machine drifts: the figure of engine X in round 2 is divided by the baseline's in
//! round 2, and only then the median is taken. Of several attempts the quietest counts. A workload that is run twice in
//! one round at the same pace is two steps.

use super::{Metric, Report, Run, number};
use crate::error::{Error, Result};
use crate::parameters::Arrival;
use crate::plan::Pace;
use crate::workload::Class;
use std::collections::BTreeMap;

/// The share of the offered rate at which an engine still keeps up. The remaining share allows for the last operations
/// of a short run, and for the randomness of Poisson arrivals.
const KEPT_UP: f64 = 0.95;

/// The runs of a report, grouped by step and engine.
pub struct Summary<'a> {
    /// The report that it summarises.
    pub report: &'a Report,
    /// The engines, in the order of the report.
    pub engines: Vec<&'a str>,
    /// The engine whose figures divide those of the others.
    pub baseline: &'a str,
    /// The steps, in the order in which they first ran.
    pub steps: Vec<Step<'a>>,
}

/// A workload at a pace.
pub struct Step<'a> {
    /// The workload.
    pub workload: &'a str,
    /// The pace, as a key and for readers: `closed loop`, `open loop, 20.0 k/s`.
    pub pace: String,
    /// 1, or more for a workload that runs again at the same pace.
    pub occurrence: u32,
    /// Whether the step only loads data that another step needs.
    pub preparation: bool,
    /// The engines that ran the step, in the order of [`Summary::engines`].
    pub entries: Vec<Entry<'a>>,
}

/// One engine's runs of a step.
pub struct Entry<'a> {
    /// The engine.
    pub engine: &'a str,
    /// One run for each round, by round.
    pub runs: Vec<&'a Run>,
}

/// The distribution of a figure over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// The number of rounds that have the figure.
    pub rounds: usize,
}

impl Spread {
    /// The spread of these figures; `None`: there are none.
    pub fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let (low, high) = (*figures.first()?, *figures.last()?);
        let rounds = figures.len();
        let median = (figures[(rounds - 1) / 2] + figures[rounds / 2]) / 2.0;
        Some(Spread { median, low, high, rounds })
    }
}

impl<'a> Summary<'a> {
    /// Summarises a report; the first engine is the baseline.
    pub fn of(report: &'a Report) -> Summary<'a> {
        let mut engines: Vec<&str> = Vec::new();
        let described = report.engines.iter().map(|engine| engine.name.as_str());
        for engine in described.chain(report.runs.iter().map(|run| run.engine.as_str())) {
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
        let baseline = engines.first().copied().unwrap_or_default();
        let steps = steps(report, &engines);
        Summary { report, engines, baseline, steps }
    }

    /// Summarises a report; `baseline` is the baseline.
    ///
    /// # Errors
    /// `Usage`: the baseline is not among the engines.
    pub fn against(report: &'a Report, baseline: &str) -> Result<Summary<'a>> {
        let summary = Summary::of(report);
        match summary.engines.iter().find(|engine| **engine == baseline).copied() {
            Some(baseline) => Ok(Summary { baseline, ..summary }),
            None => {
                let engines = summary.engines.join(", ");
                Err(Error::Usage(format!("the baseline `{baseline}` is not among the engines: {engines}")))
            }
        }
    }

    /// The requested steps: all except preparations.
    pub fn asked(&self) -> impl Iterator<Item = &Step<'a>> {
        self.steps.iter().filter(|step| !step.preparation)
    }

    /// An engine's place among the engines.
    pub fn place(&self, engine: &str) -> usize {
        self.engines.iter().position(|name| *name == engine).unwrap_or(self.engines.len())
    }

    /// A figure of an engine over that of the baseline in the same round.
    pub fn ratio(&self, step: &Step<'_>, engine: &str, metric: Metric) -> Option<Spread> {
        paired(step.entry(engine)?, step.entry(self.baseline)?, metric)
    }

    /// The rates that an engine sustained in the searches of a workload.
    pub fn sustained(&self, workload: &str, engine: &str) -> Option<Spread> {
        let found = self.report.sustained.iter().filter(|found| found.workload == workload && found.engine == engine);
        Spread::of(found.map(|found| found.rate).collect())
    }

    /// The rates that an engine sustained, each over that of the baseline in the same round.
    pub fn sustained_ratio(&self, workload: &str, engine: &str) -> Option<Spread> {
        let found = || self.report.sustained.iter().filter(|found| found.workload == workload);
        let base = |round| found().find(|other| other.engine == self.baseline && other.round == round);
        let ratios = found().filter(|found| found.engine == engine);
        Spread::of(ratios.filter_map(|found| Some(found.rate / base(found.round)?.rate)).collect())
    }

    /// The workloads that were searched for a sustained rate.
    pub fn searched(&self) -> Vec<&'a str> {
        let mut workloads: Vec<&str> = Vec::new();
        for found in &self.report.sustained {
            if !workloads.contains(&found.workload.as_str()) {
                workloads.push(&found.workload);
            }
        }
        workloads
    }
}

/// The figures of `entry` over those of `base`, round by round. Rounds in which the base has no figure, or 0, are left
/// out. For timed figures, rounds in which an engine was disturbed are left out too, unless an engine was disturbed in
/// all.
pub fn paired(entry: &Entry<'_>, base: &Entry<'_>, metric: Metric) -> Option<Spread> {
    let ratio = |run: &Run, other: &Run| Some(metric.of(run)? / metric.of(other).filter(|figure| *figure != 0.0)?);
    let pairs = |quiet: bool| {
        let counts = move |run: &Run| !quiet || !run.noisy;
        let other = move |run: &Run| base.runs.iter().find(|other| other.round == run.round && counts(other));
        let runs = entry.runs.iter().filter(move |run| counts(run));
        Spread::of(runs.filter_map(|run| ratio(run, other(run)?)).collect())
    };
    // If an engine was disturbed in every round, its figures are marked and all rounds count. If each engine has quiet
    // rounds, but no round was quiet for both, there is no ratio.
    let is_marked = entry.noisy() || base.noisy();
    match metric.timed() {
        true => pairs(true).or_else(|| is_marked.then(|| pairs(false)).flatten()),
        false => pairs(false),
    }
}

fn steps<'a>(report: &'a Report, engines: &[&'a str]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    // By engine, round, workload and pace: the number of occurrences, and the last attempt seen.
    let mut seen: BTreeMap<(&str, u32, &str, String), (u32, u32)> = BTreeMap::new();
    for run in &report.runs {
        let pace = pace_name(&run.pace);
        let last = seen.entry((&run.engine, run.round, &run.workload, pace.clone())).or_insert((0, u32::MAX));
        let again = run.attempt > last.1;
        *last = (if again { last.0 } else { last.0 + 1 }, run.attempt);
        let occurrence = last.0;
        let same = |step: &Step<'_>| {
            (step.workload, &step.pace, step.occurrence) == (run.workload.as_str(), &pace, occurrence)
        };
        let number = steps.iter().position(same).unwrap_or_else(|| {
            let entries = engines.iter().map(|engine| Entry { engine, runs: Vec::new() }).collect();
            let (workload, preparation) = (run.workload.as_str(), run.preparation);
            steps.push(Step { workload, pace: pace.clone(), occurrence, preparation, entries });
            steps.len() - 1
        });
        let entry = steps[number].entries.iter_mut().find(|entry| entry.engine == run.engine);
        if let Some(entry) = entry {
            // Of the attempts at a round the quietest counts.
            let quieter = |other: &Run| other.usage.cpu.foreign_percent <= run.usage.cpu.foreign_percent;
            if again && entry.runs.iter().filter(|other| other.round == run.round).any(|other| quieter(other)) {
                continue;
            }
            entry.runs.retain(|other| other.round != run.round);
            entry.runs.push(run);
        }
    }
    for step in &mut steps {
        step.entries.retain(|entry| !entry.runs.is_empty());
        step.entries.iter_mut().for_each(|entry| entry.runs.sort_by_key(|run| run.round));
    }
    steps
}

impl<'a> Step<'a> {
    /// The engine's runs of the step.
    pub fn entry(&self, engine: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.engine == engine)
    }

    /// Whether `other` is the same step in another report.
    pub fn is(&self, other: &Step<'_>) -> bool {
        (self.workload, &self.pace, self.occurrence) == (other.workload, &other.pace, other.occurrence)
    }

    /// The first run of the step, for threads, records and similar.
    pub fn first(&self) -> Option<&'a Run> {
        self.entries.first().and_then(|entry| entry.runs.first().copied())
    }

    /// Whether it ran in a closed loop.
    pub fn closed(&self) -> bool {
        self.first().is_some_and(|run| run.pace == Pace::Closed)
    }

    /// The classes of its operations, in the order of reports.
    pub fn classes(&self) -> Vec<Class> {
        let runs = || self.entries.iter().flat_map(|entry| &entry.runs);
        let counted = |class: &Class| runs().any(|run| run.latency.get(class).is_some_and(|l| l.count > 0));
        Class::ALL.into_iter().filter(counted).collect()
    }

    /// The workload, with its occurrence: `readrandom (2nd)`.
    pub fn name(&self) -> String {
        match self.occurrence {
            0 | 1 => self.workload.to_owned(),
            2 => format!("{} (2nd)", self.workload),
            3 => format!("{} (3rd)", self.workload),
            more => format!("{} ({more}th)", self.workload),
        }
    }

    /// The workload, and the pace if it is an open loop: `ycsb-a at 20.0 k/s`.
    pub fn short(&self) -> String {
        if self.closed() {
            return self.name();
        }
        format!("{} at {}", self.name(), self.pace.trim_start_matches("open loop, "))
    }
}

impl Entry<'_> {
    /// A figure over the rounds that count for it.
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.counting(metric).filter_map(|run| metric.of(run)).collect())
    }

    /// The runs that count for a figure: for timed figures, disturbed rounds count only if all are disturbed.
    fn counting(&self, metric: Metric) -> impl Iterator<Item = &Run> {
        let all = !metric.timed() || self.runs.iter().all(|run| run.noisy);
        self.runs.iter().copied().filter(move |run| all || !run.noisy)
    }

    /// Its median.
    pub fn median(&self, metric: Metric) -> Option<f64> {
        self.spread(metric).map(|spread| spread.median)
    }

    /// Whether the engine did less than 95 % of the offered operations of an open loop in one of the rounds.
    pub fn behind(&self) -> bool {
        self.runs.iter().any(|run| match run.pace {
            Pace::Open { rate, .. } => run.operations_per_second < KEPT_UP * rate,
            _ => false,
        })
    }

    /// Whether other processes took too much of the processors in every round, so that timed figures do not count.
    pub fn noisy(&self) -> bool {
        self.runs.iter().all(|run| run.noisy)
    }
}

/// The name of a pace in reports. A percentage of the sustained rate is one pace, though its rate differs.
pub fn pace_name(pace: &Pace) -> String {
    let arrival = |arrival: &Arrival| if *arrival == Arrival::Poisson { ", Poisson" } else { "" };
    match pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Open { percent: Some(percent), arrival: a, .. } | Pace::OfSustained { percent, arrival: a } => {
            format!("open loop, {percent} % of sustained{}", arrival(a))
        }
        Pace::Open { rate, arrival: a, .. } => format!("open loop, {}{}", number::rate(*rate), arrival(a)),
        Pace::Search { arrival: a, .. } => format!("search{}", arrival(a)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn run(engine: &str, round: u32, attempt: u32, rate: f64) -> Run {
        Run { attempt, operations_per_second: rate, ..sample::run(engine, round) }
    }

    fn report(runs: Vec<Run>) -> Report {
        Report { engines: Vec::new(), runs, ..sample::report(&["a"], &[], 1, 1) }
    }

    #[test]
    fn rounds_are_paired_before_the_median_is_taken() {
        let rates = [(1, 100.0, 50.0), (2, 200.0, 300.0), (3, 400.0, 400.0)];
        let runs = rates.iter().flat_map(|(round, a, b)| [run("a", *round, 1, *a), run("b", *round, 1, *b)]);
        let report = report(runs.collect());
        let summary = Summary::of(&report);
        let [step] = summary.steps.as_slice() else { panic!("{} steps", summary.steps.len()) };
        assert_eq!(step.entry("a").unwrap().median(Metric::Throughput), Some(200.0));
        let ratio = summary.ratio(step, "b", Metric::Throughput).unwrap();
        assert_eq!(ratio, Spread { median: 1.0, low: 0.5, high: 1.5, rounds: 3 });
        let other = Summary::against(&report, "b").unwrap();
        assert_eq!(other.ratio(&other.steps[0], "a", Metric::Throughput).unwrap().high, 2.0);
        assert!(matches!(Summary::against(&report, "c"), Err(Error::Usage(_))));
    }

    #[test]
    fn the_quietest_attempt_counts_and_noise_in_every_round_is_marked() {
        let noisy = |mut run: Run, percent: f64| {
            (run.noisy, run.usage.cpu.foreign_percent) = (true, percent);
            run
        };
        let report = report(vec![
            noisy(run("a", 1, 1, 1.0), 9.0),
            run("a", 1, 2, 2.0),
            noisy(run("a", 1, 3, 3.0), 20.0),
            noisy(run("a", 2, 1, 4.0), 30.0),
            noisy(run("b", 1, 1, 3.0), 9.0),
        ]);
        let summary = Summary::of(&report);
        let step = &summary.steps[0];
        assert_eq!(step.entry("a").unwrap().median(Metric::Throughput), Some(2.0));
        assert!(!step.entry("a").unwrap().noisy() && step.entry("b").unwrap().noisy());
    }

    #[test]
    fn a_workload_that_runs_again_is_another_step() {
        let report = report(vec![run("a", 1, 1, 1.0), run("a", 1, 1, 2.0), run("a", 2, 1, 3.0), run("a", 2, 1, 4.0)]);
        let summary = Summary::of(&report);
        let medians: Vec<_> = summary.steps.iter().map(|step| step.entries[0].median(Metric::Throughput)).collect();
        assert_eq!(medians, [Some(2.0), Some(3.0)]);
        assert_eq!(summary.steps[1].name(), format!("{} (2nd)", summary.steps[0].workload));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0, rounds: 2 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
