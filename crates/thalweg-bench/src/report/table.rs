//! What is printed when all has run: a table of steps for one engine; for several, two tables a step (speed, cost) and
//! an overview of ratios.

use super::grid::Mood;
use super::metric::{self, Quantile, WrittenBy, class_name};
use super::terms;
use super::{Entry, Grid, Look, Metric, Paper, Run, Spread, Step, Summary, number};
use crate::workload::Class;
use std::fmt::Write;

const NOTHING: &str = "–";

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

/// `3 (120 ms)`: how many stalls, and the longest; `0` without the longest, which is then no stall.
pub(super) fn stalls(entry: &Entry<'_>) -> String {
    match (entry.median(Metric::Stalls), entry.median(Metric::LongestStall)) {
        (Some(count), Some(longest)) if count > 0.0 => {
            format!("{} ({})", number::count(count), number::time(longest))
        }
        _ => "0".to_owned(),
    }
}

/// `1.2 %`, and `noisy` when it was too much.
pub(super) fn foreign(entry: &Entry<'_>) -> String {
    let percent = shown(entry, Metric::Foreign);
    if entry.noisy() { format!("{percent} noisy") } else { percent }
}

/// `1.23×`, with the rounds' least and greatest when there are several.
pub(super) fn spread(spread: Option<Spread>, whole: bool) -> String {
    match spread {
        None => NOTHING.to_owned(),
        Some(Spread { median, low, high, rounds }) if whole && rounds > 1 => {
            format!("{} ({}–{})", number::ratio(median), number::factor(low), number::factor(high))
        }
        Some(Spread { median, .. }) => number::ratio(median),
    }
}

/// One row for an engine; further classes of operations beneath it.
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

/// The classes that an engine has latencies of; one `None` where there are none, so that it has a row.
fn classes(entry: &Entry<'_>, step: &Step<'_>) -> Vec<Option<Class>> {
    let has = |class: &Class| entry.median(Metric::Latency(*class, Quantile::P50)).is_some();
    let classes: Vec<_> = step.classes().into_iter().filter(has).map(Some).collect();
    if classes.is_empty() { vec![None] } else { classes }
}

/// What a step costs, in the order of the columns.
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

/// A row for an engine; `whole`: with the longest stall too.
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

/// A row for a figure, a column for a step; as many tables as the width asks for.
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
fn over_rounds(entry: &Entry<'_>) -> String {
    match entry.spread(Metric::Throughput) {
        Some(Spread { low, high, rounds, .. }) if rounds > 1 => {
            format!("{}–{}", number::rate(low).trim_end_matches("/s"), number::rate(high))
        }
        _ => NOTHING.to_owned(),
    }
}

/// Workloads by engines: for each of some figures, how they compare with the baseline.
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

/// Steps by engines: how a figure compares with the baseline's.
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

/// Green where the baseline is behind for certain, in all rounds; red where it is ahead.
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

/// A sentence in lines that are read easily and fit the terminal, those but the first indented.
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

/// What searches found.
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

/// What of the latencies of open loops is the instrument's: the medians of each step, over all its runs the greatest.
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

/// What the figures mean that their names do not say.
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
        remarks.push(format!("Bytes written are as counted by {who}, until the engine had nothing left to do."));
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

#[cfg(test)]
mod tests {
    use super::super::{Report, sample};
    use super::*;
    use crate::plan::Pace;
    use expect_test::expect;

    fn printed(report: &Report, width: usize) -> String {
        text(&Summary::of(report), &Look { terminal: false, width })
    }

    #[test]
    fn several_engines_have_a_row_each_and_an_overview() {
        let steps = [("load", Pace::Closed), ("ycsb-a", Pace::Closed), ("ycsb-c", sample::open(20e3))];
        let mut report = sample::report(&["thalweg", "rocksdb"], &steps, 3, 3);
        report.runs.last_mut().unwrap().noisy = true;
        sample::sustained(&mut report, "ycsb-a");
        report.paper = Some(sample::paper());
        expect![[r#"
            load (preparation), closed loop, 2 threads, 1.00 M records
            | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |    max | foreign |
            |---------|------------|-------------------|---------|---------|---------|--------|--------|---------|
            | thalweg |    236 k/s |             1.00× |  insert | 10.0 µs | 48.4 µs | 137 µs | 633 µs |   1.4 % |
            | rocksdb |    167 k/s | 0.73× (0.69–0.73) |  insert | 11.6 µs |  121 µs | 344 µs | 867 µs |   1.2 % |

            | engine  |  CPU/op | written/op | W-amp | syncs | peak RSS |   space |     stalls |
            |---------|---------|------------|-------|-------|----------|---------|------------|
            | thalweg | 6.96 µs |      422 B |  3.02 |    40 |  350 MiB | 153 MiB |          0 |
            | rocksdb | 9.86 µs |      662 B |  4.73 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

            ycsb-a, closed loop, 2 threads, 1.00 M records
            | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |     max | foreign |
            |---------|------------|-------------------|---------|---------|---------|--------|---------|---------|
            | thalweg |    176 k/s |             1.00× |     get | 22.4 µs | 87.2 µs | 314 µs | 1.46 ms |   1.5 % |
            |         |            |                   |  update | 10.0 µs | 41.2 µs | 150 µs |  584 µs |         |
            | rocksdb |    128 k/s | 0.73× (0.69–0.73) |     get | 26.0 µs |  281 µs | 798 µs | 1.91 ms |   1.5 % |
            |         |            |                   |  update | 11.6 µs |  129 µs | 344 µs |  645 µs |         |

            | engine  |  CPU/op | written/op | W-amp | syncs | peak RSS |   space |     stalls |
            |---------|---------|------------|-------|-------|----------|---------|------------|
            | thalweg | 6.96 µs |      419 B |  2.99 |    40 |  350 MiB | 153 MiB |          0 |
            | rocksdb | 9.86 µs |      658 B |  4.70 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

            ycsb-c, open loop, 20.0 k/s, 2 threads, 1.00 M records
            | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |     max | foreign |
            |---------|------------|-------------------|---------|---------|---------|--------|---------|---------|
            | thalweg |   20.3 k/s |             1.00× |     get | 9.36 µs | 39.4 µs | 128 µs |  703 µs |   1.5 % |
            | rocksdb |   19.9 k/s | 0.97× (0.96–0.99) |     get | 13.1 µs | 95.5 µs | 393 µs | 3.92 ms |   1.7 % |

            | engine  |  CPU/op | written/op | dev reads/read | syncs | peak RSS |   space |     stalls |
            |---------|---------|------------|----------------|-------|----------|---------|------------|
            | thalweg | 6.00 µs |        0 B |         0.0500 |    40 |  350 MiB | 153 MiB |          0 |
            | rocksdb | 8.50 µs |        0 B |          0.100 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

            Throughput, more is better; thalweg is 1
            | workload           |           rocksdb |
            |--------------------|-------------------|
            | ycsb-a             | 0.73× (0.69–0.73) |
            | ycsb-c at 20.0 k/s | 0.97× (0.96–0.99) |

            CPU time of an operation, less is better; thalweg is 1
            | workload           |           rocksdb |
            |--------------------|-------------------|
            | ycsb-a             | 1.42× (1.42–1.42) |
            | ycsb-c at 20.0 k/s | 1.42× (1.42–1.42) |

            Bytes written for an operation, less is better; thalweg is 1
            | workload |           rocksdb |
            |----------|-------------------|
            | ycsb-a   | 1.57× (1.56–1.59) |

            Sustained rate
            | workload | thalweg | rocksdb |
            |----------|---------|---------|
            | ycsb-a   | 152 k/s | 117 k/s |

            Tuning default (--tuning).
            thalweg, durability: the log is synced every 100ms.
            thalweg, memory: block cache 128 MiB.
            thalweg, tables: of 64 MiB.
            thalweg, memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the
              instrument), 30.0 MiB mapped files (tables, log, program), which are page cache and go when memory
              is short; 120 MiB of page cache in its control group at most (ycsb-c at 20.0 k/s).
            thalweg, disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
            rocksdb, durability: the log is synced every 100ms.
            rocksdb, memory: block cache 128 MiB.
            rocksdb, tables: of 64 MiB.
            rocksdb, memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the
              instrument), 30.0 MiB mapped files (tables, log, program), which are page cache and go when memory
              is short; 120 MiB of page cache in its control group at most (ycsb-c at 20.0 k/s).
            rocksdb, disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
            Medians of 3 rounds; ratios are of paired rounds (least–greatest).
            Bytes written are as counted by the block device, until the engine had nothing left to do.
            The instrument itself takes 61 ns of an operation in a closed loop.

            The paper's own figures: YCSB, 100 M records of 1 KiB
            | ABC-E1, table 3 | LevelDB | RocksDB | theirs |
            |-----------------|---------|---------|--------|
            | ycsb-a, kop/s   |      21 |      87 |    134 |
            | ycsb-c, kop/s   |      41 |     152 |    160 |
            Here: A tenth of the records, and 2 processors instead of 32.
        "#]]
        .assert_eq(&printed(&report, 120));
    }

    #[test]
    fn one_engine_has_a_column_for_each_step() {
        let steps = [("load", Pace::Closed), ("ycsb-a", Pace::Closed), ("ycsb-c", sample::open(20e3))];
        expect![[r#"
            thalweg 1.2.3, 2 threads, 1.00 M records
            | thalweg         |          load |        ycsb-a | ycsb-c at 20.0 k/s |
            |-----------------|---------------|---------------|--------------------|
            | throughput      |       232 k/s |       178 k/s |           20.5 k/s |
            | over the rounds | 228 k–236 k/s | 176 k–181 k/s |    20.2 k–20.8 k/s |
            | get P50         |             – |       22.4 µs |            9.38 µs |
            | get P99         |             – |       78.2 µs |            35.1 µs |
            | get P99.9       |             – |        313 µs |             125 µs |
            | get max         |             – |       1.49 ms |             732 µs |
            | insert P50      |       10.0 µs |             – |                  – |
            | insert P99      |       49.5 µs |             – |                  – |
            | insert P99.9    |        140 µs |             – |                  – |
            | insert max      |        629 µs |             – |                  – |
            | update P50      |             – |       9.99 µs |                  – |
            | update P99      |             – |       39.8 µs |                  – |
            | update P99.9    |             – |        144 µs |                  – |
            | update max      |             – |        598 µs |                  – |
            | CPU/op          |       6.96 µs |       6.96 µs |            6.00 µs |
            | written/op      |         419 B |         425 B |                0 B |
            | W-amp           |          2.99 |          3.03 |                  – |
            | dev reads/read  |             – |             – |             0.0500 |
            | syncs           |            40 |            40 |                 40 |
            | peak RSS        |       350 MiB |       350 MiB |            350 MiB |
            | space           |       153 MiB |       153 MiB |            153 MiB |
            | faults/op       |        0.0200 |        0.0200 |             0.0200 |
            | stalls          |             0 |             0 |                  0 |
            | foreign CPU     |         1.5 % |         1.3 % |              1.7 % |

            Tuning default (--tuning).
            Durability: the log is synced every 100ms.
            Memory: block cache 128 MiB.
            Tables: of 64 MiB.
            Memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the instrument), 30.0
              MiB mapped files (tables, log, program), which are page cache and go when memory is short; 120 MiB
              of page cache in its control group at most (ycsb-c at 20.0 k/s).
            Disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
            Medians of 2 rounds; ratios are of paired rounds (least–greatest).
            Bytes written are as counted by the block device, until the engine had nothing left to do.
            The instrument itself takes 61 ns of an operation in a closed loop.
        "#]]
        .assert_eq(&printed(&sample::report(&["thalweg"], &steps, 2, 3), 100));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let workloads = ["fillrandom", "overwrite", "readrandom", "readseq", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-e"];
        let steps = workloads.map(|workload| (workload, Pace::Closed));
        let engines = ["thalweg", "rocksdb", "leveldb", "fjall", "lmdb"];
        for (engines, width) in [(&engines[..], 100), (&engines[..], 120), (&engines[..1], 80)] {
            let text = printed(&sample::report(engines, &steps, 3, 2), width);
            for line in text.lines().filter(|line| line.starts_with('|')) {
                assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
            }
            let tables: String = text.lines().filter(|line| line.starts_with('|') || line.contains("loop")).collect();
            assert_eq!(tables.matches("ycsb-e").count(), if engines.len() > 1 { 4 } else { 1 }, "{text}");
        }
    }

    #[test]
    fn who_falls_behind_the_offered_rate_is_named() {
        let mut report = sample::report(&["a", "b"], &[("ycsb-a", sample::open(20e3))], 1, 3);
        report.runs[0].operations_per_second = 19_900.0;
        report.runs[1].operations_per_second = 15e3;
        let remarks = remarks(&Summary::of(&report));
        let late: Vec<_> = remarks.iter().filter(|remark| remark.starts_with("Fell behind")).collect();
        assert!(late.len() == 1 && late[0].ends_with(": b (ycsb-a at 20.0 k/s)."), "{remarks:?}");
    }

    #[test]
    fn settings_that_an_engine_has_no_use_for_are_named() {
        let report = sample::report(&["thalweg", "lmdb"], &[("ycsb-a", sample::open(20e3))], 1, 1);
        let remarks = remarks(&Summary::of(&report));
        let ignoring: Vec<_> = remarks.iter().filter(|remark| remark.contains("has no use")).collect();
        assert_eq!(ignoring, ["lmdb has no use for memtable-bytes."]);
    }

    #[test]
    fn only_a_terminal_gets_lines_and_colour() {
        let report = sample::report(&["thalweg", "rocksdb"], &[("ycsb-a", Pace::Closed)], 2, 2);
        let summary = Summary::of(&report);
        let (plain, drawn) = [false, true].map(|terminal| text(&summary, &Look { terminal, width: 120 })).into();
        assert!(!plain.contains(['\x1b', '│', '\u{2061}', '\u{2063}']) && plain.contains("0.7"));
        assert!(drawn.contains("\x1b[31m0.7") && drawn.contains('│') && !drawn.contains('\u{2063}'));
    }
}
