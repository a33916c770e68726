//! `bench`: runs rounds of engines, each in a process and a directory of its own, and reports the results.
//!
//! Every invalid argument is refused before a directory is created. When a run ends early for any reason, the results
//! measured until then are printed and written, with notes on the missing ones.

use super::args::{OutputArgs, RunArgs};
use super::draft::{self, Draft};
use super::output::print;
use super::place::Place;
use super::progress::Progress;
use super::resolved::Resolved;
use super::stop::Stop;
use super::variant::{self, Variant};
use crate::driver;
use crate::engine::Description;
use crate::error::{Error, FAILED, Result};
use crate::machine;
use crate::parameters::Parameters;
use crate::plan::{Pace, Plan};
use crate::process::{self, Event, Host, Task};
use crate::report::{Report, Run, Summary, Sustained, html, json, table};
use crate::workload::Dataset;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the workloads that the arguments name; prints the table to `output`.
pub fn run(host: &Host, args: &RunArgs, output: &mut dyn Write) -> Result<()> {
    let resolved = Resolved::new(host, args)?;
    check_plan(&resolved.parameters)?;
    check_settings(host, &resolved.parameters)?;
    let baseline = baseline(args.output.baseline.as_deref(), &resolved.parameters.engines)?;
    if args.source.print_config {
        return print(output, &resolved.render(host)?);
    }
    let drafts = Drafts::open(&args.output)?;
    let stop = Stop::on_signals()?;
    let place = Place::create(args.machine.directory.as_deref(), args.machine.keep)?;
    let mut report = empty_report(host, resolved, &place);
    report.overhead_ns = Some(driver::overhead()?);
    let mut session = Session {
        host,
        place: &place,
        stop: &stop,
        progress: Progress::new(host.command, report.parameters.rounds, args.output.quiet),
        measured: Measured::default(),
    };
    if let Some(note) = machine::read_ahead_note(&report.machine) {
        session.note(&note);
    }
    let ended = session.all_rounds(&report.parameters);
    session.progress.finish();
    let Measured { engines, runs, sustained, notes } = session.measured;
    if args.machine.keep {
        super::progress::say(host.command, &format!("the databases are in {}", place.path().display()));
    }
    drop(place);
    // Without a measurement the files keep their contents; preparations are no measurements.
    let is_measured = runs.iter().any(|run| !run.preparation) || !sustained.is_empty();
    if !runs.is_empty() {
        report.parameters.settings = report.parameters.settings.resolved();
        (report.engines, report.runs, report.sustained, report.notes) = (engines, runs, sustained, notes);
        // Files first: a closed output must not lose them. The table is printed even if the files fail: it may be the
        // only result of a long run.
        let summary = summary(&report, baseline.as_deref())?;
        let written = if is_measured { drafts.finish(&summary) } else { Ok(()) };
        print(output, &table::text(&summary, &args.output.colour.look()))?;
        written?;
    }
    ended
}

/// The files that a run writes at its end.
struct Drafts {
    json: Option<Draft>,
    brief: bool,
    html: Option<Draft>,
}

impl Drafts {
    fn open(args: &OutputArgs) -> Result<Drafts> {
        let places = [&args.json, &args.html].map(|path| path.as_deref().and_then(draft::place));
        if places[0].is_some() && places[0] == places[1] {
            return Err(Error::Usage("--json and --html name the same file".into()));
        }
        Ok(Drafts {
            json: args.json.as_deref().map(Draft::open).transpose()?,
            brief: args.brief,
            html: args.html.as_deref().map(Draft::open).transpose()?,
        })
    }

    fn finish(self, summary: &Summary<'_>) -> Result<()> {
        if let Some(draft) = self.json {
            let report = summary.report.clone();
            draft.finish(&json::text(&if self.brief { report.brief() } else { report })?)?;
        }
        if let Some(draft) = self.html {
            draft.finish(&html::page(summary))?;
        }
        Ok(())
    }
}

fn summary<'a>(report: &'a Report, baseline: Option<&str>) -> Result<Summary<'a>> {
    let ran = |name: &&str| report.engines.iter().any(|engine| engine.name == *name);
    // The baseline may have failed before it measured anything.
    baseline.filter(ran).map_or_else(|| Ok(Summary::of(report)), |baseline| Summary::against(report, baseline))
}

/// Checks that each step's workload accepts the parameters: the names in a mix, the size of a key, the pace.
fn check_plan(parameters: &Parameters) -> Result<()> {
    for step in Plan::new(parameters)?.steps {
        let dataset = Dataset {
            kind: step.workload.dataset,
            records: step.records,
            next: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        };
        let workload = (step.workload.make)(parameters, &Arc::new(dataset))?;
        if workload.overlaps() && step.pace != Pace::Closed {
            let name = step.workload.name;
            return Err(Error::Usage(format!(
                "{name} has many lookups in flight itself: it runs in a closed loop only"
            )));
        }
    }
    Ok(())
}

/// Checks that each engine accepts its settings.
fn check_settings(host: &Host, parameters: &Parameters) -> Result<()> {
    for engine in &parameters.engines {
        let variant = Variant::parse(engine)?;
        let settings = variant.settings(&parameters.settings);
        let settings = Parameters { settings, ..parameters.clone() }.engine_settings();
        let factory = host.factories.iter().find(|factory| factory.name() == variant.engine);
        factory.map_or(Ok(()), |factory| factory.check(&settings))?;
    }
    Ok(())
}

/// Returns the canonical name of the engine that the others are compared with. It must be one that runs.
fn baseline(named: Option<&str>, engines: &[String]) -> Result<Option<String>> {
    let Some(named) = named else { return Ok(None) };
    let name = variant::canonical(named);
    if engines.contains(&name) {
        return Ok(Some(name));
    }
    Err(Error::Usage(format!("--baseline {named} does not run; those that do: {}", engines.join(", "))))
}

fn empty_report(host: &Host, resolved: Resolved, place: &Place) -> Report {
    Report {
        schema: json::SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("THALWEG_COMMIT").map(str::to_owned),
        // A system clock before 1970 counts as 1970.
        started: humantime::format_rfc3339_seconds(SystemTime::now().max(UNIX_EPOCH)).to_string(),
        command: command_line(host),
        preset: resolved.preset.as_ref().map(|preset| preset.name.to_owned()),
        machine: machine::describe(place.path()),
        parameters: resolved.parameters,
        engines: Vec::new(),
        runs: Vec::new(),
        overhead_ns: None,
        sustained: Vec::new(),
        paper: resolved.preset.map(|preset| preset.paper),
        notes: Vec::new(),
    }
}

/// Returns the exact command, quoted for a shell, with the name of the program that the user knows.
fn command_line(host: &Host) -> String {
    let own_words = host.command.split_whitespace().count();
    let arguments = std::env::args_os().skip(own_words);
    let quoted = arguments.map(|argument| quoted(&argument.to_string_lossy()));
    std::iter::once(host.command.to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The reports of the workers.
#[derive(Default)]
struct Measured {
    engines: Vec<Description>,
    runs: Vec<Run>,
    sustained: Vec<Sustained>,
    notes: Vec<String>,
}

struct Session<'a> {
    host: &'a Host,
    place: &'a Place,
    stop: &'a Stop,
    progress: Progress,
    measured: Measured,
}

impl Session<'_> {
    /// Runs every engine in every round. An engine that fails is skipped in further rounds, and the others continue.
    fn all_rounds(&mut self, parameters: &Parameters) -> Result<()> {
        let mut failed: Vec<String> = Vec::new();
        for round in 1..=parameters.rounds {
            for engine in rotated(&parameters.engines, round) {
                if failed.iter().any(|failed| failed == engine) {
                    continue;
                }
                let ended = self.one_round(engine, round, parameters);
                if let Some(code) = self.stop.code() {
                    let text = format!("stopped in round {round} at {engine}; this and what follows is missing");
                    self.note(&text);
                    return Err(Error::Exit(code));
                }
                if let Err(error) = ended {
                    self.note(&format!("failed in round {round}: {error}; what follows of {engine} is missing"));
                    failed.push(engine.to_owned());
                }
            }
        }
        // The notes have the reasons.
        if failed.is_empty() { Ok(()) } else { Err(Error::Exit(FAILED)) }
    }

    fn one_round(&mut self, engine: &str, round: u32, parameters: &Parameters) -> Result<()> {
        self.progress.engine(engine, round);
        let room = self.place.room(engine, round)?;
        let task = Task {
            engine: engine.to_owned(),
            round,
            directory: room.path().to_owned(),
            parameters: Parameters {
                settings: Variant::parse(engine)?.settings(&parameters.settings),
                ..parameters.clone()
            },
        };
        let (progress, measured) = (&mut self.progress, &mut self.measured);
        let stop = || self.stop.code().is_some();
        process::start(self.host, &task, &stop, &mut |event| {
            progress.event(&event);
            measured.take(engine, event);
        })
    }

    /// Prints a note, and puts it in the report.
    fn note(&mut self, text: &str) {
        self.progress.note(text);
        self.measured.note(text.to_owned());
    }
}

impl Measured {
    fn take(&mut self, engine: &str, event: Event) {
        match event {
            Event::Opened(description) => {
                if !self.engines.iter().any(|known| known.name == engine) {
                    // A variant is listed under its own name.
                    self.engines.push(Description { name: engine.to_owned(), ..description });
                }
            }
            Event::Run(run) => self.runs.push(*run),
            Event::Sustained(found) => self.sustained.push(found),
            Event::Note(text) => self.note(format!("{engine}: {text}")),
            Event::Step { .. } | Event::Progress(_) | Event::Failed(_) | Event::Done => {}
        }
    }

    /// Adds a note unless it is there already: each round may have the same.
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

/// Returns the engines in the order of this round. Each round begins with another engine, so that no engine always has
/// the better place.
fn rotated(engines: &[String], round: u32) -> impl Iterator<Item = &str> {
    let first = (round as usize - 1) % engines.len().max(1);
    engines.iter().cycle().skip(first).take(engines.len()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_engine() {
        let engines = ["a", "b", "c"].map(str::to_owned);
        let order = |round| rotated(&engines, round).collect::<String>();
        assert_eq!([1, 2, 3, 4].map(order), ["abc", "bca", "cab", "abc"]);
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_break_it() {
        assert_eq!(quoted("--rate=10k,20k"), "--rate=10k,20k");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_baseline_is_an_engine_that_runs() {
        let engines = ["thalweg", "rocksdb"].map(str::to_owned);
        assert!(baseline(None, &engines).unwrap().is_none());
        assert_eq!(baseline(Some("rocksdb"), &engines).unwrap().as_deref(), Some("rocksdb"));
        for wrong in ["lmdb", "rocksdb:table=2M", "rocksdb:tabel=2M"] {
            assert!(matches!(baseline(Some(wrong), &engines), Err(Error::Usage(_))), "{wrong}");
        }
        let variants = ["thalweg", "thalweg:table=2M:backend=none"].map(str::to_owned);
        let found = baseline(Some("thalweg:backend=none:table=2M"), &variants).unwrap();
        assert_eq!(found.as_deref(), Some("thalweg:table=2M:backend=none"));
    }

    #[test]
    fn a_note_is_kept_once() {
        let mut measured = Measured::default();
        measured.take("a", Event::Note("no control group".into()));
        measured.take("a", Event::Note("no control group".into()));
        measured.take("b", Event::Note("no control group".into()));
        assert_eq!(measured.notes, ["a: no control group", "b: no control group"]);
    }
}
