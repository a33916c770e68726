//! Shows the progress of a run on standard error: as a bar on a terminal; otherwise as a line every few seconds and at
//! the end of each step.

use crate::driver;
use crate::process::Event;
use crate::report::number;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Steps of the bar: more than a terminal has columns.
const BAR_LENGTH: u64 = 1000;

/// Shows progress while it lives.
pub struct Progress {
    command: &'static str,
    shown: Shown,
    rounds: u32,
    /// The current round and engine.
    run: String,
    /// The number of the step in the round, if there are several steps, and its workload.
    step: String,
    /// The activity of the step besides running operations; empty while operations run.
    doing: String,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    /// Progress of `rounds` rounds; each line begins with `command`.
    pub fn new(command: &'static str, rounds: u32, quiet: bool) -> Progress {
        let shown = if quiet {
            Shown::Nothing
        } else if io::stderr().is_terminal() {
            Shown::Bar(bar())
        } else {
            Shown::Lines { last: Instant::now() }
        };
        Progress { command, shown, rounds, run: String::new(), step: String::new(), doing: String::new() }
    }

    /// Shows that a round of an engine begins.
    pub fn engine(&mut self, engine: &str, round: u32) {
        self.run = match self.rounds {
            1 => engine.to_owned(),
            rounds => format!("round {round}/{rounds} {engine}"),
        };
        self.step.clear();
        self.doing = "starting".into();
        self.show(None);
    }

    /// Shows an event of the worker.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Step { number, count, workload, doing, .. } => {
                self.step = if *count > 1 { format!("{number}/{count} {workload}") } else { workload.clone() };
                self.doing = if doing == "running" { String::new() } else { doing.clone() };
                self.show(None);
            }
            Event::Progress(progress) => self.show(Some(progress)),
            Event::Run(run) => {
                let again = if run.noisy {
                    format!(", {:.0} % foreign CPU", run.usage.cpu.foreign_percent)
                } else {
                    String::new()
                };
                self.line(&format!("{} in {:.1} s{again}", number::rate(run.operations_per_second), run.seconds));
            }
            Event::Sustained(found) => self.line(&format!("sustains {}", number::rate(found.rate))),
            Event::Note(text) => self.note(text),
            Event::Opened(_) | Event::Failed(_) | Event::Done => {}
        }
    }

    /// Prints a line for the user, also when no progress is shown.
    pub fn note(&self, text: &str) {
        let text = if self.run.is_empty() { text.to_owned() } else { format!("[{}] {text}", self.run) };
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| say(self.command, &text)),
            Shown::Lines { .. } | Shown::Nothing => say(self.command, &text),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }

    fn label(&self) -> String {
        let doing = if self.doing.is_empty() { String::new() } else { format!("{} ", self.doing) };
        let step = if self.step.is_empty() { String::new() } else { format!("{} ", self.step) };
        format!("[{}] {step}{doing}", self.run).trim_end().to_owned()
    }

    fn show(&mut self, progress: Option<&driver::Progress>) {
        let label = self.label();
        match &mut self.shown {
            Shown::Bar(bar) => {
                let share = progress.map_or(0.0, |progress| progress.share.clamp(0.0, 1.0));
                bar.set_prefix(label);
                bar.set_position((share * BAR_LENGTH as f64) as u64);
                bar.set_message(progress.map(figures).unwrap_or_default().join("  "));
            }
            Shown::Lines { last } => {
                if let (Some(progress), true) = (progress, last.elapsed() >= LINE_INTERVAL) {
                    *last = Instant::now();
                    say(self.command, &format!("{label}: {}", figures(progress).join(", ")));
                }
            }
            Shown::Nothing => {}
        }
    }

    /// Prints a line at the end of a step, if no bar is shown.
    fn line(&mut self, text: &str) {
        let label = format!("[{}] {}", self.run, self.step);
        if let Shown::Lines { last } = &mut self.shown {
            *last = Instant::now();
            say(self.command, &format!("{label}: {text}"));
        }
    }
}

/// Prints one line on standard error. A failure to write it is ignored.
pub fn say(command: &str, text: &str) {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(io::stderr(), "{command}: {line}");
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(BAR_LENGTH);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {msg}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    // Redrawn only when an event comes: a timer would take time from the engine.
    bar
}

/// `63 %`, `182 k/s`, `p99 41.2 µs`, `eta 4 s`.
fn figures(progress: &driver::Progress) -> Vec<String> {
    let mut all = vec![format!("{:.0} %", progress.share.clamp(0.0, 1.0) * 100.0), number::rate(progress.rate.round())];
    if progress.p99_ns > 0 {
        all.push(format!("p99 {}", number::time(progress.p99_ns as f64)));
    }
    if progress.share > 0.02 && progress.share < 1.0 {
        all.push(format!("eta {:.0} s", (progress.seconds * (1.0 - progress.share) / progress.share).ceil()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pace;

    fn step(number: usize, count: usize, doing: &str) -> Event {
        Event::Step { number, count, workload: "ycsb-a".into(), pace: Pace::Closed, doing: doing.into() }
    }

    #[test]
    fn the_label_says_round_engine_step_and_what_is_done() {
        let mut progress = Progress::new("thalweg bench", 3, true);
        progress.engine("rocksdb", 1);
        assert_eq!(progress.label(), "[round 1/3 rocksdb] starting");
        progress.event(&step(2, 2, "warming"));
        assert_eq!(progress.label(), "[round 1/3 rocksdb] 2/2 ycsb-a warming");
        let mut single = Progress::new("thalweg bench", 1, true);
        single.engine("thalweg", 1);
        single.event(&step(1, 1, "running"));
        assert_eq!(single.label(), "[thalweg] ycsb-a");
    }

    #[test]
    fn figures_have_share_rate_p99_and_what_is_left() {
        let progress = driver::Progress { seconds: 6.3, operations: 1, rate: 182_400.0, p99_ns: 41_000, share: 0.63 };
        assert_eq!(figures(&progress), ["63 %", "182 k/s", "p99 41.0 µs", "eta 4 s"]);
        assert_eq!(figures(&driver::Progress::default()), ["0 %", "0/s"]);
    }

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template("{prefix} {bar:20} {msg}").is_ok());
        let bar = bar();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.finish_and_clear();
    }
}
