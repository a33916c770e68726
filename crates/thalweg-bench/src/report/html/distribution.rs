//! Distributions of latency: a plot for each class of operations, the tail stretched so that it can be read.

use super::axis::Axis;
use super::plot::{HEIGHT, Line, Plot};
use crate::report::metric::{Quantile, class_name};
use crate::report::summary::{Step, Summary};
use crate::report::{Entry, Latency, Metric, number};
use crate::workload::Class;

/// The plots of a step. A single plot is as high as the two plots over time beside it.
pub fn draw(summary: &Summary<'_>, step: &Step<'_>) -> String {
    let classes = step.classes();
    let height = if classes.len() == 1 { HEIGHT * 2.0 } else { HEIGHT };
    classes.into_iter().filter_map(|class| plot(summary, step, class, height)).collect()
}

fn plot(summary: &Summary<'_>, step: &Step<'_>, class: Class, height: f64) -> Option<String> {
    let found: Vec<(&str, &Latency)> =
        step.entries.iter().filter_map(|entry| Some((entry.engine, middle(entry, class)?))).collect();
    let count = found.iter().map(|(_, latency)| latency.count).max()?;
    // The number of operations limits how many nines the tail can show.
    let nines = ((count as f64).log10().ceil() as u32).clamp(2, 5);
    let low = found.iter().filter_map(|(_, latency)| latency.cdf.first()).map(|point| point.0).min()?;
    let high = found.iter().map(|(_, latency)| latency.max_ns).max()?;
    let line = |(engine, latency): &(&str, &Latency)| {
        let first = latency.cdf.first().map(|(ns, _)| (*ns as f64, 0.0));
        let points = first.into_iter().chain(latency.cdf.iter().map(|(ns, share)| (*ns as f64, *share)));
        let [p50, p99, p999, max] =
            [latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns].map(|ns| number::time(ns as f64));
        Line {
            dashed: false,
            engine: summary.place(engine),
            title: format!("{engine}: P50 {p50}, P99 {p99}, P99.9 {p999}, longest {max}"),
            points: points.collect(),
            dots: Vec::new(),
        }
    };
    let plot = Plot {
        title: &format!("Latency of {}: share of operations within a time", class_name(class)),
        x: Axis::log(low as f64, high as f64),
        x_tick: &number::time_tick,
        x_name: "",
        y: Axis::tail(nines),
        y_tick: &|share| format!("{} %", percent(share)),
        lines: found.iter().map(line).collect(),
        marks: Vec::new(),
        height,
    };
    Some(plot.draw())
}

/// Formats a share: `50`, `99.9`, without superfluous digits.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The latencies of the round whose P99 is the median.
fn middle<'a>(entry: &Entry<'a>, class: Class) -> Option<&'a Latency> {
    let p99 = |run: &&&crate::report::Run| Metric::Latency(class, Quantile::P99).of(run).map(|p99| p99 as u64);
    let mut runs: Vec<_> = entry.runs.iter().filter(|run| p99(run).is_some()).collect();
    runs.sort_by_key(p99);
    runs.get(runs.len().checked_sub(1)? / 2)?.latency.get(&class).filter(|latency| !latency.cdf.is_empty())
}
