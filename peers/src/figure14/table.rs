//! [`render`], [`markdown`]: what was measured, beside the paper's ratios.

use super::task::{Phase, Report, Run};
use std::fmt::Write;
use thalweg_bench::{Error, Result};

/// An operation, and how many times its rate on `PhatKV` is that on another engine.
struct Operation {
    name: &'static str,
    /// In the paper: of RocksDB's and of LevelDB's.
    paper: (f64, f64),
    /// What Thalweg is to reach: of RocksDB's.
    bar: f64,
}

const OPERATIONS: [Operation; 4] = [
    Operation { name: "mkdir", paper: (2.1, 3.1), bar: 3.0 },
    Operation { name: "create", paper: (2.1, 3.1), bar: 3.0 },
    Operation { name: "query", paper: (2.0, 2.6), bar: 2.5 },
    Operation { name: "list", paper: (2.1, 3.1), bar: 2.5 },
];

/// A figure of a phase; the second is the settling after it.
type Figure = fn(&Phase, Option<&Phase>) -> f64;

const FIGURES: [(&str, Figure); 5] = [
    ("thousands a second", |phase, _| phase.operations as f64 / phase.usage.seconds / 1e3),
    ("CPU, us each", |phase, _| cpu_us(phase, phase)),
    ("CPU with settling, us each", |phase, settle| cpu_us(phase, phase) + settle.map_or(0.0, |s| cpu_us(s, phase))),
    ("bytes written each", |phase, settle| {
        let written = |of: &Phase| of.usage.io.process.written_bytes as f64;
        (written(phase) + settle.map_or(0.0, written)) / phase.operations as f64
    }),
    ("bytes read each", |phase, _| phase.usage.io.process.read_bytes as f64 / phase.operations as f64),
];

fn cpu_us(of: &Phase, each: &Phase) -> f64 {
    (of.usage.cpu.user_seconds + of.usage.cpu.system_seconds) * 1e6 / each.operations as f64
}

/// The medians over the rounds, and the ratios of medians.
pub fn render(report: &Report) -> String {
    let stores = stores(report);
    let mut text = format!("Medians of {} rounds, sizes 1/{}.\n", report.parameters.rounds, report.parameters.scale);
    for operation in operations(report) {
        let _ = write!(text, "\n{:28}", operation.name);
        for store in &stores {
            let _ = write!(text, "{store:>10}");
        }
        text.push('\n');
        for (name, figure) in FIGURES {
            let _ = write!(text, "  {name:26}");
            for store in &stores {
                let _ = write!(text, "{:>10.1}", median(report, store, operation.name, figure).unwrap_or(f64::NAN));
            }
            text.push('\n');
        }
        text.push_str(&render_ratios(report, operation));
    }
    text
}

/// The engines, in the order of their turns.
fn stores(report: &Report) -> Vec<&str> {
    let mut stores: Vec<&str> = Vec::new();
    for run in &report.runs {
        if !stores.contains(&run.store.as_str()) {
            stores.push(&run.store);
        }
    }
    stores
}

/// The operations that were measured.
fn operations(report: &Report) -> impl Iterator<Item = &'static Operation> {
    let was_measured = |name| report.runs.iter().any(|run| phases(run, name).is_some());
    OPERATIONS.iter().filter(move |operation| was_measured(operation.name))
}

/// Stored reports of one build, as tables in Markdown.
///
/// # Errors
/// `Usage` for reports of several builds, or of one that does not say its commit.
pub fn markdown(reports: &[Report]) -> Result<String> {
    let mut text = String::new();
    let first = reports.first().and_then(|report| report.commit.as_deref());
    for report in reports {
        match report.commit.as_deref() {
            Some(commit) if first == Some(commit) => {}
            Some(_) => return Err(Error::Usage("the reports are of several commits".into())),
            None => return Err(Error::Usage("a report has no commit: build with THALWEG_COMMIT set".into())),
        }
        let (stores, parameters) = (stores(report), &report.parameters);
        let memory =
            parameters.memory_limit.map_or_else(String::new, |bytes| format!(", {} MiB of memory", bytes >> 20));
        let rounds = match parameters.rounds {
            1 => "one round".to_owned(),
            rounds => format!("medians of {rounds} rounds"),
        };
        let _ = writeln!(text, "Sizes 1/{}{memory}, {rounds}:\n", parameters.scale);
        let _ = writeln!(text, "| | {} | × RocksDB | bar | paper | × LevelDB | paper |", stores.join(" | "));
        let _ = writeln!(text, "|-|{}--:|--:|--:|--:|--:|", "--:|".repeat(stores.len()));
        for operation in operations(report) {
            let of = |store, figure| median(report, store, operation.name, figure).unwrap_or(f64::NAN);
            let _ = write!(text, "| {} |", operation.name);
            for store in &stores {
                let [(_, rate), (_, cpu), _, _, (_, read)] = FIGURES;
                let (rate, cpu, read) = (of(store, rate), of(store, cpu), of(store, read));
                let _ = write!(text, " {rate:.1} ({cpu:.1}; {read:.0}) |");
            }
            let times = |store| of("thalweg", FIGURES[0].1) / of(store, FIGURES[0].1);
            let (rocksdb, leveldb, (paper, paper_leveldb)) = (times("rocksdb"), times("leveldb"), operation.paper);
            let bar = operation.bar;
            let _ = writeln!(text, " {rocksdb:.2} | {bar:.1} | {paper:.1} | {leveldb:.2} | {paper_leveldb:.1} |");
        }
        text.push('\n');
    }
    if let (Some(commit), Some(Report { machine, .. })) = (first, reports.first()) {
        let (cpu, cpus, kernel, file_system) = (&machine.cpu, machine.cpus, &machine.kernel, &machine.file_system);
        let _ = writeln!(text, "Commit {commit}.\n");
        let _ = writeln!(text, "Machine of all figures: {cpu}, {cpus} processors, Linux {kernel}; {file_system}.");
    }
    Ok(text)
}

fn render_ratios(report: &Report, operation: &Operation) -> String {
    let mut text = String::new();
    let rate = |store| median(report, store, operation.name, FIGURES[0].1);
    let Some(ours) = rate("thalweg") else { return text };
    if let Some(theirs) = rate("rocksdb") {
        let (ratio, paper, bar) = (ours / theirs, operation.paper.0, operation.bar);
        let _ = writeln!(text, "  {ratio:.2} x RocksDB (the paper {paper:.1}, the bar {bar:.1})");
    }
    if let Some(theirs) = rate("leveldb") {
        let (ratio, paper) = (ours / theirs, operation.paper.1);
        let _ = writeln!(text, "  {ratio:.2} x LevelDB (the paper {paper:.1})");
    }
    text
}

/// The phase of this name, and the settling after it.
fn phases<'r>(run: &'r Run, name: &str) -> Option<(&'r Phase, Option<&'r Phase>)> {
    let at = run.phases.iter().position(|phase| phase.name == name)?;
    Some((&run.phases[at], run.phases.get(at + 1).filter(|next| next.name == "settle")))
}

fn median(report: &Report, store: &str, operation: &str, figure: Figure) -> Option<f64> {
    let runs = report.runs.iter().filter(|run| run.store == store);
    let mut values: Vec<f64> =
        runs.filter_map(|run| phases(run, operation)).map(|(phase, settle)| figure(phase, settle)).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}
