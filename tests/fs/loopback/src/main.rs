//! A FUSE file system that passes every call to a directory below it: what FUSE costs over the file system below.
//!
//! `handle` names inodes by kernel file handles, `nodes` is the table of those that the kernel knows, `change` makes
//! and alters files, `data` reads and copies, `listing` lists directories, `serve` answers requests.

mod change;
mod data;
mod handle;
mod listing;
mod nodes;
mod serve;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::Parser;
use rustix::fs::{Mode, OFlags, open};
use yardstick_session::Options;

/// Mounts a file system that passes every call to a directory.
#[derive(Parser)]
#[command(name = "yardstick-loopback")]
struct Arguments {
    /// The directory below.
    source: PathBuf,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { source, options } = Arguments::parse();
    match run(&source, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => yardstick_session::failed("yardstick-loopback", &error),
    }
}

fn run(source: &Path, options: &Options) -> io::Result<()> {
    // The kernel has taken the caller's mask off the modes it sends.
    rustix::process::umask(Mode::empty());
    let root = open(source, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let notifier = Arc::new(OnceLock::new());
    let loopback = serve::Loopback::new(nodes::Nodes::new(root)?, options.timeout.0, Arc::clone(&notifier));
    yardstick_session::serve(loopback, options, "loopback", &source.to_string_lossy(), &notifier)
}
