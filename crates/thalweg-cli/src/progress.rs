//! [`Progress`]: a bar on a terminal, or a line every few seconds in a pipe. Both go to standard error.

use crate::numbers;
use crate::report::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The progress of a long command, on standard error.
pub struct Progress {
    /// The noun for what is counted.
    noun: &'static str,
    shown: Shown,
    total_bytes: Option<u64>,
    start: Instant,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    /// Starts to count things that are called `noun`. `total_bytes` is the length of the input, if it is known.
    pub fn new(noun: &'static str, total_bytes: Option<u64>) -> Progress {
        let start = Instant::now();
        let shown =
            if std::io::stderr().is_terminal() { Shown::Bar(bar(total_bytes)) } else { Shown::Lines { last: start } };
        Progress { noun, shown, total_bytes, start }
    }

    /// Starts to count things of an approximate total, which [`Progress::update_of`] gets. Without a terminal nothing
    /// is shown.
    pub fn on_terminal(noun: &'static str) -> Progress {
        let shown = if std::io::stderr().is_terminal() { Shown::Bar(bar_of_things()) } else { Shown::Nothing };
        Progress { noun, shown, total_bytes: None, start: Instant::now() }
    }

    /// Whether anything is shown.
    pub fn is_shown(&self) -> bool {
        !matches!(self.shown, Shown::Nothing)
    }

    /// Shows that `number` of about `total` things are done, followed by the text `besides`.
    pub fn update_of(&self, number: u64, total: u64, besides: String) {
        if let Shown::Bar(bar) = &self.shown {
            bar.set_length(total.max(number));
            bar.set_position(number);
            bar.set_message(format!("{}s, {besides}", self.noun));
        }
    }

    /// Runs `print`, which prints lines on the terminal, above the bar if there is one.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        if let Shown::Bar(bar) = &self.shown { bar.suspend(print) } else { print() }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Shows that `number` things and `bytes` of the input are done.
    pub fn update(&mut self, number: u64, bytes: u64) {
        let elapsed = self.elapsed();
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_position(bytes);
                bar.set_message(format!(
                    "{}, {}/s",
                    numbers::counted(number, self.noun),
                    numbers::count(numbers::rate(number, elapsed))
                ));
            }
            Shown::Lines { last } => {
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    say(&plain(number, self.noun, bytes, self.total_bytes, elapsed));
                }
            }
            Shown::Nothing => {}
        }
    }

    /// Prints a line, above the bar if there is one.
    pub fn say(&self, text: &str) {
        self.above(|| say(text));
    }

    /// Removes the bar and returns the time since the start.
    pub fn finish(&self) -> Duration {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
        self.elapsed()
    }
}

fn bar(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => {
            (ProgressBar::new(total), "{bar:32} {bytes}/{total_bytes}  {msg}  {binary_bytes_per_sec}  {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}  {binary_bytes_per_sec}  {elapsed}"),
    };
    drawn(bar, template)
}

fn bar_of_things() -> ProgressBar {
    drawn(ProgressBar::new(0), "{bar:32} {human_pos}/{human_len} {msg}  {elapsed}")
}

fn drawn(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn plain(number: u64, noun: &str, bytes: u64, total_bytes: Option<u64>, elapsed: Duration) -> String {
    let mut text = format!(
        "{} ({}) in {}, {} {noun}s/s",
        numbers::counted(number, noun),
        numbers::size(bytes),
        numbers::duration(elapsed),
        numbers::count(numbers::rate(number, elapsed))
    );
    if let Some(percent) = total_bytes.and_then(|total| bytes.saturating_mul(100).checked_div(total)) {
        text.push_str(&format!(", {percent}% read"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_lines_bytes_time_rate_and_share() {
        let text = plain(2000, "line", 3 << 20, Some(6 << 20), Duration::from_secs(2));
        assert_eq!(text, "2,000 lines (3.0 MiB) in 2.0 s, 1,000 lines/s, 50% read");
        assert!(!plain(1, "line", 1, None, Duration::from_secs(1)).contains('%'));
        assert!(!plain(0, "line", 0, Some(0), Duration::from_secs(1)).contains('%'));
    }

    #[test]
    fn a_bar_of_things_reaches_beyond_a_total_that_is_too_low() {
        let bar = bar_of_things();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let progress =
            Progress { noun: "inode", shown: Shown::Bar(bar.clone()), total_bytes: None, start: Instant::now() };
        for (number, total, length) in [(1024, 5000, 5000), (5120, 5000, 5120)] {
            progress.update_of(number, total, "7 rows".into());
            assert_eq!(
                (bar.position(), bar.length(), bar.message().as_str()),
                (number, Some(length), "inodes, 7 rows")
            );
        }
    }

    #[test]
    fn the_templates_are_valid() {
        for bar in [bar(None), bar(Some(10)), bar_of_things()] {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            bar.finish_and_clear();
        }
    }
}
