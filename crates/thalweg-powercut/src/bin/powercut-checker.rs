//! `powercut-checker`: judges a database after a power cut. Exit code 0 and a line `ok`; 1 and a line `violation`; 2:
//! wrong arguments.

use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::DurabilityBackend;
use thalweg_powercut::checker::{Question, check};
use thalweg_powercut::options::{Choice, backend_named};

#[derive(Parser)]
#[command(name = "powercut-checker", about = "Judges what a power cut left of a database")]
struct Arguments {
    /// The database. It is changed: the checker goes on writing.
    database: PathBuf,
    /// Of the writer.
    #[arg(long)]
    seed: u64,
    /// The last write whose promise was read before the power went (0: none).
    #[arg(long)]
    promised: u64,
    /// How edits become durable from here on.
    #[arg(long, default_value = "settle-rounds", value_parser = backend_named)]
    backend: DurabilityBackend,
    /// The directory of the fast tier (default: none, and what a database has there is emptied).
    #[arg(long)]
    fast_tier: Option<PathBuf>,
    /// Writes to go on with.
    #[arg(long, default_value_t = 300)]
    go_on: u64,
    /// The moment in messages: which copy, which kill.
    #[arg(long, default_value = "now")]
    moment: String,
}

fn main() -> ExitCode {
    let Arguments { database, seed, promised, backend, fast_tier, go_on, moment } = Arguments::parse();
    let checked = check(&database, &Question { seed, choice: Choice { backend, fast_tier }, promised, go_on });
    let at = format!("seed {seed}, moment {moment}, promised {promised}");
    let (line, code) = match checked {
        Ok(found) => {
            let (prefix, keys, tables) = (found.prefix, found.keys, found.tables);
            let records = found.log_records;
            let told = format!("ok: {at}, found {prefix}, keys {keys}, tables {tables}, log records {records}");
            (told, ExitCode::SUCCESS)
        }
        Err(fault) => (format!("violation: {at}: {fault}"), ExitCode::FAILURE),
    };
    let _ = writeln!(io::stdout(), "{line}");
    code
}
