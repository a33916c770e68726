//! Measures the rates of file system calls in a directory.
//!
//! `phase` has what is measured, `clock` times it and counts processor time, `report` prints one run, or the medians of
//! several.

mod clock;
mod phase;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use phase::Phase;

/// Measures the rates of file system calls.
#[derive(Parser)]
#[command(name = "yardstick-rates")]
enum Command {
    /// Measures in a directory, and empties it again.
    Run(Run),
    #[command(subcommand)]
    Report(Report),
}

#[derive(Args)]
struct Run {
    /// The directory. Each thread works in a subdirectory of its own.
    directory: PathBuf,
    /// Files in all.
    #[arg(long, default_value_t = 20_000)]
    files: usize,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Files in all that are written and synced.
    #[arg(long, default_value_t = 1_000)]
    synced: usize,
    /// MiB that are written and read in sequence.
    #[arg(long, default_value_t = 1024)]
    mib: usize,
    /// What is measured; a phase needs the files that `create` leaves.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Phase::ALL)]
    phases: Vec<Phase>,
    /// The process that serves the directory: its processor time is measured too.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Also writes the result to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Reports on runs.
#[derive(Subcommand)]
enum Report {
    /// Prints the medians of runs, one column for each name. A file's name begins with its column's: NAME.ROUND.json
    Medians {
        /// The files that `run --json` wrote.
        files: Vec<PathBuf>,
    },
    /// Prints the figures of all runs as one file.
    Join {
        /// The files that `run --json` wrote.
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run(run) => run.run(),
        Command::Report(Report::Medians { files }) => report::medians(&files),
        Command::Report(Report::Join { files }) => report::join(&files),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

impl Run {
    fn run(&self) -> io::Result<()> {
        if self.threads == 0 || self.files < self.threads || self.synced < self.threads {
            return Err(io::Error::other("there must be a thread, and a file for each"));
        }
        let load = phase::Load {
            directory: self.directory.clone(),
            files_each: self.files / self.threads,
            threads: self.threads,
            synced_each: self.synced / self.threads,
            mib: self.mib,
        };
        load.begin()?;
        let mut rates = Vec::new();
        for &phase in &self.phases {
            rates.push(clock::measure(&load, phase, self.server_pid)?);
        }
        load.end()?;
        report::print(&rates, self.json.as_deref())
    }
}
