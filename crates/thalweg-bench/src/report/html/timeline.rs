//! Throughput and P99 over time: for each engine the median of its rounds, second by second. If all runs of the step
//! were short, tenth by tenth of a second. The foot of the throughput plot shows the periods in which nothing was
//! completed.

use super::axis::Axis;
use super::plot::{HEIGHT, Line, Mark, Plot};
use crate::report::summary::{Spread, Step, Summary};
use crate::report::{Entry, Run, Second, number};

/// The greatest number of points of a line; more would be invisible.
const POINTS_MAX: usize = 300;

/// How long each part of a series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Second,
    Tenth,
}

impl Part {
    /// The shortest part that every run of the step has.
    fn of(step: &Step<'_>) -> Part {
        let fine = step.entries.iter().flat_map(|entry| &entry.runs).all(|run| !run.intervals.is_empty());
        if fine { Part::Tenth } else { Part::Second }
    }

    fn seconds(self) -> f64 {
        match self {
            Part::Second => 1.0,
            Part::Tenth => 0.1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Second => "seconds",
            Part::Tenth => "tenths of a second",
        }
    }

    /// The complete parts of a run: an incomplete last part would look like a collapse.
    fn whole(self, run: &Run) -> &[Second] {
        let series = match self {
            Part::Second => &run.series,
            Part::Tenth => &run.intervals,
        };
        let parts = series.len();
        let cut = parts > 1 && parts as f64 * self.seconds() > run.seconds + 0.05 * self.seconds();
        &series[..parts - usize::from(cut)]
    }
}

/// The plots of a step: throughput, and beneath it P99 over the same time; nothing when nothing was recorded.
pub fn draw(summary: &Summary<'_>, step: &Step<'_>) -> String {
    let part = Part::of(step);
    let series: Vec<(usize, &str, Vec<Second>)> = step
        .entries
        .iter()
        .map(|entry| (summary.place(entry.engine), entry.engine, median(entry, part)))
        .filter(|(_, _, series)| !series.is_empty())
        .collect();
    let longest = series.iter().map(|(_, _, series)| series.len()).max().unwrap_or(0) as f64 * part.seconds();
    if longest == 0.0 {
        return String::new();
    }
    let mut throughput = Vec::new();
    let mut tail = Vec::new();
    for (engine, name, series) in &series {
        let rates: Vec<_> = points(series, part, |second| second.operations as f64 / part.seconds());
        let p99: Vec<_> = points(series, part, |second| second.p99_ns as f64);
        let p99: Vec<_> = p99.into_iter().filter(|at| at.1 > 0.0).collect();
        let middle =
            |points: &[(f64, f64)]| Spread::of(points.iter().map(|at| at.1).collect()).map_or(0.0, |s| s.median);
        let title = format!("{name}: {} in most {}", number::rate(middle(&rates)), part.name());
        let title_tail = format!("{name}: P99 {} in most {}", number::time(middle(&p99)), part.name());
        let line = |title, points| Line { engine: *engine, title, dashed: false, points, dots: Vec::new() };
        throughput.push(line(title, thinned(&rates, true)));
        tail.push(line(title_tail, thinned(&p99, false)));
    }
    let seconds = |at: f64| format!("{} s", number::tick(at));
    let marks = marks(summary, step);
    let throughput = Plot {
        title: "Throughput over time, operations a second",
        x: Axis::exact(longest),
        x_tick: &seconds,
        x_name: if marks.is_empty() { "" } else { "marks at the foot: stalls, 50 ms and more without an operation" },
        y: Axis::linear(highest(&throughput)),
        y_tick: &number::count_tick,
        lines: throughput,
        marks,
        height: HEIGHT,
    };
    let (low, high) = (lowest(&tail), highest(&tail));
    let tail = Plot {
        title: "P99 over time, all operations",
        x: Axis::exact(longest),
        x_tick: &seconds,
        x_name: "",
        y: Axis::log(low, high),
        y_tick: &number::time_tick,
        lines: tail,
        marks: Vec::new(),
        height: HEIGHT,
    };
    throughput.draw() + &tail.draw()
}

/// The stalls of all rounds.
fn marks(summary: &Summary<'_>, step: &Step<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    for entry in &step.entries {
        let engine = summary.place(entry.engine);
        for run in &entry.runs {
            marks.extend(run.stall_periods.iter().map(|stall| {
                let (from, until) = (stall.from_ms as f64 / 1e3, (stall.from_ms + stall.ms) as f64 / 1e3);
                let (long, at) = (number::time(stall.ms as f64 * 1e6), number::tick(from));
                let title = format!("{}, round {}: nothing completed for {long} from {at} s", entry.engine, run.round);
                Mark { engine, from, until, title }
            }));
        }
    }
    marks
}

/// The greatest figure of all lines.
pub fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|at| at.1).fold(0.0, f64::max)
}

/// The least figure of all lines; 1 when there is none.
pub fn lowest(lines: &[Line]) -> f64 {
    let low = lines.iter().flat_map(|line| &line.points).map(|at| at.1).fold(f64::INFINITY, f64::min);
    if low.is_finite() { low } else { 1.0 }
}

/// For each part, the median over the rounds that lasted this long.
fn median(entry: &Entry<'_>, part: Part) -> Vec<Second> {
    let rounds: Vec<&[Second]> = entry.runs.iter().map(|run| part.whole(run)).collect();
    let longest = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
    let at = |second: usize, of: fn(&Second) -> u64| {
        let figures = rounds.iter().filter_map(|round| round.get(second)).map(|second| of(second) as f64);
        Spread::of(figures.collect()).map_or(0, |spread| spread.median as u64)
    };
    (0..longest)
        .map(|second| Second {
            operations: at(second, |second| second.operations),
            p50_ns: at(second, |second| second.p50_ns),
            p99_ns: at(second, |second| second.p99_ns),
            max_ns: at(second, |second| second.max_ns),
        })
        .collect()
}

/// The points of a series, each at the middle of its part.
fn points(series: &[Second], part: Part, of: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    series.iter().enumerate().map(|(number, second)| ((number as f64 + 0.5) * part.seconds(), of(second))).collect()
}

/// Reduces the number of points to [`POINTS_MAX`]: of each stretch the greatest and, with `both`, the least, in their
/// order. A mean would hide a second without an operation.
fn thinned(points: &[(f64, f64)], both: bool) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = (points.len() * if both { 2 } else { 1 }).div_ceil(POINTS_MAX);
    let mut thin = Vec::new();
    for stretch in points.chunks(stretch) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(high), Some(low)) = (stretch.iter().max_by(by), stretch.iter().min_by(by)) else { continue };
        match both {
            true if low.0 < high.0 => thin.extend([*low, *high]),
            true if high.0 < low.0 => thin.extend([*high, *low]),
            _ => thin.push(*high),
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn a_second_without_operations_survives_thinning() {
        let points: Vec<(f64, f64)> =
            (0..3_600).map(|n| (f64::from(n), if n == 1_801 { 0.0 } else { 100.0 })).collect();
        let thin = thinned(&points, true);
        assert!(thin.len() <= POINTS_MAX + 2 && thin.contains(&(1_801.0, 0.0)), "{}", thin.len());
        assert!(thin.windows(2).all(|two| two[0].0 < two[1].0));
    }

    #[test]
    fn each_second_is_the_median_of_the_rounds_and_a_broken_second_is_left_out() {
        let run = |operations: [u64; 3], round| {
            let mut run = sample::run("a", round);
            run.seconds = 2.4;
            run.series = operations.map(|operations| Second { operations, ..Second::default() }).into();
            run
        };
        let runs = [run([1, 10, 0], 1), run([3, 50, 0], 2), run([2, 20, 0], 3)];
        let entry = Entry { engine: "a", runs: runs.iter().collect() };
        let operations: Vec<u64> = median(&entry, Part::Second).iter().map(|second| second.operations).collect();
        assert_eq!(operations, [2, 20]);
    }

    #[test]
    fn a_short_run_has_a_point_each_tenth_of_a_second_and_its_stalls_are_marked() {
        let mut report = sample::report(&["a"], &[("ycsb-a", crate::plan::Pace::Closed)], 1, 2);
        let run = &mut report.runs[0];
        run.intervals = (0..20).map(|n| Second { operations: n, p99_ns: 5, ..Second::default() }).collect();
        run.stall_periods = vec![crate::report::StallPeriod { from_ms: 500, ms: 120 }];
        let summary = Summary::of(&report);
        let step = &summary.steps[0];
        assert_eq!(Part::of(step), Part::Tenth);
        assert_eq!(median(&step.entries[0], Part::Tenth).len(), 20);
        let svg = draw(&summary, step);
        assert!(svg.contains("nothing completed for 120 ms from 0.5 s") && svg.contains("in most tenths"), "{svg}");
    }
}
