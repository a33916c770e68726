//! `powercut-full`: fills the disk of a database, removes half of the records, and continues to write. Exit code 0 and
//! a line `ok`; 1 and a line `violation`; 2: wrong arguments.

use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_powercut::full::{fill, remove_and_go_on};

#[derive(Parser)]
#[command(name = "powercut-full", about = "Fills the disk that a database is on, removes half, and writes on")]
struct Arguments {
    /// The database.
    database: PathBuf,
    /// End at the full disk as a killed process does, after a line `full N`.
    #[arg(long, conflicts_with = "filled")]
    die: bool,
    /// Go on with what such a run has filled with this many records.
    #[arg(long)]
    filled: Option<u64>,
}

fn main() -> ExitCode {
    let Arguments { database, die, filled } = Arguments::parse();
    let filled = filled.map_or_else(|| fill(&database, die), Ok);
    let done = filled.and_then(|filled| remove_and_go_on(&database, filled).map(|()| filled));
    let (line, code) = match done {
        Ok(filled) => (format!("ok: {filled} records filled the disk"), ExitCode::SUCCESS),
        Err(fault) => (format!("violation: {fault}"), ExitCode::FAILURE),
    };
    let _ = writeln!(io::stdout(), "{line}");
    code
}
