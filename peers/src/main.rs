//! The `thalweg-peers` command: the subcommands of `thalweg bench`, with other engines to choose from, and
//! `figure14`.

use clap::{CommandFactory, FromArgMatches, Parser};
use std::io::Write;
use std::process::ExitCode;
use thalweg_bench::Error;
use thalweg_bench::command::{self, Bench};
use thalweg_peers::figure14::{self, Figure14};

/// Measures Thalweg and other engines with the same workloads.
#[derive(Parser)]
#[command(name = "thalweg-peers", version)]
struct Arguments {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> ExitCode {
    let line = command::in_words_of(&thalweg_peers::HOST, Arguments::command()).subcommand(Figure14::command());
    let matches = line.get_matches();
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        // Everything was said already.
        Err(Error::Exit(code)) => ExitCode::from(code),
        Err(error) => {
            // Nobody is left to tell if standard error is gone too.
            let _ = writeln!(std::io::stderr(), "thalweg-peers: {error}");
            ExitCode::from(if matches!(error, Error::Usage(_)) { 2 } else { command::FAILED })
        }
    }
}

fn run(matches: &clap::ArgMatches) -> Result<(), Error> {
    let mut output = std::io::stdout().lock();
    if let Some(("figure14", matches)) = matches.subcommand() {
        let arguments = Figure14::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
        return figure14::run(&arguments, &mut output);
    }
    let arguments = Arguments::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    command::run(&thalweg_peers::HOST, &arguments.bench, &mut output)
}
