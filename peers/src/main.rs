//! The `thalweg-peers` command: the subcommands of `thalweg bench`, with other engines to choose from.

use clap::{CommandFactory, FromArgMatches, Parser};
use std::io::Write;
use std::process::ExitCode;
use thalweg_bench::Error;
use thalweg_bench::command::{self, Bench};

/// Measures Thalweg and other engines with the same workloads.
#[derive(Parser)]
#[command(name = "thalweg-peers", version)]
struct Arguments {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> ExitCode {
    let matches = command::in_words_of(&thalweg_peers::HOST, Arguments::command()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match command::run(&thalweg_peers::HOST, &arguments.bench, &mut std::io::stdout().lock()) {
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
