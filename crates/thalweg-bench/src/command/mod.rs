//! The command line that the `thalweg` command and the peers share.
//!
//! `args` is what can be said, `chosen` what it means, `variant` an engine with settings of its own, `run` does it;
//! `limits`, `list` and `stored` are the other subcommands.

mod amount;
mod args;
mod chosen;
mod draft;
mod limits;
mod list;
mod place;
mod progress;
mod run;
mod stop;
mod stored;
mod variant;

pub use args::Bench;

use crate::error::{Error, Result};
use crate::process::{self, Host};
use crate::report::Look;
use args::{Colour, Other, When};
use std::io::{self, IsTerminal, Write};

/// The exit code of what failed, where why was said already.
pub const FAILED: u8 = 3;

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

/// An error of a path that the user named: wrong usage where another path would do, else the system's failure.
fn of_path(what: String, error: io::Error) -> Error {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let named = [InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem];
    if named.contains(&error.kind()) {
        return Error::Usage(format!("cannot {what}: {error}"));
    }
    Error::io(what, error)
}

fn print(output: &mut dyn Write, text: &str) -> Result<()> {
    output.write_all(text.as_bytes()).map_err(|error| Error::io("write the output", error))
}

/// Columns of what is no terminal: as wide as files are read.
const WIDTH: usize = 120;

impl Colour {
    /// As the flag, standard output and `NO_COLOR` want it.
    fn look(&self) -> Look {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let output = io::stdout();
        let terminal = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => output.is_terminal() && !unwanted,
        };
        let columns = rustix::termios::tcgetwinsize(&output).map_or(0, |size| usize::from(size.ws_col));
        Look { terminal, width: if columns == 0 { WIDTH } else { columns } }
    }
}
