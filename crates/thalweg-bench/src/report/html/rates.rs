//! P99 against the offered rate, which shows where an engine's queue begins to grow.

use super::axis::Axis;
use super::plot::{Line, Plot};
use super::timeline::{highest, lowest};
use crate::plan::Pace;
use crate::report::metric::{Quantile, class_name};
use crate::report::summary::{Spread, Step, Summary};
use crate::report::{Entry, Metric, number};
use crate::workload::Class;

/// The plots of a workload that ran at several rates, one for each class of operations.
pub fn draw(summary: &Summary<'_>, steps: &[&Step<'_>]) -> Vec<String> {
    let open: Vec<&Step<'_>> = steps.iter().copied().filter(|step| !step.closed()).collect();
    if open.len() < 2 {
        return Vec::new();
    }
    let has = |class: &Class| open.iter().any(|step| step.classes().contains(class));
    Class::ALL.into_iter().filter(has).map(|class| plot(summary, &open, class)).collect()
}

fn offered(entry: &Entry<'_>) -> Option<f64> {
    let rate = |pace: &Pace| if let Pace::Open { rate, .. } = pace { Some(*rate) } else { None };
    Spread::of(entry.runs.iter().filter_map(|run| rate(&run.pace)).collect()).map(|spread| spread.median)
}

fn plot(summary: &Summary<'_>, steps: &[&Step<'_>], class: Class) -> String {
    let mut lines = Vec::new();
    for (place, engine) in summary.engines.iter().enumerate() {
        let mut points: Vec<(f64, f64)> = steps
            .iter()
            .filter_map(|step| step.entry(engine))
            .filter_map(|entry| Some((offered(entry)?, entry.median(Metric::Latency(class, Quantile::P99))?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dot = |(rate, p99): &(f64, f64)| format!("{engine} at {}: P99 {}", number::rate(*rate), number::time(*p99));
        let dots = points.iter().map(dot).collect();
        lines.push(Line { dashed: false, engine: place, title: (*engine).to_owned(), points, dots });
    }
    let widest = lines.iter().flat_map(|line| &line.points).map(|at| at.0).fold(0.0, f64::max);
    let (low, high) = (lowest(&lines), highest(&lines));
    let plot = Plot {
        title: &format!("P99 of {} against the offered rate", class_name(class)),
        x: Axis::linear(widest),
        x_tick: &number::count_tick,
        x_name: "operations a second offered",
        y: Axis::log(low, high),
        y_tick: &number::time_tick,
        lines,
        marks: Vec::new(),
        height: 280.0,
    };
    plot.draw()
}
