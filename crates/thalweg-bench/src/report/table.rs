//! The tables printed after all runs: a table of steps for one engine; for several, two tables a step (speed, cost) and
//! an overview of ratios.

use super::grid::Mood;
use super::metric::{self, Quantile, WrittenBy, class_name};
use super::terms;
use super::{Entry, Grid, Look, Metric, Paper, Run, Spread, Step, Summary, number};
use crate::workload::Class;
use std::fmt::Write;

/// A cell without a figure.
pub(super) const NOTHING: &str = "–";

/// Columns of a line of prose.
const LINE: usize = 100;

/// The quantiles that tables show.
const QUANTILES: [Quantile; 4] = [Quantile::P50, Quantile::P99, Quantile::P999, Quantile::Max];

/// A summary as text.
pub fn text(summary: &Summary<'_>, look: &Look) -> String {
    let mut text = String::new();
    if summary.engines.len() > 1 {
        for step in &summary.steps {
            let speed = speed(summary, step, &QUANTILES, look.width);
            let whole = cost(step, true).without_blanks();
            let cost = if whole.width() <= look.width { whole } else { cost(step, false).without_blanks() };
            let _ = write!(text, "{}\n{}\n{}\n", title(step), speed.draw(look), cost.draw(look));
        }
        overviews(summary, look, &mut text);
    } else {
        single(summary, look, &mut text);
    }
    if !summary.searched().is_empty() {
        let _ = writeln!(text, "Sustained rate\n{}", sustained(summary).draw(look));
    }
    for line in terms::lines(summary) {
        text.push_str(&wrapped(&line, look.width));
    }
    notes(summary, &mut text);
    if let Some(paper) = &summary.report.paper {
        let _ = write!(text, "\n{}", printed_paper(paper, look));
    }
    text
}

/// `ycsb-a, closed loop, 2 threads, 1.00 M records`.
pub(super) fn title(step: &Step<'_>) -> String {
    let preparation = if step.preparation { " (preparation)" } else { "" };
    let circumstances = step.first().map_or(String::new(), circumstances);
    format!("{}{preparation}, {}, {circumstances}", step.name(), step.pace)
}

/// `2 threads, 1.00 M records`.
pub(super) fn circumstances(run: &Run) -> String {
    let threads = if run.threads == 1 { "thread" } else { "threads" };
    format!("{} {threads}, {} records", run.threads, number::count(run.records as f64))
}

/// The median of a figure.
pub(super) fn shown(entry: &Entry<'_>, metric: Metric) -> String {
    entry.median(metric).map_or_else(|| NOTHING.to_owned(), |figure| metric.show(figure))
}

/// `3 (120 ms)`: the number of stalls, and the longest. With `0` the longest is left out, because it is no stall.
pub(super) fn stalls(entry: &Entry<'_>) -> String {
    match (entry.median(Metric::Stalls), entry.median(Metric::LongestStall)) {
        (Some(count), Some(longest)) if count > 0.0 => {
            format!("{} ({})", number::count(count), number::time(longest))
        }
        _ => "0".to_owned(),
    }
}

/// `1.2 %`, and `noisy` if other processes took too much.
pub(super) fn foreign(entry: &Entry<'_>) -> String {
    let percent = shown(entry, Metric::Foreign);
    if entry.noisy() { format!("{percent} noisy") } else { percent }
}

/// `1.23×`, with the least and greatest of the rounds if there are several.
pub(super) fn spread(spread: Option<Spread>, whole: bool) -> String {
    match spread {
        None => NOTHING.to_owned(),
        Some(Spread { median, low, high, rounds }) if whole && rounds > 1 => {
            format!("{} ({}–{})", number::ratio(median), number::factor(low), number::factor(high))
        }
        Some(Spread { median, .. }) => number::ratio(median),
    }
}

/// A table with a row for each engine; further classes of operations are beneath it.
pub(super) fn speed(summary: &Summary<'_>, step: &Step<'_>, quantiles: &[Quantile], width: usize) -> Grid {
    let make = |whole: bool| {
        let mut header = vec!["engine".to_owned(), "throughput".to_owned(), format!("to {}", summary.baseline)];
        header.push("latency".to_owned());
        header.extend(quantiles.iter().map(|quantile| quantile.name().to_owned()));
        header.push("foreign".to_owned());
        let mut grid = Grid::new(header);
        for entry in &step.entries {
            let ratio = summary.ratio(step, entry.engine, Metric::Throughput);
            let ratio = spread(ratio, whole && entry.engine != summary.baseline);
            let classes = classes(entry, step);
            for (number, class) in classes.iter().enumerate() {
                let mut row = vec![String::new(); 3];
                if number == 0 {
                    row = vec![entry.engine.to_owned(), shown(entry, Metric::Throughput), ratio.clone()];
                }
                row.push(class.map_or(NOTHING, class_name).to_owned());
                row.extend(quantiles.iter().map(|quantile| match class {
                    Some(class) => shown(entry, Metric::Latency(*class, *quantile)),
                    None => NOTHING.to_owned(),
                }));
                row.push(if number == 0 { foreign(entry) } else { String::new() });
                grid.row(row);
            }
        }
        grid
    };
    let whole = make(true);
    if whole.width() <= width { whole } else { make(false) }
}

/// The classes of which an engine has latencies. If there are none, one `None`, so that the engine has a row.
fn classes(entry: &Entry<'_>, step: &Step<'_>) -> Vec<Option<Class>> {
    let has = |class: &Class| entry.median(Metric::Latency(*class, Quantile::P50)).is_some();
    let classes: Vec<_> = step.classes().into_iter().filter(has).map(Some).collect();
    if classes.is_empty() { vec![None] } else { classes }
}

/// The costs of a step, in the order of the columns.
const COSTS: [Metric; 8] = [
    Metric::Cpu,
    Metric::Written,
    Metric::WriteAmplification,
    Metric::DeviceReads,
    Metric::Syncs,
    Metric::OtherSyncs,
    Metric::PeakMemory,
    Metric::Space,
];

/// A table with a row for each engine; `whole`: with the longest stall too.
pub(super) fn cost(step: &Step<'_>, whole: bool) -> Grid {
    let costs = COSTS.iter().map(|metric| metric.name());
    let mut grid = Grid::new(["engine".to_owned()].into_iter().chain(costs).chain([Metric::Stalls.name()]));
    for entry in &step.entries {
        let costs = COSTS.iter().map(|metric| shown(entry, *metric));
        let stalls = if whole { stalls(entry) } else { shown(entry, Metric::Stalls) };
        grid.row([entry.engine.to_owned()].into_iter().chain(costs).chain([stalls]));
    }
    grid
}

/// Tables with a row for each figure and a column for each step; as many tables as the width requires.
fn single(summary: &Summary<'_>, look: &Look, text: &mut String) {
    let Some(engine) = summary.engines.first() else { return };
    let entries: Vec<(&Step<'_>, &Entry<'_>)> =
        summary.steps.iter().filter_map(|step| Some((step, step.entry(engine)?))).collect();
    if let Some(run) = entries.first().and_then(|(step, _)| step.first()) {
        let version = summary.report.engines.iter().find(|described| described.name == *engine);
        let version = version.map_or(String::new(), |described| format!(" {}", described.version));
        let _ = writeln!(text, "{engine}{version}, {}", circumstances(run));
    }
    let mut from = 0;
    while from < entries.len() {
        let mut until = from + 1;
        let mut grid = columns(&entries[from..until]);
        while until < entries.len() {
            let wider = columns(&entries[from..=until]);
            if wider.width() > look.width {
                break;
            }
            (grid, until) = (wider, until + 1);
        }
        let _ = writeln!(text, "{}", grid.draw(look));
        from = until;
    }
}

fn columns(entries: &[(&Step<'_>, &Entry<'_>)]) -> Grid {
    let engine = entries.first().map_or(String::new(), |(_, entry)| entry.engine.to_owned());
    let mut grid = Grid::new([engine].into_iter().chain(entries.iter().map(|(step, _)| step.short())));
    let mut row = |name: String, cells: Vec<String>| {
        if cells.iter().any(|cell| cell != NOTHING) {
            grid.row([name].into_iter().chain(cells));
        }
    };
    let all = |show: &dyn Fn(&Entry<'_>) -> String| entries.iter().map(|(_, entry)| show(entry)).collect::<Vec<_>>();
    row(Metric::Throughput.name(), all(&|entry| shown(entry, Metric::Throughput)));
    row("over the rounds".to_owned(), all(&over_rounds));
    for class in Class::ALL {
        for quantile in QUANTILES {
            let metric = Metric::Latency(class, quantile);
            row(metric.name(), all(&|entry| shown(entry, metric)));
        }
    }
    for metric in COSTS {
        row(metric.name(), all(&|entry| shown(entry, metric)));
    }
    row(Metric::Faults.name(), all(&|entry| shown(entry, Metric::Faults)));
    row(Metric::Stalls.name(), all(&stalls));
    row(Metric::Foreign.name(), all(&foreign));
    grid
}

/// The least and the greatest throughput of several rounds.
pub(super) fn over_rounds(entry: &Entry<'_>) -> String {
    match entry.spread(Metric::Throughput) {
        Some(Spread { low, high, rounds, .. }) if rounds > 1 => {
            format!("{}–{}", number::rate(low).trim_end_matches("/s"), number::rate(high))
        }
        _ => NOTHING.to_owned(),
    }
}

/// Tables of workloads by engines: for each of some figures, the ratios to the baseline.
fn overviews(summary: &Summary<'_>, look: &Look, text: &mut String) {
    for (metric, what) in [
        (Metric::Throughput, "Throughput, more is better"),
        (Metric::Cpu, "CPU time of an operation, less is better"),
        (Metric::Written, "Bytes written for an operation, less is better"),
    ] {
        let whole = overview(summary, metric, true);
        let grid = if whole.width() <= look.width { whole } else { overview(summary, metric, false) };
        if !grid.is_empty() {
            let _ = writeln!(text, "{what}; {} is 1\n{}", summary.baseline, grid.draw(look));
        }
    }
}

/// A table of steps by engines: the ratios of a figure to the baseline's.
pub(super) fn overview(summary: &Summary<'_>, metric: Metric, whole: bool) -> Grid {
    let others = || summary.engines.iter().filter(|engine| **engine != summary.baseline);
    let mut grid = Grid::new(["workload"].into_iter().chain(others().copied()));
    for step in summary.asked() {
        let ratios: Vec<_> = others().map(|engine| summary.ratio(step, engine, metric)).collect();
        if ratios.iter().any(Option::is_some) {
            let cell = |ratio: &Option<Spread>| (spread(*ratio, whole), mood(*ratio, metric));
            grid.moody([(step.short(), Mood::Neutral)].into_iter().chain(ratios.iter().map(cell)));
        }
    }
    grid
}

/// Green if the engine is better than the baseline in all rounds; red if it is worse in all rounds.
fn mood(ratio: Option<Spread>, metric: Metric) -> Mood {
    match ratio {
        Some(Spread { low, .. }) if low > 1.0 => {
            if metric.rises() {
                Mood::Good
            } else {
                Mood::Bad
            }
        }
        Some(Spread { high, .. }) if high < 1.0 => {
            if metric.rises() {
                Mood::Bad
            } else {
                Mood::Good
            }
        }
        _ => Mood::Neutral,
    }
}

/// Wraps a sentence to readable lines that fit the terminal; all lines but the first are indented.
fn wrapped(sentence: &str, width: usize) -> String {
    let width = width.min(LINE);
    let (mut text, mut column) = (String::new(), 0);
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text + "\n"
}

/// The results of searches.
pub(super) fn sustained(summary: &Summary<'_>) -> Grid {
    let mut grid = Grid::new(["workload"].into_iter().chain(summary.engines.iter().copied()));
    for workload in summary.searched() {
        let rate = |engine: &&str| match summary.sustained(workload, engine) {
            Some(found) => number::rate(found.median),
            None => NOTHING.to_owned(),
        };
        grid.row([workload.to_owned()].into_iter().chain(summary.engines.iter().map(rate)));
    }
    grid
}

/// The lateness that the instrument adds in open loops: for each step, the percentiles of the run with the greatest
/// median.
fn lateness(summary: &Summary<'_>) -> Option<String> {
    let late = |step: &Step<'_>| {
        let runs = step.entries.iter().flat_map(|entry| &entry.runs).filter_map(|run| run.lateness.as_ref());
        let late = runs.max_by_key(|late| late.p50_ns)?;
        Some(format!(
            "{} P50 {}, P99 {}",
            step.short(),
            number::time(late.p50_ns as f64),
            number::time(late.p99_ns as f64)
        ))
    };
    let late: Vec<String> = summary.steps.iter().filter_map(late).collect();
    (!late.is_empty()).then(|| format!("Lateness, part of each latency and not the engine's: {}.", late.join("; ")))
}

/// Remarks on figures whose names do not explain them.
pub(super) fn remarks(summary: &Summary<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    let rounds = summary.report.runs.iter().map(|run| run.round).max().unwrap_or(0);
    if rounds > 1 {
        remarks.push(format!("Medians of {rounds} rounds; ratios are of paired rounds (least–greatest)."));
    }
    let mut counted: Vec<(WrittenBy, Vec<&str>)> = Vec::new();
    for run in summary.report.runs.iter().filter(|run| run.user_written_bytes > 0) {
        let by = metric::written(run).1;
        match counted.iter_mut().find(|(other, _)| *other == by) {
            Some((_, engines)) if engines.contains(&run.engine.as_str()) => {}
            Some((_, engines)) => engines.push(&run.engine),
            None => counted.push((by, vec![&run.engine])),
        }
    }
    let many = counted.len() > 1;
    let who = counted.iter().map(|(by, engines)| match many {
        true => format!("{} ({})", by.name(), engines.join(", ")),
        false => by.name().to_owned(),
    });
    let who = who.collect::<Vec<_>>().join(" or ");
    if !who.is_empty() {
        let rest = match summary.report.parameters.rest_seconds {
            0.0 => String::new(),
            seconds => format!(" and after {seconds} s of idleness"),
        };
        remarks.push(format!("Bytes written are as counted by {who}, until the engine had nothing left to do{rest}."));
    }
    let late =
        |step: &&Step<'_>, entry: &&Entry<'_>| entry.behind().then(|| format!("{} ({})", entry.engine, step.short()));
    let late: Vec<String> =
        summary.steps.iter().flat_map(|step| step.entries.iter().filter_map(move |e| late(&step, &e))).collect();
    if !late.is_empty() {
        let late = late.join(", ");
        remarks
            .push(format!("Fell behind the offered rate, so that latencies grow with the length of the run: {late}."));
    }
    remarks.extend(lateness(summary));
    if summary.steps.iter().flat_map(|step| &step.entries).any(Entry::noisy) {
        remarks.push("noisy: other processes took more than 5 % of the processors; do not trust its latencies.".into());
    }
    let ignores = summary.report.engines.iter().filter(|engine| !engine.ignored.is_empty());
    remarks.extend(ignores.map(|engine| format!("{} has no use for {}.", engine.name, engine.ignored.join(", "))));
    if let Some(overhead_ns) = summary.report.overhead_ns {
        remarks.push(format!("The instrument itself takes {overhead_ns:.0} ns of an operation in a closed loop."));
    }
    remarks.extend(summary.report.notes.iter().map(|note| format!("Note: {note}.")));
    remarks
}

fn notes(summary: &Summary<'_>, text: &mut String) {
    for remark in remarks(summary) {
        let _ = writeln!(text, "{remark}");
    }
}

fn printed_paper(paper: &Paper, look: &Look) -> String {
    let mut grid = Grid::new([paper.source.as_str()].into_iter().chain(paper.columns.iter().map(String::as_str)));
    for row in &paper.rows {
        grid.row([row.name.as_str()].into_iter().chain(row.cells.iter().map(String::as_str)));
    }
    format!("The paper's own figures: {}\n{}Here: {}\n", paper.title, grid.draw(look), paper.differs)
}
