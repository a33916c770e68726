//! [`Plan`]: the steps of the parameters, with the loads that they need.
//!
//! The steps of a round share one database, in order. A load begins with an empty database. If the database has another
//! kind of data than a workload needs, or less of it, the plan inserts the workload's load before it, as a
//! *preparation*. With rates, or a search and percentages, a workload becomes several steps; a load begins with an
//! empty database in each of them.

use crate::driver::RATE_MAX;
use crate::error::{Error, Result};
use crate::parameters::{Arrival, Parameters};
use crate::workload::{self, DatasetKind, Definition};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The greatest number of seconds of the rest after each step: an hour.
const REST_SECONDS_MAX: f64 = 3600.0;

/// The steps of one round of one engine.
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One run of a workload (or, for [`Pace::Search`], several runs until the rate is found).
#[derive(Clone)]
pub struct Step {
    /// The workload.
    pub workload: &'static Definition,
    /// Whether the step was not requested, but loads the data that a requested step needs.
    pub preparation: bool,
    /// Whether the step begins with an empty database.
    pub fresh: bool,
    /// Records of the dataset.
    pub records: u64,
    /// How operations follow each other.
    pub pace: Pace,
    /// When the step ends.
    pub limit: Limit,
}

/// How operations follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Each thread begins the next operation when the last is done.
    Closed,
    /// Operations arrive at a rate, whether the engine is ready or not.
    Open {
        /// Operations a second.
        rate: f64,
        /// How operations arrive.
        arrival: Arrival,
        /// The percentage of the sustained rate that this rate is, if it was given as a percentage.
        percent: Option<f64>,
    },
    /// Search for the highest rate that the engine sustains.
    Search {
        /// How operations arrive in the probes.
        arrival: Arrival,
        /// Seconds of one probe.
        probe_seconds: f64,
    },
    /// Open, at a percentage of the rate that the last search found.
    OfSustained {
        /// The percentage.
        percent: f64,
        /// How operations arrive.
        arrival: Arrival,
    },
}

/// When a step ends: at the first of these that is reached, or when the workload has nothing more to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Operations, all threads together.
    pub operations: Option<u64>,
    /// Seconds.
    pub seconds: Option<f64>,
}

impl Plan {
    /// The steps for these parameters.
    ///
    /// The given operations or seconds end a step that is no load. If neither is given, the workload's default time
    /// ends the step; its default operations end it only if it has no time or is bounded. A load ends with its last
    /// record and has no other limit.
    ///
    /// # Errors
    /// `Usage` for an unknown workload, or parameters that make no sense together.
    pub fn new(parameters: &Parameters) -> Result<Plan> {
        Plan::of(parameters, &workload::all().collect::<Vec<_>>())
    }

    /// The steps, of workloads in `catalogue`.
    pub(crate) fn of(parameters: &Parameters, catalogue: &[&'static Definition]) -> Result<Plan> {
        check(parameters)?;
        let names = parameters.workloads.iter().flat_map(|name| match workload::expand(name) {
            Some(members) => members.to_vec(),
            None => vec![name.as_str()],
        });
        let definitions: Vec<_> = names.map(|name| named(name, catalogue)).collect::<Result<_>>()?;
        let mut plan = Plan { steps: Vec::new() };
        // The data in the database after the steps so far.
        let mut there: Option<(DatasetKind, u64)> = None;
        for definition in definitions {
            let wanted = records(parameters, definition);
            if is_load(definition) {
                let steps = plan.add(parameters, definition, wanted);
                let complete =
                    definition.share == 1 && steps.last().is_some_and(|step| !matches!(step.pace, Pace::Search { .. }));
                there = complete.then_some((definition.dataset, wanted));
                continue;
            }
            let records = match there {
                Some((kind, records)) if kind == definition.dataset && records >= wanted => records,
                _ => {
                    plan.steps.push(preparation(definition, wanted, catalogue)?);
                    there = Some((definition.dataset, wanted));
                    wanted
                }
            };
            plan.add(parameters, definition, records);
        }
        Ok(plan)
    }

    /// Adds the steps of a requested workload, and returns them.
    fn add(&mut self, parameters: &Parameters, definition: &'static Definition, records: u64) -> &[Step] {
        let first = self.steps.len();
        let limit = limit(parameters, definition, records);
        let fresh = is_load(definition);
        let step = |pace| Step { workload: definition, preparation: false, fresh, records, pace, limit };
        self.steps.extend(paces(parameters).into_iter().map(step));
        &self.steps[first..]
    }
}

/// Whether the workload writes its data itself.
pub(crate) fn is_load(definition: &Definition) -> bool {
    definition.load == definition.name
}

fn preparation(definition: &Definition, records: u64, catalogue: &[&'static Definition]) -> Result<Step> {
    let load = named(definition.load, catalogue)?;
    assert!(is_load(load) && load.dataset == definition.dataset, "{} does not load for {}", load.name, definition.name);
    let limit = Limit { operations: Some(records), seconds: None };
    Ok(Step { workload: load, preparation: true, fresh: true, records, pace: Pace::Closed, limit })
}

fn records(parameters: &Parameters, definition: &Definition) -> u64 {
    parameters.scaled(parameters.records.unwrap_or(definition.defaults.records))
}

fn limit(parameters: &Parameters, definition: &Definition, records: u64) -> Limit {
    if is_load(definition) {
        return Limit { operations: Some((records / definition.share).max(1)), seconds: None };
    }
    let some = |seconds: f64| (seconds > 0.0).then_some(seconds);
    let default = || definition.defaults.operations.map_or(records, |operations| parameters.scaled(operations));
    let given = parameters.operations.map(|operations| parameters.scaled(operations));
    match (given, parameters.seconds) {
        (operations @ Some(_), seconds) => Limit { operations, seconds: seconds.and_then(some) },
        (None, Some(seconds)) if seconds > 0.0 => Limit { operations: None, seconds: Some(seconds) },
        (None, Some(_)) => Limit { operations: Some(default()), seconds: None },
        (None, None) => {
            let seconds = definition.defaults.seconds.and_then(some);
            // With a limit of operations, a fast engine would be done too early to show anything.
            let operations = (seconds.is_none() || definition.defaults.bounded).then(default);
            Limit { operations, seconds }
        }
    }
}

/// Returns the pace of each run of a requested workload.
fn paces(parameters: &Parameters) -> Vec<Pace> {
    let arrival = parameters.arrival;
    let mut paces: Vec<Pace> =
        parameters.rates.iter().map(|rate| Pace::Open { rate: *rate, arrival, percent: None }).collect();
    if parameters.find_max {
        paces.push(Pace::Search { arrival, probe_seconds: parameters.probe_seconds });
        paces.extend(parameters.percentages.iter().map(|percent| Pace::OfSustained { percent: *percent, arrival }));
    }
    if paces.is_empty() {
        paces.push(Pace::Closed);
    }
    paces
}

/// Refuses parameters that make no sense for any workload.
fn check(parameters: &Parameters) -> Result<()> {
    let refuse = |text: &str| Err(Error::Usage(text.to_owned()));
    let positive = |x: f64| x.is_finite() && x > 0.0;
    match parameters {
        p if p.workloads.is_empty() => refuse("no workload is named; `bench list` tells which there are"),
        p if !positive(p.scale) => refuse("scale must be above 0"),
        p if p.threads == 0 => refuse("threads must be at least 1"),
        p if p.attempts == 0 => refuse("attempts must be at least 1"),
        p if p.records == Some(0) => refuse("records must be at least 1"),
        p if p.operations == Some(0) => refuse("operations must be at least 1"),
        p if p.seconds.is_some_and(|s| !s.is_finite() || s < 0.0) => refuse("seconds must be 0 or more"),
        p if !p.rates.iter().all(|rate| positive(*rate) && *rate <= RATE_MAX) => {
            refuse("every rate must be above 0 operations a second, and at most 10 million")
        }
        p if !p.percentages.iter().copied().all(positive) => refuse("every percentage must be above 0"),
        p if !p.percentages.is_empty() && !p.find_max => {
            refuse("percentages are of the rate that find-max finds: ask for that too")
        }
        p if !p.ramp_seconds.is_finite() || p.ramp_seconds < 0.0 => refuse("ramp-seconds must be 0 or more"),
        p if !(0.0..=REST_SECONDS_MAX).contains(&p.rest_seconds) => refuse("rest-seconds must be 0 to 3600"),
        p if p.find_max && !positive(p.probe_seconds) => refuse("probe-seconds must be above 0"),
        _ => Ok(()),
    }
}

/// Finds the workload of that name. The error lists similar names.
fn named(name: &str, catalogue: &[&'static Definition]) -> Result<&'static Definition> {
    catalogue.iter().copied().find(|definition| definition.name == name).ok_or_else(|| {
        let all: Vec<&str> = catalogue.iter().map(|definition| definition.name).collect();
        let near: Vec<&str> = all.iter().copied().filter(|other| is_near(name, other)).collect();
        let which = if near.is_empty() { ("there are", all) } else { ("near it are", near) };
        Error::Usage(format!("there is no workload `{name}`; {} {}", which.0, which.1.join(", ")))
    })
}

/// Whether one name is part of the other or differs from it in at most two letters.
fn is_near(name: &str, other: &str) -> bool {
    other.contains(name) || name.contains(other) || distance(name.as_bytes(), other.as_bytes()) <= 2
}

/// Computes how many letters must be inserted, removed or replaced to turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{}. {step}", number + 1))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.workload.name)?;
        write!(f, "{}", if self.preparation { " (preparation)" } else { "" })?;
        write!(f, ": {} records{}, {}", self.records, if self.fresh { ", empty first" } else { "" }, self.pace)?;
        match (self.limit.operations, self.limit.seconds) {
            (Some(operations), Some(seconds)) => write!(f, ", {operations} operations or {seconds} s"),
            (Some(operations), None) => write!(f, ", {operations} operations"),
            (None, Some(seconds)) => write!(f, ", {seconds} s"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let random = |arrival: &Arrival| if *arrival == Arrival::Poisson { ", poisson" } else { "" };
        match self {
            Pace::Closed => f.write_str("closed"),
            Pace::Open { rate, arrival, percent: None } => write!(f, "{rate}/s{}", random(arrival)),
            Pace::Open { rate, arrival, percent: Some(percent) } => {
                write!(f, "{rate:.0}/s ({percent} %){}", random(arrival))
            }
            Pace::Search { arrival, .. } => write!(f, "search{}", random(arrival)),
            Pace::OfSustained { percent, arrival } => write!(f, "{percent} % of sustained{}", random(arrival)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake::CATALOGUE;

    fn text(parameters: &Parameters) -> String {
        Plan::of(parameters, CATALOGUE).unwrap().to_string()
    }

    fn asking(workloads: &[&str]) -> Parameters {
        Parameters { workloads: workloads.iter().map(|name| (*name).to_owned()).collect(), ..Parameters::default() }
    }

    fn refusal(parameters: &Parameters) -> String {
        match Plan::of(parameters, CATALOGUE) {
            Err(Error::Usage(text)) => text,
            Err(error) => panic!("another error: {error}"),
            Ok(plan) => panic!("no error, but\n{plan}"),
        }
    }

    #[test]
    fn what_loads_but_a_share_is_no_load_for_what_follows() {
        let workloads = ["fillsync", "readrandom"].map(str::to_owned).into();
        let plan = Plan::new(&Parameters { workloads, records: Some(50_000), ..Parameters::default() }).unwrap();
        let steps: Vec<_> = plan.steps.iter().map(|step| (step.workload.name, step.limit.operations)).collect();
        assert_eq!(steps, [("fillsync", Some(50)), ("fillrandom", Some(50_000)), ("readrandom", None)]);
    }

    #[test]
    fn a_missing_load_is_put_in_and_used_again() {
        let plan = text(&asking(&["fake-read", "fake-write", "fake-fill", "fake-read"]));
        assert_eq!(
            plan,
            "1. fake-fill (preparation): 10000 records, empty first, closed, 10000 operations\n\
             2. fake-read: 10000 records, closed, 10 s\n\
             3. fake-write: 10000 records, closed, 10000 operations\n\
             4. fake-fill: 10000 records, empty first, closed, 10000 operations\n\
             5. fake-read: 10000 records, closed, 10 s\n"
        );
    }

    #[test]
    fn another_kind_of_data_is_loaded_anew() {
        let plan = text(&asking(&["fake-fill", "other-read", "fake-read"]));
        assert_eq!(
            plan,
            "1. fake-fill: 10000 records, empty first, closed, 10000 operations\n\
             2. other-fill (preparation): 2000 records, empty first, closed, 2000 operations\n\
             3. other-read: 2000 records, closed, 2000 operations\n\
             4. fake-fill (preparation): 10000 records, empty first, closed, 10000 operations\n\
             5. fake-read: 10000 records, closed, 10 s\n"
        );
    }

    #[test]
    fn a_load_of_fewer_records_than_are_wanted_does_not_do() {
        let plan = text(&asking(&["fake-fill-few", "fake-read"]));
        assert_eq!(
            plan,
            "1. fake-fill-few: 100 records, empty first, closed, 100 operations\n\
             2. fake-fill (preparation): 10000 records, empty first, closed, 10000 operations\n\
             3. fake-read: 10000 records, closed, 10 s\n"
        );
    }

    #[test]
    fn scale_multiplies_records_and_operations() {
        let parameters = Parameters { scale: 0.5, operations: Some(4000), ..asking(&["fake-read"]) };
        assert_eq!(
            text(&parameters),
            "1. fake-fill (preparation): 5000 records, empty first, closed, 5000 operations\n\
             2. fake-read: 5000 records, closed, 2000 operations\n"
        );
    }

    #[test]
    fn what_is_given_takes_the_place_of_both_defaults() {
        let last = |parameters: Parameters| text(&parameters).lines().last().unwrap().to_owned();
        let read = || asking(&["fake-read"]);
        let seconds = last(Parameters { seconds: Some(2.5), ..read() });
        assert_eq!(seconds, "2. fake-read: 10000 records, closed, 2.5 s");
        let unlimited = last(Parameters { seconds: Some(0.0), ..read() });
        assert_eq!(unlimited, "2. fake-read: 10000 records, closed, 5000 operations");
        let both = last(Parameters { seconds: Some(2.0), operations: Some(7), ..read() });
        assert_eq!(both, "2. fake-read: 10000 records, closed, 7 operations or 2 s");
    }

    #[test]
    fn a_workload_runs_for_its_time_however_fast_the_engine_is() {
        let workloads = ["ycsb-a", "readseq", "deleterandom"].map(str::to_owned).into();
        let plan = Plan::new(&Parameters { workloads, ..Parameters::default() }).unwrap();
        let asked = plan.steps.iter().filter(|step| !step.preparation);
        let limits: Vec<_> = asked.map(|step| (step.limit.operations, step.limit.seconds)).collect();
        let ten = Some(10.0);
        assert_eq!(limits, [(None, ten), (None, ten), (Some(1_000_000), ten)], "removing ends with the records");
    }

    #[test]
    fn each_rate_is_a_step_and_a_load_begins_anew_for_each() {
        let rates = vec![1000.0, 2500.5];
        let parameters = Parameters { rates, arrival: Arrival::Poisson, ..asking(&["fake-fill", "fake-write"]) };
        assert_eq!(
            text(&parameters),
            "1. fake-fill: 10000 records, empty first, 1000/s, poisson, 10000 operations\n\
             2. fake-fill: 10000 records, empty first, 2500.5/s, poisson, 10000 operations\n\
             3. fake-write: 10000 records, 1000/s, poisson, 10000 operations\n\
             4. fake-write: 10000 records, 2500.5/s, poisson, 10000 operations\n"
        );
    }

    #[test]
    fn a_search_comes_before_the_percentages_and_leaves_no_complete_load() {
        let parameters = Parameters { find_max: true, ..asking(&["fake-fill", "fake-read"]) };
        assert_eq!(
            text(&parameters),
            "1. fake-fill: 10000 records, empty first, search, 10000 operations\n\
             2. fake-fill (preparation): 10000 records, empty first, closed, 10000 operations\n\
             3. fake-read: 10000 records, search, 10 s\n"
        );
        let parameters = Parameters { percentages: vec![50.0, 90.0], ..parameters };
        assert_eq!(
            text(&parameters),
            "1. fake-fill: 10000 records, empty first, search, 10000 operations\n\
             2. fake-fill: 10000 records, empty first, 50 % of sustained, 10000 operations\n\
             3. fake-fill: 10000 records, empty first, 90 % of sustained, 10000 operations\n\
             4. fake-read: 10000 records, search, 10 s\n\
             5. fake-read: 10000 records, 50 % of sustained, 10 s\n\
             6. fake-read: 10000 records, 90 % of sustained, 10 s\n"
        );
    }

    #[test]
    fn an_unknown_workload_is_told_with_those_near_it() {
        assert_eq!(refusal(&asking(&["fake-raed"])), "there is no workload `fake-raed`; near it are fake-read");
        let all = refusal(&asking(&["xyz"]));
        assert!(all.starts_with("there is no workload `xyz`; there are fake-fill, "), "{all}");
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let read = || asking(&["fake-read"]);
        assert!(refusal(&asking(&[])).contains("no workload"));
        assert!(refusal(&Parameters { scale: 0.0, ..read() }).contains("scale"));
        assert!(refusal(&Parameters { threads: 0, ..read() }).contains("threads"));
        assert!(refusal(&Parameters { rates: vec![5.0, f64::NAN], ..read() }).contains("rate"));
        assert!(refusal(&Parameters { percentages: vec![50.0], ..read() }).contains("find-max"));
        assert!(refusal(&Parameters { seconds: Some(-1.0), ..read() }).contains("seconds"));
        assert!(refusal(&Parameters { find_max: true, probe_seconds: 0.0, ..read() }).contains("probe"));
    }

    #[test]
    fn a_family_stands_for_its_members() {
        let plan = Plan::new(&asking(&["metadata"])).unwrap();
        let names: Vec<&str> = plan.steps.iter().map(|step| step.workload.name).collect();
        assert_eq!(names, workload::expand("metadata").unwrap());
    }

    #[test]
    fn every_preset_has_a_plan() {
        for preset in crate::preset::all() {
            let plan = Plan::new(&preset.parameters).unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            assert!(plan.steps.iter().any(|step| !step.preparation), "{}", preset.name);
            // A paper counts operations, and its settings are not ours.
            assert!(plan.steps.iter().all(|step| step.limit.operations.is_some()), "{}", preset.name);
            assert_eq!(preset.parameters.settings.tuning, crate::Tuning::Paper, "{}", preset.name);
        }
    }

    #[test]
    fn letters_put_in_taken_out_and_exchanged_are_counted() {
        assert_eq!(distance(b"overwrite", b"overwrite"), 0);
        assert_eq!(distance(b"overwrit", b"overwrite"), 1);
        assert_eq!(distance(b"redarandom", b"readrandom"), 2);
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
