//! [`Comparison`]: two reports, before and after a change: ratios of medians, and whether they lie inside the spread of
//! the rounds.
//!
//! A ratio is b over a. The rounds of two invocations cannot be paired, because they have nothing in common. So the
//! spread reaches from the least of b over the greatest of a, to the greatest of b over the least of a. If 1 lies
//! within the spread, no change was shown.

use super::grid::Mood;
use super::metric::{Quantile, class_name};
use super::{Entry, Grid, Look, Metric, Report, Spread, Step, Summary, number};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Two reports compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Sentences on why the reports are hard to compare.
    pub warnings: Vec<String>,
    /// The steps that both reports have, by engine.
    pub steps: Vec<Compared>,
}

/// One step of one engine in both reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The engine; `a → b` when they differ.
    pub engine: String,
    /// The workload, and its pace if it is an open loop.
    pub step: String,
    /// The figures that both reports have.
    pub changes: Vec<Change>,
}

/// One figure in both reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which figure.
    pub metric: Metric,
    /// The median in a.
    pub a: f64,
    /// The median in b.
    pub b: f64,
    /// b over a. `None`: a is 0.
    pub ratio: Option<f64>,
    /// The ratios of any round of b to any round of a; `rounds` is the smaller number of rounds. `None`: a has a 0.
    pub spread: Option<Spread>,
    /// The meaning of the change.
    pub verdict: Verdict,
}

/// The meaning of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every round of b is better than every round of a.
    Better,
    /// Every round of b is worse than every round of a.
    Worse,
    /// 1 lies inside the spread.
    Within,
    /// There is only one round, which has no spread, or no round was undisturbed.
    Unknown,
}

impl Verdict {
    /// `+`, `-`, `~`, `?`.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Better => "+",
            Verdict::Worse => "-",
            Verdict::Within => "~",
            Verdict::Unknown => "?",
        }
    }
}

/// Compares b with a.
pub fn compare(a: &Report, b: &Report) -> Comparison {
    let (before, after) = (Summary::of(a), Summary::of(b));
    let mut warnings = differences(a, b);
    let mut steps = Vec::new();
    for (name, other) in engines(&before, &after, &mut warnings) {
        let engine = if name == other { name.to_owned() } else { format!("{name} → {other}") };
        for step in &before.steps {
            let Some(old) = step.entry(name) else { continue };
            let Some(new) = after.steps.iter().find(|other| other.is(step)).and_then(|step| step.entry(other)) else {
                warnings.push(format!("{} of {engine} is only in a", step.short()));
                continue;
            };
            for (which, entry) in [("a", old), ("b", new)] {
                if entry.noisy() {
                    warnings.push(format!("{} of {engine} is noisy in {which}", step.short()));
                }
            }
            let changes = metrics(step).into_iter().filter_map(|metric| change(old, new, metric)).collect();
            steps.push(Compared { engine: engine.clone(), step: step.short(), changes });
        }
        for step in &after.steps {
            let same = |old: &Step<'_>| old.is(step) && old.entry(name).is_some();
            if step.entry(other).is_some() && !before.steps.iter().any(same) {
                warnings.push(format!("{} of {engine} is only in b", step.short()));
            }
        }
        steps.extend(before.searched().into_iter().filter_map(|workload| {
            let changes = vec![sustained(a, b, workload, (name, other))?];
            Some(Compared { engine: engine.clone(), step: format!("{workload}, sustained rate"), changes })
        }));
    }
    if steps.is_empty() {
        warnings.push("the two have no step of the same workload, pace and engine".to_owned());
    }
    Comparison { warnings, steps }
}

/// The engines to compare: those of the same name, or two different ones if each report has only one.
fn engines<'a>(a: &Summary<'a>, b: &Summary<'a>, warnings: &mut Vec<String>) -> Vec<(&'a str, &'a str)> {
    if let ([name], [other]) = (a.engines.as_slice(), b.engines.as_slice()) {
        if name != other {
            warnings.push(format!("the engines differ: {name} in a, {other} in b"));
        }
        return vec![(name, other)];
    }
    a.engines.iter().filter(|name| b.engines.contains(name)).map(|name| (*name, *name)).collect()
}

/// The figures to compare, if both reports have them.
fn metrics(step: &Step<'_>) -> Vec<Metric> {
    let mut metrics = vec![Metric::Throughput];
    for class in step.classes() {
        metrics.extend([Quantile::P50, Quantile::P99, Quantile::P999].map(|quantile| Metric::Latency(class, quantile)));
    }
    metrics.extend([Metric::Cpu, Metric::Written, Metric::DeviceReads, Metric::SyncsPerMillion, Metric::PeakMemory]);
    // With a time limit, an engine that does more work needs more space.
    if step.first().is_some_and(|run| run.limit.seconds.is_none()) {
        metrics.push(Metric::Space);
    }
    metrics
}

fn change(old: &Entry<'_>, new: &Entry<'_>, metric: Metric) -> Option<Change> {
    let (a, b) = (old.spread(metric)?, new.spread(metric)?);
    if a.median == 0.0 && b.median == 0.0 {
        return None;
    }
    let mut change = judged(metric, a, b);
    if metric.timed() && (old.noisy() || new.noisy()) {
        change.verdict = Verdict::Unknown;
    }
    Some(change)
}

/// The rates that searches found.
fn sustained(a: &Report, b: &Report, workload: &str, (name, other): (&str, &str)) -> Option<Change> {
    let found = |report: &Report, engine: &str| {
        let found = report.sustained.iter().filter(|found| found.workload == workload && found.engine == engine);
        Spread::of(found.map(|found| found.rate).collect())
    };
    Some(judged(Metric::Throughput, found(a, name)?, found(b, other)?))
}

fn judged(metric: Metric, a: Spread, b: Spread) -> Change {
    let spread = (a.low > 0.0).then(|| Spread {
        median: b.median / a.median,
        low: b.low / a.high,
        high: b.high / a.low,
        rounds: a.rounds.min(b.rounds),
    });
    let verdict = match spread {
        Some(Spread { rounds: 0..=1, .. }) | None => Verdict::Unknown,
        Some(Spread { low, high, .. }) if low <= 1.0 && high >= 1.0 => Verdict::Within,
        Some(Spread { low, .. }) if (low > 1.0) == metric.rises() => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    Change { metric, a: a.median, b: b.median, ratio: (a.median != 0.0).then(|| b.median / a.median), spread, verdict }
}

/// The differences between two reports besides their figures.
fn differences(a: &Report, b: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            warnings.push(format!("{what}: {}", names.join(", ")));
        }
    };
    warn("the parameters differ", differing(&a.parameters, &b.parameters));
    warn("the machines differ", differing(&a.machine, &b.machine));
    for engine in &a.engines {
        for other in b.engines.iter().filter(|other| other.name == engine.name) {
            warn(&format!("the settings of {} differ", engine.name), differing(&engine.settings, &other.settings));
            if engine.version != other.version {
                let versions = format!("{} → {}", engine.version, other.version);
                warn(&format!("the versions of {} differ", engine.name), vec![versions]);
            }
        }
    }
    if a.version != b.version {
        warn("the versions of the instrument differ", vec![format!("{} → {}", a.version, b.version)]);
    }
    warnings
}

/// The fields in which two values differ, each with both values.
fn differing(a: &impl serde::Serialize, b: &impl serde::Serialize) -> Vec<String> {
    // Both values come from JSON or can be written as JSON. If one cannot, no difference is reported.
    let fields = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = (fields(serde_json::to_value(a)), fields(serde_json::to_value(b)));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut differing = Vec::new();
    for name in names {
        match (a.get(name), b.get(name)) {
            (Some(serde_json::Value::Object(one)), Some(serde_json::Value::Object(other))) => {
                differing.extend(self::differing(one, other).into_iter().map(|field| format!("{name}.{field}")));
            }
            (one, other) if one != other => {
                let show = |value: Option<&serde_json::Value>| value.map_or("nothing".to_owned(), ToString::to_string);
                differing.push(format!("{name} ({} → {})", show(one), show(other)));
            }
            _ => {}
        }
    }
    differing
}

impl Comparison {
    /// As text: warnings, then a table for each step.
    pub fn text(&self, look: &Look) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        for step in &self.steps {
            let _ = write!(text, "\n{}, {}\n{}", step.step, step.engine, step.grid().draw(look));
        }
        if !self.steps.is_empty() {
            let _ = write!(
                text,
                "\nRatios are b/a of the medians; the spread is that of any round of b to any of a.\n\
                 + better and - worse in all of them, ~ inside the spread, ? only one round, or none that was quiet\n"
            );
        }
        text
    }
}

impl Compared {
    fn grid(&self) -> Grid {
        let mut grid = Grid::new(["", "a", "b", "b/a", "spread", ""]);
        for Change { metric, a, b, ratio, spread, verdict } in &self.changes {
            let mood = match verdict {
                Verdict::Better => Mood::Good,
                Verdict::Worse => Mood::Bad,
                Verdict::Within | Verdict::Unknown => Mood::Neutral,
            };
            let spread = match spread {
                Some(Spread { low, high, rounds, .. }) if *rounds > 1 => {
                    format!("{}–{}", number::factor(*low), number::factor(*high))
                }
                Some(_) => "1 round".to_owned(),
                None => "–".to_owned(),
            };
            let name = match metric {
                Metric::Latency(class, quantile) => format!("{} {}", class_name(*class), quantile.name()),
                other => other.name(),
            };
            let ratio = ratio.map_or("–".to_owned(), number::ratio);
            let cells = [name, metric.show(*a), metric.show(*b), ratio, spread, verdict.mark().to_owned()];
            let moods = [Mood::Neutral, Mood::Neutral, Mood::Neutral, mood, Mood::Neutral, mood];
            grid.moody(cells.into_iter().zip(moods));
        }
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;
    use crate::report::tests::sample;
    use crate::workload::Class;
    use expect_test::expect;

    fn report(figures: &[(f64, u64)]) -> Report {
        let run = |(number, (rate, p99)): (usize, &(f64, u64))| {
            let mut run = Run { operations_per_second: *rate, ..sample::run("thalweg", number as u32 + 1) };
            run.latency.retain(|class, _| *class == Class::Get);
            run.latency.get_mut(&Class::Get).unwrap().p99_ns = *p99;
            run.latency.get_mut(&Class::Get).unwrap().p50_ns = 100;
            run.latency.get_mut(&Class::Get).unwrap().p999_ns = 100_000;
            run.drained = None;
            run.usage.cpu.user_seconds = 1e-6 * run.operations as f64;
            run.usage.cpu.system_seconds = 0.0;
            run.usage.io.device = None;
            run.usage.counters.written_bytes.clear();
            run
        };
        let runs = figures.iter().enumerate().map(run).collect();
        Report { runs, ..sample::report(&["thalweg"], &[], 3, 1) }
    }

    fn verdict(comparison: &Comparison, metric: Metric) -> Verdict {
        comparison.steps[0].changes.iter().find(|change| change.metric == metric).unwrap().verdict
    }

    #[test]
    fn a_change_counts_when_every_round_shows_it() {
        let a = report(&[(100.0, 10), (110.0, 20), (120.0, 30)]);
        let b = report(&[(150.0, 11), (130.0, 40), (121.0, 20)]);
        let comparison = compare(&a, &b);
        assert_eq!(comparison.warnings, [] as [String; 0]);
        assert_eq!(verdict(&comparison, Metric::Throughput), Verdict::Better);
        assert_eq!(verdict(&comparison, Metric::Latency(Class::Get, Quantile::P99)), Verdict::Within);
        assert_eq!(verdict(&compare(&b, &a), Metric::Throughput), Verdict::Worse);
        let p99 = Metric::Latency(Class::Get, Quantile::P99);
        let slower = report(&[(100.0, 31), (110.0, 41), (120.0, 51)]);
        assert_eq!(verdict(&compare(&a, &slower), p99), Verdict::Worse, "less is better");
        // Each round is slower than the one of the same number, but they have nothing to do with each other.
        let overlapping = report(&[(100.0, 11), (110.0, 21), (120.0, 31)]);
        assert_eq!(verdict(&compare(&a, &overlapping), p99), Verdict::Within);
        let change = &comparison.steps[0].changes[0];
        assert_eq!((change.a, change.b, change.ratio), (110.0, 130.0, Some(130.0 / 110.0)));
        assert_eq!((change.spread.unwrap().low, change.spread.unwrap().high), (121.0 / 120.0, 1.5));
    }

    #[test]
    fn one_round_shows_nothing_for_certain() {
        let comparison = compare(&report(&[(100.0, 10)]), &report(&[(200.0, 10)]));
        assert_eq!(verdict(&comparison, Metric::Throughput), Verdict::Unknown);
    }

    #[test]
    fn what_differs_beside_the_figures_is_said() {
        let a = report(&[(100.0, 10)]);
        let mut b = a.clone();
        b.parameters.threads = 4;
        b.parameters.settings.sync = true;
        b.machine.kernel = "6.2.0".to_owned();
        b.engines[0].settings.insert("memtable".to_owned(), "8 MiB".to_owned());
        b.runs[0].noisy = true;
        assert_eq!(
            compare(&a, &b).warnings,
            [
                "the parameters differ: settings.sync (false → true), threads (1 → 4)",
                "the machines differ: kernel (\"6.1.0\" → \"6.2.0\")",
                "the settings of thalweg differ: memtable (\"64 MiB\" → \"8 MiB\")",
                "ycsb-a of thalweg is noisy in b",
            ]
        );
    }

    #[test]
    fn steps_of_one_report_only_are_named_and_sustained_rates_compared() {
        let mut a = report(&[(100.0, 10), (100.0, 10), (100.0, 10)]);
        sample::sustained(&mut a, "ycsb-a");
        let mut b = a.clone();
        b.sustained.iter_mut().for_each(|found| found.rate *= 1.5);
        b.runs.push(Run { workload: "ycsb-c".to_owned(), ..sample::run("thalweg", 1) });
        let comparison = compare(&a, &b);
        assert_eq!(comparison.warnings, ["ycsb-c of thalweg is only in b"]);
        assert_eq!(compare(&b, &a).warnings, ["ycsb-c of thalweg is only in a"]);
        let found = &comparison.steps[1];
        assert_eq!((found.step.as_str(), found.changes[0].ratio), ("ycsb-a, sustained rate", Some(1.5)));
        assert_eq!(found.changes[0].verdict, Verdict::Better);
    }

    #[test]
    fn the_table_shows_both_medians_and_marks() {
        let a = report(&[(100_000.0, 10_000), (110_000.0, 20_000), (120_000.0, 30_000)]);
        let b = report(&[(150_000.0, 11_000), (130_000.0, 40_000), (121_000.0, 20_000)]);
        let text = compare(&a, &b).text(&Look { terminal: false, width: 100 });
        expect![[r#"

            ycsb-a, thalweg
            |             |       a |       b |   b/a |    spread |   |
            |-------------|---------|---------|-------|-----------|---|
            | throughput  | 110 k/s | 130 k/s | 1.18× | 1.01–1.50 | + |
            | get P50     |  100 ns |  100 ns | 1.00× | 1.00–1.00 | ~ |
            | get P99     | 20.0 µs | 20.0 µs | 1.00× | 0.37–4.00 | ~ |
            | get P99.9   |  100 µs |  100 µs | 1.00× | 1.00–1.00 | ~ |
            | CPU/op      | 1.00 µs | 1.00 µs | 1.00× | 1.00–1.00 | ~ |
            | written/op  |   419 B |   419 B | 1.00× | 0.96–1.05 | ~ |
            | syncs/M ops |    75.6 |    75.6 | 1.00× | 0.97–1.03 | ~ |
            | peak RSS    | 350 MiB | 350 MiB | 1.00× | 1.00–1.00 | ~ |

            Ratios are b/a of the medians; the spread is that of any round of b to any of a.
            + better and - worse in all of them, ~ inside the spread, ? only one round, or none that was quiet
        "#]]
        .assert_eq(&text);
    }
}
