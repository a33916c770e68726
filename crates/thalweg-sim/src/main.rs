//! `thalweg-sim`: runs the simulator from the command line. Exit code 1 and one line on a violation.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Instant;
use thalweg::DurabilityBackend;
use thalweg::simulation::plant;
use thalweg_sim::{
    BUGS, bug_named, bug_table, catch_bug, report, run_damage, run_every_io, run_faults, run_seed, run_seed_as_it_was,
    use_backend,
};

#[derive(Parser)]
#[command(name = "thalweg-sim", about = "Simulates Thalweg on a disk that loses, tears and refuses")]
struct Arguments {
    /// Plants a bug, to see that it is caught (`bugs` lists the names).
    #[arg(long, global = true)]
    bug: Option<String>,
    /// The durability back-end of every plan, on a file system with one journal for all files.
    #[arg(long, global = true, value_enum)]
    backend: Option<Backend>,
    #[command(subcommand)]
    check: Check,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Backend {
    SettleRounds,
    SyncEachFile,
    /// The rule of the paper, which loses data.
    Paper,
}

#[derive(Subcommand)]
enum Check {
    /// Random lives with crashes, faults and full disks, one history for each seed.
    Sim {
        /// The number of seeds.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Prints the history to standard error.
        #[arg(long)]
        trace: bool,
        /// Runs each seed twice and compares the histories.
        #[arg(long)]
        twice: bool,
        /// With the histories that the seeds of tests/seeds.rs had when they found something.
        #[arg(long)]
        as_it_was: bool,
    },
    /// Cuts the power at every single operation of the disk.
    EveryIo(Bounded),
    /// Fails every single operation of the disk.
    Faults(Bounded),
    /// Damages every byte of every file, and cuts files at every length.
    Damage(Bounded),
    /// Plants every bug in turn and prints which check caught it, as a Markdown table.
    Bugs {
        /// Seeds of `sim` to try for each bug.
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
    },
}

#[derive(clap::Args)]
struct Bounded {
    /// Runs a sample that takes seconds, for every change.
    #[arg(long)]
    quick: bool,
    /// The seed of the workload.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.bug {
        match bug_named(name) {
            Some(bug) => plant(bug),
            None => {
                let names: Vec<&str> = BUGS.iter().map(|(name, _)| *name).collect();
                eprintln!("there is no planted bug {name}; there are {}", names.join(", "));
                return ExitCode::from(2);
            }
        }
    }
    match arguments.backend {
        None => {}
        Some(Backend::SettleRounds) => use_backend(DurabilityBackend::SettleRounds),
        Some(Backend::SyncEachFile) => use_backend(DurabilityBackend::SyncEachFile),
        Some(Backend::Paper) => use_backend(DurabilityBackend::Paper),
    }
    let start = Instant::now();
    match run(arguments.check) {
        Ok(summary) => {
            println!("{summary} ({:.1} s)", start.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a seed, with or without a trace.
type RunSeed = fn(u64, bool) -> Result<u64, String>;

fn run(check: Check) -> Result<String, String> {
    match check {
        Check::Sim { seeds, from, trace, twice, as_it_was } => {
            let run = if as_it_was { run_seed_as_it_was } else { run_seed };
            sim(from, seeds, trace, twice, run)
        }
        Check::EveryIo(Bounded { quick, seed }) => Ok(format!("{:?}", run_every_io(seed, quick)?)),
        Check::Faults(Bounded { quick, seed }) => Ok(format!("{:?}", run_faults(seed, quick)?)),
        Check::Damage(Bounded { quick, seed }) => Ok(format!("{:?}", run_damage(seed, quick)?)),
        Check::Bugs { seeds } => {
            let catches: Vec<_> = BUGS.iter().map(|(name, bug)| (*name, catch_bug(*bug, seeds))).collect();
            let table = bug_table(&catches);
            if catches.iter().all(|(_, catch)| catch.is_some()) { Ok(table) } else { Err(table) }
        }
    }
}

fn sim(from: u64, seeds: u64, trace: bool, twice: bool, run_seed: RunSeed) -> Result<String, String> {
    for seed in from..from.saturating_add(seeds) {
        let digest = run_seed(seed, trace).map_err(|violation| report(seed, &violation))?;
        if twice && run_seed(seed, false) != Ok(digest) {
            return Err(report(seed, "the same seed gave another history"));
        }
    }
    Ok(format!("{seeds} seeds from {from}: no violation"))
}
