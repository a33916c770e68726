//! [`Results`]: stored reports of one build, as a Markdown page of questions.
//!
//! A directory holds the reports (`*.json`) and `questions.toml`. These files alone determine the page, byte for byte.
//! Each question has a conclusion, one table and the commands that made its reports.
//!
//! The page is refused when its reports are of different commits or machines, when a report belongs to no question, and
//! when a conclusion is longer than [`CONCLUSION_LINES_MAX`] lines.

use super::metric::{Quantile, class_name};
use super::{Entry, Metric, Report, Spread, Step, Summary, json, number, table};
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The file of a directory of results that holds the questions.
pub const QUESTIONS: &str = "questions.toml";

/// The greatest number of lines of prose of a question.
pub const CONCLUSION_LINES_MAX: usize = 10;

/// The greatest number of characters of a line of prose.
const LINE_CHARS_MAX: usize = 120;

/// Questions and the reports that answer them.
pub struct Results {
    questions: Questions,
    /// The reports, by file name.
    reports: BTreeMap<String, Report>,
}

/// The contents of `questions.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    /// The title of the page.
    title: String,
    /// The text before all tables.
    introduction: String,
    question: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    title: String,
    /// The conclusion from the table.
    conclusion: String,
    /// The engine whose figures divide those of the others; `None`: the first engine of each report.
    baseline: Option<String>,
    columns: Vec<Column>,
    report: Vec<Source>,
}

/// A report of a question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// The name of its file.
    file: String,
    /// The label that distinguishes its rows from those of another report: `4 threads`.
    #[serde(default)]
    label: String,
    /// The workloads that belong to the question; empty: all.
    #[serde(default)]
    workloads: Vec<String>,
}

impl Source {
    fn has(&self, step: &Step<'_>) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|workload| workload == step.workload)
    }
}

/// A column of a table.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Column {
    Throughput,
    /// The least and the greatest throughput of the rounds.
    Rounds,
    /// Ratio of the throughput to the baseline's, of paired rounds.
    Ratio,
    Cpu,
    Written,
    WriteAmplification,
    DeviceReads,
    P50,
    P99,
    P999,
    Max,
    Stalls,
    /// The time from the end of a load until no work is due.
    Drain,
    Syncs,
    PeakMemory,
    /// Memory resident at the end, without mapped files.
    OwnMemory,
    /// Bytes of indexes and filters for each entry.
    IndexOfEntry,
    /// Bytes of the index of directories for each directory.
    IndexOfDirectory,
    /// The share of lookups whose page of the f-hash was in the f-cache.
    FCacheHits,
    Space,
    /// The greatest mean number of bytes of the chains that memtables waited for.
    Chain,
}

impl Results {
    /// Reads a directory of results.
    ///
    /// # Errors
    /// `Io` and `Said`: a file cannot be read. `Said`: the files do not make one page; the message says why.
    pub fn read(directory: &Path) -> Result<Results> {
        let path = directory.join(QUESTIONS);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Error::of_path(format!("read {}", path.display()), error))?;
        let mut reports = BTreeMap::new();
        for name in stored(directory)? {
            reports.insert(name.clone(), json::read(&directory.join(&name))?);
        }
        Results::new(&text, reports)
    }

    /// The results of these questions and of reports by file name.
    ///
    /// # Errors
    /// `Said`: they do not make one page.
    pub fn new(questions: &str, reports: BTreeMap<String, Report>) -> Result<Results> {
        let questions: Questions = toml::from_str(questions)
            .map_err(|error| Error::Said(format!("{QUESTIONS}: {}", error.to_string().trim().replace('\n', " "))))?;
        let results = Results { questions, reports };
        results.check_prose()?;
        results.check_files()?;
        results.check_build()?;
        Ok(results)
    }

    fn check_prose(&self) -> Result<()> {
        let conclusions = self.questions.question.iter().map(|question| (&question.title, &question.conclusion));
        for (title, prose) in conclusions.chain([(&self.questions.title, &self.questions.introduction)]) {
            let lines = prose.trim().lines().count();
            if lines > CONCLUSION_LINES_MAX {
                return refused(format!("`{title}` has {lines} lines of prose; {CONCLUSION_LINES_MAX} are allowed"));
            }
            if let Some(line) = prose.lines().find(|line| line.chars().count() > LINE_CHARS_MAX) {
                return refused(format!("`{title}` has a line of more than {LINE_CHARS_MAX} characters: {line}"));
            }
        }
        Ok(())
    }

    fn check_files(&self) -> Result<()> {
        let used = || self.questions.question.iter().flat_map(|question| &question.report);
        if let Some(source) = used().find(|source| !self.reports.contains_key(&source.file)) {
            return refused(format!("the report {} is missing", source.file));
        }
        match self.reports.keys().find(|name| !used().any(|source| source.file == **name)) {
            Some(name) => refused(format!("no question has the report {name}")),
            None => Ok(()),
        }
    }

    /// Checks that all reports are of one build on one machine, and complete.
    fn check_build(&self) -> Result<()> {
        let mut first: Option<(&String, &Report)> = None;
        for (name, report) in &self.reports {
            let Some(commit) = &report.commit else {
                return refused(format!("{name} has no commit: build with THALWEG_COMMIT set"));
            };
            if report.notes.iter().any(|note| note.contains("is missing")) {
                return refused(format!("{name} is not whole: {}", report.notes.join("; ")));
            }
            let (other, reference) = *first.get_or_insert((name, report));
            if reference.commit.as_ref() != Some(commit) {
                let expected = reference.commit.as_deref().unwrap_or_default();
                return refused(format!("{name} is of commit {commit}, {other} of commit {expected}"));
            }
            if reference.machine != report.machine {
                return refused(format!("{name} and {other} are of different machines"));
            }
        }
        match first {
            Some(_) => Ok(()),
            None => refused("there are no reports".to_owned()),
        }
    }

    /// The page.
    ///
    /// # Errors
    /// `Usage`: a question's baseline is not among the engines of a report.
    pub fn markdown(&self) -> Result<String> {
        let mut page = format!("# {}\n\n{}\n\n", self.questions.title, self.questions.introduction.trim());
        self.build(&mut page);
        for question in &self.questions.question {
            let _ = write!(page, "\n## {}\n\n{}\n\n", question.title, question.conclusion.trim());
            self.table(question, &mut page)?;
            page.push('\n');
            for report in question.report.iter().filter_map(|source| self.reports.get(&source.file)) {
                page.push_str(&shell(&report.command));
            }
        }
        Ok(page)
    }

    /// The lines on build and machine, which all reports have in common.
    fn build(&self, page: &mut String) {
        let Some(report) = self.reports.values().next() else { return };
        let mut engines: BTreeMap<&str, &str> = BTreeMap::new();
        for engine in self.reports.values().flat_map(|report| &report.engines) {
            let name = engine.name.split(':').next().unwrap_or_default();
            engines.insert(name, &engine.version);
        }
        let engines: Vec<String> = engines.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let started = |report: &&Report| report.started.get(..10).unwrap_or_default().to_owned();
        let days: Vec<String> = self.reports.values().map(|report| started(&report)).collect();
        let (from, until) =
            (days.iter().min().cloned().unwrap_or_default(), days.iter().max().cloned().unwrap_or_default());
        let machine = &report.machine;
        let ahead = machine.read_ahead_kb.map_or(String::new(), |kb| format!(", read-ahead {kb} KiB"));
        let _ = writeln!(page, "- **Commit**: `{}`", report.commit.as_deref().unwrap_or_default());
        let _ = writeln!(page, "- **Engines**: {}", engines.join(", "));
        let _ = writeln!(
            page,
            "- **Machine**: {} processors ({}), {}, Linux {}",
            machine.cpus,
            machine.cpu,
            number::bytes(machine.memory_bytes as f64),
            machine.kernel
        );
        let _ = writeln!(page, "- **File system**: {}{ahead}", machine.file_system);
        let _ = writeln!(page, "- **Measured**: {}", if from == until { from } else { format!("{from} to {until}") });
    }

    fn table(&self, question: &Question, page: &mut String) -> Result<()> {
        let mut rows = Vec::new();
        for source in &question.report {
            let Some(report) = self.reports.get(&source.file) else { continue };
            let summary = match &question.baseline {
                Some(baseline) => Summary::against(report, baseline)?,
                None => Summary::of(report),
            };
            for step in summary.asked().filter(|step| source.has(step)) {
                let comma = if source.label.is_empty() { "" } else { ", " };
                let name = format!("{}{comma}{}", step.short(), source.label);
                for entry in &step.entries {
                    let cells = question.columns.iter().map(|column| column.cell(&summary, step, entry));
                    let row = [name.clone(), entry.engine.to_owned()].into_iter().chain(cells).collect::<Vec<_>>();
                    rows.push(row);
                }
            }
        }
        let header: Vec<&str> =
            ["workload", "engine"].into_iter().chain(question.columns.iter().map(|column| column.name())).collect();
        let _ = writeln!(page, "| {} |", header.join(" | "));
        let _ = writeln!(page, "|---|---|{}", "--:|".repeat(question.columns.len()));
        for row in rows {
            let _ = writeln!(page, "| {} |", row.join(" | "));
        }
        Ok(())
    }
}

/// The names of the reports in a directory, in order.
///
/// # Errors
/// `Io`: the directory cannot be read.
pub fn stored(directory: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::of_path(format!("read {}", directory.display()), error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A command as lines of code, no longer than [`LINE_CHARS_MAX`].
fn shell(command: &str) -> String {
    let (mut text, mut line) = (String::new(), "   ".to_owned());
    for word in command.split(' ') {
        if line.chars().count() + word.chars().count() + 3 > LINE_CHARS_MAX {
            let _ = writeln!(text, "{line} \\");
            line = "       ".to_owned();
        }
        line = format!("{line} {word}");
    }
    format!("{text}{line}\n")
}

fn refused<T>(why: String) -> Result<T> {
    Err(Error::Said(why))
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Throughput => "operations",
            Column::Rounds => "least–greatest",
            Column::Ratio => "ratio",
            Column::Cpu => "CPU/op",
            Column::Written => "written/op",
            Column::WriteAmplification => "W-amp",
            Column::DeviceReads => "dev reads/read",
            Column::P50 => "P50",
            Column::P99 => "P99",
            Column::P999 => "P99.9",
            Column::Max => "max",
            Column::Stalls => "stalls",
            Column::Drain => "drain",
            Column::Syncs => "syncs",
            Column::PeakMemory => "peak RSS",
            Column::OwnMemory => "own memory",
            Column::IndexOfEntry => "index/entry",
            Column::IndexOfDirectory => "index/directory",
            Column::FCacheHits => "f-cache hits",
            Column::Space => "space",
            Column::Chain => "chain",
        }
    }

    fn cell(self, summary: &Summary<'_>, step: &Step<'_>, entry: &Entry<'_>) -> String {
        match self {
            Column::Throughput => {
                let noisy = if entry.noisy() { " noisy" } else { "" };
                format!("{}{noisy}", table::shown(entry, Metric::Throughput))
            }
            Column::Rounds => table::over_rounds(entry),
            Column::Ratio if entry.engine == summary.baseline => number::ratio(1.0),
            Column::Ratio => table::spread(summary.ratio(step, entry.engine, Metric::Throughput), true),
            Column::Cpu => table::shown(entry, Metric::Cpu),
            Column::Written => table::shown(entry, Metric::Written),
            Column::WriteAmplification => table::shown(entry, Metric::WriteAmplification),
            Column::DeviceReads => table::shown(entry, Metric::DeviceReads),
            Column::P50 => latency(step, entry, Quantile::P50),
            Column::P99 => latency(step, entry, Quantile::P99),
            Column::P999 => latency(step, entry, Quantile::P999),
            Column::Max => latency(step, entry, Quantile::Max),
            Column::Stalls => table::stalls(entry),
            Column::Drain => table::shown(entry, Metric::Drain),
            Column::Syncs => table::shown(entry, Metric::Syncs),
            Column::PeakMemory => table::shown(entry, Metric::PeakMemory),
            Column::OwnMemory => table::shown(entry, Metric::OwnMemory),
            Column::IndexOfEntry => table::shown(entry, Metric::IndexOfEntry),
            Column::IndexOfDirectory => table::shown(entry, Metric::IndexOfDirectory),
            Column::FCacheHits => table::shown(entry, Metric::FCacheHits),
            Column::Space => table::shown(entry, Metric::Space),
            Column::Chain => {
                let mean = |run: &&super::Run| run.usage.peaks.get("chain_bytes_mean").map(|bytes| *bytes as f64);
                let means = Spread::of(entry.runs.iter().filter_map(mean).collect());
                means.map_or_else(|| table::NOTHING.to_owned(), |mean| number::bytes(mean.median))
            }
        }
    }
}

/// A quantile of each class of operations: `12.3 µs`, or `get 12.3 µs, update 4.56 µs`.
fn latency(step: &Step<'_>, entry: &Entry<'_>, quantile: Quantile) -> String {
    let classes = step.classes();
    let shown = |class| entry.median(Metric::Latency(class, quantile)).map(number::time);
    let cells: Vec<String> = match classes.as_slice() {
        [class] => shown(*class).into_iter().collect(),
        several => {
            several.iter().filter_map(|class| Some(format!("{} {}", class_name(*class), shown(*class)?))).collect()
        }
    };
    if cells.is_empty() { table::NOTHING.to_owned() } else { cells.join(", ") }
}
