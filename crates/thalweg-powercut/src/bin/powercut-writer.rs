//! `powercut-writer`: writes the workload of a seed into a database and reports each promise. Exit code 1: an error of
//! the engine; 2: wrong arguments.

use clap::Parser;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::DurabilityBackend;
#[cfg(feature = "planted-bugs")]
use thalweg::simulation::{Bug, plant};
use thalweg_powercut::options::{Choice, backend_named};
use thalweg_powercut::writer::{Plan, run};

#[derive(Parser)]
#[command(name = "powercut-writer", about = "Writes the workload of a seed and reports each promise")]
struct Arguments {
    /// The database; made if it is not there.
    database: PathBuf,
    /// Decides the writes, and the options of the database.
    #[arg(long)]
    seed: u64,
    /// Where promises are reported, one a line: a pipe, a port, a file on another file system (default: stdout).
    #[arg(long)]
    log_to: Option<PathBuf>,
    /// How edits become durable.
    #[arg(long, default_value = "settle-rounds", value_parser = backend_named)]
    backend: DurabilityBackend,
    /// The directory of the fast tier (default: none).
    #[arg(long)]
    fast_tier: Option<PathBuf>,
    /// The last write, after which the database is closed (default: none, until killed).
    #[arg(long)]
    last: Option<u64>,
    /// Writes a second at most; 0: as many as there can be.
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Plants a bug, to see it caught (docs/testing.md names them).
    #[cfg(feature = "planted-bugs")]
    #[arg(long)]
    bug: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "planted-bugs")]
    if let Some(name) = &arguments.bug {
        let Some(bug) = bug_named(name) else {
            return failed(2, &format!("there is no bug {name:?}"));
        };
        plant(bug);
    }
    let mut output: Box<dyn Write + Send> = match &arguments.log_to {
        None => Box::new(io::stdout()),
        Some(path) => match open(path) {
            Ok(file) => Box::new(file),
            Err(error) => return failed(2, &format!("cannot open {}: {error}", path.display())),
        },
    };
    let choice = Choice { backend: arguments.backend, fast_tier: arguments.fast_tier };
    let plan = Plan { seed: arguments.seed, choice, last: arguments.last, rate: arguments.rate };
    match run(&arguments.database, &plan, &mut output) {
        Ok(_) => ExitCode::SUCCESS,
        Err(fault) => failed(1, &format!("seed {}: {fault}", arguments.seed)),
    }
}

/// A port or a pipe must exist; a file is created.
fn open(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path).or_else(|_| OpenOptions::new().write(true).open(path))
}

/// The bugs that a power cut brings to light.
#[cfg(feature = "planted-bugs")]
fn bug_named(name: &str) -> Option<Bug> {
    let bugs = [
        Bug::LogSyncDropped,
        Bug::TableSyncDropped,
        Bug::SettledWithoutFastSync,
        Bug::DirectorySyncDropped,
        Bug::ManifestBeforeTables,
        Bug::SyncClaimsTooMuch,
        Bug::InputsUnlinkedEarly,
        Bug::SegmentRecycledEarly,
        Bug::RangeSyncTooShort,
    ];
    bugs.into_iter().find(|bug| format!("{bug:?}") == name)
}

fn failed(code: u8, fault: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "powercut-writer: {fault}");
    ExitCode::from(code)
}
