//! The command line that the `thalweg` command and the peers share.
//!
//! - `args`, `settings_args`: the flags and subcommands; `amount`: their sizes, counts and times
//! - `overrides`: flags over parameters
//! - `variant`: an engine with settings of its own
//! - `resolved`: the parameters of a run
//! - `run`: runs them; `place`: its directory; `progress`: its progress; `stop`: signals
//! - `draft`: the files that it writes at its end; `date`: a moment as text
//! - `list`, `limits`, `stored`: the other subcommands
//! - `output`: prints tables

pub mod amount;
mod args;
mod draft;
mod limits;
mod list;
mod output;
mod overrides;
mod place;
mod progress;
mod resolved;
mod run;
mod settings_args;
mod stop;
mod stored;
mod variant;

pub use crate::error::FAILED;
pub use args::Bench;
pub use stop::is_ignored;

use crate::error::{Error, Result};
use crate::process::{self, Host};
use args::Other;
use output::print;
use std::io::Write;

/// Executes a command; tables go to `output`, progress to standard error.
///
/// # Errors
/// `Usage` for arguments that make no sense; `Exit` when the reason is already printed; otherwise the failure.
pub fn run(host: &Host, bench: &Bench, output: &mut dyn Write) -> Result<()> {
    match &bench.other {
        None => run::run(host, &bench.run, output),
        Some(Other::List) => print(output, &list::render(host)),
        Some(Other::Limits(args)) => limits::run(args, output),
        Some(Other::Compare(args)) => stored::compare_reports(args, output),
        Some(Other::Show(args)) => stored::show(args, output),
        Some(Other::Report(args)) => stored::results(args, output),
        // The worker has already sent the reason to its parent as an event.
        Some(Other::Worker) => process::work(host).map_err(|_| Error::Exit(FAILED)),
    }
}

/// Replaces `thalweg bench` in the examples of a command line by the command of this host.
pub fn in_words_of(host: &Host, line: clap::Command) -> clap::Command {
    let words = |text: &clap::builder::StyledStr| text.to_string().replace("thalweg bench", host.command);
    let line = match line.get_after_help().map(words) {
        Some(examples) => line.after_help(examples),
        None => line,
    };
    line.mut_subcommands(|subcommand| in_words_of(host, subcommand))
}
