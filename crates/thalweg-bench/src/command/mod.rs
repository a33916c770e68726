//! The command line that the `thalweg` command and the peers share.
//!
//! `args` is what can be said, `resolved` what it means, `variant` an engine with settings of its own, `run` does it;
//! `limits`, `list` and `stored` are the other subcommands.

mod amount;
mod args;
mod date;
mod draft;
mod limits;
mod list;
mod output;
mod overrides;
mod place;
mod progress;
mod resolved;
mod run;
mod stop;
mod stored;
mod variant;

pub use crate::error::FAILED;
pub use args::Bench;

use crate::error::{Error, Result};
use crate::process::{self, Host};
use args::Other;
use output::print;
use std::io::Write;

/// Carries a command out; tables go to `output`, progress to standard error.
///
/// # Errors
/// `Usage` for what makes no sense; `Exit` when all is said; else what kept it from being done.
pub fn run(host: &Host, bench: &Bench, output: &mut dyn Write) -> Result<()> {
    match &bench.other {
        None => run::run(host, &bench.run, output),
        Some(Other::List) => print(output, &list::render(host)),
        Some(Other::Limits(args)) => limits::run(args, output),
        Some(Other::Compare(args)) => stored::compare_reports(args, output),
        Some(Other::Show(args)) => stored::show(args, output),
        Some(Other::Report(args)) => stored::results(args, output),
        // Whoever started it was told what went wrong.
        Some(Other::Worker) => process::work(host).map_err(|_| Error::Exit(FAILED)),
    }
}

/// The same command line with its examples in the words of this host: they are written for `thalweg bench`.
pub fn in_words_of(host: &Host, line: clap::Command) -> clap::Command {
    let words = |text: &clap::builder::StyledStr| text.to_string().replace("thalweg bench", host.command);
    let line = match line.get_after_help().map(words) {
        Some(examples) => line.after_help(examples),
        None => line,
    };
    line.mut_subcommands(|subcommand| in_words_of(host, subcommand))
}
