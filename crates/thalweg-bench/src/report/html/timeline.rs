//! Throughput and P99 over time: for each engine the median of its rounds, second by second.

use super::axis::Axis;
use super::plot::{HEIGHT, Line, Plot};
use crate::report::summary::{Spread, Step, Summary};
use crate::report::{Entry, Run, Second, number};

/// Points of a line at most; more would not be seen.
const POINTS_MAX: usize = 300;

/// The plots of a step: throughput, and beneath it P99 over the same seconds; nothing when nothing was recorded.
pub fn draw(summary: &Summary<'_>, step: &Step<'_>) -> String {
    let series: Vec<(usize, &str, Vec<Second>)> = step
        .entries
        .iter()
        .map(|entry| (summary.place(entry.engine), entry.engine, median(entry)))
        .filter(|(_, _, series)| !series.is_empty())
        .collect();
    let longest = series.iter().map(|(_, _, series)| series.len()).max().unwrap_or(0);
    if longest == 0 {
        return String::new();
    }
    let mut throughput = Vec::new();
    let mut tail = Vec::new();
    for (engine, name, series) in &series {
        let rates: Vec<_> = points(series, |second| second.operations as f64);
        let p99: Vec<_> = points(series, |second| second.p99_ns as f64).into_iter().filter(|at| at.1 > 0.0).collect();
        let middle =
            |points: &[(f64, f64)]| Spread::of(points.iter().map(|at| at.1).collect()).map_or(0.0, |s| s.median);
        let titles = [
            format!("{name}: {} in most seconds", number::rate(middle(&rates))),
            format!("{name}: P99 {} in most seconds", number::time(middle(&p99))),
        ];
        let [title, title_tail] = titles;
        throughput.push(Line { engine: *engine, title, points: thinned(&rates, true), dots: Vec::new() });
        tail.push(Line { engine: *engine, title: title_tail, points: thinned(&p99, false), dots: Vec::new() });
    }
    let seconds = |at: f64| format!("{} s", number::tick(at));
    let high = highest(&throughput);
    let throughput = Plot {
        title: "Throughput over time, operations a second",
        x: Axis::exact(longest as f64),
        x_tick: &seconds,
        x_name: "",
        y: Axis::linear(high),
        y_tick: &number::count_tick,
        lines: throughput,
        height: HEIGHT,
    };
    let (low, high) = (lowest(&tail), highest(&tail));
    let tail = Plot {
        title: "P99 over time, all operations",
        x: Axis::exact(longest as f64),
        x_tick: &seconds,
        x_name: "",
        y: Axis::log(low, high),
        y_tick: &number::time_tick,
        lines: tail,
        height: HEIGHT,
    };
    throughput.draw() + &tail.draw()
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

/// The seconds of a run that are whole: the last one would look like a collapse.
fn whole(run: &Run) -> &[Second] {
    let seconds = run.series.len();
    let cut = seconds > 1 && (seconds as f64) > run.seconds + 0.05;
    &run.series[..seconds - usize::from(cut)]
}

/// For each second the median over the rounds that lasted so long.
fn median(entry: &Entry<'_>) -> Vec<Second> {
    let rounds: Vec<&[Second]> = entry.runs.iter().map(|run| whole(run)).collect();
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

/// Each second in its middle.
fn points(series: &[Second], of: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    series.iter().enumerate().map(|(number, second)| (number as f64 + 0.5, of(second))).collect()
}

/// Fewer points where there are too many: of each stretch the greatest and, with `both`, the least, in their order. A
/// mean would hide a second without an operation.
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
    use crate::report::sample;

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
        let operations: Vec<u64> = median(&entry).iter().map(|second| second.operations).collect();
        assert_eq!(operations, [2, 20]);
    }
}
