//! Tables of a page: the printed ones as HTML, every run, the paper's beside ours, and the configuration.

use super::svg::escape;
use crate::report::metric::{Quantile, class_name};
use crate::report::table::{self, shown};
use crate::report::terms;
use crate::report::{Grid, Metric, Mood, Paper, Report, Run, Spread, Summary, number};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A table of text as an element of a page.
pub fn html(grid: &Grid) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for name in grid.header() {
        let _ = write!(html, "<th>{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    for row in grid.rows() {
        html.push_str("<tr>");
        for (text, mood) in row {
            let class = match mood {
                Mood::Neutral => "",
                Mood::Good => " class=\"good\"",
                Mood::Bad => " class=\"bad\"",
            };
            let _ = write!(html, "<td{class}>{}</td>", escape(text));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// All figures: the ratios, each step, and each run.
pub fn numbers(summary: &Summary<'_>) -> String {
    let mut page = String::from("<h2>All numbers</h2>\n");
    for remark in table::remarks(summary) {
        let _ = writeln!(page, "<p class=\"soft\">{}</p>", escape(&remark));
    }
    if !summary.searched().is_empty() {
        let _ = write!(page, "<h3>Sustained rate</h3>\n{}", html(&table::sustained(summary)));
    }
    for step in &summary.steps {
        let _ = write!(
            page,
            "<h3>{}</h3>\n{}{}",
            escape(&table::title(step)),
            html(&table::speed(summary, step, &Quantile::ALL, usize::MAX)),
            html(&table::cost(step, true).without_blanks())
        );
    }
    let causes = causes(summary);
    if !causes.is_empty() {
        let causes = html(&causes);
        let _ = writeln!(
            page,
            "<details><summary>Bytes written by cause, as the engines count</summary>{causes}</details>"
        );
    }
    let _ = writeln!(page, "<details><summary>Every run</summary>{}</details>", html(&runs(summary.report)));
    page
}

/// How the engines were tuned, the consequences for durability, memory and disk, and the use of memory and disk.
pub fn terms(summary: &Summary<'_>) -> String {
    let (tuning, table) = (escape(&terms::tuning(summary)), html(&terms::table(summary)));
    format!("<h2>What ran</h2>\n<p>{tuning}</p>\n<div class=\"run terms\">{table}</div>\n")
}

/// The meanings of the names of figures.
pub fn glossary() -> String {
    let terms = terms::glossary();
    let terms = terms.iter().map(|(name, is)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(is)));
    format!("<h2>What the names mean</h2>\n<dl>{}</dl>\n", terms.collect::<String>())
}

/// How engines compare with the baseline, for several figures.
pub fn ratios(summary: &Summary<'_>) -> String {
    let mut page = String::new();
    for (metric, what) in [
        (Metric::Throughput, "Throughput, more is better"),
        (Metric::Cpu, "CPU time of an operation, less is better"),
        (Metric::Written, "Bytes written for an operation, less is better"),
        (Metric::DeviceReads, "Device reads for a read, less is better"),
    ] {
        let grid = table::overview(summary, metric, true);
        if !grid.is_empty() && summary.engines.len() > 1 {
            let _ = writeln!(page, "<div><h3>{what}</h3>{}</div>", html(&grid));
        }
    }
    if page.is_empty() {
        return page;
    }
    let baseline = escape(summary.baseline);
    format!("<details><summary>Ratios to {baseline}</summary><div class=\"halves\">{page}</div></details>\n")
}

/// The bytes written by the engines' own counters: medians over the rounds, a column for a cause.
fn causes(summary: &Summary<'_>) -> Grid {
    let counted = |run: &Run, cause: &str| {
        let usage = run.drained.as_ref().unwrap_or(&run.usage);
        usage.counters.written_bytes.get(cause).map(|bytes| *bytes as f64)
    };
    let usages = summary.report.runs.iter().map(|run| run.drained.as_ref().unwrap_or(&run.usage));
    let causes: BTreeSet<&String> = usages.flat_map(|usage| usage.counters.written_bytes.keys()).collect();
    let mut grid = Grid::new(["step", "engine"].into_iter().chain(causes.iter().map(|cause| cause.as_str())));
    for step in &summary.steps {
        for entry in &step.entries {
            let cell = |cause: &&String| {
                let figures = entry.runs.iter().filter_map(|run| counted(run, cause)).collect();
                Spread::of(figures).map_or(String::new(), |spread| number::bytes(spread.median))
            };
            let cells: Vec<String> = causes.iter().map(cell).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                grid.row([step.short(), entry.engine.to_owned()].into_iter().chain(cells));
            }
        }
    }
    grid
}

fn runs(report: &Report) -> Grid {
    let mut grid = Grid::new([
        "step",
        "engine",
        "round",
        "attempt",
        "seconds",
        "operations",
        "throughput",
        "missing",
        "latency",
        "P50",
        "P99",
        "P99.9",
        "max",
        "late P99",
        "drained",
        "foreign",
    ]);
    for run in &report.runs {
        let latency = |class, quantile| Metric::Latency(class, quantile).of(run).unwrap_or(0.0);
        let quantiles = [Quantile::P50, Quantile::P99, Quantile::P999, Quantile::Max];
        for (place, class) in run.latency.keys().enumerate() {
            let first = if place == 0 { facts(run) } else { Default::default() };
            let last = if place == 0 { costs(run) } else { Default::default() };
            let times = quantiles.map(|quantile| number::time(latency(*class, quantile)));
            grid.row(first.into_iter().chain([class_name(*class).to_owned()]).chain(times).chain(last));
        }
    }
    grid.without_blanks()
}

fn facts(run: &Run) -> [String; 8] {
    [
        format!("{}, {}", run.workload, crate::report::summary::pace_name(&run.pace)),
        run.engine.clone(),
        run.round.to_string(),
        run.attempt.to_string(),
        number::plain(run.seconds),
        number::count(run.operations as f64),
        number::rate(run.operations_per_second),
        if run.missing == 0 { String::new() } else { number::count(run.missing as f64) },
    ]
}

fn costs(run: &Run) -> [String; 3] {
    let noisy = if run.noisy { " noisy" } else { "" };
    [
        run.lateness.as_ref().map_or(String::new(), |late| number::time(late.p99_ns as f64)),
        run.drain_seconds.map_or(String::new(), |seconds| number::time(seconds * 1e9)),
        format!("{}{noisy}", number::percent(run.usage.cpu.foreign_percent)),
    ]
}

/// The paper's table, and ours beside it.
pub fn paper(summary: &Summary<'_>, paper: &Paper) -> String {
    let mut theirs = Grid::new([""].into_iter().chain(paper.columns.iter().map(String::as_str)));
    for row in &paper.rows {
        theirs.row([row.name.as_str()].into_iter().chain(row.cells.iter().map(String::as_str)));
    }
    let mut ours = Grid::new([""].into_iter().chain(summary.engines.iter().copied()));
    for step in &summary.steps {
        let cell = |engine: &&str, metric| step.entry(engine).map_or("–".to_owned(), |entry| shown(entry, metric));
        let mut row = |name: String, metric| {
            ours.row([name].into_iter().chain(summary.engines.iter().map(|engine| cell(engine, metric))));
        };
        row(step.short(), Metric::Throughput);
        for class in step.classes() {
            row(format!("{} {} P99", step.short(), class_name(class)), Metric::Latency(class, Quantile::P99));
        }
    }
    format!(
        "<h2>The paper’s figures and ours</h2>\n<p>{}. <span class=\"soft\">What differs here: {}</span></p>\n\
         <div class=\"halves\"><div><h3>{}</h3>{}</div><div><h3>Here</h3>{}</div></div>\n",
        escape(paper.title.trim_end_matches('.')),
        escape(&paper.differs),
        escape(&paper.source),
        html(&theirs),
        html(&ours)
    )
}

/// The configuration of the runs: command, machine, parameters, engines.
pub fn configuration(report: &Report) -> String {
    let parameters = toml::to_string_pretty(&report.parameters)
        .unwrap_or_else(|error| format!("# the parameters cannot be shown as TOML: {error}"));
    format!(
        "<h2>How it was run</h2>\n<pre class=\"wrap\">{}</pre>\n<div class=\"halves run\"><div><h3>Machine</h3>{}\
         <h3>Engines</h3>{}</div><div><h3>Parameters</h3><pre>{}</pre></div></div>\n",
        escape(&report.command),
        html(&machine(report)),
        html(&engines(report)),
        escape(parameters.trim_end())
    )
}

fn machine(report: &Report) -> Grid {
    let machine = &report.machine;
    let mut grid = Grid::new(["", ""]);
    grid.row(["processor".to_owned(), format!("{} × {}", machine.cpus, machine.cpu)]);
    grid.row(["memory".to_owned(), number::bytes(machine.memory_bytes as f64)]);
    grid.row(["kernel", &machine.kernel]);
    grid.row(["file system", &machine.file_system]);
    grid.row(["device", machine.device.as_deref().unwrap_or("none that can be seen")]);
    if let Some(kib) = machine.read_ahead_kb {
        grid.row(["read-ahead".to_owned(), format!("{kib} KiB")]);
    }
    grid
}

/// A row for a setting, a column for an engine.
fn engines(report: &Report) -> Grid {
    let mut grid = Grid::new([""].into_iter().chain(report.engines.iter().map(|engine| engine.name.as_str())));
    grid.row(["version"].into_iter().chain(report.engines.iter().map(|engine| engine.version.as_str())));
    let names: BTreeSet<&String> =
        report.engines.iter().flat_map(|engine| engine.settings.keys().chain(&engine.ignored)).collect();
    for name in names {
        let cell = |engine: &crate::engine::Description| match engine.settings.get(name) {
            Some(value) => value.clone(),
            None if engine.ignored.contains(name) => "has none".to_owned(),
            None => "–".to_owned(),
        };
        grid.row([name.clone()].into_iter().chain(report.engines.iter().map(cell)));
    }
    grid
}
