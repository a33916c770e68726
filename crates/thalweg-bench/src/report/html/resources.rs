//! Memory, and bytes read and written, over time: of each engine's last round.

use super::axis::Axis;
use super::plot::{HEIGHT, Line, Plot};
use super::timeline::highest;
use crate::report::summary::{Step, Summary};
use crate::report::{Run, Sample, number};

const MIB: f64 = 1_048_576.0;

/// The shortest time over which bytes a second are computed: the kernel writes pages back in bursts.
const WINDOW_MS: u64 = 250;

/// The plots of a step: memory, and bytes a second; none when no samples were taken.
pub fn draw(summary: &Summary<'_>, step: &Step<'_>) -> Vec<String> {
    let (mut memory, mut moved) = (Vec::new(), Vec::new());
    let mut longest: f64 = 0.0;
    let (mut grouped, mut by_device) = (false, true);
    for entry in &step.entries {
        let Some(run) = entry.runs.last().filter(|run| run.samples.len() > 1) else { continue };
        longest = longest.max(run.samples.last().map_or(0.0, seconds));
        grouped |= run.samples.iter().any(|sample| sample.page_cache_bytes.is_some());
        by_device &= run.usage.io.device.is_some();
        let line = |what: &str, dashed, points| Line {
            engine: summary.place(entry.engine),
            title: format!("{}, round {}: {what}", entry.engine, run.round),
            dashed,
            points,
            dots: Vec::new(),
        };
        memory.push(line("resident memory", false, series(run, |sample| sample.rss_bytes)));
        memory.push(line(
            "page cache",
            true,
            series(run, |sample| sample.page_cache_bytes.unwrap_or(sample.mapped_bytes)),
        ));
        moved.push(line("written", false, rates(run, |sample| sample.written_bytes)));
        moved.push(line("read", true, rates(run, |sample| sample.read_bytes)));
    }
    if memory.is_empty() {
        return Vec::new();
    }
    let seconds = |at: f64| format!("{} s", number::tick(at));
    let memory = Plot {
        title: "Memory over time, MiB",
        x: Axis::exact(longest),
        x_tick: &seconds,
        x_name: match grouped {
            true => "solid: resident; dashed: page cache of the control group",
            false => "solid: resident; dashed: mapped files in it, which are page cache",
        },
        y: Axis::linear(highest(&memory)),
        y_tick: &number::count_tick,
        lines: memory,
        marks: Vec::new(),
        height: HEIGHT,
    };
    let moved = Plot {
        title: "Read and written over time, MiB a second",
        x: Axis::exact(longest),
        x_tick: &seconds,
        x_name: match by_device {
            true => "solid: written; dashed: read; by the block device, whoever asked for it",
            false => "solid: written; dashed: read; counted by the kernel for the process",
        },
        y: Axis::linear(highest(&moved)),
        y_tick: &number::count_tick,
        lines: moved,
        marks: Vec::new(),
        height: HEIGHT,
    };
    vec![memory.draw(), moved.draw()]
}

fn seconds(sample: &Sample) -> f64 {
    sample.ms as f64 / 1e3
}

/// A figure at each sample, in MiB.
fn series(run: &Run, of: impl Fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    run.samples.iter().map(|sample| (seconds(sample), of(sample) as f64 / MIB)).collect()
}

/// How fast a figure grew, in MiB a second, over stretches of [`WINDOW_MS`] and more.
fn rates(run: &Run, of: impl Fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    let mut before = run.samples.first();
    for sample in &run.samples {
        let Some(last) = before.filter(|last| sample.ms >= last.ms + WINDOW_MS) else { continue };
        let bytes = of(sample).saturating_sub(of(last)) as f64;
        rates.push(((seconds(last) + seconds(sample)) / 2.0, bytes / MIB / (seconds(sample) - seconds(last))));
        before = Some(sample);
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pace;
    use crate::report::tests::sample;

    #[test]
    fn bytes_a_second_are_the_growth_between_samples() {
        let mut run = sample::run("a", 1);
        let at = |ms, written: u64| Sample { ms, written_bytes: written << 20, ..Sample::default() };
        run.samples = vec![at(0, 0), at(100, 50), at(500, 100), at(1000, 100)];
        assert_eq!(rates(&run, |sample| sample.written_bytes), [(0.25, 200.0), (0.75, 0.0)]);
    }

    #[test]
    fn a_report_without_samples_has_no_such_plots() {
        let mut report = sample::report(&["a"], &[("ycsb-a", Pace::Closed)], 1, 3);
        let drawn = |report: &_| draw(&Summary::of(report), &Summary::of(report).steps[0]);
        let page = drawn(&report).concat();
        assert!(page.contains("Memory over time") && page.contains("control group") && page.contains("block device"));
        report.runs[0].samples.clear();
        assert!(drawn(&report).is_empty());
    }
}
