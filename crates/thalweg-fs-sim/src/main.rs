//! The command of the simulator of the file system: `histories`, many seeds of it.

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "A model of POSIX, random histories and crashes, against thalweg-fs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Histories without crashes, in memory.
    Histories {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// Operations of a seed.
        #[arg(long, default_value_t = 2_000)]
        operations: u64,
    },
    /// Lives with crashes, in memory.
    Memory {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// Prints what happens.
        #[arg(long)]
        trace: bool,
    },
}

fn main() -> std::process::ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Histories { from, seeds, operations } => {
            (from..from + seeds).try_for_each(|seed| thalweg_fs_sim::run_history(seed, operations, 200, None))
        }
        Command::Memory { from, seeds, trace } => {
            (from..from + seeds).try_for_each(|seed| thalweg_fs_sim::run_memory(seed, trace))
        }
    };
    match outcome {
        Ok(()) => {
            println!("no violation");
            std::process::ExitCode::SUCCESS
        }
        Err(violation) => {
            eprintln!("{violation}");
            std::process::ExitCode::FAILURE
        }
    }
}
