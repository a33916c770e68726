//! A file system in memory that does next to nothing: names and attributes, no data. Its rates are the ceiling of every
//! FUSE file system on the machine.
//!
//! `node` is a file or a directory, `tree` holds all of them, `serve` answers requests from them.

mod node;
mod serve;
mod tree;

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::Parser;
use yardstick_session::Options;

/// Mounts a file system in memory that keeps names and attributes and drops data.
#[derive(Parser)]
#[command(name = "yardstick-null")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = Arguments::parse();
    match yardstick_session::serve(serve::Null::new(options.timeout.0), &options, "null", "null", &OnceLock::new()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => yardstick_session::failed("yardstick-null", &error),
    }
}
